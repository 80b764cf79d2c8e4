"""Who holds which queue by the answers of clients."""

import pytest
from holder_builders import GROUP, a_consumer, a_held_queue, a_member, a_queue, a_table, an_answer
from hypothesis import given
from hypothesis import strategies as st

from controller.offsets.locks import holders
from controller.offsets.locks.holders import (
    CLIENT_VALIDITY_MS,
    QUEUES_PER_CLIENT_MAX,
    UNCONFIRMED_MS,
    ClientAnswer,
    Confirmation,
    ConsumerKind,
    HeldGroupQueue,
    QueueHolders,
)
from controller.offsets.values import QUEUES_MAX

QUEUE = HeldGroupQueue(GROUP, a_queue(0))


def test_orderly_client_holds_the_queues_that_it_has_locked():
    table = a_table(an_answer(0, "c1", 0, 1))
    assert set(table.holdings_of(a_member("c1"))) == {a_queue(0), a_queue(1)}
    assert list(table.holders_of(QUEUE)) == ["c1"]
    assert len(table) == 2


@pytest.mark.parametrize("held", [{"is_locked": False}, {"is_locked": None}, {"is_dropped": None}], ids=str)
def test_queue_without_its_lock_or_of_which_it_is_unknown_whether_it_is_given_up_is_not_held(held):
    assert len(a_table(an_answer(0, "c1", 0, **held))) == 0


def test_queue_that_is_dropped_may_be_consumed_until_its_messages_in_work_are_consumed():
    table = a_table(an_answer(0, "c1", 0, is_dropped=True, in_work=1))
    assert table.holders_of(QUEUE)["c1"].is_dropped
    assert table.holders_of(QUEUE)["c1"].may_consume
    table.record(an_answer(1, "c1", 0, is_dropped=True, in_work=0))
    assert not table.holders_of(QUEUE)["c1"].may_consume


@pytest.mark.parametrize(
    ("version", "ends_calls_first"),
    [
        ("V5_5_0", True),
        ("V4_9_7", True),
        ("V10_0_0", True),
        ("V4_8_0", False),
        ("V3_9_9", False),
        ("2", False),
        (None, False),
    ],
)
def test_clients_keep_a_dropped_queue_until_their_calls_end_from_4_9_on(version, ends_calls_first):
    table = a_table(an_answer(0, "c1", 0, version=version))
    assert table.ends_calls_first(a_member("c1")) is ends_calls_first
    assert not table.ends_calls_first(a_member("c2"))


@pytest.mark.parametrize("is_orderly", [False, None])
def test_client_that_is_not_orderly_holds_nothing_although_it_reports_locks(is_orderly):
    assert len(a_table(an_answer(0, "c1", 0, is_orderly=is_orderly))) == 0


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ([], ConsumerKind.UNKNOWN),
        ([None], ConsumerKind.UNKNOWN),
        ([True], ConsumerKind.ORDERLY),
        ([True, None], ConsumerKind.ORDERLY),
        ([False], ConsumerKind.CONCURRENT),
        ([True, False], ConsumerKind.CONCURRENT),
    ],
)
def test_one_client_that_is_not_orderly_makes_its_group_concurrent(answers, kind):
    table = a_table(*(an_answer(0, f"c{number}", is_orderly=each) for number, each in enumerate(answers)))
    assert table.kind_of(GROUP) is kind


def test_later_answer_replaces_what_a_client_holds_and_names_the_queues_that_changed():
    table = a_table(an_answer(0, "c1", 0, 1))
    assert table.record(an_answer(100, "c1", 1, 2)) == {HeldGroupQueue(GROUP, a_queue(each)) for each in (0, 1, 2)}
    assert set(table.holdings_of(a_member("c1"))) == {a_queue(1), a_queue(2)}
    assert not table.holders_of(QUEUE)


def test_answer_to_an_earlier_request_changes_nothing():
    table = a_table(an_answer(100, "c1", 0))
    assert table.record(an_answer(99, "c1")) == frozenset()
    assert list(table.holders_of(QUEUE)) == ["c1"]


def test_lock_with_the_same_time_was_held_without_a_break_between_two_answers():
    table = a_table(an_answer(0, "c1", 0), an_answer(1000, "c1", 0))
    assert table.holders_of(QUEUE)["c1"].held_from_to() == Confirmation(10, 1000)
    table.record(an_answer(2000, "c1", 0, locked_at_ms=1500))
    assert table.holders_of(QUEUE)["c1"].held_from_to() is None
    table.record(an_answer(3000, "c1", 0, locked_at_ms=1500))
    assert table.holders_of(QUEUE)["c1"].held_from_to() == Confirmation(2010, 3000)


def test_lock_without_a_time_is_not_held_for_certain_between_two_answers():
    table = a_table(an_answer(0, "c1", 0, locked_at_ms=None), an_answer(1000, "c1", 0, locked_at_ms=None))
    assert table.holders_of(QUEUE)["c1"].held_from_to() is None


def test_lock_that_is_not_renewed_for_30_s_has_expired_although_its_client_reports_it():
    table = a_table(an_answer(0, "c1", 0), an_answer(10 + CLIENT_VALIDITY_MS, "c1", 0))
    assert not table.holders_of(QUEUE)["c1"].is_expired
    table.record(an_answer(11 + CLIENT_VALIDITY_MS, "c1", 0))
    assert table.holders_of(QUEUE)["c1"].is_expired
    table.record(an_answer(40_000, "c1", 0, locked_at_ms=39_000))
    assert not table.holders_of(QUEUE)["c1"].is_expired


def test_lock_has_expired_at_the_first_answer_if_the_clock_of_its_client_shows_it():
    table = a_table(an_answer(0, "c1", 0, pulled_at_ms=CLIENT_VALIDITY_MS))
    assert not table.holders_of(QUEUE)["c1"].is_expired
    table = a_table(an_answer(0, "c1", 0, pulled_at_ms=CLIENT_VALIDITY_MS + 1))
    assert table.holders_of(QUEUE)["c1"].is_expired


def test_client_is_unconfirmed_once_its_broker_too_has_given_up_its_lock():
    table = a_table(an_answer(0, "c1", 0))
    assert table.unconfirmed(10 + UNCONFIRMED_MS) == ()
    assert table.unconfirmed(11 + UNCONFIRMED_MS) == (a_member("c1"),)


def test_holders_of_a_broker_set_are_those_with_queues_there():
    other = ClientAnswer(
        member=a_member("c2"),
        confirmed=Confirmation(0, 1),
        consumer=a_consumer({a_queue(broker_name="broker-b"): a_held_queue()}),
    )
    table = a_table(an_answer(0, "c1", 0), other, an_answer(0, "c3"))
    assert table.members_at("broker-a") == (a_member("c1"),)
    assert table.members_at("broker-b") == (a_member("c2"),)
    assert set(table.members()) == {a_member("c1"), a_member("c2"), a_member("c3")}


@pytest.mark.parametrize(
    "queue",
    [a_queue(-1), a_queue(QUEUES_MAX), a_queue(topic="t" * 256), a_queue(broker_name="b" * 256)],
    ids=["negative", "too high", "topic", "broker"],
)
def test_queue_that_cannot_be_is_left_out(queue):
    answer = ClientAnswer(member=a_member(), confirmed=Confirmation(0, 1), consumer=a_consumer({queue: a_held_queue()}))
    assert len(a_table(answer)) == 0


def test_client_with_more_queues_than_the_limit_holds_as_many_as_that():
    queues = {
        a_queue(each % 1000, topic=f"t{each // 1000}"): a_held_queue() for each in range(QUEUES_PER_CLIENT_MAX + 1)
    }
    answer = ClientAnswer(member=a_member(), confirmed=Confirmation(0, 1), consumer=a_consumer(queues))
    assert len(a_table(answer)) == QUEUES_PER_CLIENT_MAX


def test_full_table_leaves_out_answers_and_counts_them(monkeypatch):
    monkeypatch.setattr(holders, "CLIENTS_MAX", 1)
    table = a_table(an_answer(0, "c1", 0), an_answer(0, "c2", 1))
    assert (set(table.members()), table.left_out) == ({a_member("c1")}, 1)
    monkeypatch.setattr(holders, "HOLDINGS_MAX", 2)
    table.record(an_answer(1, "c1", 0, 1, 2))
    # What it held before is not known to be so any more.
    assert (len(table), table.left_out) == (0, 2)


@given(
    st.lists(
        st.tuples(st.sampled_from(["c1", "c2", "c3"]), st.sets(st.integers(0, 3)), st.sampled_from([True, False, None]))
    )
)
def test_holders_and_holdings_agree_after_any_answers(answers):
    table, last = QueueHolders(), {}
    for at_ms, (client_id, queue_ids, is_orderly) in enumerate(answers):
        table.record(an_answer(at_ms, client_id, *queue_ids, is_orderly=is_orderly))
        last[client_id] = {a_queue(each) for each in queue_ids} if is_orderly else set()
    for client_id, queues in last.items():
        assert set(table.holdings_of(a_member(client_id))) == queues
    for queue in map(a_queue, range(4)):
        expected = {client_id for client_id, queues in last.items() if queue in queues}
        assert set(table.holders_of(HeldGroupQueue(GROUP, queue))) == expected
    assert len(table) == sum(map(len, last.values()))
    for client_id in last:
        table.forget(a_member(client_id))
    assert (len(table), table.kind_of(GROUP), list(table.members())) == (0, ConsumerKind.UNKNOWN, [])
