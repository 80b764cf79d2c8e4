"""Where groups without an offset begin: the policies, and what overrules them."""

import pytest
from offset_builders import an_offset

from controller.offsets.commits.initial import (
    InitialOffset,
    InitialPolicy,
    QueueLookup,
    resolve_initial,
    resolve_new_queue,
)
from controller.offsets.commits.results import OffsetNotFound, OffsetUnavailable

LAST, FIRST, TIMESTAMP = InitialPolicy.LAST_OFFSET, InitialPolicy.FIRST_OFFSET, InitialPolicy.TIMESTAMP
NORMAL, RETRY = "orders", "%RETRY%billing"
#: What brokers answer for queues: nothing written yet, all still there, the beginning expired.
EMPTY = QueueLookup(min_offset=0, max_offset=0, offset_at_time=0)
YOUNG = QueueLookup(min_offset=0, max_offset=500, offset_at_time=120)
EXPIRED = QueueLookup(min_offset=300, max_offset=500, offset_at_time=420)


@pytest.mark.parametrize(
    ("topic", "policy", "offsets"),
    [
        (NORMAL, LAST, [0, 500, 500]),
        (NORMAL, FIRST, [0, 0, 300]),
        (NORMAL, TIMESTAMP, [0, 120, 420]),
        (RETRY, LAST, [0, 0, 300]),
        (RETRY, FIRST, [0, 0, 300]),
        (RETRY, TIMESTAMP, [0, 500, 500]),
    ],
)
def test_policies_begin_where_clients_do(topic, policy, offsets):
    resolved = [resolve_initial(OffsetNotFound(), topic, policy, each) for each in (EMPTY, YOUNG, EXPIRED)]
    assert [each.offset for each in resolved] == offsets


@pytest.mark.parametrize("policy", list(InitialPolicy))
def test_stored_offset_wins_over_every_policy(policy):
    assert resolve_initial(an_offset(0), NORMAL, policy, YOUNG) == an_offset(0)


@pytest.mark.parametrize("policy", list(InitialPolicy))
def test_no_policy_applies_while_offsets_are_unavailable(policy):
    unavailable = OffsetUnavailable("the offsets are being loaded")
    assert resolve_initial(unavailable, NORMAL, policy, YOUNG) == unavailable
    assert resolve_new_queue(unavailable, YOUNG) == unavailable


@pytest.mark.parametrize(
    ("topic", "policy", "lookup", "reason"),
    [
        (NORMAL, LAST, QueueLookup(), "the end (30)"),
        (NORMAL, LAST, QueueLookup(max_offset=-1), "the end (30)"),
        (RETRY, TIMESTAMP, QueueLookup(), "the end (30)"),
        (NORMAL, TIMESTAMP, QueueLookup(max_offset=500), "the offset of that time (29)"),
        (NORMAL, TIMESTAMP, QueueLookup(offset_at_time=-1), "the offset of that time (29)"),
    ],
)
def test_policy_without_the_answer_that_it_needs_resolves_nothing(topic, policy, lookup, reason):
    answer = resolve_initial(OffsetNotFound(), topic, policy, lookup)
    assert answer == OffsetUnavailable(f"{reason} of the queue is not known: look it up at the master")


@pytest.mark.parametrize("lookup", [QueueLookup(), QueueLookup(min_offset=-1)])
def test_start_of_a_queue_is_0_where_the_broker_does_not_say(lookup):
    assert resolve_initial(OffsetNotFound(), NORMAL, FIRST, lookup).offset == 0


@pytest.mark.parametrize(("lookup", "offset"), [(EMPTY, 0), (YOUNG, 0), (EXPIRED, 300)])
def test_new_queue_is_consumed_from_its_first_message(lookup, offset):
    rule = "a new queue is consumed from its start"
    assert resolve_new_queue(OffsetNotFound(), lookup) == InitialOffset(offset, rule)


def test_stored_offset_wins_in_a_new_queue():
    assert resolve_new_queue(an_offset(7), YOUNG) == an_offset(7)
