import pytest
from hand_tables import (
    DAY_US,
    HOUR_US,
    MINUTE_US,
    MONDAY_US,
    SECOND_US,
    days,
    found,
    found_by_day,
    in_order,
    row,
    tables,
)
from synthetic.frames import frames
from synthetic.generator import generate
from synthetic.plan import Broker, BrokerKey, Downtime, End, Outage, Plan, Plant, Server
from synthetic.plants import failover, new_master_seen

from analytics.jobs.a10_failover_timeline import JOB
from analytics.shared.job import Span
from history.server_rows import STATES_MISSING

MS = 1_000
#: How long after the election the new master registers, and how wrong the clocks of these NameServers are.
DELAYS_US = {"ns-0": 300 * MS, "ns-1": 20 * MS, "ns-2": 2_500 * MS, "ns-3": 20 * MS}
SKEWS_US = {"ns-1": 200 * MS, "ns-3": -200 * MS}
SEEN_MS = {"ns-3": -180, "ns-1": 220, "ns-0": 300, "ns-2": 2_500}
#: A master that dies so long before midnight is followed by one that is elected just after it.
BEFORE_MIDNIGHT_US = 3_411 * MS


def of_kind(rows, kind):
    return [row for row in rows if row["kind"] == kind]


def us(moment):
    return round(moment.timestamp() * 1e6)


@pytest.fixture(scope="module")
def planted():
    """Two masters die, the second one twice, once across midnight; one NameServer never shows one new master.

    Another one dies minutes before all of it, and has nothing to do with it.
    """
    brokers = [Broker(key=BrokerKey(name, number)) for name in ("broker-a", "broker-b") for number in (0, 1)]
    start_us, end_us = MONDAY_US + 23 * HOUR_US, MONDAY_US + 25 * HOUR_US
    plan = Plan(
        start_us=start_us,
        end_us=end_us,
        servers=(
            *(Server(name=name, skew_us=SKEWS_US.get(name, 0)) for name in DELAYS_US),
            Server(name="ns-dead", downtimes=(Downtime(start_us + 5 * MINUTE_US, end_us, clean=False),)),
            Server(name="ctrl", source="controller"),
        ),
        brokers=tuple(brokers),
    )
    deaths = [
        ("broker-a", 10 * MINUTE_US, 2),
        ("broker-b", 20 * MINUTE_US, 5),
        ("broker-b", 60 * MINUTE_US - BEFORE_MIDNIGHT_US, 6),
    ]
    plants = []
    for name, after_us, epoch in deaths:
        died = failover(name, plan.start_us + after_us, controller="ctrl", epoch=epoch)
        delays = {server: us for server, us in DELAYS_US.items() if (epoch, server) != (5, "ns-1")}
        plants += [died, new_master_seen(died.truth["failovers"][0], delays)]
    outage = Outage(BrokerKey("broker-a", 0), plan.start_us + 10 * MINUTE_US, None, End.SILENT)
    return plan.with_plants(*plants, Plant(outages=(outage,)))


@pytest.fixture(scope="module")
def history(planted):
    return generate(planted)


@pytest.fixture(scope="module")
def timelines(spark, history, planted):
    return found(JOB, frames(spark, history.rows), Span(MONDAY_US, MONDAY_US + 2 * DAY_US))


def test_moments_are_those_that_were_planted(history, timelines):
    rows = {row["failover_id"]: row for row in of_kind(timelines, "failover")}
    assert set(rows) == {truth.failover_id for truth in history.truth.planted["failovers"]}
    for truth in history.truth.planted["failovers"]:
        reported = rows[truth.failover_id]
        assert us(reported["last_heartbeat"]) == truth.died_us
        assert us(reported["detected"]) == truth.detected_us
        assert us(reported["election_started"]) == truth.started_us
        assert us(reported["elected"]) == truth.elected_us
        assert us(reported["notified"]) == truth.notified_us
        assert us(reported["serves"]) == truth.serves_us
        assert reported["serve_s"] == pytest.approx((truth.serves_us - truth.elected_us) / 1e6)


def test_each_namesrv_shows_the_new_master_when_it_registered_there(timelines):
    reported = next(row for row in of_kind(timelines, "failover") if row["failover_id"].endswith("broker-a/2"))
    assert list(zip(reported["namesrvs"], reported["visible_ms"], strict=True)) == list(SEEN_MS.items())
    assert reported["slowest_namesrv"] == "ns-2"
    assert reported["register_s"] == pytest.approx(-0.18)
    assert reported["spread_s"] == pytest.approx(2.68)
    assert reported["total_s"] == pytest.approx((us(reported["visible_last"]) - us(reported["last_heartbeat"])) / 1e6)
    assert reported["missing"] == []


def test_a_namesrv_that_never_shows_the_new_master_is_named(timelines):
    reported = next(row for row in of_kind(timelines, "failover") if row["failover_id"].endswith("broker-b/5"))
    assert reported["missing"] == ["visible on ns-1"]


def test_phases_are_summed_up_by_cluster(timelines):
    phases = {row["phase"]: row for row in of_kind(timelines, "phase")}
    assert phases["register"]["n"] == 3
    assert phases["register"]["p50_s"] == pytest.approx(-0.18)
    assert phases["detect"]["max_s"] >= phases["detect"]["p95_s"] >= phases["detect"]["p50_s"] >= 3.3


def test_a_failover_across_midnight_is_whole_when_its_days_are_put_together(spark, history, timelines):
    daily = found_by_day(JOB, frames(spark, history.rows), Span(MONDAY_US, MONDAY_US + 2 * DAY_US))
    assert in_order(daily) == in_order(timelines)
    # The one that was elected after midnight had registered before it, by a clock that is behind.
    reported = next(row for row in timelines if (row["failover_id"] or "").endswith("broker-b/6"))
    midnight_us = MONDAY_US + DAY_US
    assert (
        us(reported["visible_first"]) < midnight_us < us(reported["elected"]) < us(reported["visible_first"]) + 200 * MS
    )
    assert reported["missing"] == []


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
        reported(10 * s + 9, "election_started", "round", failover_id="c/round/4", cause="master_dead", **WHO_LED),
        election(10 * s + 23_018, "round", 4, failover_id="c/round/4", cause="master_dead"),
        # To and fro within seconds.
        election(50 * s, "swift", 2, broker_addr="swift-2:1"),
        election(53 * s, "swift", 3, old_master=2, new_master=1, broker_addr="swift-1:1"),
    ]


def odd_elections_of_clusters():
    """Elections that not all NameServers of a cluster show."""
    s = SECOND_US
    return [
        # Of the NameServers of a cluster one is down then, and one cannot record; all are down; one is down, and the
        # other one cannot record; the only one does not hear of it, and is started again.
        election(10 * s, "away", 2, cluster="some", broker_addr="away-2:1"),
        election(10 * s, "dark", 2, cluster="all", broker_addr="dark-2:1"),
        election(10 * s, "hush", 2, cluster="unknown", broker_addr="hush-2:1"),
        election(10 * s, "deaf", 2, cluster="few", broker_addr="deaf-2:1"),
    ]


def states_of_former_masters():
    """Brokers as NameServers show them while masters change again and again."""
    s = SECOND_US
    return [
        row("address_changed", 20 * s, broker_name="double", broker_id=0, broker_addr="double-2:1"),
        # The former master comes back and still believes to be it.
        row("changed", 72 * s, broker_name="double", broker_id=0, broker_addr="double-2:1"),
        row("role_changed", 75 * s, broker_name="double", broker_id=0, broker_addr="double-1:1"),
        row("registered_first", 76 * s, broker_name="double", broker_id=1, broker_addr="double-2:1"),
        *(
            row("address_changed", at_us, broker_name="swift", broker_id=0, broker_addr=f"swift-{number}:1")
            for at_us, number in ((49 * s, 1), (51 * s, 2), (54 * s, 1))
        ),
        # Who is elected again was shown all the time, and registers with the epoch.
        row("changed", 43 * s, broker_name="back", broker_id=0, broker_addr="back-1:1"),
    ]


def process(ns_id, began_us):
    """Whose rows they are; the machine is up for a day, whoever was started on it when."""
    boot_id = f"{ns_id}-{(MONDAY_US + began_us) // MS}"
    return {"ns_id": ns_id, "boot_id": boot_id, "mono_us": DAY_US}


def shown(what, at_us, cluster, name, who):
    return row(what, at_us, cluster=cluster, broker_name=name, broker_id=0, broker_addr=f"{name}-2:1", **who)


def mute(who, until_us):
    reason = {"reason": STATES_MISSING, "unobserved_from": MONDAY_US + 5 * SECOND_US}
    return row("recording_resumed", until_us, cluster=None, **who, **reason)


def namesrvs_away():
    """NameServers that are down, or cannot record, while masters of their clusters change: states, ticks, lifecycle."""
    s = SECOND_US
    there, unheard, silent, hushed = (process(f"ns-{name}", -HOUR_US) for name in ("there", "deaf", "mute", "hushed"))
    late, dark, darker, later = (process(f"ns-{name}", 60 * s) for name in ("late", "dark", "darker", "later"))
    states = [
        shown("role_changed", 12 * s, "some", "away", there),
        shown("registered_first", 75 * s, "some", "away", late),
        shown("changed", 300 * s, "some", "away", silent),
        shown("registered_first", 80 * s, "all", "dark", darker),
        shown("registered_first", 75 * s, "all", "dark", dark),
        shown("registered_first", 75 * s, "unknown", "hush", later),
        shown("registered_first", -HOUR_US, "unknown", "hush", hushed),
        shown("registered_first", -HOUR_US, "few", "deaf", unheard),
        shown("registered_first", 75 * s, "few", "deaf", process("ns-deaf", 60 * s)),
    ]
    ticks = [
        *(row("tick", at_us, **there) for at_us in (5 * s, 15 * s)),
        # The process before was there, too.
        row("tick", 5 * s, **process("ns-late", -HOUR_US)),
        row("tick", 15 * s, **unheard),
        *(row("tick", 70 * s, **each) for each in (late, dark, darker, later)),
    ]
    lifecycle = [mute(silent, 200 * s), mute(hushed, 30 * s)]
    return states, ticks, lifecycle


@pytest.fixture(scope="module")
def partial(spark):
    """Sets whose failovers went wrong, or were none; one set each."""
    states, ticks, lifecycle = namesrvs_away()
    states = [*states_of_former_masters(), *states]
    # NameServers of another cluster.
    states.append(row("registered_first", 0, cluster="other", broker_name="far", broker_id=0, ns_id="ns-far"))
    ticks += [row("tick", n * 10 * SECOND_US, ns_id=name) for n in range(9) for name in ("ns-1", "ns-far")]
    controller = [*late_elections(), *odd_elections(), *odd_elections_of_clusters()]
    inputs = tables(spark, controller=controller, broker_state=states, ns_tick=ticks, ns_lifecycle=lifecycle)
    return {row["failover_id"]: row for row in found(JOB, inputs, days(1)) if row["kind"] == "failover"}


def test_only_changes_of_the_master_are_failovers(partial):
    assert sorted(partial) == [
        "all/dark/2",
        *("c/back/5", "c/busy/2", "c/double/2", "c/double/3", "c/late/7", "c/moved/9", "c/mute/3", "c/none/none"),
        *("c/planned/4", "c/round/4"),
        *("c/swift/2", "c/swift/3", "few/deaf/2", "some/away/2", "unknown/hush/2"),
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
    ] == [
        6 * SECOND_US,
        10 * SECOND_US,
        12 * SECOND_US,
        41 * SECOND_US,
        43 * SECOND_US,
    ]
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


def test_two_failovers_of_one_set_keep_apart(partial):
    first, second = partial["c/double/2"], partial["c/double/3"]
    assert first["visible_ms"] == [9_000]
    assert second["visible_ms"] == [4_000]
    assert us(second["last_heartbeat"]) - MONDAY_US == 67 * SECOND_US
    assert partial["c/swift/2"]["visible_ms"] == partial["c/swift/3"]["visible_ms"] == [1_000]
    assert first["detect_s"] == second["detect_s"] == pytest.approx(3)


def test_a_namesrv_that_was_down_or_could_not_record_makes_no_failover_longer(partial):
    away = partial["some/away/2"]
    assert (away["namesrvs"], away["visible_ms"], away["slowest_namesrv"]) == (["ns-there"], [2_000], "ns-there")
    assert away["spread_s"] == 0


def test_a_namesrv_that_could_not_record_is_named_and_one_that_was_down_is_not(partial):
    assert partial["some/away/2"]["missing"][-1] == "visible on ns-mute"
    assert "visible on ns-late" not in partial["some/away/2"]["missing"]


def test_a_failover_without_a_namesrv_ends_when_the_first_is_back_and_shows_the_new_master(partial):
    dark = partial["all/dark/2"]
    assert (dark["namesrvs"], dark["visible_ms"]) == (["ns-dark"], [65_000])
    assert dark["missing"] == ["last_heartbeat", "detected", "election_started", "notified", "serves"]


def test_nobody_knows_when_it_ended_where_one_could_not_record_and_the_others_were_down(partial):
    hush = partial["unknown/hush/2"]
    assert (hush["namesrvs"], hush["visible_last"]) == ([], None)
    assert hush["missing"][-2:] == ["visible", "visible on ns-hushed"]


def test_a_namesrv_that_shows_it_only_after_a_restart_ends_a_failover_that_no_other_one_shows(partial):
    deaf = partial["few/deaf/2"]
    assert (deaf["namesrvs"], deaf["visible_ms"]) == (["ns-deaf"], [65_000])
    assert "visible on ns-deaf" not in deaf["missing"]


#: Sets with role addresses.
ADDRESSED = ("quick", "slow", "unseen", "fresh", "gone", "restarted", "unchecked", "local", "moved")


def elections_of_the_addressed():
    """Elections of all sets with role addresses, at the tenth second."""
    s, controller = SECOND_US, []
    for name in ADDRESSED:
        who = {
            "broker_name": name,
            "ns_id": "ctrl",
            "source": "controller",
            "new_master": 2,
            "broker_addr": f"{name}-2:1",
        }
        elected = {"result": "new_master_elected", "old_master": 1, "master_epoch": 2, "cause": "operator"}
        controller += [
            row("elected", 10 * s, **who, **elected),
            row("master_serves", 10 * s + 400 * MS, **who, failover_id=f"c/{name}/2"),
        ]
    # The master registers another address later, in the same epoch.
    other = {"broker_name": "quick", "ns_id": "ctrl", "source": "controller", "failover_id": "c/quick/2"}
    controller.insert(0, row("master_serves", 9 * s, **other, new_master=2, broker_addr="quick-9:1"))
    return controller


@pytest.fixture(scope="module")
def addressed(spark):
    """Sets with role addresses whose masters are deposed, all of them at the tenth second; one set each."""
    s = SECOND_US
    addresses = []

    def address(what, at_us, name, **values):
        default = {
            "broker_id": 0,
            "is_checked": True,
            "role_address": f"{name}:1",
            "boot_id": f"ns-1-{MONDAY_US // MS}",
        }
        addresses.append(row(what, at_us, broker_name=name, **(default | values)))

    def led(at_us, name, **values):
        address("leads", at_us, name, **({"former_addr": f"{name}-1:1", "broker_addr": f"{name}-2:1"} | values))

    for name in ADDRESSED:
        address("given", 2 * s, name)
    # One address of two is led later, and another NameServer sees the first one sooner.
    address("given", 2 * s, "slow", role_address="slow:3")
    led(10 * s + 700 * MS, "quick")
    led(12 * s, "slow")
    led(11 * s, "slow", ns_id="ns-2")
    led(14 * s, "slow", role_address="slow:3")
    # A process that did not know the master before; a rule that was gone before the election; a process that began
    # after it.
    led(20 * s, "fresh", former_addr=None)
    address("withdrawn", 9 * s, "gone")
    led(11 * s, "gone")
    led(11 * s, "restarted", boot_id=f"ns-1-{MONDAY_US // MS + 10_500}")
    # Nobody connects to it; it led back to the former master.
    address("given", 3 * s, "unchecked", is_checked=False)
    # To one of two somebody connects.
    address("given", 3 * s, "local", role_address="127.0.0.1:10911", is_checked=False)
    led(11 * s, "local")
    led(11 * s, "moved", broker_addr="moved-1:1", former_addr="moved-2:1")
    ticks = [row("tick", n * 10 * s, boot_id=f"ns-1-{MONDAY_US // MS}") for n in range(9)]
    states = [
        row("role_changed", 11 * s, broker_name=name, broker_id=0, broker_addr=f"{name}-2:1") for name in ADDRESSED
    ]
    inputs = tables(
        spark, controller=elections_of_the_addressed(), role_address=addresses, ns_tick=ticks, broker_state=states
    )
    return {row["broker_name"]: row for row in found(JOB, inputs, days(1)) if row["kind"] == "failover"}


def test_failover_of_clients_with_a_role_address_ends_when_it_leads_to_the_new_master(addressed):
    quick = addressed["quick"]
    assert (quick["role_addresses"], quick["role_address_ms"]) == (["quick:1"], [700])
    assert (quick["serve_s"], quick["lead_s"]) == (pytest.approx(0.4), pytest.approx(0.3))
    assert "serves" not in quick["missing"]
    assert us(quick["address_leads"]) == MONDAY_US + 10 * SECOND_US + 700 * MS


def test_the_last_of_several_role_addresses_ends_it_each_as_the_first_namesrv_saw_it(addressed):
    slow = addressed["slow"]
    assert (slow["role_addresses"], slow["role_address_ms"]) == (["slow:1", "slow:3"], [1_000, 4_000])
    assert slow["lead_s"] == pytest.approx(3.6)


@pytest.mark.parametrize("name", ["unseen", "restarted", "unchecked", "moved"])
def test_a_role_address_that_nobody_saw_lead_to_the_new_master_is_missing(addressed, name):
    assert addressed[name]["address_leads"] is None
    assert addressed[name]["role_addresses"] == []
    assert addressed[name]["missing"][-1] == f"role address {name}:1"


def test_an_address_to_which_nobody_connects_hides_no_other_one_and_is_named(addressed):
    local = addressed["local"]
    assert us(local["address_leads"]) == MONDAY_US + 11 * SECOND_US
    assert local["role_addresses"] == ["local:1"]
    assert local["missing"][-1] == "role address 127.0.0.1:10911"


def test_a_first_check_of_a_process_ends_no_failover(addressed):
    assert addressed["fresh"]["address_leads"] is None
    assert addressed["fresh"]["missing"][-1] == "role address fresh:1"


def test_an_address_that_clients_did_not_get_at_the_election_is_not_expected(addressed):
    assert addressed["gone"]["role_addresses"] == []
    assert addressed["gone"]["missing"] == ["election_started", "notified"]
