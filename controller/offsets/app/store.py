"""Opens what the configuration names: the journal, and the embedded store or etcd."""

import asyncio
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from controller.offsets.config import OffsetManagerConfig
from controller.offsets.observability.event_log import OffsetEventLog
from controller.offsets.storage.embedded_remote import EmbeddedRemote
from controller.offsets.storage.journal import Journal
from controller.offsets.storage.remote import RemoteStore
from controller.offsets.storage.row_flusher import refuse_other_store
from controller.offsets.storage.write_behind import WriteBehind
from controller.offsets.storage.write_behind_options import WriteBehindOptions
from controller.offsets.values import GroupTopic, is_lock_row
from remoting.background_tasks import BackgroundTasks
from remoting.clock import Clock
from serving.config.checks import listed_keys
from serving.config.name_patterns import NamePattern
from serving.process.start import StartFailed
from store.store import ControllerMember, StoreError, StoreObserver

#: Groups whose durability is cached.
_GROUPS_MAX = 50_000


class ManagerRoleListener(Protocol):
    """Receives who leads."""

    def leads(self, until_ms: int | None) -> None:
        """Report that this manager leads until then, None for ever."""

    def follows(self, leader: ControllerMember | None) -> None:
        """Report that this manager does not lead, and who does."""

    def put_back(self) -> None:
        """Report that the store was put back to an older state."""


class ManagerStore(RemoteStore, Protocol):
    """A remote store with its leadership."""

    def join(self, me: ControllerMember, listener: ManagerRoleListener) -> None:
        """Stand for election from now on."""

    @property
    def lead(self) -> int:
        """The number of this manager's lead, higher than those of all leads before it; 0 if nobody else can lead."""

    def pass_on(self) -> None:
        """Let another manager lead at once, and stand again after a while."""

    async def resign(self) -> None:
        """Let another manager lead at once."""

    async def close(self) -> None:
        """Close it."""


class SoleManagerStore(EmbeddedRemote):
    """The embedded store: its file is locked by this process, so this manager leads as long as it lives."""

    def join(self, _: ControllerMember, listener: ManagerRoleListener) -> None:
        """Lead at once."""
        listener.leads(None)

    @property
    def lead(self) -> int:
        """None but this manager leads."""
        return 0

    def pass_on(self) -> None:
        """Do nothing: nobody else can lead."""

    async def resign(self) -> None:
        """Do nothing, as above."""


def open_journal(config: OffsetManagerConfig, clock: Clock) -> Journal:
    """Return the journal; raises StartFailed."""
    try:
        return Journal(Path(config.store_path), clock)
    except StoreError as error:
        raise StartFailed(str(error)) from error


def open_store(config: OffsetManagerConfig, clock: Clock, observer: StoreObserver, journal: Journal) -> ManagerStore:
    """Return the configured store; raises StartFailed, also for a journal with offsets for another file."""
    try:
        if config.store == "embedded":
            return _sole_store(config, clock, journal)
        # It loads gRPC, which takes a while and which nobody else needs.
        from controller.offsets.storage.etcd_remote import EtcdRemote  # noqa: PLC0415
        from store.etcd.client import etcd_options  # noqa: PLC0415

        return EtcdRemote(etcd_options(config, config.manager_group), clock, observer)
    except StoreError as error:
        raise StartFailed(str(error)) from error


def _write_through_rule(config: OffsetManagerConfig) -> Callable[[GroupTopic], bool]:
    """Return what says whether the acknowledgements of a row wait for the store."""
    patterns = [NamePattern(each) for each in sorted(listed_keys(config.write_through_groups))]
    # Each change is looked up, many times a second.
    is_named = lru_cache(_GROUPS_MAX)(lambda group: any(each.matches(group) for each in patterns))
    if config.store == "etcd":
        # A lock has to be known to the next leader, whose journal is another one.
        return lambda of: is_lock_row(of) or is_named(of.group)
    return (lambda of: is_named(of.group)) if patterns else (lambda _: False)


def make_write_behind(
    journal: Journal, store: RemoteStore, clock: Clock, config: OffsetManagerConfig, event_log: OffsetEventLog
) -> WriteBehind:
    """Return what is between the journal and the store."""
    options = WriteBehindOptions(flush_interval_ms=config.flush_interval_ms, dirty_keys_max=config.dirty_keys_max)
    return WriteBehind(journal, store, clock, options, event_log, _write_through_rule(config))


def _sole_store(config: OffsetManagerConfig, clock: Clock, journal: Journal) -> SoleManagerStore:
    store = SoleManagerStore(Path(config.store_path), clock)
    try:
        refuse_other_store(journal, store.id)
    except StoreError:
        store.close_file()
        raise
    return store


class EtcdCalls(StoreObserver):
    """Brings the reports of the threads that call etcd to the event loop."""

    def __init__(self, event_log: OffsetEventLog, tasks: BackgroundTasks) -> None:
        self._event_log = event_log
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()

    def store_call(self, kind: str, result: str, seconds: float) -> None:
        """Count one call."""
        self._loop.call_soon_threadsafe(self._event_log.store_call, kind, result, seconds)

    def store_calls_failing(self, kind: str, error: str) -> None:
        """Note that calls fail."""
        self._loop.call_soon_threadsafe(self._event_log.store_calls_failing, kind, error)

    def store_calls_answered(self, kind: str, silent_ms: int) -> None:
        """Note that they succeed again."""
        self._loop.call_soon_threadsafe(self._event_log.store_calls_answered, kind, silent_ms)

    def task_failed(self, name: str, error: BaseException) -> None:
        """Report what failed in the background."""
        self._loop.call_soon_threadsafe(self._tasks.report, name, error)
