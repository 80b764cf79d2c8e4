"""Which connections fetched the route of a watched topic, and which version of it."""

import contextlib

import pytest
from builders import BROKER, READ_ONLY, TOPIC, a_queue_data

from namesrv.core import route_fetches
from namesrv.core.route_fetches import RouteFetches, WatchedTopic, first_version, version_after
from namesrv.refusals import TooManyWatchedTopics
from remoting.protocol.shapes.route import BrokerData, TopicRouteData
from remoting.protocol.shapes.route_fetches import RouteFetch


def a_route(*queues, broker_addrs=None, **values):
    brokers = [BrokerData(broker_addrs=broker_addrs or {0: "10.0.0.1:10911"}, broker_name=BROKER, cluster="C")]
    return TopicRouteData(
        broker_datas=brokers, filter_server_table={}, queue_datas=list(queues or [a_queue_data()]), **values
    )


def a_watch(*, ends_ms=60_000, network=""):
    return WatchedTopic("id", first_version(a_route(), unix_ms=1_000), 0, ends_ms, network)


def a_fetch(*, version=1, unix_ms=2_000, client="10.0.0.9:50000"):
    return RouteFetch(client_address=client, proxy_address=None, version=version, fetched_unix_ms=unix_ms)


@pytest.fixture
def fetches():
    return RouteFetches()


@pytest.fixture
def watched(fetches):
    fetches.begin(TOPIC, watched := a_watch())
    return watched


# Versions


@pytest.mark.parametrize(
    "changed",
    [
        a_route(a_queue_data(write_queue_nums=8)),
        a_route(a_queue_data(perm=READ_ONLY)),
        a_route(a_queue_data(), a_queue_data(broker_name="broker-b")),
        a_route(order_topic_conf="broker-a:8"),
        None,
    ],
    ids=["fewer write queues", "no write permission", "another broker", "order configuration", "deleted"],
)
def test_route_whose_queues_to_write_to_differ_is_the_next_version(changed):
    former = first_version(a_route(), unix_ms=1_000)
    present = version_after(former, changed, unix_ms=5_000)
    assert (present.number, present.since_unix_ms) == (2, 5_000)
    assert version_after(present, changed, unix_ms=6_000) is present


@pytest.mark.parametrize(
    "same",
    [a_route(), a_route(a_queue_data(read_queue_nums=32)), a_route(broker_addrs={0: "10.0.0.2:10911", 1: "h:1"})],
    ids=["nothing", "read queues", "addresses"],
)
def test_route_with_the_same_queues_to_write_to_is_the_same_version(same):
    former = first_version(a_route(), unix_ms=1_000)
    assert version_after(former, same, unix_ms=5_000) is former


def test_version_names_the_write_queues_of_each_broker():
    route = a_route(a_queue_data(write_queue_nums=4), a_queue_data(broker_name="broker-b", perm=READ_ONLY))
    assert first_version(route, unix_ms=0).write_queue_nums == {BROKER: 4, "broker-b": 0}
    assert version_after(first_version(route, unix_ms=0), None, unix_ms=1).write_queue_nums == {}


# Fetches


def test_latest_fetch_of_a_connection_counts(fetches, watched):
    fetches.note(watched, 1, a_fetch(version=1))
    fetches.note(watched, 2, a_fetch(version=1))
    fetches.note(watched, 1, a_fetch(version=2, unix_ms=3_000))
    assert {number: fetch.version for number, fetch in watched.fetches.items()} == {1: 2, 2: 1}
    assert watched.is_complete


def test_closed_connection_stays_with_the_version_that_its_client_has(fetches, watched):
    fetches.begin("Other", other := a_watch())
    for topic in (watched, other):
        fetches.note(topic, 1, a_fetch())
        fetches.note(topic, 2, a_fetch())
    fetches.close(1, now_ms=4_000)
    fetches.close(1, now_ms=5_000)
    fetches.close(3, now_ms=5_000)
    for topic in (watched, other):
        assert [topic.fetch(each, 9_000).closed_for_ms for each in topic.fetches] == [5_000, None]
        assert topic.fetches[1].version == 1


# Limits


def test_topics_beyond_the_limit_are_not_watched(fetches):
    for number in range(route_fetches.WATCHED_TOPICS_MAX):
        fetches.begin(f"topic-{number}", a_watch())
    with pytest.raises(TooManyWatchedTopics, match="64 topics"):
        fetches.begin("one-more", a_watch())
    assert len(fetches) == route_fetches.WATCHED_TOPICS_MAX
    assert fetches.get("one-more") is None


def test_beyond_the_limit_the_latest_watch_of_the_host_with_most_makes_room(fetches):
    for number in range(route_fetches.WATCHED_TOPICS_MAX):
        fetches.begin(f"topic-{number}", a_watch(network="many" if number % 4 else "few"))
    for number in range(50):
        with contextlib.suppress(TooManyWatchedTopics):
            fetches.begin(f"mine-{number}", a_watch(network="mine"))
    assert fetches.get("topic-1") is not None
    assert fetches.get("topic-63") is None
    assert fetches.get("topic-60") is not None
    assert len(fetches) == route_fetches.WATCHED_TOPICS_MAX
    # As many as the host with most has, but one.
    assert [number for number in range(50) if fetches.get(f"mine-{number}")] == list(range(24))


def test_overdue_watch_is_forgotten_and_makes_place(fetches):
    fetches.begin("short", a_watch(ends_ms=1_000))
    fetches.begin("long", a_watch(ends_ms=2_000))
    fetches.end_overdue(1_000)
    assert len(fetches) == 2
    fetches.end_overdue(1_001)
    assert fetches.get("short") is None
    assert fetches.get("long") is not None


def test_connections_beyond_the_limit_of_a_topic_make_it_incomplete(fetches, watched, monkeypatch):
    monkeypatch.setattr(route_fetches, "CONNECTIONS_PER_TOPIC_MAX", 2)
    for number in (1, 2, 2, 1):
        fetches.note(watched, number, a_fetch())
    assert watched.is_complete
    fetches.note(watched, 3, a_fetch())
    assert (sorted(watched.fetches), watched.is_complete) == ([1, 2], False)
    fetches.note(watched, 1, a_fetch(version=2))
    assert watched.fetches[1].version == 2


def test_connections_beyond_the_limit_of_all_topics_make_incomplete_only_the_topic_that_they_fetch(
    fetches, watched, monkeypatch
):
    monkeypatch.setattr(route_fetches, "FETCHES_MAX", 3)
    fetches.begin("Other", other := a_watch())
    for number in (1, 2):
        fetches.note(watched, number, a_fetch())
    for number in (1, 2):
        fetches.note(other, number, a_fetch())
    assert (sorted(other.fetches), other.is_complete, watched.is_complete) == ([1], False, True)
