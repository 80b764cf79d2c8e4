from datetime import UTC, datetime

import pytest
from hand_tables import DAY_US, HOUR_US, MINUTE_US, MONDAY_US, days, found, found_by_day, in_order, row, tables

from analytics.jobs.a16_read_again import JOB

NOON = 12 * HOUR_US
BILLING = {"group": "billing", "topic": "orders", "broker_name": "broker-a"}


def of_manager(event_type, at_us, **values):
    return row(event_type, at_us, source="offset-manager", **values)


def jumped(at_us, cause, queues, messages, **values):
    sums = {"queues": queues, "removed": 0, "messages_again": messages, "messages_skipped": 0}
    return of_manager("jumped", at_us, cause=cause, **{**BILLING, **sums, **values})


def repaired(event_type, at_us, **values):
    sums = {"queues": 8, "pushed": 6, "set_back": 0, "would_change": 1, "not_proved": 1, "failed": 0}
    amounts = {"messages_spared": 5_000, "messages_again": 40, "messages_skipped": 0}
    return of_manager(event_type, at_us, **{**sums, **amounts, **values})


def locked(event_type, at_us, **values):
    return of_manager(event_type, at_us, **{**BILLING, **values})


@pytest.fixture(scope="module")
def inputs(spark):
    """A failover whose offsets are repaired, a reset that is undone, and two holders of one queue."""
    return tables(
        spark,
        offset_jump=[
            jumped(NOON, "failover", 8, 5_040),
            jumped(NOON + DAY_US, "failover", 2, 60, broker_name="broker-b"),
            jumped(NOON + MINUTE_US, "reset", 4, 900),
            jumped(NOON, "failover", 1, 7, group="audit"),
        ],
        offset_change_by_operator=[
            of_manager("reset", NOON, writer="alice", target="broker", queues=4, messages_again=900, **BILLING),
            of_manager(
                "undo", NOON + DAY_US, writer="alice", target="broker", queues=4, messages_skipped=880, **BILLING
            ),
        ],
        offset_repair=[
            repaired("repaired", NOON, **BILLING),
            repaired("run", NOON, broker_name="broker-a", duration_ms=800),
            repaired("run", NOON + DAY_US, broker_name="broker-a", duration_ms=2_400, problem="no answer to 43"),
        ],
        lock_event=[
            locked("replayed", NOON, queues=4, granted=3, held_by_another=1, duration_ms=210),
            locked("replayed", NOON + DAY_US, queues=4, granted=4, duration_ms=90),
            locked("overlap_began", NOON, queue_id=3),
            locked("overlap_ended", NOON + MINUTE_US, queue_id=3, duration_ms=60_000, reason="expired"),
            locked("of_a_later_release", NOON, queues=99),
        ],
    )


@pytest.fixture(scope="module")
def results(inputs):
    return found(JOB, inputs, days(2))


def of_kind(rows, kind):
    return [found for found in rows if found["kind"] == kind]


def utc(at_us):
    return datetime.fromtimestamp((MONDAY_US + at_us) / 1e6, UTC)


def test_group_shows_how_much_jumped_by_cause(results):
    rows = {(row["group"], row["cause"]): row for row in of_kind(results, "group")}
    billing = rows["billing", "failover"]
    assert (billing["events"], billing["queues"], billing["messages_again"]) == (2, 10, 5_100)
    assert (billing["sets"], billing["is_wanted"]) == (["broker-a", "broker-b"], False)
    assert [billing[name].astimezone(UTC) for name in ("first", "last")] == [utc(NOON), utc(NOON + DAY_US)]
    assert rows["audit", "failover"]["messages_again"] == 7
    assert rows["billing", "reset"]["is_wanted"]


def test_changes_of_operators_are_counted_by_what_and_who(results):
    rows = {row["operation"]: row for row in of_kind(results, "change")}
    assert (rows["reset"]["writer"], rows["reset"]["target"]) == ("alice", "broker")
    assert (rows["reset"]["messages_again"], rows["reset"]["messages_skipped"]) == (900, 0)
    assert (rows["undo"]["messages_again"], rows["undo"]["messages_skipped"]) == (0, 880)


def test_repairs_show_what_they_spared_and_what_waits_for_an_operator(results):
    (run,) = of_kind(results, "run")
    assert (run["broker_name"], run["events"], run["problems"], run["longest_ms"]) == ("broker-a", 2, 1, 2_400)
    assert (run["pushed"], run["would_change"], run["messages_spared"]) == (12, 2, 10_000)
    (group,) = of_kind(results, "repaired")
    assert (group["group"], group["pushed"], group["messages_again"]) == ("billing", 6, 40)


def test_locks_show_replays_and_two_holders_of_one_queue(results):
    (locks,) = of_kind(results, "locks")
    assert (locks["replays"], locks["queues"], locks["granted"], locks["held_by_another"]) == (2, 8, 7, 1)
    assert (locks["overlaps"], locks["overlap_longest_ms"], locks["longest_ms"]) == (1, 60_000, 210)
    assert locks["events"] == 4


def test_days_add_up_to_the_whole(inputs, results):
    assert in_order(found_by_day(JOB, inputs, days(2))) == in_order(results)
