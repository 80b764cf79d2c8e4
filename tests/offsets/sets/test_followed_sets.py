"""What can change about the master of a set, and who is told."""

import pytest
from fakes.clock import FakeClock

from offsets.sets.followed import FollowedSet, MasterChangeKind, SetMaster, change_of
from offsets.sets.following import Following
from offsets.values import SetName

NAME = SetName("C", "broker-a")
UNIX_MS = 1_700_000_000_000


def master(broker_id=1, epoch=5, address=None, boot=None):
    return SetMaster(NAME, broker_id, address or f"10.0.0.{broker_id}:10911", epoch, boot)


def a_set(of, elected=None):
    return FollowedSet(NAME, of, elected_unix_ms=elected)


KINDS = MasterChangeKind


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("unknown", None, None),
        ("unknown", master(), KINDS.FOUND),
        (None, None, None),
        (None, master(), KINDS.GAINED),
        (master(), None, KINDS.LOST),
        (master(), master(), None),
        (master(), master(2), KINDS.MOVED),
        (master(), master(1, 6), KINDS.MOVED),
        (master(), master(address="10.0.9.9:10911"), KINDS.ADDRESS_CHANGED),
        # Without epochs the same id at another address may be another broker.
        (master(0, None), master(0, None, "10.0.9.9:10911"), KINDS.MOVED),
        (master(0, None, boot=1), master(0, None, boot=2), KINDS.RESTARTED),
        (master(0, None, boot=1), master(0, None, boot=1), None),
        (master(0, None, boot=None), master(0, None, boot=2), None),
        (master(0, None, boot=1), master(0, None, boot=None), None),
    ],
)
def test_what_has_changed(before, after, kind):
    known = None if before == "unknown" else a_set(before)
    change = change_of(known, None, a_set(after), UNIX_MS)
    assert (change and change.kind) == kind


def test_an_election_counts_from_its_own_time_and_anything_else_from_when_it_was_noticed():
    moved = change_of(a_set(master()), master(), a_set(master(2, 6), elected=7), UNIX_MS)
    assert (moved.since_unix_ms, moved.before, moved.after) == (7, master(), master(2, 6))
    assert change_of(a_set(master()), master(), a_set(None, elected=7), UNIX_MS).since_unix_ms == UNIX_MS
    assert change_of(a_set(master()), master(), a_set(master(2, 6)), UNIX_MS).since_unix_ms == UNIX_MS


def test_a_manager_that_follows_nobody_knows_no_master():
    following = Following(FakeClock(), lambda _: None)
    assert (following.source, following.is_fresh(), following.is_master(master()), [*following.masters()]) == (
        "nobody",
        False,
        False,
        [],
    )


def test_a_master_is_one_only_while_the_last_answer_is_fresh():
    clock = FakeClock()
    following = Following(clock, lambda _: None)
    following.sets, following.answered_ms = {"broker-a": a_set(master())}, clock.now_ms()
    assert following.is_master(master())
    assert not following.is_master(master(1, 6))
    clock.pass_ms(2_500)
    assert following.is_master(master())
    clock.pass_ms(1)
    assert not following.is_master(master())


def test_every_listener_gets_every_change_and_it_is_logged_once():
    told, first, second = [], [], []
    following = Following(FakeClock(), told.append)
    following.listeners += [first.append, second.append]
    change = change_of(None, None, a_set(master()), UNIX_MS)
    following.tell([change])
    assert first == second == [change]
    (line,) = (event.line() for event in told)
    assert (line["kind"], line["addr"], line["epoch"]) == ("found", "10.0.0.1:10911", 5)


def test_replicas_are_all_members_but_the_master():
    members = ("10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911")
    followed = FollowedSet(NAME, master(2), members)
    assert [*followed.replicas()] == [members[0], members[2]]
    assert len([*followed._replace(master=None).replicas()]) == 3
