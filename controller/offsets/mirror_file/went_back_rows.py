"""What went back, as the file of the mirror has it: the list of regressions, and where groups were before a rewind."""

import heapq
import sqlite3
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from controller.offsets.entry_keys import EntryKey
from controller.offsets.mirror.kept_rewinds import RewindChanges, Rewinds
from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.regressions import REGRESSIONS_MAX, Regression

#: Makes the tables where they are not there.
SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS regressions (number INTEGER PRIMARY KEY, queue TEXT UNIQUE, body BLOB NOT NULL)",
    """CREATE TABLE IF NOT EXISTS rewinds (
        number INTEGER PRIMARY KEY, cluster TEXT NOT NULL, broker_name TEXT NOT NULL, topic TEXT NOT NULL,
        consumer_group TEXT NOT NULL, queue_id INTEGER NOT NULL, from_offset INTEGER NOT NULL,
        UNIQUE (cluster, broker_name, topic, consumer_group, queue_id)
    )""",
)

_ENCODER: Final = msgspec.msgpack.Encoder()
_REGRESSIONS: Final = msgspec.msgpack.Decoder(Regression)


def stored_regressions(connection: sqlite3.Connection) -> list[Regression]:
    """Return all regressions, the oldest first; raises msgspec.DecodeError."""
    bodies = connection.execute("SELECT body FROM regressions ORDER BY number")
    return [_REGRESSIONS.decode(body) for (body,) in bodies]


def store_regressions(
    connection: sqlite3.Connection, regressions: Iterable[Regression], limit: int = REGRESSIONS_MAX
) -> None:
    """Store regressions, the newest of each queue and cause; above the limit the set with the most loses its oldest."""
    rows = [(_queue_of(each), _ENCODER.encode(each)) for each in regressions]
    if not rows:
        return
    connection.executemany("REPLACE INTO regressions (queue, body) VALUES (?, ?)", rows)
    # A row that is replaced has a new number, so numbers do not tell how many there are.
    (count,) = connection.execute("SELECT count(*) FROM regressions").fetchone()
    if count > limit:
        surplus = [(number,) for number in _oldest_of_largest(connection, count - limit)]
        connection.executemany("DELETE FROM regressions WHERE number = ?", surplus)


def _oldest_of_largest(connection: sqlite3.Connection, count: int) -> Iterable[int]:
    by_set: dict[str, deque[int]] = {}
    for number, queue in connection.execute("SELECT number, queue FROM regressions ORDER BY number"):
        cluster, broker_name, _ = queue.split("\0", 2)
        by_set.setdefault(f"{cluster}\0{broker_name}", deque()).append(number)
    sizes = [(-len(numbers), name) for name, numbers in by_set.items()]
    heapq.heapify(sizes)
    for _ in range(count):
        size, name = sizes[0]
        yield by_set[name].popleft()
        heapq.heapreplace(sizes, (size + 1, name))


def _queue_of(regression: Regression) -> str:
    """Return what names a queue and a cause: there is one regression of each."""
    (cluster, broker_name), (topic, group, kind), queue_id = regression.queue
    return "\0".join((cluster, broker_name, topic, group, kind, str(queue_id), regression.cause))


def stored_rewinds(connection: sqlite3.Connection) -> dict[SetName, Rewinds]:
    """Return the rewinds of all sets, those that were stored last at the end."""
    found: dict[SetName, Rewinds] = {}
    query = "SELECT cluster, broker_name, topic, consumer_group, queue_id, from_offset FROM rewinds ORDER BY number"
    for cluster, broker_name, topic, group, queue_id, from_offset in connection.execute(query):
        found.setdefault(SetName(cluster, broker_name), {})[EntryKey(topic, group), queue_id] = from_offset
    return found


def store_rewinds(connection: sqlite3.Connection, changes: Mapping[SetName, RewindChanges]) -> None:
    """Store what has changed of rewinds: how many there are is limited in memory."""
    for name, (from_offsets, are_all) in changes.items():
        if are_all:
            drop_rewinds(connection, name)
        rows = [((*name, key.topic, key.group, queue_id), at) for (key, queue_id), at in from_offsets.items()]
        query = (
            "DELETE FROM rewinds WHERE cluster = ? AND broker_name = ? AND topic = ? AND consumer_group = ? "
            "AND queue_id = ?"
        )
        connection.executemany(query, [queue for queue, at in rows if at is None])
        query = (
            "REPLACE INTO rewinds (cluster, broker_name, topic, consumer_group, queue_id, from_offset) "
            "VALUES (?, ?, ?, ?, ?, ?)"
        )
        connection.executemany(query, [(*queue, at) for queue, at in rows if at is not None])


def drop_rewinds(connection: sqlite3.Connection, name: SetName) -> None:
    """Remove the rewinds of a set."""
    connection.execute("DELETE FROM rewinds WHERE cluster = ? AND broker_name = ?", name)
