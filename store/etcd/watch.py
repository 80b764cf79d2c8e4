"""Follows the keys of a group but its documents, in a thread of its own, through breaks and compactions."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from controller.sets.stored_set import StoredSet
from remoting.clock import Clock
from store.etcd import calls
from store.etcd.calls import LeaderKeyState
from store.etcd.client import CALL_MS, EtcdClient, grpc
from store.etcd.keys import Keys, address_of, holder_of, versioned_entry_of
from store.store import ControllerMember, StoreError, VersionedEntry

#: How long after a break the watch is opened again.
RETRY_S: Final = 0.2
#: How much longer after a fault of ours, which may be there again: all entries are read then.
FAULT_PAUSE_S: Final = 1.0
#: What the watch is called where it fails.
TASK: Final = "etcd_watch"


class KeySnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All keys of the group at one revision, its documents apart."""

    leader_key: LeaderKeyState
    members: Mapping[str, ControllerMember]
    entries: Mapping[str, VersionedEntry]


class MemberChanged(msgspec.Struct, frozen=True):
    """A controller joined, moved or left (None)."""

    id: str
    member: ControllerMember | None


class EntryChanged(msgspec.Struct, frozen=True):
    """An entry was written, or removed (then it is empty)."""

    broker_name: str
    versioned: VersionedEntry


Change = LeaderKeyState | MemberChanged | EntryChanged


class Watch:
    """Calls `on_news` in the watching thread: first with a KeySnapshot, then with each change, in the order of etcd."""

    def __init__(
        self,
        client: EtcdClient,
        keys: Keys,
        clock: Clock,
        on_news: Callable[[KeySnapshot | list[Change]], None],
        report: Callable[[str, BaseException], None],
    ) -> None:
        self._client, self._keys, self._clock, self._on_news = client, keys, clock, on_news
        #: Called in the watching thread with a failure of our own code.
        self._report = report
        self._threads = threads = client.system.threads
        self._stopped = threads.Event()
        self._is_lost = threads.Event()
        #: The first revision not received yet; 0: none received.
        self._next_revision = 0
        self._call: Any = None
        # A daemon: a process that ends without closing its store does not wait for news.
        self._thread = threads.Thread(target=self._run, name="etcd-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def restart(self) -> None:
        """Report everything anew: what was reported so far is invalid."""
        self._is_lost.set()
        self._cancel()

    def stop(self, *, seconds: float) -> None:
        """End the thread; blocks until it has ended, so long at most."""
        self._stopped.set()
        self._cancel()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _cancel(self) -> None:
        if (call := self._call) is not None:
            call.cancel()

    def _run(self) -> None:
        while not self._stopped.is_set():
            # The election calls etcd all the time, and reports its failures. gRPC raises ValueError where the endpoint
            # was left for another one meanwhile.
            try:
                with suppress(StoreError, grpc.RpcError, ValueError):
                    self._follow()
            except BaseException as error:  # noqa: BLE001  # a thread that ends would never learn of a new leader
                self._next_revision = 0
                # The report itself may be what fails.
                with suppress(Exception):
                    self._report(TASK, error)
                self._stopped.wait(FAULT_PAUSE_S)
            self._stopped.wait(RETRY_S)

    def _follow(self) -> None:
        if self._is_lost.is_set():
            self._is_lost.clear()
            self._next_revision = 0
        if not self._next_revision:
            self._sweep()
        ended = self._threads.Event()
        try:
            self._call = call = self._client.open_stream(
                calls.watch(self._keys, self._next_revision, ended.wait), deadline_ms=self._clock.now_ms() + CALL_MS
            )
            if self._stopped.is_set() or self._is_lost.is_set():
                call.cancel()  # it was not there yet when it was to be cancelled
            for answer in call:
                if answer.canceled:
                    self._next_revision = 0 if answer.compact_revision else self._next_revision
                    return
                self._take(answer)
        finally:
            ended.set()
            self._cancel()

    def _sweep(self) -> None:
        kvs, revision = calls.read_all(self._client, self._keys.watched, self._clock.now_ms)
        changes = [self._change(kv) for kv in kvs]
        holder = next((each.holder for each in changes if isinstance(each, LeaderKeyState)), None)
        self._on_news(
            KeySnapshot(
                leader_key=LeaderKeyState(holder, revision),
                members={each.id: each.member for each in changes if isinstance(each, MemberChanged) and each.member},
                entries={each.broker_name: each.versioned for each in changes if isinstance(each, EntryChanged)},
            )
        )
        self._next_revision = revision + 1

    def _take(self, answer: Any) -> None:
        if answer.events:
            self._on_news(list(self._changes(answer.events)))
            # The header may be ahead of what has been sent so far.
            self._next_revision = answer.events[-1].kv.mod_revision + 1
        elif not answer.created:
            self._next_revision = answer.header.revision + 1  # nothing has happened until then

    def _changes(self, events: Iterable[Any]) -> Iterable[Change]:
        changes = (self._change(event.kv, is_there=event.type == event.PUT) for event in events)
        return (change for change in changes if change is not None)

    def _change(self, kv: Any, *, is_there: bool = True) -> Change | None:
        """Return what has become of a key; None if that cannot be read, which a leader reports when it loads."""
        keys = self._keys
        try:
            if kv.key == keys.leader:
                return LeaderKeyState(holder_of(kv) if is_there else None, kv.mod_revision)
            if kv.key.startswith(keys.members):
                member_id = keys.member_id(kv.key)
                member = ControllerMember(id=member_id, address=address_of(kv)) if is_there else None
                return MemberChanged(member_id, member)
            if kv.key.startswith(keys.sets):
                versioned = versioned_entry_of(kv) if is_there else VersionedEntry(StoredSet(), kv.mod_revision)
                return EntryChanged(keys.broker_name(kv.key), versioned)
        except StoreError:
            pass
        return None
