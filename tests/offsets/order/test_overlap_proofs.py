"""Two holders of one queue at the same time: proved by answers around each other, never found in a hand-over."""

import pytest
from fakes.orderly_broker import BROKER, GROUP
from hypothesis import given
from hypothesis import strategies as st
from orderly_builders import CLUSTER, a_group_queue, a_member, answer, held_by

from offsets.order.events import BrokerLockOverlap, BrokerLockOverlapEnded
from offsets.order.holders import CLIENT_VALIDITY_MS, Holders
from offsets.order.overlaps import Overlap, Overlaps, suspects

PAIR = ("c1", "c2")


class Site:
    """What is known, and the overlaps that answers open and close."""

    def __init__(self):
        self.holders, self.overlaps, self.events = Holders(), Overlaps(), []

    def answer(self, at_ms, client_id, *queue_ids, **held):
        changed = answer(self.holders, at_ms, client_id, *queue_ids, **held)
        self.events += self.overlaps.update(self.holders, changed, at_ms + 10)

    def forget(self, client_id, at_ms):
        self.events += self.overlaps.update(self.holders, self.holders.forget(a_member(client_id)), at_ms)

    def suspects(self):
        return [client_id for _, client_id in suspects(self.holders, a_group_queue())]

    @property
    def ended(self):
        return [(row.clients, row.reason, row.duration_ms) for row in self.events if hasattr(row, "reason")]


@pytest.fixture
def site():
    return Site()


@pytest.fixture
def overlapping(site):
    site.answer(0, "c1", 0)
    site.answer(100, "c2", 0, locked_at_ms=50)
    site.answer(200, "c1", 0)
    assert len(site.events) == 1
    return site


def test_client_that_held_a_queue_before_and_after_another_one_held_it_overlaps_with_it(overlapping):
    (began,) = overlapping.events
    names = {"cluster": CLUSTER, "group": GROUP, "topic": "TopicTest", "broker": BROKER, "queue_id": 0}
    assert (type(began), began.line()) == (BrokerLockOverlap, names | {"clients": PAIR})
    assert overlapping.overlaps.open_now() == {Overlap(a_group_queue(), PAIR): 110}
    overlapping.answer(300, "c2", 0, is_locked=False)
    ended = BrokerLockOverlapEnded(queue=a_group_queue(), clients=PAIR, reason="released", duration_ms=200)
    assert overlapping.events[1:] == [ended]
    assert not overlapping.overlaps.has(a_group_queue())


def test_two_answers_of_different_moments_prove_no_overlap_and_make_suspects(site):
    site.answer(0, "c1", 0)
    site.answer(100, "c2", 0, locked_at_ms=50)
    assert (site.events, site.suspects()) == ([], ["c1", "c2"])
    site.answer(200, "c1")
    assert (site.events, site.suspects()) == ([], [])


@pytest.mark.parametrize(
    "answers",
    [
        [(0, "c1", 0), (100, "c1", 0), (200, "c2", 150), (300, "c2", 150)],
        [(0, "c1", 0), (100, "c2", 50), (200, "c1", 150)],
        [(0, "c1", None), (100, "c2", None), (200, "c1", None), (300, "c2", None)],
    ],
    ids=["one after the other", "went and came back", "without a time of the lock"],
)
def test_hand_over_proves_no_overlap(site, answers):
    for at_ms, client_id, locked_at_ms in answers:
        site.answer(at_ms, client_id, 0, locked_at_ms=locked_at_ms)
    assert site.events == []


def test_answers_that_cross_on_their_way_prove_no_overlap(site):
    for at_ms, client_id in ((0, "c1"), (50, "c2"), (120, "c1")):
        site.answer(at_ms, client_id, 0, took_ms=100)
    assert site.events == []


def test_client_that_still_consumes_a_dropped_queue_overlaps_with_its_next_owner(site):
    site.answer(0, "c1", 0, is_dropped=True, in_work=1)
    site.answer(100, "c2", 0, locked_at_ms=50)
    site.answer(200, "c1", 0, is_dropped=True, in_work=1)
    assert len(site.events) == 1
    site.answer(300, "c1", 0, is_dropped=True)
    assert (site.ended, site.suspects()) == ([(PAIR, "released", 200)], [])


def test_lock_that_its_client_does_not_trust_any_more_overlaps_with_none(site):
    site.answer(0, "c1", 0)
    site.answer(CLIENT_VALIDITY_MS + 11, "c1", 0)
    site.answer(CLIENT_VALIDITY_MS + 100, "c2", 0, locked_at_ms=CLIENT_VALIDITY_MS + 50)
    site.answer(CLIENT_VALIDITY_MS + 200, "c1", 0)
    assert (site.events, site.suspects()) == ([], [])


def test_overlap_is_over_once_a_lock_has_expired(overlapping):
    overlapping.answer(CLIENT_VALIDITY_MS + 11, "c1", 0)
    assert overlapping.ended == [(PAIR, "expired", CLIENT_VALIDITY_MS - 89)]


def test_overlap_is_over_once_a_client_is_gone(overlapping):
    overlapping.forget("c2", 500)
    assert overlapping.ended == [(PAIR, "lost", 390)]
    assert len(overlapping.overlaps) == 0


def test_overlap_is_told_once_while_it_lasts(overlapping):
    for at_ms in range(300, 1000, 100):
        overlapping.answer(at_ms, "c1" if at_ms % 200 else "c2", 0, locked_at_ms=0 if at_ms % 200 else 50)
    assert len(overlapping.events) == 1


def test_longest_holder_is_the_first_suspect():
    members = suspects(held_by((0, "z", 0), (100, "a", 0)), a_group_queue())
    assert members == (a_member("z"), a_member("a"))


@given(
    st.lists(
        st.tuples(st.sampled_from(["c1", "c2"]), st.integers(1, 50), st.integers(1, 400)), min_size=10, max_size=40
    ),
    st.lists(st.integers(1, 300), min_size=5, max_size=10),
)
def test_hand_overs_from_one_client_to_the_next_never_look_like_an_overlap(queries, reigns):
    """A queue with one holder at any time, clients that answer at any moment of their requests: no overlap."""
    site, now_ms = Site(), 0
    begins = [sum(reigns[:number]) for number in range(len(reigns))]
    pending = []
    for number, (client_id, wait_ms, took_ms) in enumerate(queries):
        now_ms += wait_ms
        pending.append((now_ms + took_ms, number, now_ms, client_id))
    for received_ms, number, sent_ms, client_id in sorted(pending):
        true_at_ms = sent_ms + (number * 7919) % (received_ms - sent_ms + 1)
        reign = max(number for number in range(len(begins)) if begins[number] <= true_at_ms)
        holds = ["c1", "c2"][reign % 2] == client_id
        site.answer(
            sent_ms, client_id, *([0] if holds else []), took_ms=received_ms - sent_ms, locked_at_ms=begins[reign]
        )
    assert site.events == []
