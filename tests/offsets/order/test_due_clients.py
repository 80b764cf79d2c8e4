"""Which client is asked when, and through which broker."""

import pytest
from orderly_builders import FIRST, ORDERLY, SECOND, a_member, answer, listed

from offsets.order.polling import (
    PERIOD_MS,
    RELAY_MS,
    SILENT_MS,
    WAITED_FOR_MAX,
    PollPlan,
)


def a_plan(*client_ids, is_orderly=True, **kind):
    """Return a plan over some clients, the first of which has answered."""
    holders = listed({FIRST: client_ids}, **kind)
    if is_orderly is not None:
        answer(holders, 0, client_ids[0], 0, is_orderly=is_orderly)
    return PollPlan(holders)


def due(plan, now_ms, **options):
    return [client_id for _, client_id in plan.due(now_ms, **options)]


def ask(plan, client_id, now_ms, *, of=None, answers=True, address=FIRST):
    member = a_member(client_id, of or ORDERLY)
    plan.started(member, address, now_ms)
    if not answers:
        plan.silent(member, address, now_ms, now_ms)
    plan.ended(address)


def test_each_client_of_an_orderly_group_is_asked_each_second():
    plan = a_plan("c1", "c2")
    assert due(plan, 0) == ["c1", "c2"]
    for client_id in ("c1", "c2"):
        ask(plan, client_id, 0)
    assert due(plan, PERIOD_MS - 1) == []
    assert due(plan, PERIOD_MS) == ["c1", "c2"]
    assert due(plan, PERIOD_MS, under_way={a_member("c1")}) == ["c2"]


def test_one_client_of_an_unknown_group_is_asked_and_none_of_a_concurrent_one():
    plan = a_plan("c1", "c2", is_orderly=None)
    assert due(plan, 0) == ["c1"]
    ask(plan, "c1", 0, answers=False)
    assert due(plan, 0) == ["c2"]
    assert due(a_plan("c1", "c2", is_orderly=False), PERIOD_MS) == []
    assert due(a_plan("c1", is_orderly=None, model="BROADCASTING"), 0) == []


def test_client_that_waits_longest_is_asked_first():
    plan = a_plan("c1", "c2", "c3")
    for client_id, at_ms in (("c1", 300), ("c2", 100), ("c3", 200)):
        ask(plan, client_id, at_ms)
    assert due(plan, 2 * PERIOD_MS) == ["c2", "c3", "c1"]


def test_silent_client_is_left_alone_for_a_while():
    plan = a_plan("c1")
    ask(plan, "c1", 0, answers=False)
    assert plan.is_silent(a_member("c1"), SILENT_MS - 1)
    assert not plan.is_silent(a_member("c1"), SILENT_MS)


def test_queries_are_spread_over_the_brokers_of_a_client():
    plan = a_plan("c1")
    assert plan.route([FIRST, SECOND], 0) == FIRST
    plan.started(a_member("c1"), FIRST, 0)
    assert plan.route([FIRST, SECOND], 0) == SECOND
    plan.ended(FIRST)
    assert plan.route([FIRST, SECOND], 0) == FIRST
    assert plan.route([], 0) is None


def test_broker_that_waits_for_several_silent_clients_is_not_used():
    plan = a_plan("c1")
    for number in range(WAITED_FOR_MAX - 1):
        ask(plan, f"hangs-{number}", 0, answers=False)
    assert plan.route([FIRST], 0) == FIRST
    ask(plan, "hangs-last", 0, answers=False)
    assert plan.route([FIRST, SECOND], 0) == SECOND
    assert plan.route([FIRST], RELAY_MS - 1) is None
    assert plan.route([FIRST], RELAY_MS) == FIRST


@pytest.mark.parametrize("answers", [True, False])
def test_query_of_a_client_that_was_forgotten_meanwhile_leaves_nothing_behind(answers):
    plan = a_plan("c1")
    plan.started(a_member("c1"), FIRST, 0)
    plan._holders.forget(a_member("c1"))
    ask(plan, "c1", 0, answers=answers)
    plan.ended(FIRST)
    assert (plan._holders.clients, dict(plan._under_way)) == (0, {})
    assert not plan.is_silent(a_member("c1"), 0)
