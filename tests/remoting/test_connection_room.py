"""Who makes room for a newcomer where all connections are taken."""

from types import SimpleNamespace

from remoting.observer import ConnectionKind
from remoting.room import CHOSEN_MAX, leaving


def a_connection(number, kind, moved_ms):
    return SimpleNamespace(id=number, kind=ConnectionKind(kind), moved_ms=moved_ms)


def order(*connections, now_ms, kept=(), newcomers_max=10):
    return [each.id for each in reversed(leaving(connections, kept.__contains__, newcomers_max, now_ms))]


def test_silent_strangers_go_before_clients_and_clients_before_newcomers_and_brokers_never():
    connections = [
        a_connection(1, "broker", 0),
        a_connection(2, "client", 0),
        a_connection(3, "client", 9_000),
        a_connection(4, "unknown", 1_000),
        a_connection(5, "unknown", 500),
        a_connection(6, "unknown", 9_000),
        a_connection(7, "unknown", 8_000),
    ]
    assert order(*connections, now_ms=10_000, kept=(1,)) == [5, 4, 2, 3, 7, 6]


def test_what_only_sends_what_brokers_send_goes_as_others_do():
    connections = [
        a_connection(1, "client", 0),
        a_connection(2, "broker", 9_000),
        a_connection(3, "broker", 500),
        a_connection(4, "broker", 0),
    ]
    assert order(*connections, now_ms=10_000, kept=(4,)) == [3, 1, 2]


def test_where_all_are_known_brokers_nobody_goes():
    connections = [a_connection(number, "broker", 0) for number in range(3)]
    assert order(*connections, now_ms=10_000, kept=range(3)) == []


def test_not_all_are_chosen_at_once():
    strangers = [a_connection(number, "unknown", 0) for number in range(2 * CHOSEN_MAX)]
    assert order(*strangers, now_ms=10_000, newcomers_max=2 * CHOSEN_MAX) == list(range(CHOSEN_MAX))


def test_newcomers_without_end_go_before_clients_but_for_the_last_of_them():
    connections = [
        a_connection(1, "client", 9_000),
        a_connection(2, "unknown", 9_000),
        a_connection(3, "broker", 10_000),
        a_connection(4, "unknown", 10_000),
        a_connection(5, "unknown", 10_000),
        a_connection(6, "unknown", 1_000),
    ]
    assert order(*connections, now_ms=10_000, newcomers_max=2) == [6, 2]
    assert order(*connections[2:], connections[0], now_ms=10_000, newcomers_max=2) == [6, 3]
    assert order(*connections[3:5], connections[0], now_ms=10_000, newcomers_max=2) == [1, 4]
