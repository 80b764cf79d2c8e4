"""Days of history as the ingest stores them, written straight as Parquet: heartbeats with losses, ticks, restarts.

Columns are made whole, not row by row: thirty days of 300 brokers, 78 million rows, take a minute or two.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from synthetic.arrow_types import ARROW_TYPES

from analytics.ingest.manifest import WHOLE_DAY, Day, Hour, family_folder, save_day
from analytics.shared.days import DAY_US, date_at, span_of
from analytics.spark.storage import LocalStorage
from history.columns import Type
from history.schemas import FAMILIES

SERVERS = 3
HEARTBEATS_A_DAY = 2880
TICKS_A_DAY = 8640
FIRST_DAY = "2026-03-02"
SECOND_US = 1_000_000
PERIOD_US = 30 * SECOND_US
JITTER_US = 200_000
#: One heartbeat in so many is lost.
LOST_EACH = 2_000
#: A file has so many brokers: as large as what compaction writes.
BROKERS_A_FILE = 300
ROW_GROUP = 500_000
#: Of other columns nearly each value is another one.
REPEATED = ["event_type", "ns_id", "boot_id", "cluster", "broker_name", "broker_addr", "source", "kind", "interval_ms"]


class Rows(NamedTuple):
    """Some rows of a family; a column is an array, one value for all rows, or left out where it is null."""

    family: str
    event_type: str
    at_us: np.ndarray
    #: Number of the server that saw each.
    server: np.ndarray
    columns: Mapping[str, object]
    #: Of the first row, among all of the day.
    number: int = 0


def heartbeats(count: int, days: int) -> int:
    """Return how many heartbeats so many brokers give in so many days; some of them are lost."""
    return count * SERVERS * HEARTBEATS_A_DAY * days


def store_days(root: Path, days: int, count: int, processes: int) -> None:
    """Write days into the stored history, so many at a time."""
    # Processes of their own: the memory that this takes is none of the analyses'.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        list(pool.map(partial(store_a_day, root, count), range(days)))


def store_a_day(root: Path, count: int, day: int) -> None:
    """Write a day into the stored history."""
    storage = LocalStorage(root)
    start_us = span_of(FIRST_DAY).start_us + day * DAY_US
    date = date_at(start_us)
    pieces = [range(first, min(first + BROKERS_A_FILE, count)) for first in range(0, count, BROKERS_A_FILE)]
    _store(storage, date, "heartbeat", (table_of(_heartbeats(day, start_us, piece)) for piece in pieces))
    _store(storage, date, "ns_tick", [table_of(_ticks(start_us, count))])
    states = [table_of(each) for each in _states(day, start_us, count)]
    _store(storage, date, "broker_state", [pa.concat_tables(states)])
    if day == 0:
        server = np.arange(SERVERS)
        starts = Rows("ns_lifecycle", "started", start_us + server, server, {"reason": "namesrv"})
        _store(storage, date, "ns_lifecycle", [table_of(starts)])


def _store(storage: LocalStorage, date: str, family: str, tables: Iterable[pa.Table]) -> None:
    folder = f"{family_folder(family)}/date={date}/hour={WHOLE_DAY}"
    place = Path(storage.uri(folder).removeprefix("file://"))
    place.mkdir(parents=True)
    paths, rows = [], 0
    for number, table in enumerate(tables):
        paths.append(f"{folder}/part-{number:05}.parquet")
        file = place / f"part-{number:05}.parquet"
        pq.write_table(table, file, compression="zstd", row_group_size=ROW_GROUP, use_dictionary=REPEATED)
        rows += table.num_rows
    hour_number = span_of(date).start_us // DAY_US * 24
    hours = {f"{hour:02}": Hour(rows=rows // 24, digest=hour_number + hour) for hour in range(24)}
    save_day(storage, family, date, Day(hours=hours, stored={WHOLE_DAY: tuple(paths)}))


def table_of(rows: Rows) -> pa.Table:
    """Return rows with all columns of their family."""
    count = len(rows.at_us)
    server = _named("ns-{}", rows.server)
    numbers = (pc.cast(pa.array(each), pa.string()) for each in (rows.at_us, np.arange(count) + rows.number))
    head = _named("ns-{}-1-" + rows.family, rows.server)
    known = {
        "schema_version": 1,
        "event_id": pc.binary_join_element_wise(head, *numbers, "-"),
        "event_type": rows.event_type,
        "event_time": pa.array(rows.at_us).cast(ARROW_TYPES[Type.TIMESTAMP]),
        "mono_us": rows.at_us - span_of(FIRST_DAY).start_us,
        "ns_id": server,
        "boot_id": _named("ns-{}-1", rows.server),
        "source": "namesrv",
        **rows.columns,
    }
    columns = {}
    for column in FAMILIES[rows.family].all_columns:
        value, kind = known.get(column.name), ARROW_TYPES[column.type]
        if isinstance(value, np.ndarray | pa.Array):
            columns[column.name] = (value if isinstance(value, pa.Array) else pa.array(value)).cast(kind)
        else:
            columns[column.name] = pa.repeat(pa.scalar(value, kind), count)
    return pa.table(columns)


def _named(pattern: str, numbers: np.ndarray) -> pa.Array:
    """Return names of numbers that lie close together; equal ones are made once."""
    first = int(numbers.min(initial=0))
    names = pa.array([pattern.format(number) for number in range(first, int(numbers.max(initial=0)) + 1)])
    return names.take(pa.array(numbers - first))


def _who(broker: np.ndarray) -> dict[str, object]:
    names = {"broker_name": _named("broker-{:05}", broker), "broker_addr": _named("broker-{:05}:10911", broker)}
    return {"cluster": "DefaultCluster", "broker_id": 0, **names}


def _heartbeats(day: int, start_us: int, brokers: range) -> Rows:
    """Return the heartbeats of some brokers, by broker, server and time, as they are stored."""
    dice = np.random.default_rng([day, brokers.start])
    shape = (len(brokers), SERVERS, HEARTBEATS_A_DAY)
    jitter_us = dice.integers(0, JITTER_US, shape)
    lost = dice.random(shape) < 1 / LOST_EACH
    broker, server, heartbeat = np.indices(shape, dtype=np.int64, sparse=True)
    broker = broker + brokers.start
    at_us = start_us + heartbeat * PERIOD_US + broker % 30 * SECOND_US + jitter_us
    kept = ~lost
    kept_at_us = at_us[kept]
    # The first heartbeat of each broker at each server comes after the last one of another: it is of the day before.
    interval_ms = np.diff(kept_at_us, prepend=kept_at_us[0]) // 1000
    interval_ms[interval_ms <= 0] = PERIOD_US // 1000
    whole = np.broadcast_arrays(broker, server, heartbeat)
    columns = {
        **_who(whole[0][kept]),
        "kind": "register",
        "interval_ms": interval_ms,
        "period_ms": PERIOD_US // 1000,
        "timeout_ms": 120_000,
        "dv_counter": 1,
    }
    number = brokers.start * SERVERS * HEARTBEATS_A_DAY
    return Rows("heartbeat", "heartbeat", kept_at_us, whole[1][kept], columns, number)


def _ticks(start_us: int, count: int) -> Rows:
    """Return the ticks of a day: all servers were watching all the time."""
    server, tick = np.divmod(np.arange(SERVERS * TICKS_A_DAY), TICKS_A_DAY)
    columns = {
        "brokers": count,
        "topics": 1000,
        "queues": 8000,
        "resident_memory_bytes": 200_000_000 + tick,
        "connections": 2 * count,
        "loop_lag_ms": 2.5,
        "requests_rejected": 0,
        "interval_ms": 10_000,
    }
    return Rows("ns_tick", "tick", start_us + tick * 10 * SECOND_US, server, columns)


def _states(day: int, start_us: int, count: int) -> list[Rows]:
    """Return who came and went: all come on the first day, and a few go and come back on each."""
    broker, server = np.divmod(np.arange(count * SERVERS), SERVERS)
    some = broker % 50 == day % 50
    order = np.arange(count * SERVERS)

    def of(which: np.ndarray, event_type: str, at_us: int, **columns: object) -> Rows:
        columns_of = {**_who(broker[which]), "timeout_ms": 120_000, "role": "master", **columns}
        return Rows("broker_state", event_type, at_us + order[which], server[which], columns_of)

    noon_us = start_us + DAY_US // 2
    failures = [of(some, "expired", noon_us, reason="timeout"), of(some, "registered_first", noon_us + 300 * SECOND_US)]
    return [of(np.full(len(broker), True), "registered_first", start_us), *failures] if day == 0 else failures
