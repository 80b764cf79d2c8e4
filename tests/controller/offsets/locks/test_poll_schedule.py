"""Which client is queried when, and through which broker."""

import pytest
from holder_builders import BROKER, a_member, a_table, an_answer, connections, members_at

from controller.offsets.locks.poll_schedule import (
    PERIOD_MS,
    RELAY_MS,
    SILENT_MS,
    SILENT_MS_MAX,
    UNREACHABLE_MS,
    WAITED_FOR_MAX,
    WATCH_MS,
    WATCH_PERIOD_MS,
    ClientQuery,
    PollSchedule,
)

FIRST, SECOND = "10.0.0.1:10911", "10.0.0.2:10911"
MANY = 1000


@pytest.fixture
def schedule():
    return PollSchedule()


def due(schedule, table, members, now_ms, most=MANY):
    return [(member.group, member.client_id, address) for member, address in schedule.due(table, members, now_ms, most)]


def clients(schedule, table, members, now_ms, most=MANY):
    return [client_id for _, client_id, _ in due(schedule, table, members, now_ms, most)]


def answered(schedule, member, now_ms):
    query = ClientQuery(member, FIRST)
    schedule.started(query, now_ms)
    schedule.answered(query.member)
    schedule.ended(query)


def unanswered(schedule, client_id, now_ms, address=FIRST):
    query = ClientQuery(a_member(client_id), address)
    schedule.started(query, now_ms)
    schedule.silent(query, now_ms, now_ms)
    schedule.ended(query)


def test_each_client_of_an_orderly_group_is_queried_each_10_s(schedule):
    table, members = a_table(an_answer(0, "c1", 0)), members_at({FIRST: ["c1", "c2"]})
    assert clients(schedule, table, members, 0) == ["c1", "c2"]
    for client_id in ("c1", "c2"):
        answered(schedule, a_member(client_id), 0)
    assert clients(schedule, table, members, PERIOD_MS - 1) == []
    assert clients(schedule, table, members, PERIOD_MS) == ["c1", "c2"]


def test_one_client_of_an_unknown_group_is_queried_and_none_of_a_concurrent_one(schedule):
    members = members_at({FIRST: ["c1", "c2"]})
    assert clients(schedule, a_table(), members, 0) == ["c1"]
    unanswered(schedule, "c1", 0)
    assert clients(schedule, a_table(), members, 0) == ["c2"]
    assert clients(schedule, a_table(an_answer(0, "c2", is_orderly=False)), members, PERIOD_MS) == []


@pytest.mark.parametrize("kind", [{"model": "BROADCASTING"}, {"kind": "CONSUME_ACTIVELY"}], ids=str)
def test_groups_that_lock_nothing_are_not_queried(schedule, kind):
    assert clients(schedule, a_table(), members_at({FIRST: ["c1"]}, **kind), 0) == []


def test_who_waits_longest_is_queried_first_when_not_all_can_be(schedule):
    table, members = a_table(an_answer(0, "c1", 0)), members_at({FIRST: ["c1", "c2", "c3"]})
    for client_id, at_ms in (("c1", 300), ("c2", 100), ("c3", 200)):
        answered(schedule, a_member(client_id), at_ms)
    assert clients(schedule, table, members, 2 * PERIOD_MS, most=2) == ["c2", "c3"]


def test_client_whose_query_is_under_way_is_not_queried_again(schedule):
    table, members = a_table(an_answer(0, "c1", 0)), members_at({FIRST: ["c1"]})
    query = ClientQuery(a_member("c1"), FIRST)
    schedule.started(query, 0)
    assert clients(schedule, table, members, PERIOD_MS) == []
    assert not schedule.may_query(a_member("c1"), PERIOD_MS)
    schedule.ended(query)
    assert clients(schedule, table, members, PERIOD_MS) == ["c1"]


def test_silent_client_is_queried_ever_more_rarely_until_it_answers(schedule):
    member, now_ms = a_member("c1"), 0
    for silence_ms in (SILENT_MS, 2 * SILENT_MS, 4 * SILENT_MS):
        unanswered(schedule, "c1", now_ms)
        assert not schedule.may_query(member, now_ms + silence_ms - 1)
        now_ms += silence_ms
        assert schedule.may_query(member, now_ms)
    for _ in range(10):
        unanswered(schedule, "c1", now_ms)
    assert not schedule.may_query(member, now_ms + SILENT_MS_MAX - 1)
    assert schedule.may_query(member, now_ms + SILENT_MS_MAX)
    answered(schedule, member, now_ms)
    assert schedule.may_query(member, now_ms)


def test_groups_of_a_set_with_a_new_master_are_queried_each_2_s_for_32_s(schedule):
    table = a_table(an_answer(0, "c1", 0), an_answer(0, "c2"), an_answer(0, "c3", group="g2"))
    members = members_at({FIRST: ["c1", "c2"]})
    members.record(FIRST, "g2", connections("c3"), 0)
    for member in (a_member("c1"), a_member("c2"), a_member("c3", "g2")):
        answered(schedule, member, 0)
    schedule.watch(BROKER, FIRST, 0)
    assert schedule.watched(WATCH_MS - 1) == {BROKER: FIRST}
    assert clients(schedule, table, members, WATCH_PERIOD_MS - 1) == []
    assert clients(schedule, table, members, WATCH_PERIOD_MS) == ["c1", "c2"]
    answered(schedule, a_member("c1"), WATCH_MS)
    assert schedule.watched(WATCH_MS) == {}
    assert clients(schedule, table, members, WATCH_MS + WATCH_PERIOD_MS) == ["c2", "c3"]


def test_queries_are_spread_over_the_brokers_of_their_clients(schedule):
    names = [f"c{number}" for number in range(4)]
    table, members = a_table(an_answer(0, "c0", 0)), members_at({FIRST: names, SECOND: names})
    addresses = [address for _, _, address in due(schedule, table, members, 0)]
    assert addresses.count(FIRST) == addresses.count(SECOND) == 2


def test_broker_that_waits_for_several_silent_clients_gets_no_further_query(schedule):
    table = a_table(an_answer(0, "c9", 0))
    members = members_at({FIRST: ["c8", "c9"]})
    for number in range(WAITED_FOR_MAX - 1):
        unanswered(schedule, f"hangs-{number}", 0)
    assert clients(schedule, table, members, 0) == ["c8", "c9"]
    unanswered(schedule, "hangs-last", 0)
    assert clients(schedule, table, members, RELAY_MS - 1) == []
    assert clients(schedule, table, members, RELAY_MS) == ["c8", "c9"]


def test_client_is_queried_through_another_broker_while_one_waits_for_silent_clients(schedule):
    for number in range(WAITED_FOR_MAX):
        unanswered(schedule, f"hangs-{number}", 0)
    assert schedule.route([FIRST, SECOND], 0) == SECOND
    assert schedule.route([FIRST], 0) is None


def test_broker_that_could_not_be_reached_is_left_alone_for_2_s(schedule):
    schedule.unreachable(FIRST, 0)
    assert schedule.route([FIRST], UNREACHABLE_MS - 1) is None
    assert schedule.route([FIRST], UNREACHABLE_MS) == FIRST


def test_forgotten_clients_and_brokers_begin_anew(schedule):
    unanswered(schedule, "c1", 0)
    schedule.unreachable(SECOND, 0)
    schedule.forget([a_member("c1"), a_member("c9")])
    schedule.forget_brokers([SECOND, "10.0.0.9:1"])
    assert schedule.may_query(a_member("c1"), 0)
    assert schedule.route([SECOND], 0) == SECOND


def test_broker_with_a_query_under_way_is_not_forgotten(schedule):
    query = ClientQuery(a_member("c1"), FIRST)
    schedule.started(query, 0)
    schedule.forget_brokers([FIRST])
    assert schedule.route([FIRST, SECOND], 0) == SECOND
    schedule.ended(query)


def test_broker_that_left_during_a_query_is_forgotten_with_its_end_unless_it_is_back(schedule):
    query = ClientQuery(a_member("c1"), FIRST)
    for is_back in (False, True):
        schedule.started(query, 0)
        schedule.unreachable(FIRST, 0)
        schedule.forget_brokers([FIRST])
        if is_back:
            schedule.started(query, 0)
            schedule.ended(query)
        schedule.ended(query)
        assert (schedule.route([FIRST], 0) is None) is is_back


def test_client_that_was_forgotten_during_its_query_stays_forgotten_if_it_does_not_answer(schedule):
    query = ClientQuery(a_member("c1"), FIRST)
    schedule.started(query, 0)
    schedule.forget([query.member])
    schedule.silent(query, 0, 0)
    schedule.ended(query)
    assert schedule.may_query(query.member, 0)


def test_client_that_no_broker_lists_any_more_is_not_queried(schedule):
    members = members_at({FIRST: ["c1"]})
    members.record(FIRST, "g1", connections("c2"), 1)
    assert clients(schedule, a_table(an_answer(0, "c1", 0)), members, PERIOD_MS) == ["c2"]
