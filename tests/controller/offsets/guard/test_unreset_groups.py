"""What runs of the guard leave until members come, over several runs at one broker."""

import pytest

from controller.offsets.guard.boundaries import EpochBoundary
from controller.offsets.guard.unreset import UnresetGroup, UnresetGroups, UnresetQueue

FORMER, LATER = UnresetQueue(100, 100), UnresetQueue(90, 80)


def a_group(name, topics, *, is_pulling=True):
    return UnresetGroup(group=name, topics=topics, is_pulling=is_pulling)


def left(*groups, new_from=None):
    boundary = EpochBoundary(old_below=0, new_from=new_from)
    return UnresetGroups(boundary=boundary, groups=groups, can_reset=False)


def test_what_an_earlier_run_has_left_is_kept_beside_what_the_next_one_leaves():
    former = left(a_group("g", {"t": {0: FORMER, 1: FORMER}, "u": {0: FORMER}}), a_group("h", {"t": {0: FORMER}}))
    later = left(a_group("g", {"t": {1: LATER}}, is_pulling=False), a_group("i", {"t": {0: LATER}}), new_from=5)
    found = later.with_former(former)
    assert found.boundary == later.boundary
    assert {each.group: each.topics for each in found.groups} == {
        "g": {"t": {0: FORMER, 1: LATER}, "u": {0: FORMER}},
        "h": {"t": {0: FORMER}},
        "i": {"t": {0: LATER}},
    }
    assert [each.is_pulling for each in found.groups] == [True, True, True]


@pytest.mark.parametrize(
    ("committed", "is_sent", "is_sent_back", "place"),
    [
        # What the new master has shown from the beginning is nobody's rewind, unless the guard has raised it.
        (0, False, False, 500),
        (0, True, False, 0),
        (0, False, True, 0),
        (300, False, False, 300),
        (700, True, True, 500),
        (None, True, True, 500),
    ],
)
def test_members_are_sent_no_further_than_somebody_has_committed_after_the_guard(
    committed, is_sent, is_sent_back, place
):
    queue = UnresetQueue(500, 0, is_sent)
    assert queue.place_after(committed, is_sent_back=is_sent_back) == place
