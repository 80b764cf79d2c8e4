"""Operations on the offsets of this manager that can be undone: resets and imports. The edge.

An operation is kept before anything is stored, as far as the disk lets it, and again with what was changed: one that
ends without an answer can be undone.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from msgspec.structs import replace

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.commits.results import OffsetResult, OffsetStatus
from controller.offsets.commits.seed import OffsetEntry
from controller.offsets.commits.writing import OffsetWriter
from controller.offsets.entry_keys import EntryKey
from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.regressions import SetQueue
from controller.offsets.restore.kept_operations import KeptOperations
from controller.offsets.restore.operations import Operation, OperationKind
from controller.offsets.restore.requests import Restored
from controller.offsets.restore.values import PlannedOffset, RestoreStatus
from controller.offsets.service.offset_service import OffsetService, StoredChanges
from controller.offsets.values import OffsetSource, QueueKey, StoredOffset
from remoting.clock import Clock
from store.store import StoreError

#: What became of an entry, in the words of a restore.
_STATUSES: Final[Mapping[OffsetStatus, RestoreStatus]] = {
    OffsetStatus.OK: RestoreStatus.RESTORED,
    OffsetStatus.PRESENT: RestoreStatus.UNCHANGED,
    OffsetStatus.ABSENT: RestoreStatus.UNCHANGED,
    OffsetStatus.STALE: RestoreStatus.MOVED_ON,
    OffsetStatus.FENCED: RestoreStatus.REFUSED,
    OffsetStatus.UNKNOWN: RestoreStatus.UNAVAILABLE,
    OffsetStatus.REFUSED: RestoreStatus.REFUSED,
}


class OwnObserver(Protocol):
    """Follows what can be undone."""

    def operation_not_kept(self, kind: str, error: str) -> None:
        """Take that an operation was done and cannot be undone by its id."""


class OwnChange(NamedTuple):
    """Who changes offsets of this manager."""

    kind: OperationKind
    writer: str
    is_dry_run: bool
    undoes: str = ""


class _Taken(NamedTuple):
    """What is to become of the offsets of an import."""

    changed: Sequence[OffsetEntry]
    #: Those that stay as they are.
    kept: Sequence[PlannedOffset]


class OwnOffsets:
    """The offsets of this manager, with what undoes their changes."""

    def __init__(self, service: OffsetService, kept: KeptOperations, clock: Clock, observer: OwnObserver) -> None:
        self._service = service
        self._kept = kept
        self._clock = clock
        self._observer = observer

    async def reset(
        self, change: OwnChange, entries: Sequence[OffsetEntry], source: OffsetWriter
    ) -> tuple[StoredChanges, str]:
        """Store offsets, lower ones too; return the id that undoes it as well, blank where it could not be kept.

        Raises as OffsetService.reset. What is decided is kept before, so that it can be undone then, too.
        """
        begun = await self._begin(change, self._service.preview_reset(entries, source).changes)
        stored = await self._service.reset(entries, source)
        return stored, await self._end(change, begun, stored.changes)

    async def _begin(self, change: OwnChange, decided: Sequence[OffsetChange]) -> Operation | None:
        """Keep what is about to be stored; None if that is nothing, or it cannot be kept."""
        if not decided:
            return None
        operation = self._operation(change, decided, is_finished=False)
        try:
            await self._kept.keep(operation)
        except StoreError:
            # A full disk does not keep an operator from a reset; what cannot be undone is reported at the end.
            return None
        return operation

    async def _end(self, change: OwnChange, begun: Operation | None, changes: Sequence[OffsetChange]) -> str:
        """Keep what was stored, and return the id that undoes it; blank for nothing, and where it could not be kept."""
        if begun is None and not changes:
            return ""
        done = self._operation(change, changes, is_finished=True)
        operation = done if begun is None else replace(begun, changes=done.changes, is_finished=True)
        try:
            await self._kept.keep(operation)
        except StoreError as error:
            # The change is stored already.
            if begun is None:
                self._observer.operation_not_kept(change.kind.value, str(error))
                return ""
        return operation.operation_id if changes else ""

    def _operation(self, change: OwnChange, changes: Sequence[OffsetChange], *, is_finished: bool) -> Operation:
        return Operation(
            operation_id=self._kept.new_id(),
            kind=change.kind,
            writer=change.writer,
            unix_ms=self._clock.unix_ms(),
            undoes=change.undoes,
            changes=tuple(changes),
            is_finished=is_finished,
        )

    async def undo(self, operation: Operation, writer: str, *, is_forced: bool, is_dry_run: bool) -> Restored:
        """Store what was there before an operation, in one more reset epoch; raises as OffsetService.undo.

        Without force not where a later reset or deletion would be undone with it.
        """
        change = OwnChange(OperationKind.UNDO, writer, is_dry_run, operation.operation_id)
        by_force = [each for each in operation.changes if is_forced and _is_there(each.before)]
        others = [each for each in operation.changes if not (is_forced and _is_there(each.before))]
        entries = [OffsetEntry(each.key, each.before.offset) for each in by_force if each.before is not None]
        source = self._service.writer(writer, "", OffsetSource.RESTORE)
        undone = self._service.preview_undo(others, source)
        forced = self._service.preview_reset(entries, source)
        results, changes = (*undone.results, *forced.results), (*undone.changes, *forced.changes)
        operation_id = ""
        if not is_dry_run:
            begun = await self._begin(change, changes)
            stored, reset = await self._service.undo(others, source), await self._service.reset(entries, source)
            results, changes = (*stored.results, *reset.results), (*stored.changes, *reset.changes)
            operation_id = await self._end(change, begun, changes)
        queues = _outcomes([each.key for each in (*others, *by_force)], results, changes, is_dry_run=is_dry_run)
        return Restored(operation_id=operation_id, queues=queues)

    async def put(self, change: OwnChange, entries: Sequence[OffsetEntry], *, allow_back: bool) -> Restored:
        """Store offsets, lower ones only if that is allowed; raises as OffsetService.reset."""
        source = self._service.writer(change.writer, "", OffsetSource.IMPORT)
        taken = self._taken(entries, allow_back=allow_back)
        decision = self._service.preview_reset(taken.changed, source)
        results, changes, operation_id = decision.results, decision.changes, ""
        if not change.is_dry_run:
            begun = await self._begin(change, changes)
            # Groups commit while the operation is kept. From here to the decision nothing waits.
            taken = self._taken(entries, allow_back=allow_back)
            done = await self._service.reset(taken.changed, source)
            results, changes = tuple(done.results), tuple(done.changes)
            operation_id = await self._end(change, begun, changes)
        queues = _outcomes([each.key for each in taken.changed], results, changes, is_dry_run=change.is_dry_run)
        return Restored(operation_id=operation_id, queues=[*queues, *taken.kept])

    def _taken(self, entries: Sequence[OffsetEntry], *, allow_back: bool) -> _Taken:
        """Return which offsets are to be stored, by what is decided at this moment."""
        keys = [each.key for each in entries]
        kept: list[PlannedOffset] = []
        changed: list[OffsetEntry] = []
        for each, durable, decided in zip(
            entries, self._service.read(keys), self._service.read_decided(keys), strict=True
        ):
            if decided is not None and decided.offset > each.offset and not allow_back:
                reason = "it would go back: allow that with allowBack"
                kept.append(_planned(each.key, decided.offset, each.offset, RestoreStatus.BACKWARD, reason))
            elif decided is not None and decided.offset == each.offset and decided == durable:
                kept.append(_planned(each.key, decided.offset, each.offset, RestoreStatus.UNCHANGED))
            else:
                changed.append(each)
        return _Taken(changed, kept)


def _outcomes(
    keys: Sequence[QueueKey], results: Sequence[OffsetResult], changes: Sequence[OffsetChange], *, is_dry_run: bool
) -> list[PlannedOffset]:
    changed = {each.key: each for each in changes}
    return [
        _outcome(key, result, changed.get(key), is_dry_run=is_dry_run)
        for key, result in zip(keys, results, strict=True)
    ]


def _outcome(key: QueueKey, result: OffsetResult, change: OffsetChange | None, *, is_dry_run: bool) -> PlannedOffset:
    old, new = (result.stored, result.stored) if change is None else (change.before, change.after)
    status = _STATUSES[result.status]
    if status is RestoreStatus.RESTORED and is_dry_run:
        status = RestoreStatus.READY
    return _planned(key, _offset(old), _offset(new), status, result.reason)


def _planned(key: QueueKey, old: int | None, new: int | None, status: RestoreStatus, reason: str = "") -> PlannedOffset:
    of = key.of
    queue = SetQueue(SetName(of.cluster, of.broker_name), EntryKey(of.topic, of.group), key.queue_id)
    return PlannedOffset(queue, old, new, status, reason)


def _is_there(stored: StoredOffset | None) -> bool:
    return stored is not None and not stored.is_deleted


def _offset(stored: StoredOffset | None) -> int | None:
    return None if stored is None or stored.is_deleted else stored.offset
