"""Sets of several members: who takes another's place, who leaves with others, who is turned away. A1, A3, A6 from rows.

One history is told once, and all three analyses are measured by it.
"""

import math

import pytest
from synthetic.frames import frames
from synthetic.generator import generate
from synthetic.plan import (
    HOUR,
    MINUTE,
    MONDAY,
    SECOND,
    Broker,
    BrokerKey,
    Cut,
    End,
    Move,
    Outage,
    Pause,
    Plan,
    PlannedEvent,
    Plant,
    Server,
    three_servers,
)
from synthetic.plants import flaps

from analytics.jobs import a01_availability, a03_flapping, a06_divergence
from analytics.shared.job import Span
from analytics.spark.schemas import struct_of
from history.server_rows import HEARTBEATS_MISSING

SPAN = Span(MONDAY + 10 * MINUTE, MONDAY + 6 * HOUR)
PERIOD_S = 30
SLACK_S = 1


def at(minutes):
    return MONDAY + minutes * MINUTE


#: Both members of a set are silent at once.
RACK = BrokerKey("rack", 0), BrokerKey("rack", 1)
RACK_DOWN = at(60), at(90)

#: The master crashes, its slave becomes the master, and the old one comes back, is turned away, and becomes a slave.
MASTER, PROMOTED, DEMOTED = (BrokerKey("failover", broker_id) for broker_id in (0, 2, 1))
DIED_US, ELECTED_US, REFUSED_US, BACK_US = at(120), at(120) + 20 * SECOND, at(124), at(125)

#: A slave stops in order, and becomes the master as it comes back.
ALONE, RESTARTED = (BrokerKey("restart", broker_id) for broker_id in (0, 2))
STOPPED_US, CRASHED_US, TOOK_OVER_US = at(180), at(181), at(182)

#: A broker that is told its broker id only after ten minutes.
WAITING, REGISTERED = (BrokerKey("waiting", broker_id) for broker_id in (-1, 1))

STEADY = BrokerKey("steady")
CUT = Cut(STEADY, "ns-1", at(200), at(220))

FLAPS = flaps(BrokerKey("flapping"), at(230), every_us=10 * MINUTE, count=8)
(FLAPPER,) = FLAPS.truth["flaps"]

#: A member leaves while its only NameServer cannot record.
KEPT, LOST = (BrokerKey("blind", broker_id) for broker_id in range(2))
PAUSE = Pause(at(100), at(110))
LEFT_US, CAME_BACK_US = at(105), at(160)


def is_turned_away(server):
    """The old master claims the broker id that another holds with a newer state."""
    who = {"cluster": "DefaultCluster", "broker_name": "failover", "broker_id": 0, "broker_addr": "failover-0:10911"}
    return PlannedEvent(REFUSED_US, server.name, "broker_state", "conflict", who)


def loses_heartbeats(server):
    values = {"reason": HEARTBEATS_MISSING, "unobserved_from": at(300)}
    return PlannedEvent(at(310), server.name, "ns_lifecycle", "recording_resumed", values)


def a_plan():
    servers = three_servers()
    # What beats together is given up at one look.
    starts = {**dict.fromkeys(RACK, MONDAY + SECOND), DEMOTED: BACK_US, WAITING: at(240), REGISTERED: at(250)}
    keys = [*RACK, MASTER, PROMOTED, DEMOTED, ALONE, RESTARTED, WAITING, REGISTERED, STEADY, FLAPPER.broker]
    return Plan(
        end_us=SPAN.end_us,
        servers=servers,
        brokers=tuple(Broker(key=key, since_us=starts.get(key), jitter_ms=0 if key in RACK else 100) for key in keys),
    ).with_plants(
        Plant(
            outages=(
                *(Outage(key, *RACK_DOWN, End.SILENT) for key in RACK),
                Outage(MASTER, DIED_US, None),
                Outage(RESTARTED, STOPPED_US, None, End.PLANNED),
                Outage(ALONE, CRASHED_US, None),
            ),
            moves=(
                Move(PROMOTED, MASTER, ELECTED_US),
                Move(RESTARTED, ALONE, TOOK_OVER_US),
                Move(WAITING, REGISTERED, at(250)),
            ),
            cuts=(CUT,),
            happenings=(*map(is_turned_away, servers), *map(loses_heartbeats, servers)),
        ),
        FLAPS,
    )


def a_plan_of_others():
    """Another group of NameServers, whose cluster has brokers of the same names."""
    servers = tuple(Server(name=f"west-{number}") for number in range(2))
    return Plan(end_us=SPAN.end_us, servers=servers, brokers=tuple(Broker(key=key, cluster="west") for key in RACK))


def a_plan_with_a_gap():
    servers = (Server(name="blind-0", pauses=(PAUSE,)),)
    members = tuple(Broker(key=key, cluster="blind") for key in (KEPT, LOST))
    outage = Outage(LOST, LEFT_US, CAME_BACK_US, End.PLANNED)
    return Plan(end_us=SPAN.end_us, servers=servers, brokers=members).with_plants(Plant(outages=(outage,)))


@pytest.fixture(scope="module")
def rows():
    histories = [generate(plan).rows for plan in (a_plan(), a_plan_of_others(), a_plan_with_a_gap())]
    return {name: [row for each in histories for row in each[name]] for name in histories[0]}


@pytest.fixture(scope="module")
def parts(spark, rows):
    """Those of divergence, which has all that the others have."""
    return a06_divergence.JOB.parts(frames(spark, rows), SPAN).toArrow()


def results(spark, parts, job, columns):
    stored = spark.createDataFrame(parts.select([column.name for column in columns]), struct_of(columns))
    return [row.asDict() for row in job.result(stored, SPAN).collect()]


@pytest.fixture(scope="module")
def lives(spark, parts):
    found = results(spark, parts, a01_availability.JOB, a01_availability.JOB.part_columns)
    return {(row["cluster"], BrokerKey(row["broker_name"], row["broker_id"])): row for row in found}


@pytest.fixture(scope="module")
def of_brokers(lives):
    return {key: row for (cluster, key), row in lives.items() if cluster == "DefaultCluster"}


def rows_of(rows, event_type, broker_name, server="ns-0"):
    return [
        row
        for row in rows["broker_state"]
        if (row["event_type"], row.get("broker_name"), row["ns_id"]) == (event_type, broker_name, server)
    ]


def test_members_that_fail_together_are_each_down_since_their_own_last_heartbeat(rows, of_brokers):
    # One row tells how the set stands without both of them.
    assert [row.get("set_ids") for row in rows_of(rows, "expired", "rack")] == [[], None]
    for key in RACK:
        row = of_brokers[key]
        assert row["failures"] == 1
        assert 1800 - SLACK_S <= row["unplanned_s"] <= 1800 + PERIOD_S + SLACK_S


def test_a_slave_that_becomes_the_master_has_not_failed(rows, of_brokers):
    (took_over,) = (row for row in rows["broker_state"] if is_election(row))
    assert took_over["set_ids"] == [0]
    row = of_brokers[PROMOTED]
    assert (row["failures"], row["unplanned_s"], row["planned_s"], row["availability"]) == (0, 0, 0, 1)
    assert row["observed_s"] == pytest.approx((ELECTED_US - SPAN.start_us) / SECOND, abs=SLACK_S)


def is_election(row):
    same = row["event_type"] == "role_changed" and row["broker_name"] == "failover"
    return same and row["ns_id"] == "ns-0"


def test_a_master_is_down_until_another_takes_its_place(of_brokers):
    row = of_brokers[MASTER]
    assert row["failures"] == 1
    assert row["unplanned_s"] == pytest.approx((ELECTED_US - DIED_US) / SECOND, abs=0.1)


def test_who_is_turned_away_does_not_put_the_holder_of_its_broker_id_down(rows, of_brokers):
    assert len(rows_of(rows, "conflict", "failover")) == 1
    # It would be down until the next change of the set.
    assert of_brokers[MASTER]["unplanned_s"] < (BACK_US - REFUSED_US) / SECOND
    assert of_brokers[DEMOTED]["availability"] == 1


def test_a_slave_that_comes_back_as_the_master_is_not_missed_any_longer(of_brokers):
    row = of_brokers[RESTARTED]
    assert row["planned_s"] == pytest.approx((TOOK_OVER_US - STOPPED_US) / SECOND, abs=SLACK_S)
    assert row["failures"] == 0
    assert of_brokers[ALONE]["unplanned_s"] == pytest.approx((TOOK_OVER_US - CRASHED_US) / SECOND, abs=0.1)


def test_who_waits_for_a_broker_id_is_no_broker_yet(rows, of_brokers):
    assert rows_of(rows, "registered_first", "waiting")[0]["broker_id"] == WAITING.broker_id
    assert WAITING not in of_brokers
    assert of_brokers[REGISTERED]["availability"] == 1


def test_lost_heartbeats_do_not_change_broker_states(of_brokers):
    row = of_brokers[STEADY]
    assert row["availability"] == 1
    assert row["observed_s"] == pytest.approx((SPAN.end_us - SPAN.start_us) / SECOND, abs=11)


def test_brokers_of_another_group_of_name_servers_are_others_whatever_they_are_called(lives):
    for key in RACK:
        assert lives["west", key]["availability"] == 1
        assert lives["west", key]["observed_s"] == pytest.approx((SPAN.end_us - SPAN.start_us) / SECOND, abs=11)


def test_snapshot_after_a_gap_shows_missing_brokers(parts, lives):
    reported = {(row["kind"], row["broker_name"], row["broker_id"]) for row in parts.to_pylist()}
    assert ("absent", *LOST) in reported
    assert ("down", *LOST) not in reported
    row = lives["blind", LOST]
    assert row["unplanned_s"] == pytest.approx((CAME_BACK_US - PAUSE.to_us) / SECOND, abs=SLACK_S)
    assert lives["blind", KEPT]["availability"] == 1


def test_a_broker_that_flaps_scores_as_often_as_it_went_down(spark, parts):
    found = results(spark, parts, a03_flapping.JOB, a03_flapping.JOB.part_columns)
    scores = {BrokerKey(row["broker_name"], row["broker_id"]): row for row in found}
    ratio = math.exp(-10 / 60)
    assert scores[FLAPPER.broker]["transitions"] == len(FLAPPER.downs_us)
    # It is down since its last beat, at most one period before it crashed.
    assert scores[FLAPPER.broker]["peak"] == pytest.approx((1 - ratio**8) / (1 - ratio), abs=0.05)
    assert {key: row["transitions"] for key, row in scores.items() if key != FLAPPER.broker} == {
        RACK[0]: 1,
        RACK[1]: 1,
        MASTER: 1,
        ALONE: 1,
        RESTARTED: 1,
        LOST: 1,
    }


def test_only_a_server_that_was_cut_off_differs_from_others(spark, parts):
    found = results(spark, parts, a06_divergence.JOB, a06_divergence.JOB.part_columns)
    (row,) = [row for row in found if row["kind"] != "compared"]
    assert (row["cluster"], row["broker_name"], row["kind"]) == ("DefaultCluster", "steady", "presence")
    assert row["states"] == ["ns-0=up", "ns-1=absent", "ns-2=up"]
    assert row["start_time"].timestamp() * SECOND == pytest.approx(CUT.from_us + 110 * SECOND, abs=20 * SECOND)
