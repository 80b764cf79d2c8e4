"""Plays a plan: the rows that its servers record, and the truth about what was planted.

A row is what `history.schemas` says, without its nulls, except that times are Unix us (whole numbers) until they are
written or made into DataFrames. The same plan gives the same rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain, count, groupby
from operator import attrgetter
from random import Random
from typing import Any, NamedTuple

from history.schemas import FAMILIES, TICK_INTERVAL_MS
from history.server_rows import STATES_MISSING
from synthetic.plan import DAY, MS, Broker, Cut, End, Freeze, Outage, Plan, PlannedEvent, Server
from synthetic.route_book import SET_COLUMNS, RouteBook
from synthetic.watch import Boot, Drop, Seen, Watch, boots

Row = dict[str, Any]

#: So long the machines are up when a plan begins: monotonic clocks tell that, and not how long a process runs.
UP_US = 9 * DAY

#: Names of rows that a server writes about a broker -> their families.
_FAMILY_OF = {"heartbeat": "heartbeat", "gap": "heartbeat", "summary": "heartbeat_summary"}


@dataclass
class Truth:
    """What really happened; analyses are measured by it."""

    outages: list[Outage] = field(default_factory=list)
    freezes: list[Freeze] = field(default_factory=list)
    #: Each cut is a divergence of its server from the others.
    cuts: list[Cut] = field(default_factory=list)
    #: Beats that were lost while the server knew the broker.
    drops: list[Drop] = field(default_factory=list)
    #: What other plants tell: failovers, storms, flaps, churners, correlated failures, ...
    planted: dict[str, tuple[Any, ...]] = field(default_factory=dict)


@dataclass
class History:
    """All rows by family, each in the order of their event ids, and the truth."""

    rows: dict[str, list[Row]]
    truth: Truth


def generate(plan: Plan) -> History:
    """Play the whole plan."""
    truth = truth_of(plan)
    rows: dict[str, list[Row]] = {name: [] for name in FAMILIES}
    for server in plan.servers:
        for family, row in record(plan, server, truth):
            rows[family].append(row)
    return History(rows, truth)


def truth_of(plan: Plan) -> Truth:
    """Return the truth as far as the plan knows it; `record` adds the lost beats."""
    plant = plan.plant
    return Truth(list(plant.outages), list(plant.freezes), list(plant.cuts), [], dict(plant.truth))


def record(plan: Plan, server: Server, truth: Truth) -> Iterator[tuple[str, Row]]:
    """Yield what one server records, family and row, in its order; holds little, however long the plan is."""
    watches = [Watch(plan, server, broker) for broker in _watched(plan, server)]
    own = [_own(plan, server, boot) for boot in boots(plan, server)]
    at_us = attrgetter("at_us")
    happenings = sorted((each for each in plan.plant.happenings if each.server == server.name), key=at_us)
    everything = merge(*(watch.events() for watch in watches), chain(*own), happenings, key=at_us)
    yield from _Recorder(plan, server).rows(everything)
    truth.drops += [drop for watch in watches for drop in watch.drops]


def _watched(plan: Plan, server: Server) -> tuple[Broker, ...]:
    return plan.brokers if server.source == "namesrv" or plan.heartbeats_to_controllers else ()


class _Own(NamedTuple):
    """Something that a server notes about itself: a lifecycle event, tick, or snapshot."""

    at_us: int
    what: str
    boot: Boot


def _own(plan: Plan, server: Server, boot: Boot) -> Iterator[_Own]:
    ticks = (_Own(at_us, "tick", boot) for at_us in range(boot.start_us, boot.end_us, TICK_INTERVAL_MS * MS))
    next(ticks, None)
    first_us = (boot.start_us // plan.snapshot_us + 1) * plan.snapshot_us
    snapshots = (_Own(at_us, "snapshot", boot) for at_us in range(first_us, boot.end_us, plan.snapshot_us))
    pauses = [pause for pause in server.pauses if boot.start_us <= pause.from_us < boot.end_us]
    resumed = (_Own(pause.to_us, "recording_resumed", boot) for pause in pauses if pause.to_us < boot.end_us)
    begin = [_Own(boot.start_us, "started", boot), _Own(boot.start_us + 500 * MS, "ready", boot)]
    end = [_Own(boot.end_us - 1, "stopping", boot)] if boot.stops else []
    return merge(begin, ticks, snapshots, resumed, end, key=attrgetter("at_us"))


def _scan_of(event: Seen | _Own | PlannedEvent) -> tuple[int, str] | None:
    """Return at which look, and from which set, a silent broker was removed: the members leave together."""
    if isinstance(event, Seen) and event.what == End.SILENT.value:
        return event.at_us, event.broker.key.broker_name
    return None


def _who(seen: Seen) -> Row:
    key = seen.broker.key
    return {"cluster": seen.broker.cluster, "broker_name": key.broker_name, "broker_id": key.broker_id}


class _Recorder:
    """Turns what one server notes into rows: fills in the envelope, and remembers how sets and topics stand."""

    def __init__(self, plan: Plan, server: Server) -> None:
        self._plan, self._server = plan, server
        self._random = Random(f"{plan.seed} recorder {server.name}")
        self._boots = boots(plan, server)
        self._seq = 0
        self._book = RouteBook(plan)
        self._last_tick_us = 0

    def rows(self, events: Iterator[Seen | _Own | PlannedEvent]) -> Iterator[tuple[str, Row]]:
        numbers = count()
        for _, together in groupby(events, key=lambda event: _scan_of(event) or next(numbers)):
            event, *others = together
            while len(self._boots) > 1 and event.at_us >= self._boots[0].end_us:
                self._boots.pop(0)
            boot = self._boots[0]
            if not boot.start_us <= event.at_us < boot.end_us:
                continue
            for family, row in self._timed([event, *others], boot):
                if not self._is_paused(event.at_us):
                    yield family, self._as_released(row)

    def _timed(self, together: list[Seen | _Own | PlannedEvent], boot: Boot) -> Iterator[tuple[str, Row]]:
        event = together[0]
        match event:
            case Seen() if event.what in _FAMILY_OF:
                yield _FAMILY_OF[event.what], self._row(event.at_us, boot, event.what, _who(event) | event.values)
            case Seen():
                yield from self._about_set([each for each in together if isinstance(each, Seen)], boot)
            case PlannedEvent():
                yield event.family, self._row(event.at_us, boot, event.event_type, dict(event.values))
            case _Own():
                yield from self._about_itself(event, boot)

    def _about_set(self, together: list[Seen], boot: Boot) -> Iterator[tuple[str, Row]]:
        """Yield what happened to members of one set at once: the first row tells how the set stands after all of it."""
        if self._server.source != "namesrv":
            return
        taken = [(seen, *self._book.take(seen)) for seen in together]
        as_set = {name: taken[-1][2][name] for name in SET_COLUMNS}
        for seen, what, values, changes in taken:
            own = {name: value for name, value in values.items() if name not in SET_COLUMNS}
            row = self._row(seen.at_us, boot, what, _who(seen) | own | as_set)
            as_set = {}
            yield "broker_state", row
            for change in changes:
                more = {**_who(seen), **change, "cause_event_id": row["event_id"]}
                yield "route_change", self._row(seen.at_us, boot, "topic_changed", more)

    def _about_itself(self, own: _Own, boot: Boot) -> Iterator[tuple[str, Row]]:
        if own.what == "tick":
            yield "ns_tick", self._row(own.at_us, boot, "tick", self._tick(own.at_us, boot))
        elif own.what == "snapshot":
            yield from self._snapshot(own.at_us, boot)
        else:
            yield "ns_lifecycle", self._row(own.at_us, boot, own.what, self._lifecycle(own, boot))
            if own.what == "recording_resumed":
                yield from self._snapshot(own.at_us, boot)

    def _lifecycle(self, own: _Own, boot: Boot) -> Row:
        values: Row = {"version": "1.0.0", "address": f"{self._server.name}:9876"}
        if own.what == "started":
            self._book = RouteBook(self._plan)
            self._last_tick_us = own.at_us
            earlier = [each for each in boots(self._plan, self._server) if each.end_us <= boot.start_us]
            if earlier:
                values["former_boot_id"] = self._boot_id(earlier[-1])
                values["unobserved_from"] = earlier[-1].end_us + self._server.skew_us
        elif own.what == "recording_resumed":
            pause = next(each for each in self._server.pauses if each.to_us == own.at_us)
            values["unobserved_from"] = pause.from_us + self._server.skew_us
            values["reason"] = STATES_MISSING
        return values

    def _tick(self, at_us: int, boot: Boot) -> Row:
        interval_ms = (at_us - max(self._last_tick_us, boot.start_us)) // MS
        self._last_tick_us = at_us
        members, topics, queues = self._book.counts()
        values = {
            "brokers": members,
            "topics": topics,
            "queues": queues,
            "resident_memory_bytes": 60_000_000 + 500 * queues,
            "connections": 2 * members,
            "loop_lag_ms": round(self._random.uniform(0.2, 3), 3),
            "requests_rejected": 0,
            "interval_ms": interval_ms,
        }
        if self._server.source == "controller":
            values["etcd_db_bytes"] = 2_000_000
        else:
            # Clients ask for topics that are nowhere, each 3 s.
            values["not_found_total"] = (at_us - boot.start_us) // (3_000 * MS)
        return values | dict(self._plan.gauges(self._server, at_us) if self._plan.gauges else {})

    def _snapshot(self, at_us: int, boot: Boot) -> Iterator[tuple[str, Row]]:
        if self._server.source != "namesrv":
            return
        for columns in self._book.shown():
            yield "broker_state", self._row(at_us, boot, "snapshot", columns)
        snapshot_id = f"{self._boot_id(boot)}-{at_us // MS}"
        alike = list(self._book.snapshot())
        for columns in alike:
            values = {"snapshot_id": snapshot_id, "scope": "all", **columns}
            yield "route_snapshot", self._row(at_us, boot, "queues", values)
        finished = {"snapshot_id": snapshot_id, "scope": "all", "rows": len(alike)}
        yield "route_snapshot", self._row(at_us, boot, "finished", finished)

    # The envelope

    def _row(self, at_us: int, boot: Boot, event_type: str, values: Row) -> Row:
        boot_id = self._boot_id(boot)
        self._seq += 1
        envelope = {
            "schema_version": self._server.schema_version,
            "event_id": f"{boot_id}-{self._seq}",
            "event_type": event_type,
            "event_time": at_us + self._server.skew_us,
            "mono_us": at_us - self._plan.start_us + UP_US,
            "ns_id": self._server.name,
            "boot_id": boot_id,
            "source": self._server.source,
        }
        return envelope | {name: value for name, value in values.items() if value is not None}

    def _boot_id(self, boot: Boot) -> str:
        return f"{self._server.name}-{(boot.start_us + self._server.skew_us) // MS}"

    def _is_paused(self, at_us: int) -> bool:
        return any(pause.from_us <= at_us < pause.to_us for pause in self._server.pauses)

    def _as_released(self, row: Row) -> Row:
        """Return the row as the server's release writes it."""
        if not self._server.lacks and not self._server.extras:
            return row
        known = {name: value for name, value in row.items() if name not in self._server.lacks}
        return known | dict(self._server.extras)
