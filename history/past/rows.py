"""Reads rows of the history back, as far as a command needs them.

Files that still grow are read too, so that what happened a second ago can be queried. Lines are looked through as
bytes before they are decoded: most are about something else.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from history.landing import file_name, lines_of, sealed_files
from history.times import unix_us


class StoredRow(msgspec.Struct, kw_only=True):
    """A row of any family; a column that it does not have is None."""

    event_id: str
    event_type: str
    event_time: datetime
    ns_id: str
    boot_id: str
    mono_us: int = 0
    schema_version: int = 1
    source: str | None = None
    cluster: str | None = None
    broker_name: str | None = None
    broker_id: int | None = None
    broker_addr: str | None = None

    # broker_state
    reason: str | None = None
    last_heartbeat_time: datetime | None = None
    silent_ms: int | None = None
    timeout_ms: int | None = None
    topics: tuple[str, ...] | int | None = None
    topics_added: int | None = None
    topics_removed: int | None = None
    topics_changed: int | None = None
    role: str | None = None
    former_addr: str | None = None
    set_ids: tuple[int, ...] | None = None
    set_addrs: tuple[str, ...] | None = None
    set_clusters: tuple[str, ...] | None = None
    set_cluster: str | None = None
    zone_name: str | None = None
    enable_acting_master: bool | None = None
    filter_servers: tuple[str, ...] | None = None

    # route_change and route_snapshot
    topic: str | None = None
    kind: str | None = None
    new_read: int | None = None
    new_write: int | None = None
    new_perm: int | None = None
    topic_sys_flag: int | None = None
    detail: str | None = None
    snapshot_id: str | None = None
    scope: str | None = None
    broker_names: tuple[str, ...] = ()
    read: int | None = None
    write: int | None = None
    perm: int | None = None
    changes: int | None = None
    rows: int | None = None

    # controller
    failover_id: str | None = None
    master_epoch: int | None = None
    sync_state_set: tuple[int, ...] | None = None
    old_master: int | None = None
    new_master: int | None = None
    cause: str | None = None
    result: str | None = None
    duration_ms: int | None = None

    # scaling
    step: str | None = None
    former_step: str | None = None
    from_write: int | None = None
    to_write: int | None = None
    requested_by: str | None = None
    problem: str | None = None

    # ns_lifecycle
    version: str | None = None
    address: str | None = None
    unobserved_from: datetime | None = None
    dropped: int | None = None

    # ns_tick
    interval_ms: int | None = None

    @property
    def number(self) -> int:
        """Its place among all rows of its process."""
        return int(self.event_id.rpartition("-")[2])

    @property
    def unix_us(self) -> int:
        return unix_us(self.event_time)


#: So many packed files are kept in memory, each of them a snapshot or a piece of one: some tens of MB.
_UNPACKED_MAX: Final = 4

_decode: Final = msgspec.json.Decoder(StoredRow).decode


def as_written(text: str) -> bytes:
    """Return a text as it stands in a line, with its quotes."""
    return msgspec.json.encode(text)


class History:
    """The rows in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        #: One command reads the same compressed files several times; they do not change any more.
        self._unpacked = lru_cache(maxsize=_UNPACKED_MAX)(lines_of)
        #: Lines that could not be read so far: torn ones, and those that are no rows.
        self.unreadable = 0

    def rows(
        self,
        family: str,
        first: datetime,
        last: datetime,
        ns_id: str | None = None,
        is_wanted: Callable[[bytes], bool] = lambda _: True,
    ) -> Iterator[StoredRow]:
        """Yield the rows of a family between two times, both included, file by file.

        `is_wanted` looks at the bytes of a line; it may say yes too often.
        """
        for line in self._lines(family, first, last, ns_id):
            row = self._row(line) if is_wanted(line) else None
            if row is not None and first <= row.event_time <= last:
                yield row

    def count(
        self, family: str, first: datetime, last: datetime, ns_id: str, is_counted: Callable[[bytes], bool]
    ) -> int:
        """Count lines by their bytes, in all files that may hold rows between two times."""
        return sum(map(is_counted, self._lines(family, first, last, ns_id)))

    def _lines(self, family: str, first: datetime, last: datetime, ns_id: str | None) -> Iterator[bytes]:
        for path in sealed_files(self._folder, family, first, last):
            if ns_id is None or path.name.removeprefix(".").startswith(f"{file_name(ns_id)}-"):
                yield from self._lines_of(path)

    def _lines_of(self, path: Path) -> Iterable[bytes]:
        return self._unpacked(path) if path.suffix == ".gz" else lines_of(path)

    def _row(self, line: bytes) -> StoredRow | None:
        try:
            return _decode(line)
        except msgspec.DecodeError:
            self.unreadable += 1
            return None
