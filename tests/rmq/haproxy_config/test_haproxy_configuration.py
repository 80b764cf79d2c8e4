"""The text of the configuration, and that a real HAProxy takes it."""

import subprocess

import pytest
from peers.programs import require

from rmq.haproxy_config.configuration import ProxyOptions, check_interval_ms, configuration
from rmq.haproxy_config.frontends import Frontends, MasterFrontend, SlaveFrontend

OPTIONS = ProxyOptions(role_checks=("10.0.0.1:9879", "[fd00::2]:9879"))
SET_A = MasterFrontend("broker-a", ("10.9.0.5:10911",), {1: "10.0.0.1:10911", 2: "10.0.0.2:10911"})


def lines_of(section, text):
    """Return the lines of a section, without their indentation."""
    (found,) = (each for each in text.split("\n\n") if f"listen {section}\n" in each)
    return [line.strip() for line in found.splitlines() if not line.startswith("#")]


def test_set_leads_to_its_master_ends_sessions_to_others_and_holds_new_ones():
    text = configuration(Frontends((SET_A,), ()), OPTIONS, "abc")
    assert lines_of("set_broker-a", text) == [
        "listen set_broker-a",
        "bind 10.9.0.5:10911",
        "balance first",
        "default-server disabled on-marked-down shutdown-sessions init-addr libc,none",
        "default-server agent-check agent-addr 127.0.0.1 agent-port 19879",
        "default-server agent-inter 100ms",
        'server broker_1 10.0.0.1:10911 agent-send "broker-a/1\\n"',
        'server broker_2 10.0.0.2:10911 agent-send "broker-a/2\\n"',
        "server none 127.0.0.1:1 enabled no-agent-check backup",
    ]


def test_checks_go_to_the_controller_that_leads():
    text = configuration(Frontends((SET_A,), ()), OPTIONS, "abc")
    lines = lines_of("role_checks", text)
    assert lines[1] == "bind 127.0.0.1:19879"
    assert lines[-2:] == ["server controller_1 10.0.0.1:9879", "server controller_2 [fd00::2]:9879"]


def test_proxy_header_is_sent_where_it_is_wanted():
    options = ProxyOptions(role_checks=("10.0.0.1:9879",), sends_proxy_header=True)
    slave = SlaveFrontend("broker-a", 2, ("10.9.0.5:10921",), "10.0.0.2:10911")
    text = configuration(Frontends((SET_A,), (slave,)), options, "abc")
    assert text.count("10.0.0.2:10911 send-proxy-v2 ") == 2
    assert "none 127.0.0.1:1 enabled" in text


@pytest.mark.parametrize(
    ("servers", "instances", "interval_ms"),
    [(3, 1, 100), (100, 1, 100), (300, 1, 300), (30, 100, 3_000), (7, 143, 1_001)],
)
def test_all_instances_together_make_no_more_than_a_thousand_checks_a_second(servers, instances, interval_ms):
    assert check_interval_ms(servers, instances) == interval_ms


NAMES = ["broker-a", "a b", "a_b", 'q"u\\o$te', "brøker", "a#b", "a/b", "{x}", "a'b", "%[src]", "-x", "1"]


def test_haproxy_takes_every_name_and_address(tmp_path):
    require("haproxy")
    masters = tuple(
        MasterFrontend(
            name, (f"127.0.0.1:{20_000 + i}", f"[::1]:{20_000 + i}"), {1: "10.0.0.1:10911", 2: "[fd00::2]:1"}
        )
        for i, name in enumerate(NAMES)
    )
    slaves = (SlaveFrontend("broker-a", 2, ("127.0.0.1:30001",), "10.0.0.2:10911"),)
    options = ProxyOptions(role_checks=("10.0.0.1:9879", "no-such-host.invalid:9879"), run_folder=f"{tmp_path}/r u$n")
    file = tmp_path / "haproxy.cfg"
    file.write_text(configuration(Frontends(masters, slaves), options, "abc"))
    (tmp_path / "r u$n").mkdir()
    checked = subprocess.run(["haproxy", "-c", "-f", file], capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    complaints = [line for line in checked.stderr.splitlines() if "[ALERT]" in line or "[WARNING]" in line]
    # There is no file of states before the first reload, and a controller that cannot be resolved is left out.
    assert [line for line in complaints if "state file" not in line and "no-such-host" not in line] == []
