"""Who makes room for a newcomer where all connections are taken."""

from types import SimpleNamespace

import pytest

from remoting.server.connection_limit import (
    CANDIDATES_MAX,
    ConnectionLimit,
    closing_order,
    from_largest_hosts,
    network_of,
)
from remoting.server.observer import CloseReason, ConnectionKind


def a_connection(number, kind, last_activity_ms, *, network="10.0.0.1", claimed_host=None):
    return SimpleNamespace(
        id=number,
        kind=ConnectionKind(kind),
        last_activity_ms=last_activity_ms,
        is_closing=False,
        network=network,
        peer=f"{claimed_host or network}:10911",
    )


def order(*connections, now_ms, newcomers_max=10):
    silent, rest = closing_order(connections, newcomers_max, now_ms)
    return [each.id for each in (*silent, *rest)]


class Places:
    """A full server with places for so many, where each that comes takes the place of one that leaves."""

    def __init__(self, connections, *, kept=()):
        self.connections = {each.id: each for each in connections}
        self.kept = set(kept)
        self.looks = 0
        self.room = ConnectionLimit(self.connections.values, self._is_kept, len(self.connections))

    def _is_kept(self, number):
        self.looks += 1
        return number in self.kept

    def come(self, connection, now_ms):
        """Return the id of who leaves."""
        leaves, reason = self.room.next_to_close(now_ms)
        assert (reason is CloseReason.HOST_SHARE) is (leaves.id in self.kept)
        del self.connections[leaves.id]
        self.connections[connection.id] = connection
        return leaves.id


def test_idle_unknown_connections_are_evicted_before_clients_and_clients_before_newcomers():
    connections = [
        a_connection(2, "client", 0),
        a_connection(3, "client", 9_000),
        a_connection(4, "unknown", 1_000),
        a_connection(5, "unknown", 500),
        a_connection(6, "unknown", 9_000),
        a_connection(7, "unknown", 8_000),
    ]
    assert order(*connections, now_ms=10_000) == [5, 4, 2, 3, 7, 6]


def test_unregistered_broker_connections_are_evicted_as_unknown_ones():
    connections = [
        a_connection(1, "client", 0),
        a_connection(2, "broker", 9_000),
        a_connection(3, "broker", 500),
    ]
    assert order(*connections, now_ms=10_000) == [3, 1, 2]


def test_registered_brokers_stay_while_others_hold_a_quarter_of_all_connections():
    connections = [a_connection(number, "broker", 0) for number in range(16)]
    places = Places([*connections[:12], a_connection(20, "unknown", 10_000), *connections[13:]], kept=range(12))
    left = [places.come(a_connection(100 + n, "unknown", 10_000), now_ms=10_000) for n in range(20)]
    assert not set(left) & places.kept


def test_excess_registered_brokers_are_evicted_from_the_largest_host():
    networks = ["10.0.0.1"] * 6 + ["10.0.0.2"] * 2 + ["10.0.0.3"]
    brokers = [a_connection(number, "broker", 0, network=network) for number, network in enumerate(networks)]
    # The last two have lost as many as the host before them.
    assert [each.id for each in from_largest_hosts(brokers, 6, (lambda each: each.network,))] == [5, 4, 3, 2, 1, 7]


def test_idle_unknown_connections_are_evicted_before_excess_brokers_and_clients_after_them():
    connections = [
        *(a_connection(number, "broker", 0) for number in range(7)),
        a_connection(8, "client", 0),
        a_connection(9, "unknown", 0),
    ]
    places = Places(connections, kept=range(7))
    assert places.come(a_connection(10, "unknown", 10_000), now_ms=10_000) == 9
    places.kept.add(10)
    assert places.come(a_connection(11, "unknown", 10_000), now_ms=10_000) == 6


def test_connections_behind_a_proxy_share_the_places_of_its_network():
    """Who speaks for whom is what the peer says, so it only counts against others that are at the same place."""
    honest = [a_connection(n, "broker", 0, claimed_host=f"10.1.0.{n}") for n in range(3)]
    behind = [a_connection(3 + n, "broker", 9_000, claimed_host="10.1.0.9") for n in range(3)]
    liars = [a_connection(6 + n, "broker", 0, network="10.6.6.6", claimed_host=f"10.1.0.{n}") for n in range(2)]
    groups = (lambda each: each.network, lambda each: each.peer)
    assert [each.id for each in from_largest_hosts([*honest, *behind, *liars], 4, groups)] == [5, 4, 0, 1]


def test_longest_idle_connection_of_a_host_is_evicted_and_of_equal_ones_the_youngest():
    brokers = [a_connection(1, "broker", 500), a_connection(2, "broker", 0), a_connection(3, "broker", 0)]
    assert [each.id for each in from_largest_hosts(brokers, 3, ())] == [3, 2, 1]


def test_old_candidates_for_eviction_are_chosen_again():
    """Brokers may have left since, and the others need not make room any more."""
    places = Places([a_connection(number, "broker", 0) for number in range(32)], kept=range(32))
    assert places.come(a_connection(100, "unknown", 10_000), now_ms=10_000) == 31
    places.kept -= set(range(10, 32))
    assert places.come(a_connection(101, "unknown", 20_000), now_ms=20_000) == 10


def test_no_connection_is_evicted_while_all_are_closing():
    places = Places([a_connection(number, "unknown", 0) for number in range(3)])
    for each in places.connections.values():
        each.is_closing = True
    assert places.room.next_to_close(10_000) is None


@pytest.mark.parametrize("strangers", [0, 4])
def test_eviction_among_many_brokers_checks_a_part_of_them(strangers):
    count, comers = 65_000, 1_000
    places = Places([a_connection(n, "broker", 0, network=f"10.0.{n % 9}.1") for n in range(count)])
    places.kept = set(range(strangers, count))
    for n in range(comers):
        places.come(a_connection(count + n, "unknown", 10_000), now_ms=10_000)
        # Each is a broker at once, by its own word.
        places.kept.add(count + n)
    assert places.looks / comers < 1.1 * count / CANDIDATES_MAX


@pytest.mark.parametrize(
    ("one", "other", "are_same"),
    [
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8::1", "2001:db8::ffff:2%eth0", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
    ],
)
def test_addresses_of_one_host_are_one_network(one, other, are_same):
    assert (network_of(one) == network_of(other)) is are_same


def test_candidates_for_eviction_have_a_limit():
    strangers = [a_connection(number, "unknown", 0) for number in range(2 * CANDIDATES_MAX)]
    assert order(*strangers, now_ms=10_000, newcomers_max=2 * CANDIDATES_MAX) == list(range(CANDIDATES_MAX))


def test_endless_newcomers_are_evicted_before_clients_but_for_the_latest():
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
