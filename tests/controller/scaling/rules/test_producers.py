"""Which producers a shrink waits for, by what NameServers know of them."""

from dataclasses import replace

import pytest
from scaling_builders import a_shrink

from controller.scaling.resize.observation import StaleProducers
from controller.scaling.resize.operation import ResizePhase
from controller.scaling.rules.quiet import POLL_MS, stale_producers
from remoting.admin.route_fetches import ClientFetch, ClientFetches
from serving.shapes.scaling import ResizeWaits

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
