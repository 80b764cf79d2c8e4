"""What one server sees of one broker: its beats, first registrations, silences and departures, as a server would.

The rules are those of a NameServer: known from its first registration on, given up within 0.1 s once it was silent for
its timeout, at once when its connection ends, and unknown to a server that has just started.
"""

from collections import deque
from collections.abc import Iterator
from heapq import merge
from random import Random
from statistics import median_low
from typing import Any, NamedTuple

from history.schemas import INTERVAL_BINS
from synthetic.plan import MINUTE, MS, Broker, BrokerKey, End, Plan, Server
from synthetic.uptimes import LATENCY_US, Uptime, heartbeats, uptimes

#: NameServers look for those whose timeout is over so often; who is over it at one look leaves together.
LOOK_US = 100 * MS

#: Beats that come more often than each 10 s are summarised.
RAW_PERIOD_MS = 10_000
CONTROLLER_PERIOD_MS = 1_000
CONTROLLER_TIMEOUT_MS = 10_000


class Boot(NamedTuple):
    """A process of a server."""

    start_us: int
    end_us: int
    #: It stopped in order; False too for the last one, which outlives the history.
    stops: bool


class Drop(NamedTuple):
    """A beat that did not come, and was missed: the server knew the broker before and heard it afterwards."""

    server: str
    broker: BrokerKey
    sent_us: int


class Seen(NamedTuple):
    """Something that the server notes about a broker."""

    at_us: int
    #: beat, gap, summary, or an event type of `broker_state`.
    what: str
    broker: Broker
    values: dict[str, Any]


class _Encounter(NamedTuple):
    at_us: int
    uptime: Uptime
    version: int
    #: None: a beat.
    end: End | None


def boots(plan: Plan, server: Server) -> list[Boot]:
    """Return the server's processes, in their order."""
    found, start_us = [], plan.start_us
    for downtime in sorted(server.downtimes):
        found.append(Boot(start_us, downtime.from_us, downtime.clean))
        start_us = downtime.to_us
    return [*found, Boot(start_us, plan.end_us, False)]


class Watch:
    """One server that watches one broker."""

    def __init__(self, plan: Plan, server: Server, broker: Broker) -> None:
        self._plan, self._server, self._broker = plan, server, broker
        to_controller = server.source == "controller"
        self._period_ms = CONTROLLER_PERIOD_MS if to_controller else broker.period_ms
        self._timeout_ms = CONTROLLER_TIMEOUT_MS if to_controller else broker.timeout_ms
        self._kind = "controller" if to_controller else "register"
        self._random = Random(f"{plan.seed} watch {server.name} {broker.key}")
        self._phase_us = int(Random(f"{plan.seed} look {server.name}").random() * LOOK_US)
        here = (broker.key, server.name)
        self._cuts = [cut for cut in plan.plant.cuts if (cut.broker, cut.server) == here]
        self._boot: Boot | None = None
        self.drops: list[Drop] = []
        self._forget()

    def _forget(self) -> None:
        self._last_heartbeat_us: int | None = None
        self._address = ""
        self._version = 0
        self._intervals: deque[int] = deque(maxlen=11)
        self._silences: list[Drop] = []
        self._minute: _Minute | None = None

    def events(self) -> Iterator[Seen]:
        """Yield all that the server notes about the broker, in its order."""
        for boot in boots(self._plan, self._server):
            self._boot = boot
            self._forget()
            for encounter in self._encounters(boot):
                yield from self._look(encounter.at_us)
                yield from self._meet(encounter)
            yield from self._look(boot.end_us)
            if boot.stops or boot.end_us == self._plan.end_us:
                yield from self._close_minute(boot.end_us - 1)

    # What reaches the server

    def _encounters(self, boot: Boot) -> Iterator[_Encounter]:
        both = merge(self._heartbeats(boot), self._ends(boot), key=lambda encounter: encounter.at_us)
        return (encounter for encounter in both if encounter.at_us < boot.end_us)

    def _heartbeats(self, boot: Boot) -> Iterator[_Encounter]:
        """Yield the beats that come through, and note the others."""
        at_us = boot.start_us
        for saying in heartbeats(self._plan, self._broker, self._period_ms):
            if saying.sent_us < boot.start_us:
                continue
            # One connection: nothing overtakes what was sent before it.
            at_us = max(at_us, saying.sent_us + self._random.randint(*LATENCY_US))
            # A lost registration is sent again at once: what is planted is the loss of beats.
            lost = not saying.is_first and self._random.random() < self._broker.drop
            if lost or self._is_cut(saying.sent_us):
                self._silences.append(Drop(self._server.name, self._broker.key, saying.sent_us))
            else:
                yield _Encounter(at_us, saying.uptime, saying.version, None)

    def _ends(self, boot: Boot) -> Iterator[_Encounter]:
        for uptime in uptimes(self._plan, self._broker):
            at_us = uptime.end_us + LATENCY_US[1]
            if (
                uptime.end in (End.CRASH, End.PLANNED, End.MOVED)
                and at_us > boot.start_us
                and not self._is_cut(uptime.end_us)
            ):
                yield _Encounter(at_us, uptime, 0, uptime.end)

    def _is_cut(self, at_us: int) -> bool:
        return any(cut.from_us <= at_us < cut.to_us for cut in self._cuts)

    # What the server makes of it

    def _look(self, until_us: int) -> Iterator[Seen]:
        """Give the broker up when its timeout is over, if that is before `until_us`."""
        if self._last_heartbeat_us is None or self._boot is None:
            return
        base_us = self._boot.start_us + self._phase_us
        looks = (self._last_heartbeat_us + self._timeout_ms * MS - base_us) // LOOK_US + 1
        at_us = base_us + looks * LOOK_US
        if at_us < until_us:
            yield from self._leave(at_us, End.SILENT)

    def _meet(self, encounter: _Encounter) -> Iterator[Seen]:
        if encounter.end is None:
            yield from self._hear(encounter)
        elif encounter.end is End.MOVED:
            yield from self._close_minute(encounter.at_us)
            self._forget()
        elif self._last_heartbeat_us is not None and encounter.uptime.address == self._address:
            yield from self._leave(encounter.at_us, encounter.end)

    def _hear(self, encounter: _Encounter) -> Iterator[Seen]:
        if self._last_heartbeat_us is None:
            self._silences.clear()
            yield self._state("registered_first", encounter)
        elif encounter.uptime.address != self._address:
            yield self._state("address_changed", encounter, former_addr=self._address)
        elif encounter.version != self._version:
            yield self._state("changed", encounter)
        interval_ms = None if self._last_heartbeat_us is None else (encounter.at_us - self._last_heartbeat_us) // MS
        self._last_heartbeat_us, self._address, self._version = (
            encounter.at_us,
            encounter.uptime.address,
            encounter.version,
        )
        yield from self._note_heartbeat(encounter, interval_ms)
        self.drops += self._silences
        self._silences.clear()
        if interval_ms is not None:
            self._intervals.append(interval_ms)

    def _note_heartbeat(self, encounter: _Encounter, interval_ms: int | None) -> Iterator[Seen]:
        period_ms = self._usual_ms()
        values = {
            "kind": self._kind,
            "interval_ms": interval_ms,
            "period_ms": period_ms,
            "timeout_ms": self._timeout_ms,
            "broker_addr": self._address,
            **_version_columns(self._plan, encounter.version),
        }
        if self._period_ms >= RAW_PERIOD_MS:
            yield Seen(encounter.at_us, "heartbeat", self._broker, values)
            return
        if interval_ms is None:
            return
        usual_ms = period_ms or self._period_ms
        if interval_ms > 1.5 * usual_ms:
            yield Seen(encounter.at_us, "gap", self._broker, values)
        minute_us = (encounter.at_us + self._server.skew_us) // MINUTE * MINUTE
        if self._minute is None or self._minute.minute_us != minute_us:
            yield from self._close_minute(encounter.at_us)
            self._minute = _Minute(minute_us, usual_ms)
        self._minute.add(interval_ms, usual_ms)

    def _usual_ms(self) -> int | None:
        return median_low(self._intervals) if len(self._intervals) >= 3 else None

    def _close_minute(self, at_us: int) -> Iterator[Seen]:
        if self._minute is not None:
            shared = {"kind": self._kind, "timeout_ms": self._timeout_ms, "broker_addr": self._address}
            yield Seen(at_us, "summary", self._broker, shared | self._minute.columns())
        self._minute = None

    def _leave(self, at_us: int, end: End) -> Iterator[Seen]:
        assert self._last_heartbeat_us is not None, "only brokers that are known leave"
        yield from self._close_minute(at_us)
        values = {
            "broker_addr": self._address,
            **self._silence(at_us),
            "timeout_ms": self._timeout_ms,
            **_version_columns(self._plan, self._version),
        }
        self._forget()
        yield Seen(at_us, end.value, self._broker, values)

    def _silence(self, at_us: int) -> dict[str, int]:
        """Return for how long the broker was silent; servers know that in ms, and since when by it."""
        assert self._last_heartbeat_us is not None, "it was heard"
        silent_ms = (at_us - self._last_heartbeat_us) // MS
        return {"last_heartbeat_time": at_us - silent_ms * MS + self._server.skew_us, "silent_ms": silent_ms}

    def _state(self, what: str, encounter: _Encounter, **more: Any) -> Seen:
        values = {
            "broker_addr": encounter.uptime.address,
            "timeout_ms": self._timeout_ms,
            "version": encounter.version,
            **_version_columns(self._plan, encounter.version),
            **more,
        }
        if self._last_heartbeat_us is not None:
            values |= self._silence(encounter.at_us)
        return Seen(encounter.at_us, what, self._broker, values)


def _version_columns(plan: Plan, version: int) -> dict[str, int]:
    return {"dv_counter": version + 1, "dv_timestamp": plan.start_us // MS + version, "dv_state_version": 0}


class _Minute:
    """The beats of one minute, as `heartbeat_summary` tells of them: each judged by the period that was usual then."""

    def __init__(self, minute_us: int, period_ms: int) -> None:
        self.minute_us, self._period_ms = minute_us, period_ms
        self._intervals: list[tuple[int, int]] = []

    def add(self, interval_ms: int, period_ms: int) -> None:
        self._intervals.append((interval_ms, period_ms))
        self._period_ms = period_ms

    def columns(self) -> dict[str, Any]:
        hist = [0] * (len(INTERVAL_BINS) + 1)
        for interval_ms, period_ms in self._intervals:
            hist[sum(interval_ms > edge * period_ms for edge in INTERVAL_BINS)] += 1
        lengths = [interval_ms for interval_ms, _ in self._intervals]
        return {
            "minute": self.minute_us,
            "period_ms": self._period_ms,
            "n": len(lengths),
            "missed": sum(max(0, round(each / period_ms) - 1) for each, period_ms in self._intervals),
            "late": sum(each > 1.5 * period_ms for each, period_ms in self._intervals),
            "interval_min_ms": min(lengths),
            "interval_max_ms": max(lengths),
            "interval_sum_ms": sum(lengths),
            "interval_sumsq_ms2": sum(each * each for each in lengths),
            "hist": hist,
        }
