"""Sessions: opened, renewed, closed and ended."""

import pytest
from lock_builders import GROUP, TTL_MS, Locks, a_session, queues
from offset_builders import a_queue

from controller.offsets.locks.sessions import session_rules
from controller.offsets.locks.sessions.acquire import AcquireStatus
from controller.offsets.locks.sessions.operator_rules import declare_orderly, withdraw_orderly
from controller.offsets.locks.sessions.refusals import SessionEnded, SessionRefused, TooManySessions
from controller.offsets.locks.sessions.session_rules import decide_close, decide_expiry, decide_open
from controller.offsets.locks.sessions.values import NO_CHANGES


def test_client_stops_at_half_of_the_ttl_and_renews_at_a_third():
    opened = Locks().open(a_session("a"))
    assert (opened.valid_ms, opened.renew_every_ms) == (30_000, 20_000)


def test_renewal_answers_which_queues_are_still_held():
    locks = Locks(a_session("a"))
    locks.acquire("a", *queues(0, 1))
    locks.now_ms = 20_000
    assert locks.renew("a") == {a_queue(0): 1, a_queue(1): 2}
    locks.force_release(a_queue(0))
    assert locks.renew("a") == {a_queue(1): 2}


def test_lease_lasts_for_its_ttl():
    locks = Locks(a_session("a"))
    locks.now_ms = TTL_MS
    locks.renew("a")
    locks.now_ms = 2 * TTL_MS + 1
    with pytest.raises(SessionEnded, match="drop what is cached"):
        locks.renew("a")


def test_lease_that_is_over_stays_over_even_if_nobody_took_the_queues():
    locks = Locks(a_session("a"))
    locks.acquire("a")
    locks.now_ms = TTL_MS + 1
    with pytest.raises(SessionEnded):
        locks.renew("a")
    with pytest.raises(SessionEnded):
        locks.open(a_session("a"))
    locks.open(a_session("b", client_id="client-of-a"))
    assert locks.acquire("b") == [AcquireStatus.GRANTED]


def test_repeated_open_is_one_session_with_what_it_holds():
    locks = Locks(a_session("a"))
    locks.acquire("a")
    assert decide_open(locks.table, a_session("a"), 0).changes == NO_CHANGES
    assert locks.open(a_session("a")).queues == ((a_queue(), 1),)


def test_session_beside_others_of_its_client_id_says_so_and_so_does_what_it_cannot_acquire():
    locks = Locks(a_session("a", client_id="c1"), a_session("b", client_id="c2"))
    locks.acquire("a")
    locks.now_ms = 20_000
    assert locks.open(a_session("c", client_id="c1")).note == (
        "client id c1 has an open session of this group already: its queues are free once it is closed, "
        "or in 40001 ms unless it is renewed; two processes must not share a client id"
    )
    (result,) = locks.acquire_all("c", a_queue())
    assert (result.holder, result.reason) == ("c1", "by another session of this client id")
    (result,) = locks.acquire_all("b", a_queue())
    assert (result.holder, result.reason) == ("c1", "")
    locks.now_ms = 2 * TTL_MS
    assert locks.open(a_session("d", client_id="c1")).note == ""


@pytest.mark.parametrize(("after_ms", "valid_ms"), [(0, 30_000), (10_000, 20_000), (30_000, 0), (TTL_MS, 0)])
def test_repeated_open_does_not_renew_the_lease_and_answers_what_is_left_of_it(after_ms, valid_ms):
    locks = Locks(a_session("a"), a_session("b"))
    locks.acquire("a")
    locks.now_ms = after_ms
    assert locks.open(a_session("a")).valid_ms == valid_ms
    locks.now_ms = TTL_MS + 1
    locks.open(a_session("c"))
    assert locks.acquire("c") == [AcquireStatus.GRANTED]


@pytest.mark.parametrize(
    "other",
    [
        a_session("a", client_id="somebody"),
        a_session("a", ttl_ms=10_000),
        a_session("a", group=GROUP._replace(group="audit")),
    ],
)
def test_id_of_another_session_is_refused(other):
    with pytest.raises(SessionRefused, match="session a is another client's: use a new id"):
        Locks(a_session("a")).open(other)


def test_closed_session_frees_all_its_queues_and_can_be_closed_again():
    locks = Locks(a_session("a"), a_session("b"))
    locks.acquire("a", *queues(0, 1))
    locks.close("a")
    assert locks.acquire("b", *queues(0, 1)) == [AcquireStatus.GRANTED] * 2
    assert decide_close(locks.table, "a") == NO_CHANGES
    assert list(locks.table.sessions) == ["b"]


def test_sessions_whose_leases_are_over_are_cleared_away_with_their_locks():
    locks = Locks(a_session("a"), a_session("b", ttl_ms=120_000))
    locks.acquire("a", *queues(0, 1))
    locks.acquire("b", a_queue(2))
    assert decide_expiry(locks.table, TTL_MS) == NO_CHANGES
    locks.table.apply(decide_expiry(locks.table, TTL_MS + 1), TTL_MS + 1)
    assert list(locks.table.sessions) == ["b"]
    assert list(locks.table.locks_of(GROUP)) == [a_queue(2)]


def test_queue_that_another_client_has_taken_over_is_not_cleared_away():
    locks = Locks(a_session("a"), a_session("b", ttl_ms=120_000))
    locks.acquire("a", *queues(0, 1))
    locks.now_ms = TTL_MS + 1
    token = locks.token("b", a_queue(0))
    locks.table.apply(decide_expiry(locks.table, locks.now_ms), locks.now_ms)
    assert locks.renew("b") == {a_queue(0): token}
    assert locks.table.count == 1


def test_many_ended_sessions_are_cleared_away_in_several_steps(monkeypatch):
    monkeypatch.setattr(session_rules, "ENDED_MAX", 2)
    locks = Locks(a_session("a"), a_session("b"), a_session("c"))
    left = []
    for _ in range(3):
        locks.table.apply(decide_expiry(locks.table, TTL_MS + 1), TTL_MS + 1)
        left.append(len(locks.table.sessions))
    assert left == [1, 0, 0]


@pytest.mark.parametrize(
    ("session", "match"),
    [
        (a_session(" "), "the session id is blank"),
        (a_session(client_id=" "), "the client id is blank"),
        (a_session(group=GROUP._replace(group="")), "the group is blank"),
        (a_session(group=GROUP._replace(cluster="")), "the cluster is blank"),
        (a_session("s" * 256), "the session id has 256 characters"),
        (a_session(client_id="a\nb"), "the client id contains characters that cannot be shown"),
        (a_session(group=GROUP._replace(namespace="n" * 256)), "the namespace has 256 characters"),
        (a_session(ttl_ms=9_999), "a ttl of 9999 ms is not in 10000 to 300000 ms"),
        (a_session(ttl_ms=300_001), "a ttl of 300001 ms"),
    ],
)
def test_bad_session_is_refused_with_what_is_wrong(session, match):
    with pytest.raises(SessionRefused, match=match):
        Locks().open(session)


def test_only_a_group_that_is_declared_orderly_has_new_sessions():
    locks = Locks(a_session("a"))
    with pytest.raises(SessionRefused, match="group audit is not declared orderly"):
        locks.open(a_session("b", group=GROUP._replace(group="audit")))
    locks.table.apply(withdraw_orderly(locks.table, GROUP, 0), 0)
    with pytest.raises(SessionRefused, match="group billing is not declared orderly"):
        locks.open(a_session("b"))
    # A repetition of what was opened before.
    locks.open(a_session("a"))


def test_number_of_sessions_is_limited(monkeypatch):
    monkeypatch.setattr(session_rules, "SESSIONS_PER_GROUP_MAX", 2)
    monkeypatch.setattr(session_rules, "SESSIONS_MAX", 3)
    audit = GROUP._replace(group="audit")
    locks = Locks(a_session("a"), a_session("b"))
    locks.table.apply(declare_orderly(locks.table, audit), 0)
    with pytest.raises(TooManySessions, match="group billing has 2 sessions"):
        locks.open(a_session("c"))
    locks.open(a_session("c", group=audit))
    with pytest.raises(TooManySessions, match="3 sessions are open"):
        locks.open(a_session("d", group=audit))
    locks.close("a")
    locks.open(a_session("d"))
