"""Which offsets jumped between two readings, and why."""

import msgspec
import pytest
from reading_builders import a_reading

from history.rows import Moment, RowMaker
from offsets.readings.jumps import (
    AGAIN,
    JUMPED,
    QUEUES_MAX,
    READ_PER_S_MAX,
    SKIPPED,
    OffsetsMovedBack,
    OffsetsWereSet,
    jumps_between,
    told,
)
from offsets.readings.table import Change
from serving.shapes.offsets import Jump, JumpCause

SECOND = 5


def jumps(change, *, key=b"orders@g", after=None, before=None):
    """Return what jumped between two readings of the same master, 5 s apart."""
    first = a_reading(**before or {})
    second = a_reading(
        **{"ended_unix_ms": first.ended_unix_ms + 1000 * SECOND, "first_end": 300, "second_end": 300} | (after or {})
    )
    return jumps_between(first, second, {key: Change(*change)})


def queues_of(found):
    return [
        tuple(queue)
        for jump in found
        for queue in (jump.queues[0], *jump.queues[1:])
        for queue in [(queue.queue_id, queue.before, queue.after)]
    ]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        # As groups read.
        ((b"0:5", b"0:9"), []),
        ((b"0:5", b"0:5,1:7"), []),
        ((None, b"0:5"), []),
        # Back, gone, and too far.
        ((b"0:5,1:7", b"0:4,1:8"), [(0, 5, 4)]),
        ((b"0:5,1:7", b"1:7"), [(0, 5, None)]),
        ((b"0:5,1:7", None), [(0, 5, None), (1, 7, None)]),
        ((b"0:5", b"0:%d" % (5 + SECOND * READ_PER_S_MAX)), []),
        ((b"0:5", b"0:%d" % (6 + SECOND * READ_PER_S_MAX)), [(0, 5, 6 + SECOND * READ_PER_S_MAX)]),
    ],
)
def test_jumps_go_back_or_further_than_a_group_can_read(change, expected):
    assert queues_of(jumps(change)) == expected


@pytest.mark.parametrize("key", [b"orders@g@broadcast", b"%LMQ%a@g"])
def test_offsets_that_are_never_written_do_not_jump(key):
    assert jumps((b"0:5", b"0:4"), key=key) == []


@pytest.mark.parametrize(
    ("change", "after", "cause"),
    [
        ((b"0:5", b"0:4"), {}, JumpCause.RESET),
        ((b"0:5", None), {}, JumpCause.DELETED),
        ((b"0:5,1:5", b"0:4"), {}, JumpCause.RESET),
        ((b"0:5", b"0:4"), {"master": "10.0.0.2:1"}, JumpCause.FAILOVER),
        ((b"0:5", None), {"master": "10.0.0.2:1"}, JumpCause.FAILOVER),
        ((b"0:5", b"0:4"), {"master_epoch": 6, "boot_unix_ms": 2}, JumpCause.FAILOVER),
        # The same process was elected again: it has what it had.
        ((b"0:5", b"0:4"), {"master_epoch": 6}, JumpCause.RESET),
        ((b"0:5", b"0:4"), {"boot_unix_ms": 2}, JumpCause.RESTART),
        ((b"0:5", b"0:4"), {"boot_unix_ms": 2, "first_end": 199}, JumpCause.LOST),
        ((b"0:5", b"0:4"), {"master": "10.0.0.2:1", "first_end": 199}, JumpCause.LOST),
    ],
)
def test_cause_is_what_the_two_readings_show(change, after, cause):
    (found,) = jumps(change, after=after)
    assert found.cause is cause


def test_a_jump_says_what_is_read_again_and_what_never():
    (found,) = jumps((b"0:50,1:7,2:9", b"0:20,1:9000000"), after={"master_epoch": 6, "boot_unix_ms": 2})

    assert (found.messages_again, found.messages_skipped, found.removed, found.queue_count) == (30, 8_999_993, 1, 3)
    assert (found.master_epoch, found.interval_ms, found.group, found.topic) == (6, 5000, "g", "orders")
    assert msgspec.json.decode(msgspec.json.encode(found), type=Jump) == found


def test_a_jump_of_many_queues_names_the_first_ones():
    many = b",".join(b"%d:5" % queue for queue in range(QUEUES_MAX + 9))
    (found,) = jumps((many, many.replace(b":5", b":4")))
    assert (found.queue_count, len(found.queues)) == (QUEUES_MAX + 9, QUEUES_MAX)


def test_one_line_is_logged_for_each_cause_with_the_group_that_lost_most():
    back = [
        *jumps((b"0:50", b"0:20")),
        *jumps((b"0:9", b"0:8"), key=b"bills@h"),
        *jumps((b"0:9", None), key=b"bills@h"),
    ]
    moved = jumps((b"0:9", b"0:8"), after={"boot_unix_ms": 2})
    lines = [*told([*back, *moved])]

    assert [type(line) for line in lines] == [OffsetsMovedBack, OffsetsWereSet, OffsetsWereSet]
    names = ("cause", "groups", "queues", "messages_again", "group", "topic")
    assert [lines[1].line()[name] for name in names] == ["reset", 2, 2, 31, "g", "orders"]


def test_jumps_are_counted_and_recorded():
    found = (*jumps((b"0:50,1:9", b"0:20")), *jumps((b"0:5", b"0:9000000"), key=b"bills@h"))
    (event,) = told(found)
    sums = {}
    for counter, labels, amount in event.counted():
        sums[counter.name, labels] = sums.get((counter.name, labels), 0) + amount

    assert sums[JUMPED.name, ("reset",)] == 3
    assert (sums[AGAIN.name, ("reset",)], sums[SKIPPED.name, ("reset",)]) == (30, 8_999_995)
    back, forward = [
        row for jump in event.rows() for row in jump.rows(RowMaker("m", 1, "offset-manager"), Moment(1, 1))
    ]
    assert {"group": "g", "queues": 2, "removed": 1, "messages_again": 30}.items() <= back.columns.items()
    assert {"messages_again": 0, "messages_skipped": 8_999_995}.items() <= forward.columns.items()
