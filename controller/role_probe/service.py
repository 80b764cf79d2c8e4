"""Sends a small message to each set with the probe's topic, again and again, and measures gaps in what is acknowledged.

Only the leading controller does, as a client that polls routes each 30 s, with a client of its own: a probe that hangs
holds up no other request. One send of a set is under way at a time.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from controller.config import ControllerConfig
from controller.failover.group import Group
from controller.role_probe.events import (
    LAST_GAP,
    SENDS,
    SETS,
    ProbeGap,
    ProbeResult,
    RoleProbeGapEnded,
    RoleProbeRouteMissing,
)
from remoting.admin.client import AdminClient, AdminLimits
from remoting.admin.messages import send_message
from remoting.admin.routes import TopicRoute, route_of
from remoting.client import Requester
from remoting.clock import Clock
from remoting.protocol.errors import BodyError, InvokeError, InvokeTimeout, Refused
from serving.telemetry.events import Count, Counted, Emit, Measure

#: How old a route may be: clients query it this often.
ROUTE_MS: Final = 30_000
#: How soon it is queried again where no NameServer has it.
ROUTE_AGAIN_MS: Final = 5_000
#: Sets that are probed; each is a connection and some requests a second.
PROBED_SETS_MAX: Final = 200
#: Permission bit of a topic that takes messages.
_PERM_WRITE: Final = 2


class ProbeTarget(NamedTuple):
    cluster: str
    #: Of broker id 0, which may be a role address; None while the route has no master.
    address: str | None


class ProbeTargets:
    def __init__(
        self, admin: AdminClient, topic: str, name_servers: Callable[[], tuple[str, ...]], now_ms: Callable[[], int]
    ) -> None:
        self._admin, self._topic, self._name_servers, self._now_ms = admin, topic, name_servers, now_ms
        #: By broker name, in the order of names.
        self.sets: dict[str, ProbeTarget] = {}
        #: Sets with the topic beyond PROBED_SETS_MAX.
        self.left_out = 0
        self._due_ms: int | None = None

    def clear(self) -> None:
        self.sets, self.left_out, self._due_ms = {}, 0, None

    async def look(self) -> str:
        """Query the route if it is old; returns why there is none, or blank. Without any answer the last counts."""
        if self._due_ms is not None and self._now_ms() < self._due_ms:
            return ""
        problem = "no NameServer is configured: set roleProbeNamesrvAddr or namesrvAddr"
        for address in self._name_servers():
            try:
                self._take(await self._admin.call(address, route_of(self._topic)))
            except (InvokeError, Refused, BodyError) as error:
                problem = f"{address}: {error}"
            else:
                self._due_ms = self._now_ms() + ROUTE_MS
                return "" if self.sets else f"{address}: no broker takes messages of {self._topic}"
        self._due_ms = self._now_ms() + ROUTE_AGAIN_MS
        return problem

    def _take(self, route: TopicRoute) -> None:
        names = sorted(name for name, queues in route.queues.items() if queues.perm & _PERM_WRITE)
        known = {name: route.broker_sets.get(name) for name in names[:PROBED_SETS_MAX]}
        self.left_out = max(0, len(names) - PROBED_SETS_MAX)
        self.sets = {
            name: ProbeTarget(each.cluster, each.master_address) for name, each in known.items() if each is not None
        }


class AcknowledgedSends:
    def __init__(self) -> None:
        #: None: there is nothing to measure from.
        self._last_ms: int | None = None
        self._address = ""
        self._failed = 0
        self._error = ""

    def acknowledged(self, now_ms: int, address: str, usual_ms: int) -> ProbeGap | None:
        """Take an acknowledged send; returns the gap before it. Without a failed one it is above `usual_ms`."""
        gap = None
        if self._last_ms is not None and (self._failed or now_ms - self._last_ms > usual_ms):
            gap = ProbeGap(now_ms - self._last_ms, self._failed, self._error, self._address, address)
        self._last_ms, self._address = now_ms, address
        self._failed, self._error = 0, ""
        return gap

    def failed(self, error: str) -> None:
        self._failed += 1
        self._error = error

    def discard_before(self, since_ms: int) -> None:
        """Measure nothing from an acknowledgement before then: this process was paused meanwhile."""
        if self._last_ms is not None and self._last_ms < since_ms:
            self._last_ms, self._failed, self._error = None, 0, ""


#: As a producer's sendMsgTimeout.
SEND_MS: Final = 3_000
PRODUCER_GROUP: Final = "RMQ_ROLE_PROBE"
#: Sends a second to all sets together: with more sets each is sent to less often.
SENDS_A_SECOND_MAX: Final = 500
#: How often is looked at routes and at the lead, and how late that may be before this process counts as paused.
_LOOK_MS: Final = 50
_PAUSE_MS: Final = 700
#: Beyond two intervals, how much longer an acknowledgement may take without being a gap: a busy disk is none.
_SLACK_MS: Final = 600


class RoleProbe:
    def __init__(
        self,
        group: Group,
        client: Requester,
        clock: Clock,
        config: Callable[[], ControllerConfig],
        emit: Emit,
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[bool]],
    ) -> None:
        """`client` is one of its own; `start` runs what nobody waits for."""
        self._group, self._clock, self._config = group, clock, config
        self._emit, self._start = emit, start
        self._topic = config().role_probe_topic
        limits = AdminLimits(timeout_ms=SEND_MS, requests_max=SENDS_A_SECOND_MAX, requests_per_peer_max=64)
        self._admin = AdminClient(client, limits)
        self._targets = ProbeTargets(self._admin, self._topic, self._name_servers, clock.now_ms)
        #: What probes each set.
        self._under_way: dict[str, asyncio.Task[bool]] = {}
        self._looked_ms: int | None = None
        #: When the last pause of this process ended.
        self._resumed_ms = 0
        #: Why there was no route of the topic when that was logged last.
        self._problem = ""
        #: In seconds, by cluster and set, since this controller leads.
        self._last_gaps: dict[tuple[str, str], float] = {}

    def measures(self) -> Iterator[Measure]:
        yield Measure(SETS, len(self._targets.sets), ("probed",))
        yield Measure(SETS, self._targets.left_out, ("left_out",))
        yield from (Measure(LAST_GAP, seconds, labels) for labels, seconds in self._last_gaps.items())

    async def probe_roles(self) -> None:
        watch = self._start(self._watch_pauses())
        try:
            while True:
                await self.look()
                await asyncio.sleep(_LOOK_MS / 1000)
        finally:
            watch.cancel()
            self._stop()

    async def look(self) -> None:
        """Probe the sets that have the topic now, if this controller leads; end all probes if it does not."""
        if not self._group.is_leader:
            if self._under_way:
                self._stop()
            return
        problem = await self._targets.look()
        if problem and problem != self._problem:
            self._emit(RoleProbeRouteMissing(topic=self._topic, error=problem))
        if problem or self._targets.sets:
            self._problem = problem
        for name in [name for name in self._under_way if name not in self._targets.sets]:
            self._under_way.pop(name).cancel()
        for name in self._targets.sets:
            if name not in self._under_way:
                task = self._under_way[name] = self._start(self._probe_set(name))
                task.add_done_callback(partial(self._ended, name))

    def _ended(self, name: str, ended: "asyncio.Task[bool]") -> None:
        if self._under_way.get(name) is ended:
            del self._under_way[name]

    def _stop(self) -> None:
        for task in self._under_way.values():
            task.cancel()
        self._under_way.clear()
        self._targets.clear()
        self._last_gaps.clear()

    async def _watch_pauses(self) -> None:
        """Notice that this process was paused: acknowledgements came, and nobody took them."""
        while True:
            began_ms = self._clock.now_ms()
            await asyncio.sleep(_LOOK_MS / 1000)
            now_ms = self._clock.now_ms()
            if now_ms - began_ms > _LOOK_MS + _PAUSE_MS:
                self._resumed_ms = now_ms

    async def _probe_set(self, name: str) -> None:
        sends, loop = AcknowledgedSends(), asyncio.get_running_loop()
        while (target := self._targets.sets.get(name)) is not None:
            began_s = loop.time()
            interval_ms = self._interval_ms()
            result, error = await self._sent(name, target)
            self._emit(Counted(count=Count(SENDS, (result.value,))))
            sends.discard_before(self._resumed_ms)
            if result is not ProbeResult.ACKNOWLEDGED:
                sends.failed(error)
            else:
                usual_ms = 2 * interval_ms + _SLACK_MS
                gap = sends.acknowledged(self._clock.now_ms(), target.address or "", usual_ms)
                if gap is not None:
                    self._last_gaps[target.cluster, name] = gap.gap_ms / 1000
                    self._emit(RoleProbeGapEnded(cluster=target.cluster, broker=name, gap=gap))
            await asyncio.sleep(max(0.0, began_s + interval_ms / 1000 - loop.time()))

    def _name_servers(self) -> tuple[str, ...]:
        addresses = self._config().role_probe_namesrv_addr or self._config().namesrv_addr
        return tuple(address for address in addresses.split(";") if address)

    def _interval_ms(self) -> int:
        return max(self._config().role_probe_interval_ms, len(self._targets.sets) * 1000 // SENDS_A_SECOND_MAX)

    async def _sent(self, name: str, target: ProbeTarget) -> tuple[ProbeResult, str]:
        """Send a message; returns how that ended, and why if it was not acknowledged."""
        if target.address is None:
            return ProbeResult.NO_MASTER, "the route has no master"
        unix_ms = self._clock.unix_ms()
        body = f"{self._group.me.id} {unix_ms}".encode()
        wanted = send_message(self._topic, name, body, producer_group=PRODUCER_GROUP, unix_ms=unix_ms)
        try:
            await self._admin.call(target.address, wanted)
        except InvokeTimeout as error:
            return ProbeResult.TIMEOUT, str(error)
        except (InvokeError, Refused, BodyError) as error:
            return ProbeResult.FAILED, str(error)
        return ProbeResult.ACKNOWLEDGED, ""
