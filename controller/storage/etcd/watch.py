"""Follows all keys of a group, in a thread of its own, through breaks, other endpoints and compactions."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from controller.sets.stored_set import StoredSet
from controller.storage.etcd import calls
from controller.storage.etcd.calls import Sight
from controller.storage.etcd.client import CALL_MS, EtcdClient
from controller.storage.etcd.keys import Keys, address_of, holder_of, kept_of
from controller.storage.etcd.messages import grpc
from controller.storage.store import Kept, Member, StoreError
from remoting.clock import Clock

#: How long after a break the watch is opened again.
RETRY_S: Final = 0.2
#: How much longer after a fault of ours, which may be there again: all entries are read then.
FAULT_PAUSE_S: Final = 1.0
#: What the watch is called where it fails.
TASK: Final = "etcd_watch"


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """Everything as it is at a revision."""

    sight: Sight
    members: Mapping[str, Member]
    entries: Mapping[str, Kept]


class MemberChanged(msgspec.Struct, frozen=True):
    """A controller has come, or moved, or gone (None)."""

    id: str
    member: Member | None


class EntryChanged(msgspec.Struct, frozen=True):
    """An entry was written, or removed: then it is empty."""

    broker_name: str
    kept: Kept


class Unreadable(msgspec.Struct, frozen=True):
    """Somebody has written what nobody here can read."""

    text: str


Change = Sight | MemberChanged | EntryChanged | Unreadable


class Watch:
    """Tells `hear`, in the watching thread, first everything, then each change, in the order of etcd."""

    def __init__(
        self,
        client: EtcdClient,
        keys: Keys,
        clock: Clock,
        hear: Callable[[Swept | list[Change]], None],
        report: Callable[[str, BaseException], None],
    ) -> None:
        self._client = client
        self._keys = keys
        self._clock = clock
        self._hear = hear
        #: Told, in the watching thread, what failed by a fault of ours.
        self._report = report
        self._threads = threads = client.system.threads
        self._stopped = threads.Event()
        self._is_lost = threads.Event()
        #: The first revision not heard of yet; 0: nothing is known.
        self._next_revision = 0
        self._call: Any = None
        # A daemon: a process that ends without closing its store does not wait for news.
        self._thread = threads.Thread(target=self._run, name="etcd-watch", daemon=True)
        #: How often it was opened, for tests and metrics.
        self.openings = 0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def begin_again(self) -> None:
        """Tell everything anew: what was told so far does not hold."""
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
            # The election asks all the time, and tells what is wrong with etcd. gRPC raises ValueError where the
            # endpoint was left for another one meanwhile.
            try:
                with suppress(StoreError, grpc.RpcError, ValueError):
                    self._follow()
            except BaseException as error:  # noqa: BLE001  # whatever it is: who ceases to watch knows no leader
                self._next_revision = 0
                # Who is to be told may be what fails.
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
                calls.watch(self._keys, self._next_revision, ended.wait),
                deadline_ms=self._clock.now_ms() + CALL_MS,
            )
            if self._stopped.is_set() or self._is_lost.is_set():
                call.cancel()  # it was not there yet when it was to be cancelled
            self.openings += 1
            for answer in call:
                if answer.canceled:
                    self._next_revision = 0 if answer.compact_revision else self._next_revision
                    return
                self._take(answer)
        finally:
            ended.set()
            self._cancel()

    def _sweep(self) -> None:
        kvs, revision = calls.everything(self._client, self._keys.prefix, self._clock.now_ms)
        changes = [self._change(self._written, kv) for kv in kvs]
        holder = next((each.holder for each in changes if isinstance(each, Sight)), None)
        self._hear(
            Swept(
                sight=Sight(holder, revision),
                members={each.id: each.member for each in changes if isinstance(each, MemberChanged) and each.member},
                entries={each.broker_name: each.kept for each in changes if isinstance(each, EntryChanged)},
            )
        )
        if unreadable := [each for each in changes if isinstance(each, Unreadable)]:
            self._hear([*unreadable])
        self._next_revision = revision + 1

    def _take(self, answer: Any) -> None:
        if answer.events:
            self._hear(list(self._changes(answer.events)))
            # The header may be ahead of what has been sent so far.
            self._next_revision = answer.events[-1].kv.mod_revision + 1
        elif not answer.created:
            self._next_revision = answer.header.revision + 1  # nothing has happened until then

    def _changes(self, events: Iterable[Any]) -> Iterable[Change]:
        for event in events:
            change = self._change(self._written if event.type == event.PUT else self._removed, event.kv)
            if change is not None:
                yield change

    def _change(self, read: Callable[[Any], Change | None], kv: Any) -> Change | None:
        try:
            return read(kv)
        except StoreError as error:
            return Unreadable(str(error))

    def _written(self, kv: Any) -> Change | None:
        if kv.key == self._keys.leader:
            return Sight(holder_of(kv), kv.mod_revision)
        if kv.key.startswith(self._keys.members):
            member_id = self._keys.member_id(kv.key)
            return MemberChanged(member_id, Member(id=member_id, address=address_of(kv)))
        if kv.key.startswith(self._keys.sets):
            return EntryChanged(self._keys.broker_name(kv.key), kept_of(kv))
        return None

    def _removed(self, kv: Any) -> Change | None:
        if kv.key == self._keys.leader:
            return Sight(None, kv.mod_revision)
        if kv.key.startswith(self._keys.members):
            return MemberChanged(self._keys.member_id(kv.key), None)
        if kv.key.startswith(self._keys.sets):
            return EntryChanged(self._keys.broker_name(kv.key), Kept(StoredSet(), kv.mod_revision))
        return None
