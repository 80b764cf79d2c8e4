"""When each NameServer listed one broker, and when it knew nothing: from the rows about its set. Pure."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from history.past.rows import StoredRow
from history.times import unix_us
from remoting.protocol.shapes.history import LifeSpan, LifeState
from remoting.protocol.shapes.route import MASTER_ID

_EVER_US: Final = 2**62


class _KnownLife(NamedTuple):
    state: LifeState
    address: str | None = None
    #: Of the broker, while it is registered.
    role: str | None = None


class _Change(NamedTuple):
    unix_us: int
    known: _KnownLife


class _Cover(NamedTuple):
    """Between two moments this counts instead of what was known."""

    first_us: int
    last_us: int
    state: LifeState


_UNOBSERVED: Final = _KnownLife("unobserved")
_ABSENT: Final = _KnownLife("absent")


def life_of(rows: Iterable[StoredRow], broker_id: int, first_us: int, last_us: int) -> list[LifeSpan]:
    """Return the life of a broker between two moments, Unix us, by NameServer.

    `rows` are about its set and about servers, from some time before the first moment on: what a NameServer knew
    before its first row is `unobserved`. Only NameServers that have a row about the set are in it.
    """
    by_server: dict[str, list[StoredRow]] = {}
    for row in sorted(rows, key=lambda each: (each.unix_us, each.number)):
        if row.source == "namesrv":
            by_server.setdefault(row.ns_id, []).append(row)
    return [
        span
        for ns_id in sorted(by_server)
        if any(row.set_ids is not None for row in by_server[ns_id])
        for span in _spans(ns_id, by_server[ns_id], broker_id, (first_us, last_us))
    ]


def _spans(ns_id: str, rows: Sequence[StoredRow], broker_id: int, within_us: tuple[int, int]) -> Iterator[LifeSpan]:
    # Stable: of one moment, the row that was recorded last counts.
    changes = sorted([_Change(-_EVER_US, _UNOBSERVED), *_changes(rows, broker_id)], key=lambda each: each.unix_us)
    moments = [each.unix_us for each in changes]
    covers = [cover for row in rows for cover in _covers(row, broker_id)]
    unobserved, silent = _Covered(covers, "unobserved"), _Covered(covers, "silent")
    first_us, last_us = within_us
    edges = {first_us, last_us}
    edges.update(us for us in (*moments, *(us for each in covers for us in each[:2])) if first_us < us < last_us)
    found: list[tuple[int, int, _KnownLife]] = []
    for begins_us, ends_us in pairwise(sorted(edges)):
        known = changes[bisect_right(moments, begins_us) - 1].known
        if unobserved.has(begins_us):
            known = _UNOBSERVED
        elif known.state == "registered" and silent.has(begins_us):
            known = known._replace(state="silent")
        if found and found[-1][2] == known:
            found[-1] = (found[-1][0], ends_us, known)
        else:
            found.append((begins_us, ends_us, known))
    for begins_us, ends_us, known in found:
        yield LifeSpan(
            ns_id=ns_id,
            first_unix_ms=begins_us // 1000,
            last_unix_ms=ends_us // 1000,
            state=known.state,
            role=known.role,  # type: ignore[arg-type]
            address=known.address,
        )


def _changes(rows: Iterable[StoredRow], broker_id: int) -> Iterator[_Change]:
    for row in rows:
        if row.event_type == "started":
            if row.unobserved_from is not None:
                yield _Change(unix_us(row.unobserved_from), _UNOBSERVED)
            yield _Change(row.unix_us, _ABSENT)
        elif row.event_type in ("stopping", "last_tick"):
            yield _Change(row.unix_us, _UNOBSERVED)
        elif row.set_ids is not None:
            yield _Change(row.unix_us, _member(row, broker_id))


def _member(row: StoredRow, broker_id: int) -> _KnownLife:
    members = dict(zip(row.set_ids or (), row.set_addrs or (), strict=True))
    if broker_id not in members:
        return _ABSENT
    acts = bool(row.enable_acting_master) and MASTER_ID not in members and broker_id == min(members)
    role = "master" if broker_id == MASTER_ID else "acting_master" if acts else "slave"
    return _KnownLife("registered", members[broker_id], role)


def _covers(row: StoredRow, broker_id: int) -> Iterator[_Cover]:
    if row.event_type == "expired" and row.broker_id == broker_id and row.silent_ms is not None:
        yield _Cover(row.unix_us - row.silent_ms * 1000, row.unix_us, "silent")
    elif row.event_type == "tick" and row.interval_ms is not None:
        yield _Cover(row.unix_us - row.interval_ms * 1000, row.unix_us, "unobserved")
    elif row.event_type == "recording_resumed" and row.unobserved_from is not None:
        yield _Cover(unix_us(row.unobserved_from), row.unix_us, "unobserved")


class _Covered:
    """The times that covers of one state have together."""

    def __init__(self, covers: Iterable[_Cover], state: LifeState) -> None:
        #: In their order, and apart from each other: a broker that comes and goes has many.
        self._first_us: list[int] = []
        self._last_us: list[int] = []
        for each in sorted(each for each in covers if each.state == state):
            if self._last_us and each.first_us <= self._last_us[-1]:
                self._last_us[-1] = max(self._last_us[-1], each.last_us)
            else:
                self._first_us.append(each.first_us)
                self._last_us.append(each.last_us)

    def has(self, at_us: int) -> bool:
        """Return whether a moment is within; the last moment of a cover is not."""
        index = bisect_right(self._first_us, at_us) - 1
        return index >= 0 and at_us < self._last_us[index]
