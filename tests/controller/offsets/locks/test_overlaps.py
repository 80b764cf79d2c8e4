"""Two holders of one queue at the same time: proved by answers around each other, and never found in a hand-over."""

import pytest
from holder_builders import GROUP, a_member, a_queue, a_table, an_answer
from hypothesis import given
from hypothesis import strategies as st

from controller.offsets.locks.holders import CLIENT_VALIDITY_MS, HeldGroupQueue, QueueHolders
from controller.offsets.locks.overlaps import ClientPair, OpenOverlaps, OverlapEnd, suspects

QUEUE = HeldGroupQueue(GROUP, a_queue(0))
PAIR = ClientPair("c1", "c2")


class Site:
    """A table, and the overlaps that its answers open and close."""

    def __init__(self):
        self.table = QueueHolders()
        self.overlaps = OpenOverlaps()
        self.opened, self.closed = [], []

    def answer(self, at_ms, client_id, *queue_ids, **held):
        self._compare(self.table.record(an_answer(at_ms, client_id, *queue_ids, **held)), at_ms + 10)

    def forget(self, client_id, at_ms):
        self._compare(self.table.forget(a_member(client_id)), at_ms)

    def _compare(self, queues, now_ms):
        changes = self.overlaps.update(self.table, queues, now_ms)
        self.opened += [(each.overlap.clients, each.since_ms) for each in changes.opened]
        self.closed += [(each.overlap.clients, each.until_ms, each.why) for each in changes.closed]


@pytest.fixture
def site():
    return Site()


@pytest.fixture
def overlapping(site):
    site.answer(0, "c1", 0)
    site.answer(100, "c2", 0, locked_at_ms=50)
    site.answer(200, "c1", 0)
    assert site.opened == [(PAIR, 110)]
    return site


def test_client_that_held_a_queue_before_and_after_another_one_held_it_overlaps_with_it(overlapping):
    assert [each.overlap.queue for each in overlapping.overlaps.open_now()] == [QUEUE]
    assert overlapping.overlaps.has(QUEUE)
    assert len(overlapping.overlaps) == 1


def test_two_answers_of_different_moments_prove_no_overlap(site):
    site.answer(0, "c1", 0)
    site.answer(100, "c2", 0, locked_at_ms=50)
    assert site.opened == []
    assert suspects(site.table, QUEUE) == (a_member("c1"), a_member("c2"))
    site.answer(200, "c1")
    assert (site.opened, suspects(site.table, QUEUE)) == ([], ())


def test_one_client_that_held_a_queue_after_another_did_overlaps_with_nobody(site):
    for at_ms in (0, 100):
        site.answer(at_ms, "c1", 0)
    for at_ms in (200, 300):
        site.answer(at_ms, "c2", 0, locked_at_ms=150)
    assert site.opened == []


def test_client_that_still_consumes_a_dropped_queue_overlaps_with_its_next_owner(site):
    site.answer(0, "c1", 0, is_dropped=True, in_work=1)
    site.answer(100, "c2", 0, locked_at_ms=50)
    site.answer(200, "c1", 0, is_dropped=True, in_work=1)
    assert site.opened == [(PAIR, 110)]
    site.answer(300, "c1", 0, is_dropped=True)
    assert site.closed == [(PAIR, 310, OverlapEnd.RELEASED)]
    assert suspects(site.table, QUEUE) == ()


def test_answers_that_cross_on_their_way_prove_no_overlap(site):
    site.answer(0, "c1", 0, took_ms=100)
    site.answer(50, "c2", 0, took_ms=100)
    site.answer(120, "c1", 0, took_ms=100)
    assert site.opened == []


def test_queue_that_went_to_another_client_and_came_back_is_no_overlap(site):
    site.answer(0, "c1", 0, locked_at_ms=0)
    site.answer(100, "c2", 0, locked_at_ms=50)
    site.answer(200, "c1", 0, locked_at_ms=150)
    assert site.opened == []


def test_clients_that_report_no_time_of_their_locks_prove_no_overlap(site):
    for at_ms in range(0, 1000, 100):
        site.answer(at_ms, "c1" if at_ms % 200 else "c2", 0, locked_at_ms=None)
    assert site.opened == []


def test_locks_held_for_long_by_two_clients_overlap_since_the_later_one(site):
    site.answer(0, "c1", 0)
    site.answer(300, "c2", 0, locked_at_ms=50)
    # The proof is in the first answer that shows both for certain.
    site.answer(1000, "c2", 0, locked_at_ms=50)
    site.answer(1500, "c1", 0)
    assert site.opened == [(PAIR, 310)]


def test_lock_that_its_client_does_not_trust_any_more_overlaps_with_none(site):
    site.answer(0, "c1", 0)
    site.answer(CLIENT_VALIDITY_MS + 11, "c1", 0)
    site.answer(CLIENT_VALIDITY_MS + 100, "c2", 0, locked_at_ms=CLIENT_VALIDITY_MS + 50)
    site.answer(CLIENT_VALIDITY_MS + 200, "c1", 0)
    assert (site.opened, suspects(site.table, QUEUE)) == ([], ())


def test_overlap_is_over_once_a_client_answers_that_it_has_lost_the_queue(overlapping):
    overlapping.answer(300, "c2", 0, locked_at_ms=50)
    assert overlapping.closed == []
    overlapping.answer(400, "c1", 0, is_locked=False)
    assert overlapping.closed == [(PAIR, 410, OverlapEnd.RELEASED)]
    assert not overlapping.overlaps.has(QUEUE)
    assert len(overlapping.overlaps) == 0


def test_overlap_is_over_once_a_lock_has_expired(overlapping):
    overlapping.answer(CLIENT_VALIDITY_MS + 11, "c1", 0)
    assert overlapping.closed == [(PAIR, CLIENT_VALIDITY_MS + 21, OverlapEnd.EXPIRED)]


def test_overlap_is_over_once_a_client_is_gone(overlapping):
    overlapping.forget("c2", 500)
    assert overlapping.closed == [(PAIR, 500, OverlapEnd.LOST)]


def test_overlap_is_reported_once_while_it_lasts(overlapping):
    for at_ms in range(300, 1000, 100):
        overlapping.answer(at_ms, "c1" if at_ms % 200 else "c2", 0, locked_at_ms=0 if at_ms % 200 else 50)
    assert len(overlapping.opened) == 1


def test_longest_holder_is_the_first_suspect():
    table = a_table(an_answer(0, "z", 0), an_answer(100, "a", 0))
    assert suspects(table, QUEUE) == (a_member("z"), a_member("a"))


@given(
    st.lists(
        st.tuples(st.sampled_from(["c1", "c2"]), st.integers(1, 50), st.integers(1, 400)), min_size=10, max_size=40
    ),
    st.lists(st.integers(1, 300), min_size=5, max_size=10),
)
def test_hand_overs_from_one_client_to_the_next_never_look_like_an_overlap(queries, reigns):
    """A queue with one holder at any time, clients that answer at any moment of their requests: no overlap."""
    site, now_ms = Site(), 0
    begins = [sum(reigns[:each]) for each in range(len(reigns))]
    pending = []
    for number, (client_id, wait_ms, took_ms) in enumerate(queries):
        now_ms += wait_ms
        pending.append((now_ms + took_ms, number, now_ms, client_id))
    for received_ms, number, sent_ms, client_id in sorted(pending):
        true_at_ms = sent_ms + (number * 7919) % (received_ms - sent_ms + 1)
        reign = max(each for each in range(len(begins)) if begins[each] <= true_at_ms)
        holds = ["c1", "c2"][reign % 2] == client_id
        site.answer(
            sent_ms, client_id, *([0] if holds else []), took_ms=received_ms - sent_ms, locked_at_ms=begins[reign]
        )
    assert site.opened == []
