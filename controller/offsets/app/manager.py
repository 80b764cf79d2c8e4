"""Wires an offset manager: the service, the store and the HTTP side, and what any server has around them."""

import asyncio
import secrets
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from controller.offsets.app.at_brokers import AtBrokers, AtBrokersParts
from controller.offsets.app.journal_handover import HandoverSource, JournalHandover
from controller.offsets.app.restoring import Restoring, open_operations
from controller.offsets.app.store import EtcdCalls, make_write_behind, open_journal, open_store
from controller.offsets.commits.entry_checks import OffsetLimits
from controller.offsets.commits.refusals import OffsetsRefused
from controller.offsets.config import OFFSET_MANAGER, OffsetManagerConfig
from controller.offsets.locks.sessions.refusals import LocksRefused
from controller.offsets.observability.counters import OffsetCounters
from controller.offsets.observability.event_log import OffsetEventLog
from controller.offsets.observability.restore_event_log import RestoreEventLog
from controller.offsets.recording.offset_recorder import OffsetRecorder
from controller.offsets.restore.site import BrokerAccess
from controller.offsets.service.lock_keeper import LockKeeper
from controller.offsets.service.lock_service import LockService
from controller.offsets.service.manager_role import ManagerNotLeading, StillLoading
from controller.offsets.service.offset_service import OffsetService, ServiceParts
from remoting.background_tasks import start_task
from remoting.clock import BootClock
from remoting.protocol.addresses import host_and_port
from serving.http.admin_access import CLIENT_PROPERTY, PROPERTY
from serving.process.admin_token_file import token_in
from serving.process.broker_client import broker_client
from serving.process.http_process import HttpProcess
from serving.process.own_address import address_towards_others, advertised_host, warn_of_loopback
from serving.process.process import Runtime
from serving.process.start import StartFailed
from store.store import ControllerMember, StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.offsets.http.manager_views import ManagerViews, ViewParts
    from serving.http.endpoints import Endpoint
    from serving.process.background_tasks import BackgroundTask

#: How long the last flush may take at the stop; what it does not take stays in the journal.
STOP_FLUSH_S: Final = 20.0
#: How often leases are looked at.
EXPIRE_S: Final = 0.25
#: How often fences are looked at whose tokens could not be stored at once.
FENCES_S: Final = 60
#: How often deletions are looked at that need not be remembered any more.
FORGET_S: Final = 3600
#: What ends a look that is taken again later.
_FAILED: Final = (StoreError, OffsetsRefused, LocksRefused, ManagerNotLeading, StillLoading, TimeoutError)


@dataclass(frozen=True, slots=True)
class FixedConfig:
    """The configuration: it is the same until the process ends."""

    config: OffsetManagerConfig


class OffsetManager:
    """One offset manager with all its parts."""

    def __init__(self, config: OffsetManagerConfig, runtime: Runtime) -> None:
        """Wire it; raises StartFailed."""
        self._config = config
        # Leases of sessions, and of the lead, go on while the host is suspended: others go by them meanwhile.
        runtime = replace(runtime, clock=BootClock())
        self._clock, self._logs, self._tasks, self._signals = (
            runtime.clock,
            runtime.logs,
            runtime.tasks,
            runtime.signals,
        )
        self._counters = OffsetCounters()
        self._process = HttpProcess(OFFSET_MANAGER, config, self._counters, runtime, config.client_token_file)
        recording = self._process.recording
        self._history = recording.recorder if recording is not None else None
        self._recorder = OffsetRecorder(self._history)
        self._event_log = OffsetEventLog(self._logs, self._counters, self._recorder)
        self._journal = open_journal(config, self._clock)
        self._backend = open_store(config, self._clock, EtcdCalls(self._event_log, self._tasks), self._journal)
        self._store = make_write_behind(self._journal, self._backend, self._clock, config, self._event_log)
        parts = ServiceParts(
            store=self._store,
            clock=self._clock,
            start=self._tasks.start,
            observer=self._event_log,
            limits=OffsetLimits(rows_max=config.offsets_max),
            lead_number=lambda: self._backend.lead,
            pass_on=self._backend.pass_on,
        )
        keeper = LockKeeper(self._store, self._clock)
        self._service = OffsetService(parts, keeper)
        self._locks = LockService(self._service, keeper, self._clock, self._event_log)
        self._operations = open_operations(config, self._clock, lambda: self._me.address)
        restore_log = RestoreEventLog(self._logs, self._counters, self._recorder)
        self._restoring = Restoring(self._service, self._operations, self._clock, restore_log)
        self._client = broker_client(config, self._clock, self._logs, self._counters)
        self._at_brokers = self._make_at_brokers(runtime) if config.follows_brokers else None

    async def run(self) -> None:
        """Serve until the stop signal, then flush and stop in order. Raises StartFailed."""
        self._process.open()
        self._me = member_of(self._config, self._process.address)
        if not self._config.advertised_address:
            warn_of_loopback(self._config.http_bind_address, self._logs)
        self._store.start(self._tasks)
        self._backend.join(self._me, self._service)
        await self._process.start_http(self._site)
        await self._process.serve(self._expire_leases, self._end_fences, self._forget_deleted, *self._own_work())
        if self._at_brokers is not None:
            self._at_brokers.stop()
        self._process.drain()
        await self._flush()
        with suppress(StoreError):  # the lease ends by itself
            await self._backend.resign()
        at_brokers = [] if self._at_brokers is None else [self._at_brokers.close]
        await self._process.close(
            *at_brokers, self._client.close, self._operations.close, self._journal.close, self._backend.close
        )

    def _make_at_brokers(self, runtime: Runtime) -> AtBrokers:
        parts = AtBrokersParts(
            runtime,
            self._client,
            self._counters,
            self._recorder,
            self._service.role,
            self._operations,
            declared=lambda: self._locks.table.orderly_groups,
        )
        return AtBrokers(self._config, parts)

    def _brokers(self) -> BrokerAccess | None:
        """Return what restores at brokers; None where none are followed."""
        if (at_brokers := self._at_brokers) is None:
            return None
        return self._restoring.brokers(self._client, at_brokers.following, at_brokers.mirroring)

    def _own_work(self) -> "list[BackgroundTask]":
        at_brokers = [] if self._at_brokers is None else self._at_brokers.work()
        return [*at_brokers, *self._handover()]

    def _handover(self) -> "list[BackgroundTask]":
        if self._config.store == "embedded":
            return []
        token = partial(_token_of, self._config)
        own = HandoverSource(self._journal, self._service.role, self._backend.store_id)
        handover = JournalHandover(own, token, self._clock, self._event_log)
        return [handover.hand_journal_over]

    async def _flush(self) -> None:
        """Refuse changes from here on, and let the store have everything; a second stop signal ends that."""
        works = [start_task(self._store.stop(STOP_FLUSH_S)), start_task(self._signals.force_stop.wait())]
        await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
        for each in works:
            each.cancel()
        if left := self._store.dirty_keys:
            self._event_log.left_dirty(left)

    async def _expire_leases(self) -> None:
        while True:
            await asyncio.sleep(EXPIRE_S)
            self._service.end_freezes()
            # What the store does not take now it takes the next time, and its failures are logged.
            with suppress(*_FAILED):
                await self._locks.expire()

    async def _end_fences(self) -> None:
        while True:
            await asyncio.sleep(FENCES_S)
            with suppress(*_FAILED):
                await self._locks.end_fences()

    async def _forget_deleted(self) -> None:
        while True:
            await asyncio.sleep(FORGET_S)
            with suppress(*_FAILED):
                await self._service.forget_deleted()

    def _site(self) -> "tuple[Sequence[Endpoint], ManagerViews]":
        """Return the paths and their views; in a thread, because what they import takes long."""
        from controller.offsets.http.endpoints import ENDPOINTS  # noqa: PLC0415
        from controller.offsets.http.manager_views import ManagerViews, ShownManager  # noqa: PLC0415
        from controller.offsets.observability.metrics import OffsetMetrics, OffsetMetricSources  # noqa: PLC0415

        sources = OffsetMetricSources(
            counters=self._counters,
            logs=self._logs,
            health=self._process.health,
            task_failures=self._tasks.failures,
            recorder=self._history,
            service=self._service,
            locks=self._locks,
            store=self._store,
            at_brokers=self._at_brokers,
        )
        manager = ShownManager(self._me, FixedConfig(self._config), self._service, self._store)
        views = ManagerViews(self._process.health, OffsetMetrics(sources), manager, self._view_parts())
        return ENDPOINTS, views

    def _view_parts(self) -> "ViewParts":
        """Return what answers the paths of each subject; in a thread, as above."""
        from controller.offsets.http.guard_views import GuardViews  # noqa: PLC0415
        from controller.offsets.http.holder_views import HolderPages  # noqa: PLC0415
        from controller.offsets.http.lock_views import LockViews  # noqa: PLC0415
        from controller.offsets.http.manager_views import ViewParts  # noqa: PLC0415
        from controller.offsets.http.mirror_views import MirrorViews  # noqa: PLC0415
        from controller.offsets.http.restore_views import RestoreViews  # noqa: PLC0415
        from controller.offsets.http.views import OffsetViews  # noqa: PLC0415

        service, role, at = self._service, self._service.role, self._at_brokers
        restores = RestoreViews(service, self._restoring.site(self._brokers()))
        return ViewParts(
            offsets=OffsetViews(service, self._store, restores, run=secrets.token_hex(4)),
            restores=restores,
            locks=LockViews(self._locks, role, self._clock),
            holders=HolderPages(self._locks, role, self._clock, None if at is None else at.holding),
            mirror=MirrorViews(None if at is None else at.mirroring),
            guard=GuardViews(None if at is None else at.guarding, self._config.guard),
        )


def _token_of(config: OffsetManagerConfig) -> str:
    """Return the token with which this manager commits at another one; blank for none. Raises StartFailed."""
    if config.client_token_file:
        return token_in(config.client_token_file, CLIENT_PROPERTY)
    return token_in(config.http_admin_token_file, PROPERTY) if config.http_admin_token_file else ""


def member_of(config: OffsetManagerConfig, bound_address: str) -> ControllerMember:
    """Return this manager as others and clients know it.

    Raises StartFailed for a manager on etcd that would advertise a loopback address because it found no other.
    """
    address = config.advertised_address
    if not address:
        if config.store == "etcd" and address_towards_others(config.http_bind_address) is None:
            raise StartFailed(
                "no address of this machine was found at which clients reach it: set advertisedAddress to host:port"
            )
        port = int(bound_address.rpartition(":")[2])
        address = host_and_port(advertised_host(config.http_bind_address), port)
    return ControllerMember(id=config.manager_id or address, address=address)


def logged_id(config: OffsetManagerConfig, host_name: str) -> str:
    """Return the id of this manager before it is started."""
    host = address_towards_others(config.http_bind_address)
    return config.manager_id or config.advertised_address or host_and_port(host or host_name, config.http_port)
