"""The path of queue numbers, and the next safe step on it."""

import pytest
from scaling_builders import ADDRESS, BROKER, NAME_SERVER, a_grow, a_shrink, an_ordered, observed, with_set

from controller.scaling.resize.decision import ChangeCounts
from controller.scaling.resize.observation import NameServerView
from controller.scaling.resize.operation import QueueCounts
from controller.scaling.rules.path import check_path, dropped_queues, new_queues, path_of, reversed_grow, watched_queues
from serving.shapes.scaling import ResizeKind, ResizePhase

RESIZES = [
    a_grow(ResizePhase.SEED), a_shrink(ResizePhase.DRAIN), an_ordered(ResizePhase.PAUSE),
    an_ordered(ResizePhase.PAUSE, before=4, target=2),
]  # fmt: skip


def change(before, after):
    return ChangeCounts(broker_name=BROKER, address=ADDRESS, before=before, after=after)


@pytest.mark.parametrize("resize", RESIZES, ids=lambda each: f"{each.kind.value} to {each.sets[0].target}")
def test_no_broker_ever_has_more_write_queues_than_read_queues(resize):
    path = path_of(resize.kind, resize.sets[0])
    assert all(each.write <= each.read for each in path)
    assert (path[0], path[-1]) == (resize.sets[0].before, QueueCounts(resize.sets[0].target, resize.sets[0].target))


def test_step_is_taken_from_the_position_before_it():
    grow = a_grow(ResizePhase.READ_UP, reached=1)
    assert check_path(grow, observed(grow, 0), 1).actions == (change(QueueCounts(2, 2), QueueCounts(4, 2)),)


def test_numbers_off_the_path_are_a_conflict_and_are_not_overwritten():
    grow = a_grow(ResizePhase.READ_UP, reached=1)
    check = check_path(grow, with_set(observed(grow, 0), counts=QueueCounts(9, 9)), 1)
    assert check.actions == ()
    (conflict,) = check.conflicts
    assert conflict == (
        "broker-a shows read 9, write 9, perm 6 for TopicTest, and this resize goes from read 2, write 2, perm 6 to "
        "read 4, write 2, perm 6: somebody else has changed it"
    )


def test_position_that_the_resize_has_not_reached_is_somebody_elses():
    grow = a_grow(ResizePhase.READ_UP, reached=1)
    assert check_path(grow, observed(grow, 2), 1).conflicts
    assert not check_path(grow, observed(grow, 1), 1).conflicts


def test_everybody_has_to_show_the_numbers():
    grow = a_grow(ResizePhase.READ_UP, reached=1)
    shown = observed(grow, 1)
    assert check_path(grow, shown, 1).is_reached
    slave = with_set(shown, slaves={"10.0.0.2:10911": QueueCounts(2, 2)})
    assert check_path(grow, slave, 1).waits_for == (
        "slave 10.0.0.2:10911 of broker-a does not show broker-a with 4 read and 2 write queues",
    )
    silent = NameServerView(address=NAME_SERVER, counts=None)
    unknown = observed(grow, 1)
    unknown = type(unknown)(now_ms=0, unix_ms=0, sets=unknown.sets, name_servers=(silent,))
    assert not check_path(grow, unknown, 1).is_reached


def test_route_may_have_less_permissions_than_the_topic():
    shrink = a_shrink(ResizePhase.WRITE_DOWN)
    shown = observed(shrink, 1)
    fewer = NameServerView(address=NAME_SERVER, counts={BROKER: QueueCounts(4, 2, 4)})
    closed = type(shown)(now_ms=0, unix_ms=0, sets=shown.sets, name_servers=(fewer,))
    assert check_path(shrink, closed, 1).is_reached


def test_queues_that_a_phase_is_about():
    assert new_queues(a_grow(ResizePhase.SEED).sets[0]) == range(2, 4)
    assert dropped_queues(a_shrink(ResizePhase.DRAIN).sets[0]) == range(2, 4)
    ordered = an_ordered(ResizePhase.DRAIN, before=4, target=2)
    assert watched_queues(ordered)(ordered.sets[0]) == range(4)
    resized = an_ordered(ResizePhase.DRAIN, before=4, target=2, reached=3)
    assert watched_queues(resized)(resized.sets[0]) == range(2, 4)


def test_grow_in_reverse_is_a_shrink_that_drains():
    changes = reversed_grow(a_grow(ResizePhase.VERIFY, reached=2), "too slow")
    assert (changes["kind"], changes["reached"], changes["ends_as"]) == (ResizeKind.SHRINK, 1, ResizePhase.ABORTED)
    assert (changes["sets"][0].before, changes["sets"][0].target) == (QueueCounts(4, 4), 2)
