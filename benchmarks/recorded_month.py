"""Days of a NameServer's history, written by the product's own rules and rows, and what was true at any moment of them.

What happens is planned first, from a seed, in plain values; of these `Plan.route` tells what is true without any code
of the product. The same plan is played to a `RouteState`, as brokers and operators would, and what that says of itself
is written as the recorder writes it. In the middle the NameServer is restarted: so two processes can write a half each.

Heartbeats are left out: no question about routes or brokers opens their files.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from enum import Enum
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Final, NamedTuple

from history.landing import Landing
from history.rows import Moment, Recordable, RowMaker, encoded
from history.schemas import TICK_INTERVAL_MS
from history.server_rows import lifecycle, tick
from namesrv.core.registration.registration import HEARTBEAT_TIMEOUT_MS_DEFAULT, Registration
from namesrv.core.route_state import RouteState
from namesrv.core.tables.change import RouteTables
from namesrv.core.tables.live_table import LiveKey
from namesrv.core.tables.topic_table import SharedSettings
from namesrv.core.values.cooperative import run_to_completion
from namesrv.core.values.effects import Event, HeartbeatKind
from namesrv.recording.rows import (
    SNAPSHOT_TOPICS,
    BrokerSetRun,
    MappingsSnapshot,
    Piece,
    QueueSettings,
    RouteProperties,
    SetsChanged,
    SnapshotTopics,
    configured,
    finished,
    is_recorded,
    snapshot,
)
from namesrv.settings.config import NameServerConfig
from remoting.protocol.shapes.route import DataVersion, QueueData

SECOND_US: Final = 1_000_000
MINUTE_US: Final = 60 * SECOND_US
HOUR_US: Final = 60 * MINUTE_US
PROCESSES: Final = 2
#: What happens in an hour.
LEAVE_AN_HOUR: Final = 5
TUNED_AN_HOUR: Final = 100
ALTERED_AN_HOUR: Final = 1
#: A topic is made, and one deleted, each so many hours.
MADE_EACH_HOURS: Final = 6
#: A rack of so many brokers falls silent in this hour of each day, and is back ten minutes later.
RACK: Final = 30
RACK_HOUR: Final = 9
RACK_SILENT_US: Final = 20 * MINUTE_US
RACK_AWAY_US: Final = 10 * MINUTE_US
#: How many queues topics have.
NUMBERS: Final = (4, 8, 16, 32)
PERM: Final = 6
CLUSTER: Final = "C"
#: Brokers register one after the other.
APART_US: Final = 20_000
ARRIVE_APART_US: Final = 100_000
#: After its restart the NameServer serves again.
DOWN_US: Final = 5 * SECOND_US
#: As `namesrv/recording/route_recorder.py`:
#: the first snapshot comes so long after the start, each other one an hour after the last.
FIRST_SNAPSHOT_US: Final = 2 * MINUTE_US
#: It is found within so long that a broker has been silent for too long.
SCAN_US: Final = 5 * SECOND_US
EXPIRED_US: Final = HEARTBEAT_TIMEOUT_MS_DEFAULT * 1000 + SCAN_US // 2
TICK_US: Final = TICK_INTERVAL_MS * 1000


class Kind(Enum):
    """What can happen."""

    STARTS = "the NameServer starts anew, and knows nothing"
    STOPS = "the NameServer stops"
    ARRIVES = "a broker registers with all its topics"
    UNREGISTERS = "a broker is stopped in order"
    DISCONNECTS = "a broker's connection ends"
    FALLS_SILENT = "a broker is not heard any more"
    EXPIRES = "the NameServer gives up a broker that was silent"
    SETS = "a broker says that it has a topic, or has other queues of it"
    DELETED = "an operator deletes a topic everywhere"


AWAY: Final = frozenset({Kind.UNREGISTERS, Kind.DISCONNECTS, Kind.EXPIRES})


class Size(NamedTuple):
    """How much there is."""

    days: int
    brokers: int
    topics: int


class Planned(NamedTuple):
    """Something that happens."""

    unix_us: int
    kind: Kind
    broker: int = 0
    topic: str = ""
    queues: int = 0


class Plan:
    """All that happens, in order; the same for the same size."""

    def __init__(self, size: Size, began_us: int) -> None:
        self.size = size
        self.began_us = began_us
        self.ended_us = began_us + size.days * 24 * HOUR_US
        self.restart_us = began_us + size.days * 12 * HOUR_US
        #: What each topic has on all brokers to begin with.
        self.first = {f"topic-{number:05}": NUMBERS[number % len(NUMBERS)] for number in range(size.topics)}
        self.all: list[Planned] = []
        self._random = random.Random(1)  # noqa: S311  # the same days each time
        self._common = dict(self.first)
        #: Where and when a broker was given queues of its own, which it does not keep for long.
        self._odd: dict[int, list[tuple[int, str]]] = defaultdict(list)
        self._starts(began_us)
        for hour in range(size.days * 24):
            self._hour(hour)
        presence = _Presence(size.brokers)
        self.all = [each for each in sorted(self.all, key=lambda each: each.unix_us) if presence.can(each)]
        self._by_topic: dict[str, list[Planned]] = defaultdict(list)
        for each in self.all:
            self._by_topic[each.topic].append(each)

    def route(self, topic: str, at_us: int) -> dict[str, int]:
        """Return what is true: the queues of a topic by the names of the brokers that serve it."""
        has = dict.fromkeys(range(self.size.brokers), self.first[topic]) if topic in self.first else {}
        present: set[int] = set()
        for each in sorted([*self._by_topic[topic], *self._by_topic[""]], key=lambda each: each.unix_us):
            if each.unix_us > at_us:
                break
            if each.kind is Kind.STARTS:
                present = set()
            elif each.kind is Kind.ARRIVES:
                present.add(each.broker)
            elif each.kind in AWAY:
                present.discard(each.broker)
            elif each.kind is Kind.SETS:
                has[each.broker] = each.queues
            elif each.kind is Kind.DELETED:
                has = {}
        return {f"broker-{number}": queues for number, queues in has.items() if number in present}

    def topics(self) -> list[str]:
        """Return every topic that there is at any time."""
        return list(self.first | dict.fromkeys(each.topic for each in self.all if each.topic))

    def _starts(self, at_us: int) -> None:
        self._add(at_us, Kind.STARTS)
        for broker in range(self.size.brokers):
            self._add(at_us + (broker + 1) * ARRIVE_APART_US, Kind.ARRIVES, broker)

    def _add(self, unix_us: int, kind: Kind, broker: int = 0, topic: str = "", queues: int = 0) -> None:
        self.all.append(Planned(unix_us, kind, broker, topic, queues))

    def _hour(self, hour: int) -> None:
        first_us = self.began_us + hour * HOUR_US
        if first_us == self.restart_us:
            self._add(first_us - DOWN_US, Kind.STOPS)
            self._starts(first_us)
        for _ in range(LEAVE_AN_HOUR):
            self._leaves(self._within(first_us), self._random.randrange(self.size.brokers))
        if hour % 24 == RACK_HOUR:
            for number in range(min(RACK, self.size.brokers)):
                self._expires(first_us + RACK_SILENT_US + number * ARRIVE_APART_US, number, RACK_AWAY_US)
        self._tune(hour, first_us)
        for topic in self._some(ALTERED_AN_HOUR):
            self._everywhere(first_us, topic)
        if hour % MADE_EACH_HOURS == 0:
            (gone,) = self._some(1)
            self._add(first_us + 52 * MINUTE_US, Kind.DELETED, topic=gone)
            del self._common[gone]
            self._everywhere(first_us, f"made-{hour:03}")

    def _tune(self, hour: int, first_us: int) -> None:
        """Give topics other queues on one broker, and those of some hours ago their former ones."""
        for broker, topic in self._odd.pop(hour, ()):
            if topic in self._common:
                self._add(self._within(first_us), Kind.SETS, broker, topic, self._common[topic])
        for topic in self._some(TUNED_AN_HOUR):
            broker = self._random.randrange(self.size.brokers)
            self._add(self._within(first_us), Kind.SETS, broker, topic, self._random.randrange(33, 64))
            self._odd[hour + self._random.randrange(1, 4)].append((broker, topic))

    def _within(self, hour_us: int) -> int:
        """Return a moment of an hour, neither right after a start nor late enough to last beyond its end."""
        return hour_us + self._random.randrange(MINUTE_US, 50 * MINUTE_US)

    def _some(self, count: int) -> list[str]:
        return self._random.sample(list(self._common), min(count, len(self._common) // 2))

    def _everywhere(self, hour_us: int, topic: str) -> None:
        at_us, queues = self._within(hour_us), self._random.choice(NUMBERS)
        self._common[topic] = queues
        for broker in range(self.size.brokers):
            self._add(at_us + broker * APART_US, Kind.SETS, broker, topic, queues)

    def _leaves(self, at_us: int, broker: int) -> None:
        how = self._random.choice((Kind.UNREGISTERS, Kind.DISCONNECTS, Kind.EXPIRES))
        if how is Kind.EXPIRES:
            self._expires(at_us, broker, 4 * MINUTE_US)
        else:
            self._add(at_us, how, broker)
            self._add(at_us + 40 * SECOND_US, Kind.ARRIVES, broker)

    def _expires(self, at_us: int, broker: int, away_us: int) -> None:
        self._add(at_us, Kind.FALLS_SILENT, broker)
        self._add(at_us + EXPIRED_US, Kind.EXPIRES, broker)
        self._add(at_us + away_us, Kind.ARRIVES, broker)


class _Presence:
    """Who is there, so that nothing is planned that cannot be."""

    def __init__(self, brokers: int) -> None:
        self._all = range(brokers)
        self._silent: set[int] = set()
        self._away: set[int] = set()

    def can(self, planned: Planned) -> bool:
        """Tell whether something can be, and let it be so: who is away says nothing, who is there does not come."""
        broker = planned.broker
        if planned.kind is Kind.STARTS:
            self._away = set(self._all)
        elif planned.kind is Kind.ARRIVES:
            return self._moves(broker, self._away, None)
        elif planned.kind is Kind.FALLS_SILENT:
            # Nobody sees it.
            self._silent |= {broker} - self._away
            return False
        elif planned.kind is Kind.EXPIRES:
            return self._moves(broker, self._silent, self._away)
        elif planned.kind in AWAY or planned.kind is Kind.SETS:
            return self._speaks(planned)
        return True

    def _moves(self, broker: int, before: set[int], after: set[int] | None) -> bool:
        can = broker in before
        if can:
            before.discard(broker)
            if after is not None:
                after.add(broker)
        return can

    def _speaks(self, planned: Planned) -> bool:
        can = planned.broker not in self._silent | self._away
        if can and planned.kind in AWAY:
            self._away.add(planned.broker)
        return can


def write_days(folder: Path, plan: Plan) -> None:
    """Write the history of all days, two halves at the same time."""
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("fork")) as pool:
        # Without asking for the results a failure would go unseen.
        list(pool.map(partial(_write_half, folder, plan), (False, True)))


def _write_half(folder: Path, plan: Plan, is_second: bool) -> None:  # noqa: FBT001  # called by the pool
    first_us = plan.restart_us if is_second else plan.began_us
    NameServer(folder, plan, first_us).run(plan.ended_us if is_second else plan.restart_us)


class NameServer:
    """One process of the NameServer, from its start on."""

    def __init__(self, folder: Path, plan: Plan, started_us: int) -> None:
        self._plan = plan
        self._started_us = started_us
        boot_ms = started_us // 1000
        self._landing = Landing(folder, f"namesrv:9876-{boot_ms}")
        self._maker = RowMaker("namesrv_9876", boot_ms, "namesrv")
        self._state = RouteState(NameServerConfig())
        self._state.records_changes = True
        self._settings = SharedSettings()
        #: What each broker has, whether it is there or not.
        self._has = [dict(plan.first) for _ in range(plan.size.brokers)]
        for each in plan.all:
            if each.unix_us < started_us:
                self._follow(each)
        self._counters = [0] * plan.size.brokers
        #: Topics that may not be alike on all sets.
        self._odd = set(plan.topics()) - {topic for topic in plan.first if self._is_alike(topic)}
        #: Lines of each family that are still to be written, with the time of the first.
        self._lines: dict[str, tuple[int, list[bytes]]] = {}
        self._is_checked = False

    def run(self, until_us: int) -> None:
        """Live through what is planned, and write what a NameServer writes."""
        properties = RouteProperties(support_acting_master=False, order_message_enable=False)
        self._note(self._started_us, lifecycle("started", reason="namesrv"), configured(properties))
        self._note(self._started_us, lifecycle("ready", address="namesrv:9876"))
        planned = [each for each in self._plan.all if self._started_us <= each.unix_us < until_us]
        stops_us = next((each.unix_us for each in planned if each.kind is Kind.STOPS), until_us)
        snapshot_us = self._started_us + FIRST_SNAPSHOT_US
        number = 0
        measured = self._measured()
        for now_us in range(self._started_us + TICK_US, stops_us + 1, TICK_US):
            before = number
            while number < len(planned) and planned[number].unix_us < now_us:
                self._happens(planned[number])
                number += 1
            # Most ticks see what the one before saw.
            measured = self._measured() if number > before else measured
            if now_us > snapshot_us:
                self._note(snapshot_us, configured(properties), *self._snapshot(snapshot_us))
                snapshot_us += HOUR_US
            self._note(now_us, tick(measured))
            self._write(now_us)
        if stops_us < until_us:
            self._note(stops_us, lifecycle("stopping"))
        self._write(stops_us)
        self._landing.seal_all()

    def _happens(self, planned: Planned) -> None:
        events: tuple[Event, ...] = ()
        now_ms, broker = planned.unix_us // 1000, planned.broker
        self._follow(planned)
        if planned.kind is Kind.ARRIVES:
            events = self._register(broker, self._has[broker], now_ms)
        elif planned.kind is Kind.UNREGISTERS:
            key, connection = _key(broker), self._connection(broker)
            events = run_to_completion(self._state.unregistration_steps(CLUSTER, key, connection, now_ms)).events
        elif planned.kind is Kind.DISCONNECTS:
            events = run_to_completion(self._state.connection_loss_steps(self._connection(broker), now_ms)).events
        elif planned.kind is Kind.EXPIRES:
            self._all_send_heartbeats(now_ms, silent=broker)
            events = run_to_completion(self._state.expiry_steps(now_ms)).events
        elif planned.kind is Kind.SETS:
            self._odd.add(planned.topic)
            events = self._register(broker, {planned.topic: planned.queues}, now_ms)
        elif planned.kind is Kind.DELETED:
            events = self._state.delete_topic(planned.topic, None).events
        changes = self._state.take_changes()
        recorded = tuple(event for event in events if is_recorded(event))
        if changes or recorded:
            self._note(planned.unix_us, SetsChanged(recorded, changes))

    def _follow(self, planned: Planned) -> None:
        """Keep what brokers have."""
        if planned.kind is Kind.SETS:
            self._has[planned.broker][planned.topic] = planned.queues
        elif planned.kind is Kind.DELETED:
            for has in self._has:
                has.pop(planned.topic, None)

    def _is_alike(self, topic: str) -> bool:
        return len({has.get(topic) for has in self._has}) == 1

    def _register(self, broker: int, topics: Mapping[str, int], now_ms: int) -> tuple[Event, ...]:
        self._counters[broker] += 1
        key = _key(broker)
        registration = Registration(
            cluster=CLUSTER,
            broker_name=key.broker_name,
            broker_id=0,
            address=key.address,
            data_version=DataVersion(timestamp=now_ms, counter=self._counters[broker]),
            topics={topic: self._settings[PERM, queues, queues, 0] for topic, queues in topics.items()},
            connection_id=self._connection(broker),
        )
        outcome = run_to_completion(self._state.registration_steps(registration, lambda: now_ms, lambda: False))
        assert outcome is not None, "the whole was registered"
        return outcome.events

    def _connection(self, broker: int) -> int:
        return broker + 1

    def _all_send_heartbeats(self, now_ms: int, silent: int) -> None:
        """Let all be heard a moment ago but one."""
        for broker in range(self._plan.size.brokers):
            last_heartbeat_ms = now_ms - EXPIRED_US // 1000 if broker == silent else now_ms
            self._state.heartbeat(CLUSTER, _key(broker), HeartbeatKind.HEARTBEAT, last_heartbeat_ms)

    def _measured(self) -> dict[str, int | float | None]:
        tables = self._state.tables
        names = [each.broker_name for each in tables.brokers.sets()]
        return {
            "connections": len(names),
            "loop_lag_ms": 1.5,
            "requests_rejected": 0,
            "resident_memory_bytes": 500_000_000,
            "interval_ms": TICK_INTERVAL_MS,
            "brokers": len(names),
            "topics": len(tables.topics),
            "queues": sum(tables.topics.queue_sum(name).read for name in names),
        }

    def _snapshot(self, at_us: int) -> list[Piece]:
        """Return the routes as they stand, as the NameServer tells them; the first is compared with what that does."""
        snapshot_id = str(at_us // 1000)
        pieces = list(self._pieces(self._state.tables, snapshot_id))
        if not self._is_checked:
            self._is_checked = True
            real = [each for each in _at_once(self._state.tables, snapshot_id) if each != MappingsSnapshot({})]
            assert _lines(pieces) == _lines(real), "a snapshot is what a NameServer writes"
        return pieces

    def _pieces(self, tables: RouteTables, snapshot_id: str) -> Iterator[Piece]:
        """Yield what `snapshot` does; topics that are alike everywhere are not looked at broker by broker."""
        *sets, _ = _at_once(RouteTables(brokers=tables.brokers, live=tables.live), snapshot_id)
        yield from sets
        rows = 0
        known: dict[tuple[int, int], tuple[BrokerSetRun, ...]] = {}
        topics = iter(tables.topics.topics())
        while part := list(islice(topics, SNAPSHOT_TOPICS)):
            groups: dict[tuple[BrokerSetRun, ...], list[str]] = {}
            for topic in part:
                groups.setdefault(self._runs(tables, topic, known), []).append(topic)
            shown = SnapshotTopics(snapshot_id, groups)
            rows += shown.row_count
            yield shown
        yield finished(snapshot_id, rows)

    def _runs(
        self, tables: RouteTables, topic: str, known: dict[tuple[int, int], tuple[BrokerSetRun, ...]]
    ) -> tuple[BrokerSetRun, ...]:
        holders = tables.topics.holders_of(topic)
        if topic in self._odd:
            queues = tables.topics.of_topic(topic)
            assert queues is not None, "it was there a line ago"
            runs = _runs_of(queues)
            if self._is_alike(topic):
                self._odd.discard(topic)
            return runs
        queues_now = self._has[0][topic]
        if (runs := known.get((id(holders), queues_now))) is None:
            runs = known[id(holders), queues_now] = (
                BrokerSetRun(holders, QueueSettings(queues_now, queues_now, PERM, 0)),
            )
        return runs

    def _note(self, unix_us: int, *events: Recordable) -> None:
        moment = Moment(unix_us, unix_us - self._started_us)
        for each in events:
            for row in each.rows(self._maker, moment):
                self._lines.setdefault(row.family.name, (unix_us, []))[1].append(encoded(row))

    def _write(self, now_us: int) -> None:
        """Write what has happened since the last time, and seal what is old."""
        for family, (unix_us, lines) in self._lines.items():
            self._landing.append(family, b"".join(lines), unix_us)
        self._lines.clear()
        self._landing.seal_old(now_us)


def _runs_of(queues: Mapping[str, QueueData]) -> tuple[BrokerSetRun, ...]:
    runs: list[tuple[list[str], int]] = []
    for name, data in queues.items():
        if not runs or runs[-1][1] != data.read_queue_nums:
            runs.append(([], data.read_queue_nums))
        runs[-1][0].append(name)
    return tuple(BrokerSetRun(tuple(names), QueueSettings(number, number, PERM, 0)) for names, number in runs)


def _at_once(tables: RouteTables, snapshot_id: str) -> list[Piece]:
    """Return a snapshot while nothing changes."""
    return [piece for piece in snapshot(tables, snapshot_id, lambda: 0) if piece is not None]


def _lines(pieces: list[Piece]) -> list[bytes]:
    """Return some pieces as lines, as if nothing had been written before."""
    maker = RowMaker("", 0, "")
    return [encoded(row) for piece in pieces for row in piece.rows(maker, Moment(0, 0))]


def _key(broker: int) -> LiveKey:
    return LiveKey(f"broker-{broker}", address_of(broker))


def address_of(broker: int) -> str:
    """Return where a broker is."""
    return f"10.0.{broker // 250}.{broker % 250}:10911"
