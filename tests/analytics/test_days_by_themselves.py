"""A day that is analysed by itself, knowing what the runner knows of the time before, gives what the whole gives."""

import pytest
from hand_tables import published
from synthetic.frames import frame
from synthetic.generator import generate
from synthetic.plan import (
    CLUSTER,
    DAY,
    HOUR,
    MINUTE,
    MONDAY,
    Broker,
    BrokerKey,
    Cut,
    Downtime,
    End,
    Freeze,
    Outage,
    Pause,
    Plan,
    Plant,
    Server,
    Topic,
    brokers,
)
from synthetic.plants import (
    churner,
    correlated_failure,
    failover,
    flaps,
    offset_samples,
    resize,
    scaling_decisions,
    storm,
)

from analytics.engine.inputs import with_look_back
from analytics.engine.registry import load_jobs
from analytics.ingest.closing import KEYS
from analytics.shared.job import Span

#: An evening and the night after it: what is cut at midnight has something on both sides.
SPAN = Span(MONDAY + 19 * HOUR, MONDAY + DAY + 5 * HOUR)
MIDNIGHT = MONDAY + DAY

JOBS = {job.id: job for job in load_jobs()}

KEYS_OF_BROKERS = [broker.key for broker in brokers(8)]


#: A resize that entered its last phase but one before midnight, and ended after it.
_PHASES = [("PLANNED", MINUTE), ("PRECHECK", MINUTE), ("WRITE_DOWN", 5 * MINUTE), ("DRAIN", 40 * MINUTE), ("DONE", 0)]


def a_plan():
    """Something of everything, much of it around midnight."""
    first, second, third, fourth, fifth, sixth, *_ = KEYS_OF_BROKERS
    name_servers = (
        Server(name="ns-0", downtimes=(Downtime(MIDNIGHT - 3 * MINUTE, MIDNIGHT - 20_000_000, clean=False),)),
        Server(name="ns-1", skew_us=300_000, lacks=frozenset({"set_ids", "period_ms"}), schema_version=0),
        Server(name="ns-2", skew_us=-200_000, pauses=(Pause(MIDNIGHT + HOUR, MIDNIGHT + HOUR + 10 * MINUTE),)),
        Server(name="controller-0", source="controller"),
    )
    quick = Broker(key=BrokerKey("quick"), period_ms=1_000, timeout_ms=10_000, since_us=MIDNIGHT - 10 * MINUTE)
    away = Outage(quick.key, MIDNIGHT + 5 * MINUTE, None)
    return Plan(
        start_us=MONDAY + 18 * HOUR, end_us=SPAN.end_us, servers=name_servers, brokers=(*brokers(8, drop=0.02), quick)
    ).with_plants(
        Plant(topics=tuple(Topic(name, tuple(key.broker_name for key in KEYS_OF_BROKERS)) for name in ("one", "two"))),
        Plant(outages=(away, Outage(first, MIDNIGHT - MINUTE, MIDNIGHT + 9 * MINUTE, End.SILENT))),
        Plant(outages=(Outage(second, MIDNIGHT - 2 * HOUR, MIDNIGHT + HOUR, End.PLANNED),)),
        Plant(freezes=(Freeze(third, MIDNIGHT - 100_000_000, MIDNIGHT + 40_000_000),)),
        Plant(cuts=(Cut(fourth, "ns-1", MIDNIGHT - 10 * MINUTE, MIDNIGHT + 20 * MINUTE),)),
        flaps(fifth, MIDNIGHT - 20 * MINUTE, every_us=6 * MINUTE, count=8),
        churner("one", sixth.broker_name, MIDNIGHT - 10 * MINUTE, every_us=3 * MINUTE, changes=9),
        failover(first.broker_name, MIDNIGHT - MINUTE, controller="controller-0", epoch=2),
        storm(KEYS_OF_BROKERS[2:], MONDAY + 22 * HOUR),
        correlated_failure(KEYS_OF_BROKERS[6:], MIDNIGHT + 2 * HOUR, MIDNIGHT + 3 * HOUR),
        offset_samples("controller-0", "one", MONDAY + 20 * HOUR, [5.0 + (number % 60) for number in range(480)]),
        resize("controller-0", "one", MIDNIGHT - 20 * MINUTE, _PHASES, sets={first.broker_name: (CLUSTER, 8, 4)}),
        resize("controller-0", "one", MIDNIGHT + 2 * HOUR, _PHASES[:4], sets={first.broker_name: (CLUSTER, 4, 8)}),
        scaling_decisions("controller-0", "one", [(MIDNIGHT + n * MINUTE, "kept", "calm") for n in (-5, -1, 1)]),
    )


@pytest.fixture(scope="module")
def rows():
    return generate(a_plan()).rows


def _in_order(rows):
    return sorted(
        rows, key=lambda row: [f"{each:.6g}" if isinstance(each, float) else str(each) for each in row.values()]
    )


def assert_same(changed, before):
    """Sums of fractions may be added in another order; all else is equal."""
    assert len(changed) == len(before)
    for one, other in zip(_in_order(changed), _in_order(before), strict=True):
        for name, value in other.items():
            expected = pytest.approx(value, rel=1e-9, abs=1e-9) if isinstance(value, float) else value
            assert one[name] == expected, name


pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(900),
    pytest.mark.parametrize("job", JOBS.values(), ids=[job.name for job in JOBS.values()]),
]


#: Of half a day these have nothing to tell: they look at whole days or weeks, A16 at what an offset manager recorded.
SILENT = {"A9", "A12", "A13", "A16"}

DAYS = (Span(SPAN.start_us, MIDNIGHT), Span(MIDNIGHT, SPAN.end_us))


def known_for(rows, name, span):
    """The rows that the runner has for a span: the span, some time before it, and before that the last of each key."""
    wide = with_look_back(name, span)
    near = [row for row in rows if wide.start_us <= row["event_time"] < wide.end_us]
    last = {}
    for row in sorted(rows, key=lambda row: (row["event_time"], row["event_id"])):
        if name in KEYS and row["event_time"] < wide.start_us:
            last[tuple(row.get(key) for key in KEYS[name])] = row
    return [*last.values(), *near]


def test_parts_of_two_days_give_what_parts_of_the_whole_give(spark, rows, job):
    """Each day knows no more of the time before it than the runner tells it."""
    parts = [
        job.parts({name: frame(spark, name, known_for(rows[name], name, day)) for name in job.inputs}, day)
        for day in DAYS
    ]
    whole = published(job, [job.parts({name: frame(spark, name, rows[name]) for name in job.inputs}, SPAN)], SPAN)
    assert whole or job.id in SILENT
    assert_same(published(job, parts, SPAN), whole)
