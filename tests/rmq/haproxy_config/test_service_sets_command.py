"""`rmq haproxy-config --service-sets`: what it writes, and which options do not go together."""

import json

import pytest

from rmq.cli import command_line
from rmq.commands.table import COMMANDS
from rmq.haproxy_config.configuration import lookup_interval_ms

SETS = [
    {"name": "b", "port": 10921, "service": "s-b.mq.svc", "brokerPort": 30911, "brokerIds": [2, 1, 2]},
    {"name": "a", "port": 10911, "service": "s-a.mq.svc", "brokerPort": 10911, "brokerIds": [1]},
]
CHECKS = "--role-checks=c-0.h.mq.svc:9879"


def haproxy_config(*words):
    return command_line.run(COMMANDS, ["haproxy-config", *words])


def run(tmp_path, *words, sets=SETS):
    file = tmp_path / "sets.json"
    file.write_text(json.dumps(sets))
    return haproxy_config(f"--service-sets={file}", CHECKS, *words)


def test_brokers_are_names_that_are_looked_up_all_the_time(tmp_path, capsys):
    assert run(tmp_path) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    servers = [line for line in lines if line.startswith("server broker_")]
    assert servers == [
        'server broker_1 b1.s-a.mq.svc:10911 agent-send "a/1\\n"',
        'server broker_1 b1.s-b.mq.svc:30911 agent-send "b/1\\n"',
        'server broker_2 b2.s-b.mq.svc:30911 agent-send "b/2\\n"',
    ]
    assert "parse-resolv-conf" in lines
    assert not [line for line in lines if "libc" in line]
    assert "server controller_1 c-0.h.mq.svc:9879" in lines


def test_checks_of_controllers_have_connections_of_their_own_however_many_clients_there_are(tmp_path, capsys):
    assert run(tmp_path, "--connections-max=100", "--health-port=8404") == 0
    text = capsys.readouterr().out
    limits = [line.strip() for line in text.splitlines() if "maxconn" in line]
    assert limits == ["maxconn 2200", "maxconn 100", "maxconn 100", "maxconn 100"]
    (checks,) = (section for section in text.split("\n\n") if "listen role_checks" in section)
    assert "maxconn" not in checks


def test_those_who_ask_whether_it_runs_take_no_connections_of_checks(tmp_path, capsys):
    assert run(tmp_path, "--health-port=8404") == 0
    (health,) = (each for each in capsys.readouterr().out.split("\n\n") if "frontend health" in each)
    assert "maxconn 100" in health


def test_controllers_are_looked_up_each_second_however_many_brokers_there_are(tmp_path, capsys):
    many = [SETS[1] | {"name": f"s{i}", "port": 20_000 + i, "service": f"s-{i}.mq.svc"} for i in range(400)]
    assert run(tmp_path, sets=many) == 0
    sections = capsys.readouterr().out.split("\n\n")
    found = {each.split("\n")[0]: each for each in sections}
    assert "timeout resolve 4000ms" in found["resolvers brokers"]
    assert "timeout resolve 1000ms" in found["resolvers controllers"]
    assert "resolvers controllers resolve-prefer" in found["listen role_checks"]
    assert "resolvers brokers resolve-prefer" in next(each for each in sections if "listen set_s7\n" in each)


@pytest.mark.parametrize(
    "word",
    [
        "--role-checks=c-0:9879\n    daemon",
        "--role-checks=c-0\t:9879",
        "--role-checks=c#0:9879",
        '--role-checks=c"0:9879',
        "--role-checks=c-0:0",
        "--nameservers=ns.example.org:53",
        "--nameservers=10.96.0.10",
        '--nameservers=10.96.0.10:53,"x:53',
    ],
)
def test_address_that_haproxy_would_not_take_as_one_is_refused(tmp_path, capsys, word):
    assert run(tmp_path, word) == 2
    assert "PORT" in capsys.readouterr().err


def test_configuration_is_written_to_a_file(tmp_path, capsys):
    output = tmp_path / "haproxy.cfg"
    assert run(tmp_path, f"--output={output}") == 0
    assert capsys.readouterr().out == ""
    assert "listen set_a\n" in output.read_text()
    assert run(tmp_path, f"--output={tmp_path}/no/such/folder") == 1
    assert "cannot be written" in capsys.readouterr().err


def test_file_with_a_mistake_is_refused_by_its_name(tmp_path, capsys):
    assert run(tmp_path, sets=[]) == 2
    assert "sets.json: it must have 1 to 500 sets" in capsys.readouterr().err
    assert haproxy_config(f"--service-sets={tmp_path}/missing", CHECKS) == 2
    assert "cannot be read: No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "give either --role-addresses or --service-sets"),
        (["--service-sets=a", "--role-addresses=b"], "give either --role-addresses or --service-sets"),
        (["--role-addresses=a"], "--role-addresses needs --controllers"),
        (["--service-sets=a", "--controllers=http://10.0.0.1:9881"], "are only for --role-addresses"),
        (["--service-sets=a", "--host=10.0.0.1"], "are only for --role-addresses"),
        (["--service-sets=a", "--nft"], "--nft is only for --role-addresses"),
        (
            ["--role-addresses=a", "--controllers=http://10.0.0.1:9881", "--nameservers=10.0.0.1:53"],
            "--nameservers is only for --service-sets",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(capsys, words, why):
    assert haproxy_config(*words, CHECKS) == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(("names", "interval_ms"), [(1, 1_000), (100, 1_000), (101, 1_010), (1_000, 10_000)])
def test_one_haproxy_makes_no_more_than_a_hundred_lookups_a_second(names, interval_ms):
    assert lookup_interval_ms(names) == interval_ms
