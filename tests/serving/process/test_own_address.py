"""At which address others reach this machine, with its real network; what it lacks is asked in vain."""

import socket

import pytest
from fakes.lines import Lines

from remoting.clock import SystemClock
from serving.logging.logs import Logs, json_line
from serving.process import own_address as module
from serving.process.own_address import address_towards_others, advertised_host, is_own_host, warn_of_loopback

#: No system has a route there: broadcast and multicast are refused to plain sockets.
NOWHERE = {socket.AF_INET: "255.255.255.255", socket.AF_INET6: "ff00::"}


@pytest.fixture(autouse=True)
def _anew():
    module._own_address.cache_clear()
    yield
    module._own_address.cache_clear()


@pytest.fixture
def cut_off(monkeypatch):
    """A machine without routes, whose name stands for loopback as on many."""
    monkeypatch.setattr(module, "_FAR", NOWHERE)
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost")


def test_an_address_that_is_bound_alone_is_where_others_reach_it(cut_off):
    assert address_towards_others("10.1.2.3") == advertised_host("10.1.2.3") == "10.1.2.3"


@pytest.mark.parametrize(("bound", "loopback"), [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("[::]", "::1")])
def test_without_a_route_and_a_name_none_is_found_and_loopback_is_announced_with_a_warning(cut_off, bound, loopback):
    lines = Lines()
    logs = Logs(lines, json_line(), SystemClock(), {})
    assert address_towards_others(bound) is None
    warn_of_loopback(bound, logs)
    (line,) = lines.decoded()
    assert (line["event"], line["level"], line["addr"]) == ("loopback_advertised", "warning", loopback)
    assert advertised_host(bound) == loopback


def test_without_a_route_the_name_of_the_machine_is_looked_up(monkeypatch):
    usual = address_towards_others("0.0.0.0")
    if usual is None:
        pytest.skip("this machine has no other address than loopback")
    module._own_address.cache_clear()
    monkeypatch.setattr(module, "_FAR", NOWHERE)
    monkeypatch.setattr(socket, "gethostname", lambda: usual)
    lines = Lines()
    assert address_towards_others("0.0.0.0") == usual
    warn_of_loopback("0.0.0.0", Logs(lines, json_line(), SystemClock(), {}))
    assert lines.decoded() == []


@pytest.mark.parametrize("name", ["203.0.113.7", "169.254.1.1", "0.0.0.0", "no such name"])
def test_a_name_of_another_machine_or_of_none_is_not_taken(monkeypatch, name):
    monkeypatch.setattr(module, "_FAR", NOWHERE)
    monkeypatch.setattr(socket, "gethostname", lambda: name)
    assert address_towards_others("0.0.0.0") is None


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "[::1]", "::1", "localhost", socket.gethostname()])
def test_loopback_and_the_name_of_this_machine_are_its_own(host):
    assert is_own_host(host)


def test_an_address_of_a_network_card_is_its_own():
    found = address_towards_others("0.0.0.0")
    assert found is None or is_own_host(found)


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "another-host", ""])
def test_addresses_and_names_of_others_are_not(host):
    assert not is_own_host(host)


def test_hosts_that_unknown_peers_name_are_not_remembered_without_end(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "me")
    for number in range(30_000):
        assert not is_own_host(f"host-{number}")
    assert is_own_host.cache_info().currsize <= 1_000
    is_own_host.cache_clear()
