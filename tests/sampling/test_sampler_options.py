"""What `rmq-sampler` can be told, and what it says to what it cannot do."""

import re
from pathlib import Path

import pytest

from remoting.protocol.addresses import named_addresses
from remoting.protocol.signing import Credentials, Signer
from sampling.options import TOPICS_MAX, parse_options

NEEDED = {"--namesrv": "ns1:9876", "--topics": "orders", "--history": "/h"}


def parsed(environment=None, **changed):
    words = NEEDED | {f"--{name.replace('_', '-')}": value for name, value in changed.items()}
    arguments = [str(word) for pair in words.items() if pair[1] is not None for word in pair]
    return parse_options(arguments, "a host:1", environment or {})


def test_repeated_list_items_count_once():
    options = parsed(namesrv=" ns1:9876;ns2:9876;", topics="a, b,a,,ns%c")
    assert options.name_servers == ("ns1:9876", "ns2:9876")
    assert options.topics == ("a", "b", "ns%c")


def test_default_name_is_the_host_and_default_interval_a_minute():
    options = parsed()
    assert (options.name, options.interval_s, options.history) == ("sampler_a_host_1", 60, Path("/h"))


def test_history_folder_expands_the_home_folder():
    assert parsed(history="~/h").history == Path("~/h").expanduser()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"topics": None}, "required: --topics"),
        ({"namesrv": None}, "required: --namesrv"),
        ({"history": None}, "required: --history"),
        ({"topics": " , "}, "name the topics to be sampled"),
        (
            {"topics": ",".join(f"t{n}" for n in range(TOPICS_MAX + 1))},
            "201 topics are more than 200: .*another --name",
        ),
        ({"namesrv": ";"}, "it is no host:port"),
        ({"namesrv": "ns1:9876,ns2"}, "ns1:9876,ns2 is no host:port; several are separated by semicolons"),
        ({"namesrv": "ns1:9876,ns2:9876"}, "separated by semicolons"),
        ({"namesrv": "ns1:99999"}, "ns1:99999 is no host:port"),
        ({"topics": "a;b"}, "a;b is no topic: several are separated by commas"),
        ({"history": "hdfs://nn/h"}, "hdfs://nn/h is a URI: .* folders of this machine"),
        ({"interval": "0"}, "0 is no number of seconds from 1 to 3600"),
        ({"interval": "1m"}, "1m is no number of seconds"),
        ({"name": "a/b"}, "a/b may have letters, digits"),
    ],
)
def test_invalid_options_are_refused_with_advice(capsys, changed, reason):
    with pytest.raises(SystemExit) as left:
        parsed(**changed)
    assert left.value.code == 2
    assert re.search(reason, " ".join(capsys.readouterr().err.split()))


def test_requests_are_unsigned_without_keys():
    assert parsed().signer is None
    assert parsed(broker_access_addresses="10.0.0.0/8").signer is None


def test_keys_are_read_from_the_environment_or_from_files(tmp_path):
    (tmp_path / "user").write_text("somebody\n")
    (tmp_path / "password").write_text("a secret\n")
    signer = Signer(credentials=Credentials("somebody", "a secret"), named=named_addresses("10.0.0.0/8"))
    variables = {"RMQ_SAMPLER_BROKER_ACCESS_KEY": "somebody", "RMQ_SAMPLER_BROKER_SECRET_KEY": "a secret"}
    assert parsed(variables | {"RMQ_SAMPLER_BROKER_ACCESS_ADDRESSES": "10.0.0.0/8"}).signer == signer
    assert parsed(variables, broker_access_addresses="10.0.0.0/8").signer == signer
    files = {"broker_access_key_path": tmp_path / "user", "broker_secret_key_path": tmp_path / "password"}
    assert parsed(broker_access_addresses="10.0.0.0/8", **files).signer == signer
    named = {f"RMQ_SAMPLER_{name.upper()}": str(path) for name, path in files.items()}
    assert parsed(named, broker_access_addresses="10.0.0.0/8").signer == signer


@pytest.mark.parametrize(
    ("addresses", "reason"), [("", "10.0.0.0/16: RMQ_SAMPLER_BROKER_ACCESS_ADDRESSES"), ("10.0.0.1/8", "must be IP")]
)
def test_keys_without_addresses_are_refused(capsys, addresses, reason):
    keys = {"RMQ_SAMPLER_BROKER_ACCESS_KEY": "somebody", "RMQ_SAMPLER_BROKER_SECRET_KEY": "hunter2"}
    with pytest.raises(SystemExit):
        parsed(keys, broker_access_addresses=addresses)
    output = " ".join(capsys.readouterr().err.split())
    assert reason in output
    assert "hunter2" not in output


@pytest.mark.parametrize("given", ["ACCESS", "SECRET"])
def test_single_key_is_refused_without_showing_it(capsys, given):
    with pytest.raises(SystemExit):
        parsed({f"RMQ_SAMPLER_BROKER_{given}_KEY": "hunter2"})
    output = capsys.readouterr().err
    assert "need both" in output
    assert "RMQ_SAMPLER_BROKER_SECRET_KEY" in output
    assert "hunter2" not in output


def test_missing_key_file_is_named(capsys):
    with pytest.raises(SystemExit):
        parsed({"RMQ_SAMPLER_BROKER_ACCESS_KEY": "somebody"}, broker_secret_key_path="/nowhere/key")
    assert "--broker-secret-key-path: /nowhere/key cannot be read" in " ".join(capsys.readouterr().err.split())
