"""Keeps the EndpointSlices of sets as they are wanted, for as long as this controller leads.

They say only where each broker is. Who is served is decided by HAProxy's checks of the controllers, so nothing waits
for the API server, and while it is away failovers go on (docs/role-addresses-kubernetes.md).

A slice is read, then the lead is checked, then it is written with the resourceVersion that was read: a deposed leader
overwrites nothing that a newer one has written. A write that is under way when the lease lapses may still count, if the
newer leader found nothing to change; that one compares again within AGAIN_MS and repairs it. Answers to no class of
Java's.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from controller.endpoint_slices.api_server import (
    CONNECTIONS_MAX,
    ERROR_CHARS_MAX,
    ApiFailed,
    ApiServer,
    SliceMoved,
    Slices,
)
from controller.endpoint_slices.events import (
    BROKERS_SHOWN_MAX,
    NOT_PUBLISHED,
    STALE,
    STALE_SINCE,
    SYNCS,
    BrokersNotPublished,
    EndpointSlicesFailing,
    EndpointSlicesRecovered,
    EndpointSliceWritten,
    SyncResult,
)
from controller.endpoint_slices.wanted import EndpointSlice, ForeignSlice, WantedSlices, next_slice, wanted_slices
from controller.failover.group import Group
from remoting.background_tasks import all_results
from remoting.clock import Clock
from serving.config.service_sets import ServiceSet
from serving.telemetry.events import Count, Counted, Emit, Measure
from serving.telemetry.telemetry import unix_s
from store.store import SetStore

if TYPE_CHECKING:
    from controller.sets.broker_set import BrokerSet

#: Lines about failures in any period of LINES_PERIOD_MS: a server may answer something else each time.
LINES_MAX: Final = 20
LINES_PERIOD_MS: Final = 60_000


class FailureReports:
    """Reports a reason once, until its set is well or fails for another one: an outage is one line."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        #: The last reason that was reported, by the name of the set that still fails.
        self._reported: dict[str, str] = {}
        self._lines_ms: deque[int] = deque(maxlen=LINES_MAX)

    def failed(self, broker_name: str, error: str, retry_ms: int, now_ms: int, fault: Exception | None = None) -> None:
        """Report a failure, unless its reason is reported or there are too many lines; then a later one is."""
        is_full = len(self._lines_ms) == LINES_MAX and now_ms - self._lines_ms[0] < LINES_PERIOD_MS
        if is_full or error in self._reported.values():
            return
        self._lines_ms.append(now_ms)
        self._reported[broker_name] = error
        self._emit(EndpointSlicesFailing(broker=broker_name, error=error, retry_ms=retry_ms, exc_info=fault))

    def forget(self, broker_name: str) -> None:
        """Let others have the reason of a set that is compared no more."""
        self._reported.pop(broker_name, None)

    def succeeded(self, broker_name: str, failures: int) -> None:
        if self._reported.pop(broker_name, None) is not None:
            self._emit(EndpointSlicesRecovered(broker=broker_name, failures=failures))


#: How often is looked for sets that have changed.
LOOK_S: Final = 0.25
#: How often the slices of a set are compared though it has not changed: somebody may have removed them.
AGAIN_MS: Final = 60_000
#: The waits after the first failures of a set, the last one from then on.
RETRY_MS: Final = (1_000, 2_000, 5_000, 10_000, 20_000, 30_000)
#: A round begins with no further set after that time: sets that have changed meanwhile come first in the next one.
BEGIN_MS: Final = 5_000
#: A server that hangs holds up the sets of the next round for no longer.
ROUND_S: Final = 30.0
#: How often a slice is read again because it was changed meanwhile.
_TRIES: Final = 3


@dataclass(slots=True, eq=False)
class _Published:
    service: ServiceSet
    broker_set: "BrokerSet | None" = None
    wanted: WantedSlices | None = None
    due_ms: int = 0
    tried_ms: int = 0
    failures: int = 0
    stale_since_ms: int | None = None

    @property
    def urgency(self) -> tuple[bool, int]:
        """Sorts sets that are due: those that are not as wanted first, then those that have waited for longest."""
        return self.stale_since_ms is None, self.tried_ms


class _Round:
    __slots__ = ("begin_until_ms", "begun", "due", "left", "turns")

    def __init__(self, due: list[_Published]) -> None:
        self.turns = asyncio.Semaphore(CONNECTIONS_MAX)
        self.begin_until_ms = 0
        self.due = due
        self.left = set(due)
        self.begun: set[_Published] = set()

    @property
    def failed(self) -> list[_Published]:
        """Those that fail with the round: under way, or all where it has not begun with any."""
        return [each for each in self.due if each in self.left and (each in self.begun or not self.begun)]


class EndpointSlices:
    def __init__(
        self,
        group: Group,
        sets: SetStore,
        clock: Clock,
        server: ApiServer,
        services: tuple[ServiceSet, ...],
        emit: Emit,
    ) -> None:
        self._group, self._sets, self._clock = group, sets, clock
        self._server, self._services, self._emit = server, services, emit
        self._term = 0
        self._published: list[_Published] = []
        self._reports = FailureReports(emit)

    async def publish_brokers(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    def measures(self) -> Iterator[Measure]:
        if self._leads():
            since = [each.stale_since_ms for each in self._published if each.stale_since_ms is not None]
            left_out = sum(len(each.wanted.left_out) for each in self._published if each.wanted is not None)
            yield Measure(STALE, len(since))
            yield Measure(STALE_SINCE, unix_s(min(since, default=None), self._clock))
            yield Measure(NOT_PUBLISHED, left_out)

    async def look(self) -> None:
        if not self._group.is_leader:
            self._published, self._term = [], 0
            return
        if self._term != self._group.term:
            self._term = self._group.term
            self._published = [_Published(each) for each in self._services]
            self._reports = FailureReports(self._emit)
        due = [each for each in self._published if self._is_due(each)]
        if due:
            await self._compare_all(due)

    def _is_due(self, each: _Published) -> bool:
        """Notice what has changed; returns whether slices are to be compared. A set that is not stored never is."""
        now_ms, broker_set = self._clock.now_ms(), self._sets.get(each.service.name)
        if broker_set is not each.broker_set:
            each.broker_set = broker_set
            wanted = wanted_slices(each.service, broker_set) if broker_set is not None else None
            if wanted != each.wanted:
                self._want(each, wanted, now_ms)
        return each.wanted is not None and now_ms >= each.due_ms

    def _want(self, each: _Published, wanted: WantedSlices | None, now_ms: int) -> None:
        left_out_before = each.wanted.left_out if each.wanted is not None else {}
        each.wanted = wanted
        if wanted is None:
            each.stale_since_ms = None
            self._reports.forget(each.service.name)
            return
        if wanted.left_out != left_out_before:
            shown = {str(broker_id): why for broker_id, why in islice(wanted.left_out.items(), BROKERS_SHOWN_MAX)}
            self._emit(BrokersNotPublished(broker=each.service.name, left_out=shown))
        each.stale_since_ms = now_ms if each.stale_since_ms is None else each.stale_since_ms
        if not each.failures:
            # After failures the wait goes on: the server is no better off with more calls.
            each.due_ms = now_ms

    async def _compare_all(self, due: list[_Published]) -> None:
        due = sorted(due, key=lambda each: each.urgency)
        this = _Round(due)
        try:
            async with asyncio.timeout(ROUND_S), self._server.opened() as slices:
                # Only now: credentials that are slow to read must not leave every set to the next round for ever.
                this.begin_until_ms = self._clock.now_ms() + BEGIN_MS
                await all_results(self._compare(each, slices, this) for each in due)
        except ApiFailed as error:
            why = str(error)
        except TimeoutError:
            why = f"the API server left it no time within {ROUND_S:g} s"
        else:
            return
        for each in this.failed:
            self._failed(each, why)

    async def _compare(self, each: _Published, slices: Slices, of: _Round) -> None:
        """Make the slices of a set as they are wanted, unless it is too late for that in this round."""
        async with of.turns:
            now_ms = self._clock.now_ms()
            if now_ms <= of.begin_until_ms:
                of.begun.add(each)
                each.tried_ms = now_ms
                await self._attempt(each, slices)
        of.left.discard(each)

    async def _attempt(self, each: _Published, slices: Slices) -> None:
        assert each.wanted is not None, "only what is wanted is due"
        try:
            written = [await self._make(one, each.service.name, slices) for one in each.wanted.slices]
        except (ApiFailed, ForeignSlice) as error:
            self._failed(each, str(error))
        except Exception as error:  # noqa: BLE001  # whatever it is, it is reported, and holds up no other set
            self._failed(each, f"a fault: {error!r}"[:ERROR_CHARS_MAX], error)
        else:
            if self._leads():
                self._succeeded(each, SyncResult.WRITTEN if any(written) else SyncResult.UNCHANGED)

    async def _make(self, wanted: EndpointSlice, broker_name: str, slices: Slices) -> bool:
        """Make one slice as it is wanted; returns whether it was written."""
        metadata = wanted.metadata
        for _ in range(_TRIES):
            found = await slices.read(metadata.namespace, metadata.name)
            changed = next_slice(found, wanted)
            # After the read, as the head of this module says.
            if changed is None or not self._leads():
                return False
            try:
                await (slices.create(changed) if found is None else slices.update(changed))
            except SliceMoved:
                continue
            brokers = {each.hostname: each.addresses[0] for each in (changed.endpoints or ())[:BROKERS_SHOWN_MAX]}
            self._emit(EndpointSliceWritten(broker=broker_name, slice=metadata.name, brokers=brokers))
            return True
        raise ApiFailed(f"EndpointSlice {metadata.name} was changed by others {_TRIES} times while it was compared")

    def _leads(self) -> bool:
        return self._group.is_leader and self._group.term == self._term

    def _succeeded(self, each: _Published, result: SyncResult) -> None:
        self._reports.succeeded(each.service.name, each.failures)
        each.failures, each.due_ms, each.stale_since_ms = 0, self._clock.now_ms() + AGAIN_MS, None
        self._emit(Counted(count=Count(SYNCS, (result.value,))))

    def _failed(self, each: _Published, error: str, fault: Exception | None = None) -> None:
        now_ms = self._clock.now_ms()
        retry_ms = RETRY_MS[min(each.failures, len(RETRY_MS) - 1)]
        self._reports.failed(each.service.name, error, retry_ms, now_ms, fault)
        each.failures += 1
        each.due_ms = now_ms + retry_ms
        each.stale_since_ms = now_ms if each.stale_since_ms is None else each.stale_since_ms
        self._emit(Counted(count=Count(SYNCS, (SyncResult.FAILED.value,))))
