"""Who is a client of an orderly group, by the lists of brokers, and which queues it holds, by its own answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from orderly_builders import (
    FIRST,
    ORDERLY,
    SECOND,
    SET,
    a_consumer,
    a_group_queue,
    a_held_queue,
    a_member,
    a_queue,
    answer,
    held_by,
    listed,
)

from offsets.order import holders as module
from offsets.order.holders import (
    CLIENT_VALIDITY_MS,
    CLIENTS_PER_LIST_MAX,
    FRESH_MS,
    QUEUES_PER_CLIENT_MAX,
    UNCONFIRMED_MS,
    Confirmation,
    ConsumerKind,
    Holders,
)
from offsets.values import SetName


def names(members):
    return [client_id for _, client_id in members]


# Lists


def test_client_is_reached_through_the_brokers_that_list_it():
    holders = listed({SECOND: ["c1"], FIRST: ["c1", "c2"]})
    assert names(holders.members_of(ORDERLY)) == ["c1", "c2"]
    assert holders.brokers_of(a_member("c1")) == {FIRST, SECOND}
    assert holders.brokers_of(a_member("c2")) == {FIRST}
    holders.drop_broker(FIRST)
    assert holders.brokers_of(a_member("c1")) == {SECOND}
    assert holders.brokers_of(a_member("c2")) == frozenset()
    assert holders.brokers_of(a_member("nobody")) == frozenset()


def test_list_that_was_requested_before_the_last_one_changes_nothing():
    holders = listed({FIRST: ["c1"]}, at_ms=100)
    holders.record_list(FIRST, ORDERLY, None, 99)
    assert holders.brokers_of(a_member("c1")) == {FIRST}


def test_client_is_gone_once_no_broker_has_listed_it_for_90_s():
    holders = listed({FIRST: ["c1", "c2"], SECOND: ["c2"]})
    assert not holders.is_gone(a_member("c1"), 10 * UNCONFIRMED_MS)
    holders.drop_broker(FIRST)
    assert not holders.is_gone(a_member("c1"), UNCONFIRMED_MS - 1)
    assert holders.is_gone(a_member("c1"), UNCONFIRMED_MS)
    assert not holders.is_gone(a_member("c2"), UNCONFIRMED_MS)


def test_clients_beyond_the_limits_are_left_out_and_counted(monkeypatch):
    many = listed({FIRST: [f"c{number:05}" for number in range(CLIENTS_PER_LIST_MAX + 1)]})
    assert many.clients == CLIENTS_PER_LIST_MAX
    monkeypatch.setattr(module, "CLIENTS_MAX", 2)
    holders = listed({FIRST: ["c1", "c2", "c3"], SECOND: ["c1", "c2"]})
    assert (holders.clients, holders.left_out) == (2, 1)
    for member in list(holders.members()):
        holders.forget(member)
    assert (holders.clients, holders.groups()) == (0, [])
    assert listed({FIRST: ["x" * 256, ""]}).clients == 0


# Answers


def test_orderly_client_holds_the_queues_that_it_has_locked():
    holders = held_by((0, "c1", 0, 1))
    assert set(holders.client(a_member()).holdings) == {a_queue(0), a_queue(1)}
    assert list(holders.holders_of(a_group_queue())) == ["c1"]
    assert holders.holdings == 2


@pytest.mark.parametrize(
    "fields",
    [{"is_locked": False}, {"is_locked": None}, {"is_dropped": None}, {"is_orderly": False}, {"is_orderly": None}],
    ids=str,
)
def test_queue_without_a_lock_for_certain_is_not_held(fields):
    holders = Holders()
    answer(holders, 0, "c1", 0, **fields)
    assert holders.holdings == 0


def test_dropped_queue_may_be_consumed_until_its_last_call_ends():
    holders = Holders()
    answer(holders, 0, "c1", 0, is_dropped=True, in_work=1)
    assert holders.holders_of(a_group_queue())["c1"].may_consume
    answer(holders, 1, "c1", 0, is_dropped=True, in_work=0)
    assert not holders.holders_of(a_group_queue())["c1"].may_consume


@pytest.mark.parametrize(
    ("version", "expected"),
    [("V5_5_0", True), ("V4_9_7", True), ("V10_0_0", True), ("V4_8_0", False), ("2", False), (None, False)],
)
def test_clients_show_a_dropped_queue_until_their_calls_end_from_4_9_on(version, expected):
    holders = Holders()
    answer(holders, 0, "c1", 0, version=version)
    assert holders.client(a_member()).ends_calls_first is expected


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ([None], ConsumerKind.UNKNOWN),
        ([True], ConsumerKind.ORDERLY),
        ([True, None], ConsumerKind.ORDERLY),
        ([False], ConsumerKind.CONCURRENT),
        ([True, False], ConsumerKind.CONCURRENT),
    ],
)
def test_one_client_that_is_not_orderly_makes_its_group_concurrent(answers, kind):
    holders = Holders()
    assert holders.kind_of(ORDERLY) is ConsumerKind.UNKNOWN
    for number, is_orderly in enumerate(answers):
        answer(holders, 0, f"c{number}", is_orderly=is_orderly)
    assert holders.kind_of(ORDERLY) is kind


@pytest.mark.parametrize("kind", [{"model": "BROADCASTING"}, {"kind": "CONSUME_ACTIVELY"}, {"kind": "CONSUME_POP"}])
def test_group_that_does_not_share_queues_among_push_consumers_is_not_orderly(kind):
    assert listed({FIRST: ["c1"]}, **kind).kind_of(ORDERLY) is ConsumerKind.CONCURRENT


def test_later_answer_replaces_what_a_client_holds_and_names_the_queues_that_changed():
    holders = held_by((0, "c1", 0, 1))
    assert answer(holders, 100, "c1", 1, 2) == {a_group_queue(0), a_group_queue(1), a_group_queue(2)}
    assert not holders.holders_of(a_group_queue(0))


def test_answer_to_an_earlier_request_changes_nothing_and_neither_does_one_of_a_forgotten_client():
    holders = held_by((100, "c1", 0))
    assert answer(holders, 99, "c1") == frozenset()
    assert list(holders.holders_of(a_group_queue())) == ["c1"]
    holders.forget(a_member())
    consumer = a_consumer({a_queue(): a_held_queue()})
    assert holders.record_answer(a_member(), consumer, Confirmation(200, 201)) == frozenset()
    assert (holders.clients, holders.holdings) == (0, 0)


@pytest.mark.parametrize(
    ("second_ms", "fields", "expected"),
    [
        (10 + CLIENT_VALIDITY_MS, {}, False),
        (11 + CLIENT_VALIDITY_MS, {}, True),
        (40_000, {"locked_at_ms": 39_000}, False),
        (10, {"pulled_at_ms": CLIENT_VALIDITY_MS}, False),
        (10, {"pulled_at_ms": CLIENT_VALIDITY_MS + 1}, True),
    ],
)
def test_lock_that_is_not_renewed_for_30_s_by_either_clock_has_expired(second_ms, fields, expected):
    holders = held_by((0, "c1", 0))
    answer(holders, second_ms, "c1", 0, **fields)
    assert holders.holders_of(a_group_queue())["c1"].is_expired is expected


def test_answer_is_fresh_for_2_s_from_its_request_on():
    holders = Holders()
    answer(holders, 0, "c1", 0, took_ms=1000)
    client = holders.client(a_member())
    assert client.is_fresh(FRESH_MS)
    assert not client.is_fresh(FRESH_MS + 1)
    holders.forget_answer(a_member())
    assert not client.is_fresh(0)


def test_holders_of_a_broker_set_are_those_with_queues_there():
    holders = held_by((0, "c1", 0), (0, "c2"), (0, "c3"))
    there = {a_queue(broker_name="broker-b"): a_held_queue()}
    holders.record_answer(a_member("c2"), a_consumer(there), Confirmation(1, 2))
    assert names(holders.members_at(SET)) == ["c1"]
    assert names(holders.members_at(SetName(SET.cluster, "broker-b"))) == ["c2"]
    assert names(holders.members_at(SetName("other", SET.broker_name))) == []


@pytest.mark.parametrize("queue", [a_queue(-1), a_queue(topic="t" * 256), a_queue(broker_name="b" * 256)], ids=str)
def test_queue_that_cannot_be_is_left_out(queue):
    holders = listed({FIRST: ["c1"]})
    holders.record_answer(a_member(), a_consumer({queue: a_held_queue()}), Confirmation(0, 1))
    assert holders.holdings == 0


def test_client_with_more_queues_than_the_limit_holds_as_many_as_that_and_a_full_table_nothing_more(monkeypatch):
    holders = listed({FIRST: ["c1", "c2"]})
    queues = {a_queue(number): a_held_queue() for number in range(QUEUES_PER_CLIENT_MAX + 1)}
    holders.record_answer(a_member(), a_consumer(queues), Confirmation(0, 1))
    assert holders.holdings == QUEUES_PER_CLIENT_MAX
    monkeypatch.setattr(module, "HOLDINGS_MAX", QUEUES_PER_CLIENT_MAX)
    answer(holders, 0, "c2", 0)
    assert (holders.holdings, holders.left_out) == (QUEUES_PER_CLIENT_MAX, 1)


@given(
    st.lists(
        st.tuples(st.sampled_from(["c1", "c2", "c3"]), st.sets(st.integers(0, 3)), st.sampled_from([True, False, None]))
    )
)
def test_holders_and_holdings_agree_after_any_answers(answers):
    holders, last = Holders(), {}
    for at_ms, (client_id, queue_ids, is_orderly) in enumerate(answers):
        answer(holders, at_ms, client_id, *queue_ids, is_orderly=is_orderly)
        last[client_id] = queue_ids if is_orderly else set()
    for client_id, queue_ids in last.items():
        assert set(holders.client(a_member(client_id)).holdings) == set(map(a_queue, queue_ids))
    for queue_id in range(4):
        expected = {client_id for client_id, queue_ids in last.items() if queue_id in queue_ids}
        assert set(holders.holders_of(a_group_queue(queue_id))) == expected
    assert holders.holdings == sum(map(len, last.values()))
    for client_id in last:
        holders.forget(a_member(client_id))
    assert (holders.holdings, list(holders.members())) == (0, [])
