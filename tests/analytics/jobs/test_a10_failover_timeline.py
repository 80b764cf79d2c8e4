import pytest
from hand_tables import HOUR_US, MONDAY_US, SECOND_US, days, found, row, tables

from analytics.jobs.a10_failover_timeline import JOB

MS = 1_000


def us(moment):
    return round(moment.timestamp() * 1e6)


#: Who was master in elections before it.
WHO_LED = {"old_master": 1}


def reported(at_us, what, name, **values):
    return row(what, at_us, broker_name=name, ns_id="ctrl", source="controller", **values)


def election(at_us, name, epoch, **values):
    default = {"result": "new_master_elected", "new_master": 2, "master_epoch": epoch, **WHO_LED}
    return reported(at_us, "elected", name, **(default | values))


def refused_request(at_us, name, master):
    """An operator requests a master that the set cannot have, or has already."""
    cause = {"old_master": master, "cause": "operator"}
    return [
        reported(at_us - 2 * MS, "election_started", name, **cause),
        reported(at_us, "elected", name, result="keep_current_master", new_master=master, master_epoch=1, **cause),
    ]


def late_elections():
    """Sets that have no master until one can be elected, and sets that get none, or none that is told of."""
    s = SECOND_US
    return [
        # Detection before the epoch was known; nobody can be elected, and the set has no master until one can. Slaves
        # die before and after.
        reported(10 * s, "failure_detected", "late", broker_id=1, silent_ms=4_000, cause="timeout"),
        reported(11 * s, "failure_detected", "late", broker_id=3, silent_ms=1_000),
        reported(12 * s, "election_started", "late", cause="master_dead", **WHO_LED),
        reported(13 * s, "elected", "late", result="no_master_elected", cause="master_dead", **WHO_LED),
        reported(30 * s, "failure_detected", "late", broker_id=4, silent_ms=1_000),
        reported(40 * s, "election_started", "late", cause="no_master"),
        election(41 * s, "late", 7, old_master=None, cause="no_master"),
        reported(42 * s, "role_notified", "late", broker_id=2, result="failed"),
        reported(43 * s, "role_notified", "late", broker_id=2, result="ok"),
        # The same, and the former master comes back and asks to lead again.
        reported(10 * s, "failure_detected", "back", broker_id=1, silent_ms=4_000),
        reported(12 * s, "election_started", "back", **WHO_LED),
        reported(13 * s, "elected", "back", result="no_master_elected", **WHO_LED),
        reported(40 * s, "election_started", "back", cause="broker"),
        election(41 * s, "back", 5, old_master=None, new_master=1, cause="broker"),
        # Nobody could be elected.
        reported(10 * s, "failure_detected", "none", broker_id=1, silent_ms=2_000),
        reported(11 * s, "election_started", "none", **WHO_LED),
        reported(12 * s, "elected", "none", result="no_master_elected", **WHO_LED),
        reported(20 * s, "failure_detected", "none", broker_id=3, silent_ms=2_000),
        reported(21 * s, "elected", "none", result="no_master_elected", cause="broker"),
        # The controller was too busy to tell anything but the outcome.
        election(20 * s, "mute", 3),
    ]


def odd_elections():
    """Elections that are no failovers, those of operators, and several of one set."""
    s = SECOND_US
    return [
        # The first master of a set; a slave that died; a master that stayed.
        election(5 * s, "first", 1, old_master=None),
        reported(5 * s, "failure_detected", "slave", broker_id=9),
        reported(6 * s, "election_started", "kept"),
        election(7 * s, "kept", 4, result="keep_current_master", new_master=1),
        # Operators request what is refused, or so already: of a healthy set, and before, during and after a failover.
        *refused_request(6 * s, "healthy", 1),
        *refused_request(5 * s, "busy", 1),
        reported(10 * s, "failure_detected", "busy", broker_id=1, silent_ms=3_000),
        reported(11 * s, "election_started", "busy", cause="master_dead", **WHO_LED),
        *refused_request(12 * s - 1, "busy", 1),
        election(12 * s, "busy", 2, cause="master_dead"),
        *refused_request(60 * s, "busy", 2),
        # An operator chose another one, long after a death that had passed.
        reported(1 * s, "failure_detected", "moved", broker_id=1, silent_ms=1_000),
        reported(HOUR_US, "election_started", "moved"),
        election(HOUR_US + s, "moved", 9, cause="operator"),
        reported(HOUR_US + 2 * s, "role_notified", "moved", broker_id=2, result="ok"),
        reported(HOUR_US, "election_started", "planned", cause="switchover", **WHO_LED),
        election(HOUR_US + s, "planned", 4, cause="switchover"),
        # A master dies, and the one after it a minute later.
        reported(10 * s, "failure_detected", "double", broker_id=1, silent_ms=3_000),
        reported(10 * s, "election_started", "double"),
        election(11 * s, "double", 2),
        reported(70 * s, "failure_detected", "double", broker_id=2, silent_ms=3_000),
        reported(70 * s, "election_started", "double"),
        election(71 * s, "double", 3, old_master=2, new_master=1, broker_addr="double-1:1"),
        # As a controller writes it: when an election began is its end less its length, in whole ms.
        reported(10 * s + 500, "failure_detected", "round", broker_id=1, silent_ms=200, master_epoch=3),
        reported(10 * s - 4_500, "election_started", "round", failover_id="c/round/4", cause="master_dead", **WHO_LED),
        election(10 * s + 23_018, "round", 4, failover_id="c/round/4", cause="master_dead"),
        # To and fro within seconds.
        election(50 * s, "swift", 2, broker_addr="swift-2:1"),
        election(53 * s, "swift", 3, old_master=2, new_master=1, broker_addr="swift-1:1"),
    ]


@pytest.fixture(scope="module")
def partial(spark):
    """Sets whose failovers went wrong, or were none; one set each, and a NameServer that shows none of it."""
    ticks = [row("tick", n * 10 * SECOND_US) for n in range(9)]
    # Who is elected again was shown all the time, and registers with the epoch.
    back = row("changed", 43 * SECOND_US, broker_name="back", broker_id=0, broker_addr="back-1:1")
    controller = [*late_elections(), *odd_elections()]
    inputs = tables(spark, controller=controller, ns_tick=ticks, broker_state=[back])
    return {row["failover_id"]: row for row in found(JOB, inputs, days(1)) if row["kind"] == "failover"}


def test_only_changes_of_the_master_are_failovers(partial):
    assert sorted(partial) == [
        *("c/back/5", "c/busy/2", "c/double/2", "c/double/3", "c/late/7", "c/moved/9", "c/mute/3", "c/none/none"),
        *("c/planned/4", "c/round/4"),
        *("c/swift/2", "c/swift/3"),
    ]


def test_refused_requests_of_operators_are_no_failovers_and_no_part_of_one(partial):
    busy = partial["c/busy/2"]
    moments = [us(busy[name]) - MONDAY_US for name in ("detected", "election_started", "elected")]
    assert moments == [10 * SECOND_US, 11 * SECOND_US, 12 * SECOND_US]
    assert (busy["attempts"], busy["cause"]) == (0, "master_dead")


def test_switchover_has_no_moments_of_a_failure(partial):
    assert partial["c/planned/4"]["missing"][0] == "notified"


def test_role_notification_before_its_epoch_is_known_belongs_to_the_next_election(partial):
    late = partial["c/late/7"]
    assert [
        us(late[name]) - MONDAY_US for name in ("last_heartbeat", "detected", "election_started", "elected", "notified")
    ] == [6 * SECOND_US, 10 * SECOND_US, 12 * SECOND_US, 41 * SECOND_US, 43 * SECOND_US]
    assert (late["old_master"], late["new_master"], late["attempts"]) == (1, 2, 1)
    assert late["missing"] == ["serves", "visible", "visible on ns-1"]


def test_moments_that_nobody_recorded_are_named(partial):
    assert partial["c/mute/3"]["missing"] == [
        "last_heartbeat",
        "detected",
        "election_started",
        "notified",
        "serves",
        "visible",
        "visible on ns-1",
    ]
    assert partial["c/mute/3"]["total_s"] is None


def test_set_that_lost_its_master_has_a_row(partial):
    none = partial["c/none/none"]
    assert (none["old_master"], none["new_master"], none["attempts"]) == (1, None, 2)
    assert us(none["detected"]) - MONDAY_US == 10 * SECOND_US
    assert none["missing"] == ["elected", "notified", "serves", "visible"]


def test_election_rounded_to_before_the_failure_begins_with_it(partial):
    reported = partial["c/round/4"]
    assert us(reported["election_started"]) == us(reported["detected"]) == MONDAY_US + 10 * SECOND_US + 500
    assert reported["start_s"] == 0
    assert "election_started" not in reported["missing"]


def test_a_master_that_comes_back_to_a_set_without_one_ends_an_outage(partial):
    back = partial["c/back/5"]
    assert (back["old_master"], back["new_master"], back["attempts"]) == (1, 1, 1)
    assert back["detect_s"] == pytest.approx(4)
    assert back["elect_s"] == pytest.approx(29)
    assert (back["visible_ms"], back["missing"]) == ([2_000], ["notified", "serves"])


def test_master_moved_by_an_operator_has_no_failure_detection_phase(partial):
    moved = partial["c/moved/9"]
    assert moved["detected"] is None
    assert moved["missing"] == ["serves", "visible"]
