"""Which offset a queue gets in a restore, an undo or an import, case by case."""

import pytest
from repair_builders import KEY

from offsets.proof import Proved, QueueEnds
from offsets.restore.rules import Options, QueueNow, RestoredQueue, Wanted, needs_proof, plan, verified
from offsets.values import GroupKind, GroupMembers, QueueKey
from serving.shapes.offsets import Status

PULLS = GroupMembers(GroupKind.PULL, is_online=True)
OFFLINE = GroupMembers(GroupKind.UNKNOWN)
ENDS = QueueEnds(10, 1_000)


def now(shown=50, *, ends=ENDS, members=PULLS, resets=True):
    return QueueNow(shown, ends, members, resets)


def of(planned):
    return planned.status, planned.new


CHANGES = Status.WOULD_CHANGE
NOT_PROVED = Status.NOT_PROVED


@pytest.mark.parametrize(
    ("wanted", "shown", "proved", "options", "expected"),
    [
        pytest.param(Wanted(KEY, 80), now(), Proved(80), Options(), (CHANGES, 80), id="forward, proved"),
        pytest.param(Wanted(KEY, 80), now(), Proved(70), Options(), (CHANGES, 70), id="as far as it is proved"),
        pytest.param(
            Wanted(KEY, 80), now(), Proved(40), Options(), (Status.RIGHT, 50), id="proved no further than shown"
        ),
        pytest.param(Wanted(KEY, 80), now(), Proved(None, "anew"), Options(), (NOT_PROVED, 80), id="made anew"),
        pytest.param(Wanted(KEY, 80), now(), None, Options(allow_unproved=True), (CHANGES, 80), id="unproved, allowed"),
        pytest.param(Wanted(KEY, 80), now(None), Proved(80), Options(), (CHANGES, 80), id="where there is none"),
        pytest.param(Wanted(KEY, 50), now(), None, Options(), (Status.RIGHT, 50), id="the same"),
        pytest.param(Wanted(KEY, 20), now(), None, Options(), (NOT_PROVED, 20), id="back"),
        pytest.param(Wanted(KEY, 20), now(), None, Options(allow_back=True), (CHANGES, 20), id="back, allowed"),
        pytest.param(Wanted(KEY, 5), now(), None, Options(allow_back=True), (CHANGES, 10), id="back to what is left"),
        pytest.param(Wanted(KEY, 1_001), now(), Proved(1_001), Options(), (NOT_PROVED, 1_001), id="beyond the end"),
        pytest.param(Wanted(KEY, 80), now(ends=None), None, Options(), (NOT_PROVED, 80), id="no such queue"),
        pytest.param(Wanted(KEY, None), now(), None, Options(), (NOT_PROVED, None), id="there was none"),
        pytest.param(Wanted(KEY, 80, expected=49), now(), Proved(80), Options(), (NOT_PROVED, 80), id="moved since"),
        pytest.param(Wanted(KEY, 80, expected=50), now(), Proved(80), Options(), (CHANGES, 80), id="as it was written"),
        pytest.param(Wanted(KEY, 80, was_reset=True), now(), Proved(80), Options(), (NOT_PROVED, 80), id="set since"),
        pytest.param(
            Wanted(KEY, 80, was_reset=True),
            now(),
            Proved(80),
            Options(over_resets=True),
            (CHANGES, 80),
            id="set, allowed",
        ),
        pytest.param(Wanted(KEY, 80), now(members=OFFLINE), Proved(80), Options(), (NOT_PROVED, 80), id="may pop"),
        pytest.param(
            Wanted(KEY, 80), now(members=OFFLINE), Proved(80), Options(pulls=True), (CHANGES, 80), id="said to pull"
        ),
        pytest.param(
            Wanted(KEY, 20),
            now(members=OFFLINE),
            None,
            Options(allow_back=True),
            (CHANGES, 20),
            id="back needs no kind",
        ),
        pytest.param(
            Wanted(KEY, 80),
            now(members=PULLS._replace(kind=GroupKind.POP)),
            Proved(80),
            Options(),
            (NOT_PROVED, 80),
            id="pops",
        ),
        pytest.param(
            Wanted(KEY, 80),
            now(members=PULLS._replace(kind=GroupKind.BROADCAST)),
            Proved(80),
            Options(pulls=True),
            (NOT_PROVED, 80),
            id="broadcasts",
        ),
        pytest.param(
            Wanted(KEY, 80), now(resets=False), Proved(80), Options(), (NOT_PROVED, 80), id="online, old broker"
        ),
        pytest.param(
            Wanted(QueueKey("g", "%LMQ%t", 0), 80), now(), Proved(80), Options(), (NOT_PROVED, 80), id="a light queue"
        ),
    ],
)
def test_what_a_queue_gets(wanted, shown, proved, options, expected):
    assert of(plan(wanted, shown, proved, options)) == expected


@pytest.mark.parametrize(
    ("wanted", "shown", "options", "expected"),
    [
        pytest.param(Wanted(KEY, 80), now(), Options(), True, id="forward"),
        pytest.param(Wanted(KEY, 80), now(), Options(allow_unproved=True), False, id="unproved is allowed"),
        pytest.param(Wanted(KEY, 20), now(), Options(allow_back=True), False, id="back"),
        pytest.param(Wanted(KEY, 80), now(members=OFFLINE), Options(), False, id="it is not written anyway"),
    ],
)
def test_messages_are_looked_at_where_that_decides(wanted, shown, options, expected):
    assert needs_proof(wanted, shown, options) is expected


def test_ends_of_a_queue_that_the_broker_does_not_show_are_not_taken_for_none():
    unknown = now(ends=None)._replace(problem="the user needs Get of the topic")
    assert plan(Wanted(KEY, 80), unknown, None, Options()).why == "the user needs Get of the topic"
    assert "does not have" in plan(Wanted(KEY, 80), now(ends=None), None, Options()).why


def test_members_that_are_online_are_sent_to_the_offset():
    assert plan(Wanted(KEY, 80), now(), Proved(80), Options()).sends_members
    offline = plan(Wanted(KEY, 80), now(members=OFFLINE), Proved(80), Options(pulls=True))
    assert not offline.sends_members


@pytest.mark.parametrize(
    ("old", "new", "shown", "expected"),
    [(50, 80, 80, "done"), (50, 80, 95, "done"), (50, 80, 60, "failed"), (50, 20, 25, "done"), (50, 20, 51, "failed")],
)
def test_what_a_broker_shows_afterwards_decides(old, new, shown, expected):
    queue = RestoredQueue("c", "b", "g", "t", 0, Status.WOULD_CHANGE, old, new)
    assert verified(queue, shown).status.value == expected


def test_messages_again_and_never():
    forward = RestoredQueue("c", "b", "g", "t", 0, Status.DONE, 50, 80)
    back = RestoredQueue("c", "b", "g", "t", 0, Status.DONE, 50, 20)
    unknown = RestoredQueue("c", "b", "g", "t", 0, Status.DONE, None, 20)
    assert [(queue.messages_again, queue.messages_never) for queue in (forward, back, unknown)] == [
        (0, 30),
        (30, 0),
        (None, None),
    ]
