"""When nobody can send to a queue any more."""

from dataclasses import replace

import pytest
from scaling_builders import BROKER, a_shrink, delayed, observed, with_set

from controller.scaling.resize.observation import LateSources, LogPosition, StaleProducers
from controller.scaling.resize.operation import LateMark, QueueId, QueueOffset
from controller.scaling.rules.quiet import (
    FETCHED_SHARE,
    POLL_MS,
    grown,
    late_arrivals,
    late_marks_of,
    producers_wait,
    stale_producers,
    undispatched,
)
from remoting.admin.route_fetches import ClientFetch, ClientFetches
from serving.shapes.scaling import ResizePhase, ResizeWaits

SHRINK = a_shrink(ResizePhase.LATE)
SHOWN = observed(SHRINK, 1)


def test_wait_is_shorter_once_all_producers_have_the_new_route():
    waits = SHRINK.waits
    assert producers_wait(SHRINK, SHOWN) == (waits.producers_ms, ())
    fetched = replace(SHOWN, producers=StaleProducers(is_complete=True, addresses=("10.0.0.7",)))
    assert producers_wait(SHRINK, fetched) == (
        waits.producers_ms // FETCHED_SHARE,
        ("producers at 10.0.0.7 have not fetched the new route",),
    )


def test_queue_that_lost_messages_has_changed_too():
    confirmed = (QueueOffset(BROKER, 2, 5),)
    assert grown(confirmed, {QueueId(BROKER, 2): 5}) == ()
    assert grown(confirmed, {QueueId(BROKER, 2): 4}) == ("queue broker-a/2 ended at 5 and ends at 4",)


def test_commit_log_has_to_be_dispatched_up_to_the_mark():
    assert undispatched(SHOWN, {BROKER: 100}) == ()
    behind = with_set(SHOWN, log=LogPosition(end=120, dispatched=99))
    assert undispatched(behind, {BROKER: 100}) == ("broker-a has not dispatched its commit log up to 100",)


def test_only_levels_with_undelivered_messages_are_marked():
    assert late_marks_of(with_set(SHOWN, late=delayed(3, 5, 5))) == ()
    assert late_marks_of(with_set(SHOWN, late=delayed(3, 4, 5))) == (LateMark(BROKER, 3, 5),)


@pytest.mark.parametrize(
    ("late", "limit_ms", "text"),
    [
        (LateSources(levels={}, timed=2, half_messages=0), SHRINK.waits.timed_ms, "2 timed messages"),
        (LateSources(levels={}, timed=0, half_messages=3), SHRINK.waits.transaction_ms, "3 transactional messages"),
        (
            LateSources(levels={}, timed=0, half_messages=3, transaction_ms=1_000_000),
            1_000_000,
            "3 transactional messages",
        ),
        (
            LateSources(levels={}, timed=0, half_messages=0, rocksdb_half_messages=8),
            SHRINK.waits.transaction_ms,
            "8 transactional messages in RocksDB, decided or not",
        ),
    ],
)
def test_messages_that_come_all_the_time_count_for_their_longest_delay(late, limit_ms, text):
    pending = with_set(SHOWN, late=late)
    assert text in next(late_arrivals(SHRINK, pending, limit_ms - 1))
    assert list(late_arrivals(SHRINK, pending, limit_ms)) == []


def test_unknown_delays_are_waited_for():
    (wait,) = late_arrivals(SHRINK, with_set(SHOWN, late=None), 10**9)
    assert wait == "broker-a does not answer which messages are delayed"


LOWERED = a_shrink(ResizePhase.QUIESCE, waits=ResizeWaits(producers_ms=90_000))
FRESH = ClientFetch(host="10.0.0.1", has_proxy=False, is_present=True, closed_ms=None)
STALE = replace(FRESH, host="10.0.0.2", is_present=False)


def answer(*fetches, **values):
    defaults = {
        "watched_before_ms": POLL_MS,
        "write_queue_nums": {"broker-a": 2},
        "is_complete": True,
        "fetches": fetches,
    }
    return ClientFetches(**(defaults | values))


def found(*answers, hosts=("10.0.0.1",)):
    return stale_producers(LOWERED, answers, None if hosts is None else frozenset(hosts))


def test_everybody_is_known_once_each_producer_has_fetched_the_present_route():
    assert found(answer(FRESH), answer()) == StaleProducers(is_complete=True, addresses=())


def test_producer_with_the_old_route_is_waited_for():
    assert found(answer(FRESH, STALE), hosts=("10.0.0.1", "10.0.0.2")) == StaleProducers(
        is_complete=False, addresses=("10.0.0.2",)
    )


def test_one_of_two_clients_of_a_host_with_the_old_route_is_waited_for():
    both = answer(FRESH, replace(STALE, host="10.0.0.1"))
    assert found(both).addresses == ("10.0.0.1",)


def test_consumers_are_not_waited_for():
    assert found(answer(FRESH, STALE)).addresses == ()


def test_closed_connection_counts_for_the_fixed_wait():
    hosts = ("10.0.0.2",)
    closed = replace(STALE, closed_ms=LOWERED.waits.producers_ms - 1)
    assert found(answer(closed), hosts=hosts).addresses == hosts
    assert found(answer(replace(closed, closed_ms=LOWERED.waits.producers_ms)), hosts=hosts).addresses == ()


@pytest.mark.parametrize(
    "answers",
    [
        (answer(FRESH), None),
        (answer(FRESH, is_complete=False),),
        (answer(FRESH, watched_before_ms=POLL_MS - 1),),
        (answer(FRESH, write_queue_nums={"broker-a": 4}),),
        (answer(FRESH, write_queue_nums={}),),
        (answer(FRESH, replace(FRESH, has_proxy=True)),),
        (answer(),),
    ],
    ids=[
        "a NameServer cannot tell",
        "some fetches were left out",
        "the watch began too late",
        "the route has other queues",
        "the route lacks the broker set",
        "a client comes through a proxy",
        "a producer has fetched nothing",
    ],
)
def test_what_is_not_known_of_everybody_is_not_complete(answers):
    assert not found(*answers).is_complete


def test_without_the_hosts_of_producers_every_client_is_waited_for():
    assert found(answer(FRESH, STALE), hosts=None) == StaleProducers(is_complete=False, addresses=("10.0.0.2",))


def test_topic_without_producers_is_complete():
    assert found(answer(), hosts=()) == StaleProducers(is_complete=True, addresses=())
