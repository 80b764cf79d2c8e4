"""The synthetic history itself: what the analyses are measured by has to be right first."""

from collections import Counter

import msgspec
import pytest
from synthetic.generator import generate, record, truth_of
from synthetic.landing import Delivery, deliver, moment, write_landing
from synthetic.plan import (
    HOUR,
    MINUTE,
    MONDAY,
    MS,
    SECOND,
    BrokerKey,
    Cut,
    Downtime,
    End,
    Freeze,
    Outage,
    Pause,
    Plan,
    PlannedEvent,
    Plant,
    Server,
    Topic,
    brokers,
    three_servers,
)
from synthetic.plants import churner, failover, role_address_moved, storm

from history.columns import Type
from history.schemas import FAMILIES

BROKER = BrokerKey("broker-000")

_PYTHON = {
    Type.STRING: str,
    Type.LONG: int,
    Type.DOUBLE: (int, float),
    Type.BOOLEAN: bool,
    Type.TIMESTAMP: int,
    Type.LONGS: list,
    Type.DOUBLES: list,
    Type.STRINGS: list,
}


def a_plan(*plants, **values):
    defaults = {"end_us": MONDAY + 2 * HOUR, "brokers": brokers(2)}
    return Plan(**(defaults | values)).with_plants(*plants)


def of(history, family, event_type=None, server="ns-0", broker=BROKER):
    """Return one server's rows about one broker."""
    return [
        row
        for row in history.rows[family]
        if row["ns_id"] == server
        and event_type in (None, row["event_type"])
        and (row.get("broker_name"), row.get("broker_id")) == tuple(broker)
    ]


def an_eventful_plan():
    failed_over = failover("broker-001", MONDAY + HOUR, controller="controller-0", epoch=2)
    (true_failover,) = failed_over.truth["failovers"]
    return a_plan(
        Plant(outages=(Outage(BROKER, MONDAY + HOUR, MONDAY + HOUR + 10 * MINUTE),)),
        Plant(topics=(Topic("TopicTest", ("broker-000", "broker-001")),)),
        churner("TopicTest", "broker-001", MONDAY + 20 * MINUTE, every_us=MINUTE, changes=3),
        failed_over,
        role_address_moved(true_failover, "10.9.0.5:10911", MONDAY + MINUTE, {"ns-0": SECOND}),
        servers=(*three_servers(), Server(name="controller-0", source="controller")),
        heartbeats_to_controllers=True,
    )


def test_same_seed_gives_the_same_history_and_another_seed_another():
    plan = a_plan(end_us=MONDAY + 10 * MINUTE)
    assert generate(plan).rows == generate(plan).rows
    other = a_plan(end_us=MONDAY + 10 * MINUTE, seed=2)
    assert generate(other).rows["heartbeat"] != generate(plan).rows["heartbeat"]


def test_rows_have_only_columns_of_their_family_of_the_right_types_and_unique_ids():
    history = generate(an_eventful_plan())
    ids = Counter()
    for name, rows in history.rows.items():
        types = {column.name: _PYTHON[column.type] for column in FAMILIES[name].all_columns}
        for row in rows:
            ids[row["event_id"]] += 1
            assert row["event_type"] in FAMILIES[name].event_types
            assert all(isinstance(value, types[column]) for column, value in row.items()), row
    assert ids.most_common(1)[0][1] == 1
    of_offsets = {"offset_jump", "offset_change_by_operator", "offset_repair", "lock_event"}
    absent = {name for name, rows in history.rows.items() if not rows}
    assert absent == {"scaling", "scaling_decision", "offset_sample"} | of_offsets


def test_what_a_server_records_is_in_the_order_of_its_clock():
    rows = [row for _, row in record(an_eventful_plan(), Server(name="ns-0"), truth_of(an_eventful_plan()))]
    assert [row["mono_us"] for row in rows] == sorted(row["mono_us"] for row in rows)


@pytest.mark.parametrize(
    ("end", "silent_ms"),
    [(End.CRASH, (0, 30_200)), (End.PLANNED, (0, 30_200)), (End.SILENT, (120_000, 120_101))],
)
def test_a_broker_leaves_as_its_life_ends_and_registers_when_it_is_back(end, silent_ms):
    outage = Outage(BROKER, MONDAY + HOUR, MONDAY + HOUR + 10 * MINUTE, end)
    history = generate(a_plan(Plant(outages=(outage,))))
    (left,) = of(history, "broker_state", end.value)
    assert silent_ms[0] <= left["silent_ms"] <= silent_ms[1]
    assert left["set_ids"] == []
    first, again = of(history, "broker_state", "registered_first")
    assert first["event_time"] < MONDAY + 31 * SECOND
    assert 0 < again["event_time"] - outage.to_us <= 2 * MS
    assert again["set_ids"] == [0]
    assert not [row for row in of(history, "heartbeat") if outage.from_us + 2 * MS < row["event_time"] < outage.to_us]


def test_a_frozen_broker_is_given_up_and_comes_back_by_itself():
    freeze = Freeze(BROKER, MONDAY + HOUR, MONDAY + HOUR + 4 * MINUTE)
    history = generate(a_plan(Plant(freezes=(freeze,))))
    assert len(of(history, "broker_state", "expired")) == 1
    again = of(history, "broker_state", "registered_first")[1]
    assert freeze.to_us <= again["event_time"] <= freeze.to_us + 31 * SECOND


def test_only_the_server_that_is_cut_off_misses_a_broker():
    cut = Cut(BROKER, "ns-1", MONDAY + HOUR, MONDAY + HOUR + 10 * MINUTE)
    history = generate(a_plan(Plant(cuts=(cut,))))
    assert [row["ns_id"] for row in history.rows["broker_state"] if row["event_type"] == "expired"] == ["ns-1"]


def test_lost_heartbeats_are_missing_in_the_intervals():
    history = generate(a_plan(brokers=brokers(2, drop=0.1)))
    intervals = [row["interval_ms"] for row in history.rows["heartbeat"] if "interval_ms" in row]
    missed = sum(round(interval / 30_000) - 1 for interval in intervals)
    assert missed == len(history.truth.drops) > 50


def test_a_server_that_was_down_has_recorded_nothing_and_begins_without_brokers():
    down = Downtime(MONDAY + HOUR, MONDAY + HOUR + 5 * MINUTE, clean=False)
    servers = (Server(name="ns-0", downtimes=(down,)), Server(name="ns-1"))
    history = generate(a_plan(servers=servers))
    of_server = [row for rows in history.rows.values() for row in rows if row["ns_id"] == "ns-0"]
    assert not [row for row in of_server if down.from_us <= row["event_time"] < down.to_us]
    started = [row for row in history.rows["ns_lifecycle"] if row["event_type"] == "started"]
    assert [row.get("unobserved_from") for row in started] == [None, down.from_us, None]
    assert len(of(history, "broker_state", "registered_first")) == 2
    assert len(of(history, "broker_state", "registered_first", server="ns-1")) == 1
    assert len({row["boot_id"] for row in of_server}) == 2


def test_a_server_that_cannot_record_goes_on_watching():
    pause = Pause(MONDAY + HOUR, MONDAY + HOUR + 5 * MINUTE)
    history = generate(a_plan(servers=(Server(name="ns-0", pauses=(pause,)),)))
    assert len(of(history, "broker_state", "registered_first")) == 1
    (resumed,) = (row for row in history.rows["ns_lifecycle"] if row["event_type"] == "recording_resumed")
    assert (resumed["unobserved_from"], resumed["event_time"]) == (pause.from_us, pause.to_us)
    heartbeats = [row["event_time"] for row in of(history, "heartbeat")]
    assert not [at_us for at_us in heartbeats if pause.from_us <= at_us < pause.to_us]


def test_frequent_heartbeats_are_summarised_and_late_ones_kept():
    quick = brokers(1, period_ms=1_000, timeout_ms=10_000, jitter_ms=20, drop=0.02)
    history = generate(a_plan(brokers=quick, end_us=MONDAY + 20 * MINUTE))
    summaries = history.rows["heartbeat_summary"]
    assert sum(row["missed"] for row in summaries) == len(history.truth.drops) > 20
    assert sum(row["late"] for row in summaries) == len(history.rows["heartbeat"])
    assert {row["event_type"] for row in history.rows["heartbeat"]} == {"gap"}
    assert all(sum(row["hist"]) == row["n"] and len(row["hist"]) == 16 for row in summaries)


def test_server_with_a_wrong_clock_records_the_same_intervals():
    plan = a_plan(servers=(Server(name="ns-0"),))
    skewed = a_plan(servers=(Server(name="ns-0", skew_us=-700 * MS),))
    right, wrong = of(generate(plan), "heartbeat"), of(generate(skewed), "heartbeat")
    assert [row.get("interval_ms") for row in right] == [row.get("interval_ms") for row in wrong]
    assert {one["event_time"] - two["event_time"] for one, two in zip(right, wrong, strict=True)} == {700 * MS}


def test_an_older_release_lacks_columns_and_a_newer_one_has_more():
    servers = (
        Server(name="ns-0", schema_version=0, lacks=frozenset({"period_ms", "set_ids"})),
        Server(name="ns-1", schema_version=9, extras={"colour": "blue"}),
    )
    history = generate(a_plan(servers=servers, end_us=MONDAY + 10 * MINUTE))
    assert all("period_ms" not in row for row in of(history, "heartbeat"))
    assert {row["colour"] for row in of(history, "heartbeat", server="ns-1")} == {"blue"}


def test_planted_topic_changes_are_recorded_by_every_server_with_their_cause():
    topic = Plant(topics=(Topic("TopicTest", ("broker-000", "broker-001")),))
    history = generate(a_plan(topic, churner("TopicTest", "broker-001", MONDAY + MINUTE, every_us=MINUTE, changes=3)))
    changes = [row for row in history.rows["route_change"] if row["ns_id"] == "ns-2" and row["kind"] == "queues"]
    assert [(row["old_read"], row["new_read"]) for row in changes] == [(8, 16), (16, 8), (8, 16)]
    causes = {row["event_id"]: row for row in history.rows["broker_state"]}
    assert {causes[row["cause_event_id"]]["event_type"] for row in changes} == {"changed"}
    last = [row for row in history.rows["route_snapshot"] if row["ns_id"] == "ns-2" and row["event_type"] == "queues"]
    assert [(row["broker_names"], row["read"]) for row in last[-2:]] == [(["broker-000"], 8), (["broker-001"], 16)]


def test_happenings_are_recorded_by_servers_that_run():
    down = Downtime(MONDAY + HOUR, MONDAY + HOUR + 5 * MINUTE)
    server = Server(name="controller-0", source="controller", downtimes=(down,))
    reported = tuple(
        PlannedEvent(
            MONDAY + HOUR + minutes * MINUTE, "controller-0", "scaling", "plan", {"operation_id": str(minutes)}
        )
        for minutes in (-1, 1, 6)
    )
    history = generate(a_plan(Plant(happenings=reported), servers=(server,)))
    assert [row["operation_id"] for row in history.rows["scaling"]] == ["-1", "6"]


def test_a_storm_brings_all_its_brokers_back_together():
    keys = [broker.key for broker in brokers(6)]
    history = generate(a_plan(storm(keys, MONDAY + HOUR), brokers=brokers(6)))
    (truth,) = history.truth.planted["storms"]
    firsts = [row for row in history.rows["broker_state"] if row["event_type"] == "registered_first"]
    back = [row for row in firsts if truth.from_us <= row["event_time"] <= truth.to_us + 2 * MS]
    assert {(row["broker_name"], row["broker_id"]) for row in back} == set(keys)


def read_back(files):
    """Return the event ids of whole lines, and how many lines are torn."""
    ids, torn = [], 0
    for path in files:
        for text in path.read_bytes().splitlines():
            try:
                ids.append(msgspec.json.decode(text)["event_id"])
            except msgspec.DecodeError:
                torn += 1
    return ids, torn


def test_landing_files_hold_every_row_once_below_the_hour_of_their_first_row(tmp_path):
    history = generate(an_eventful_plan())
    landed = write_landing(tmp_path, history.rows)
    ids, torn = read_back(landed.files)
    assert sorted(ids) == sorted(row["event_id"] for rows in history.rows.values() for row in rows)
    assert torn == 0
    for path in landed.files:
        first = msgspec.json.decode(path.read_bytes().splitlines()[0])
        day, hour = first["event_time"][:13].split("T")
        assert path.parent.relative_to(tmp_path).parts[-2:] == (f"date={day}", f"hour={hour}")


def test_files_are_late_torn_repeated_and_shuffled_as_planted(tmp_path):
    history = generate(an_eventful_plan())
    delivery = Delivery(twice=0.3, late=0.2, torn=0.1, shuffled=0.5)
    landed = write_landing(tmp_path, history.rows, delivery)
    everything = {row["event_id"] for rows in history.rows.values() for row in rows}
    early, _ = read_back(landed.files)
    assert landed.late
    assert set(early) < everything - landed.lost_event_ids
    ids, torn = read_back([*landed.files, *deliver(tmp_path, landed.late)])
    assert set(ids) == everything - landed.lost_event_ids
    assert torn >= 1
    assert {each for each, times in Counter(ids).items() if times > 1} == landed.twice_event_ids


def test_times_are_written_to_the_microsecond():
    assert moment(MONDAY + 1) == "2026-03-02T00:00:00.000001Z"
