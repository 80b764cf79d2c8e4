"""Where a reset takes a group in each queue, and how each broker is told."""

import time

import pytest

from rmq.cli.moments import unix_ms_of
from rmq.commands.group_reset import (
    QueueFacts,
    ResetTarget,
    ResetWay,
    TargetKind,
    WantedReset,
    moment_of,
    planned_row,
    target_of,
    way_at,
)
from rmq.failures import WrongUse

EARLIEST = ResetTarget(TargetKind.EARLIEST)


def row(target, **facts):
    known = {"queue_id": 0, "old": 40, "min_offset": 10, "max_offset": 100} | facts
    return planned_row("broker-a", QueueFacts(**known), target, ResetWay.RESET)


@pytest.mark.parametrize(
    ("target", "facts", "new", "again", "skipped"),
    [
        (EARLIEST, {}, 10, 30, 0),
        (ResetTarget(TargetKind.LATEST), {}, 100, 0, 60),
        (ResetTarget(TargetKind.OFFSET, 40), {}, 40, 0, 0),
        (ResetTarget(TargetKind.TIME, 5), {"at_time": 70}, 70, 0, 30),
        # A broker may answer an offset that is not there any more, or 0 for none.
        (ResetTarget(TargetKind.TIME, 5), {"at_time": 0}, 10, 30, 0),
        (ResetTarget(TargetKind.TIME, 5), {"at_time": 99, "last_stored_unix_ms": 4}, 100, 0, 60),
        # What expired is not read again, and what is beyond the end is no message.
        (EARLIEST, {"old": 4}, 10, 0, 0),
        (EARLIEST, {"old": 120}, 10, 90, 0),
        (EARLIEST, {"old": None}, 10, None, None),
    ],
)
def test_new_offset_and_what_it_costs(target, facts, new, again, skipped):
    found = row(target, **facts)

    assert (found.new, found.messages_again, found.messages_skipped) == (new, again, skipped)


@pytest.mark.parametrize("offset", [9, 101])
def test_offset_that_a_queue_does_not_have_is_refused(offset):
    with pytest.raises(WrongUse, match="has offsets from 10 to 100"):
        row(ResetTarget(TargetKind.OFFSET, offset))


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("earliest", EARLIEST),
        ("17", ResetTarget(TargetKind.OFFSET, 17)),
        ("2023-11-14T22:13:20Z", ResetTarget(TargetKind.TIME, 1_700_000_000_000)),
        ("2023-11-14T23:13:20.5+01:00", ResetTarget(TargetKind.TIME, 1_700_000_000_500)),
        ("2023-11-14 22:13:20", ResetTarget(TargetKind.TIME, 1_700_000_000_000)),
    ],
)
def test_targets_are_ends_offsets_and_times(text, target):
    assert target_of(text) == target


@pytest.mark.parametrize("text", ["", "-1", "1.5", "2023-11-14T25:00:00Z", "1969-12-31T00:00:00Z", "٣"])
def test_other_targets_are_named(text):
    with pytest.raises(WrongUse, match="is not earliest, latest"):
        target_of(text)


def test_mqadmins_form_of_a_time_is_of_this_machines_zone(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        assert unix_ms_of("2023-11-15#06:13:20:250", "--to") == 1_700_000_000_250
        assert unix_ms_of("2023-11-15#06:13:20", "--to") == 1_700_000_000_000
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("on_server", "online", "way"),
    [(True, True, ResetWay.RESET), (True, False, ResetWay.RESET), (False, False, ResetWay.COMMIT)],
)
def test_way_depends_on_the_broker_and_on_members(on_server, online, way):
    wanted = WantedReset("g", "t", ResetTarget(TargetKind.OFFSET, 3), None)

    assert way_at("b", wanted, resets_on_server=on_server, is_online=online) is way


def test_old_brokers_send_members_to_moments_alone():
    whole = WantedReset("g", "t", EARLIEST, None)
    assert way_at("b", whole, resets_on_server=False, is_online=True) is ResetWay.MEMBERS
    for wanted in (whole._replace(queue_id=1), whole._replace(target=ResetTarget(TargetKind.OFFSET, 3))):
        with pytest.raises(WrongUse, match="stop them"):
            way_at("b", wanted, resets_on_server=False, is_online=True)


def test_ends_are_the_moments_that_java_takes_for_them():
    assert moment_of(EARLIEST) == 0
    assert moment_of(ResetTarget(TargetKind.LATEST)) == -1
    assert moment_of(ResetTarget(TargetKind.TIME, 5)) == 5
