"""WATCH_ROUTE_FETCHES (20105), and queries for watched topics."""

import json

import pytest
from broker_messages import BROKER, MASTER, TOPICS, registration_body

from namesrv.core.route_fetches import KEEP_MS_MAX, WATCHED_TOPICS_MAX
from remoting.protocol.codes import FLAG_ONEWAY, RequestCode, ResponseCode
from remoting.protocol.command import RemotingCommand
from remoting.server.response_cache import PreparedResponse

TOPIC = {"topic": "TopicTest"}
SHRUNK = registration_body("TopicTest", "broker-a", counter=2, writeQueueNums=4)


class APeer:
    """The other end of a connection, perhaps behind a proxy."""

    def __init__(self, number, *, proxy=None, is_lost=False):
        self.id = number
        self.peer = f"10.1.0.{number}:50000"
        self.socket_peer = proxy or self.peer
        self.is_lost = is_lost
        self.audience = 0


async def watch(desk, topic="TopicTest", keep_ms=60_000):
    fields = {"topic": topic, "keepMs": str(keep_ms)}
    return await desk.request(RequestCode.WATCH_ROUTE_FETCHES, fields)


async def watched(desk):
    return json.loads((await watch(desk)).body)


async def fetch(desk, peer, **fields):
    return await desk.answer(RemotingCommand(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext_fields=TOPIC | fields), peer)


def versions(answer):
    return {each["clientAddress"]: each["version"] for each in answer["fetches"]}


@pytest.fixture
async def registered(desk):
    await desk.request(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    return desk


async def test_fetches_since_the_watch_began_are_answered_with_their_versions(registered):
    desk = registered
    await fetch(desk, APeer(1))
    began = await watched(desk)
    assert (began["fetches"], began["isComplete"], began["topic"]) == ([], True, "TopicTest")
    assert began["present"]["writeQueueNums"] == {"broker-a": 8}

    await fetch(desk, APeer(2))
    await fetch(desk, APeer(3))
    desk.clock.pass_ms(1_000)
    await desk.request(RequestCode.REGISTER_BROKER, MASTER, SHRUNK)
    await fetch(desk, APeer(2))

    now = await watched(desk)
    assert versions(now) == {"10.1.0.2:50000": 2, "10.1.0.3:50000": 1}
    assert now["present"] == {
        "number": 2,
        "sinceUnixMs": began["watchedSinceUnixMs"] + 1_000,
        "writeQueueNums": {"broker-a": 4},
        "orderTopicConf": None,
    }
    assert now["watchId"] == began["watchId"]
    assert (began["watchedBeforeMs"], now["watchedBeforeMs"]) == (0, 1_000)


async def test_clock_that_is_set_makes_neither_a_watch_nor_a_closed_connection_older(registered):
    await watched(registered)
    await fetch(registered, APeer(2))
    registered.state.route_fetches.close(2, registered.clock.now_ms())
    registered.clock.leap_ms(3_600_000)
    registered.clock.pass_ms(1_000)
    await registered.request(RequestCode.REGISTER_BROKER, MASTER, SHRUNK)
    now = await watched(registered)
    assert (now["watchedBeforeMs"], now["fetches"][0]["closedForMs"]) == (1_000, 1_000)


async def test_change_is_a_version_before_anybody_fetched_it(registered):
    await watched(registered)
    await fetch(registered, APeer(2))
    await registered.request(RequestCode.REGISTER_BROKER, MASTER, SHRUNK)
    now = await watched(registered)
    assert (now["present"]["number"], versions(now)) == (2, {"10.1.0.2:50000": 1})


async def test_route_of_a_watched_topic_is_the_same_to_the_byte(registered):
    before = await fetch(registered, APeer(2))
    await watched(registered)
    assert await fetch(registered, APeer(2)) == before
    assert sum(registered.route_counters.found.buckets) == 2


async def test_only_queries_for_watched_topics_take_the_longer_way(registered):
    await watched(registered)
    answer = {
        topic: registered.requests.dispatch(
            RemotingCommand(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext_fields={"topic": topic}), APeer(2)
        )
        for topic in ("TopicTest", "broker-a")
    }
    assert isinstance(answer["broker-a"], PreparedResponse)
    assert isinstance(answer["TopicTest"], RemotingCommand)
    registered.clock.pass_ms(60_001)
    registered.state.route_fetches.end_overdue(registered.clock.now_ms())
    request = RemotingCommand(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext_fields=TOPIC)
    assert isinstance(registered.requests.dispatch(request, APeer(2)), PreparedResponse)


async def test_answer_that_was_cached_by_its_bytes_is_sent_no_more_once_its_topic_is_watched(registered):
    request = RemotingCommand(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext_fields=TOPIC)
    cached = registered.requests.dispatch(request, APeer(2))
    assert cached.is_valid
    await watched(registered)
    assert not cached.is_valid
    while_watched = registered.requests.dispatch(request, APeer(2))
    assert isinstance(while_watched, RemotingCommand)
    # Prolonging drops nothing: the encoded route serves all who fetch it.
    misses = registered.state.route_cache.misses
    await watched(registered)
    await fetch(registered, APeer(3))
    assert registered.state.route_cache.misses == misses


async def test_client_behind_a_proxy_is_answered_with_both_addresses(registered):
    await watched(registered)
    await fetch(registered, APeer(2, proxy="10.9.0.1:40000"))
    await fetch(registered, APeer(3))
    shown = {each["clientAddress"]: each["proxyAddress"] for each in (await watched(registered))["fetches"]}
    assert shown == {"10.1.0.2:50000": "10.9.0.1:40000", "10.1.0.3:50000": None}


async def test_zone_route_is_a_fetch_as_well(registered):
    await watched(registered)
    await registered.request(RequestCode.REGISTER_BROKER, MASTER, SHRUNK)
    await fetch(registered, APeer(2), __ZONE_MODE="true", __ZONE_NAME="z1")
    assert versions(await watched(registered)) == {"10.1.0.2:50000": 2}


async def test_route_that_reaches_nobody_is_no_fetch(registered):
    await watched(registered)
    await fetch(registered, APeer(2, is_lost=True))
    oneway = RemotingCommand(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext_fields=TOPIC, flag=FLAG_ONEWAY)
    await registered.answer(oneway, APeer(3))
    await registered.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "nope"})
    assert versions(await watched(registered)) == {}


async def test_deleted_topic_is_a_version_without_queues_that_nobody_fetched(registered):
    await watched(registered)
    await registered.request(RequestCode.UNREGISTER_BROKER, BROKER | {"brokerId": "0"})
    assert (await fetch(registered, APeer(2))).code == ResponseCode.TOPIC_NOT_EXIST
    now = await watched(registered)
    assert (now["present"]["number"], now["present"]["writeQueueNums"], versions(now)) == (2, {}, {})


async def test_watch_ends_when_it_is_not_requested_again_and_a_shorter_request_does_not_shorten_it(registered):
    first = await watched(registered)
    assert json.loads((await watch(registered, keep_ms=1_000)).body)["endsInMs"] == 60_000
    registered.clock.pass_ms(60_000)
    again = await watched(registered)
    assert (again["watchId"], again["endsInMs"]) == (first["watchId"], 60_000)
    registered.clock.pass_ms(60_001)
    assert (await watched(registered))["watchId"] != first["watchId"]


@pytest.mark.parametrize("keep_ms", [999, KEEP_MS_MAX + 1, -1, "x", 2**70])
async def test_watch_that_would_end_at_once_or_never_is_refused(registered, keep_ms):
    answer = await watch(registered, keep_ms=keep_ms)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "keepMs" in answer.remark
    assert len(registered.state.route_fetches) == 0


async def test_watch_needs_a_topic_that_some_broker_has(registered):
    assert (await watch(registered, topic="nope")).code == ResponseCode.TOPIC_NOT_EXIST
    answer = await registered.request(RequestCode.WATCH_ROUTE_FETCHES, {"keepMs": "1000"})
    assert (answer.code, "topic" in answer.remark) == (ResponseCode.SYSTEM_ERROR, True)
    assert len(registered.state.route_fetches) == 0


async def test_watches_beyond_the_limit_are_refused_and_those_there_are_go_on(desk):
    topics = [f"topic-{number}" for number in range(WATCHED_TOPICS_MAX + 1)]
    await desk.request(RequestCode.REGISTER_BROKER, MASTER, registration_body(*topics))
    answers = [await watch(desk, topic=topic) for topic in topics]
    assert [answer.code for answer in answers] == [0] * WATCHED_TOPICS_MAX + [ResponseCode.SYSTEM_ERROR]
    assert "64 topics" in answers[-1].remark
    assert (await watch(desk, topic=topics[0])).code == 0
