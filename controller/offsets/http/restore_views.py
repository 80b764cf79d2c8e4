"""What each HTTP path about restores, undoes, lags and files answers, as values; knows no web server."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from controller.offsets.commits.results import ReadAnswer
from controller.offsets.commits.scopes import OffsetScope
from controller.offsets.commits.seed import OffsetEntry
from controller.offsets.commits.writing import OffsetWriter
from controller.offsets.http import restore_shapes as shapes
from controller.offsets.http.offset_bodies import check_writer
from controller.offsets.http.refusing import ManagerFollows, refusals
from controller.offsets.http.shapes import DEFAULT_CLUSTER
from controller.offsets.mirror.masters import SetName
from controller.offsets.restore.file_exports import ExportedOffsets, offsets_of_manager, offsets_of_mirror
from controller.offsets.restore.file_imports import (
    FileDialect,
    FileOwner,
    FileRecord,
    ImportedFile,
    export_broker_file,
    export_client_file,
    export_records,
    import_broker_file,
    import_client_file,
    import_records,
)
from controller.offsets.restore.lag import GroupLag, LagQueue
from controller.offsets.restore.lag_reader import LagRequest
from controller.offsets.restore.lag_turns import LagsTooOften
from controller.offsets.restore.operations import Operation, OperationKind
from controller.offsets.restore.own_offsets import OwnChange
from controller.offsets.restore.requests import (
    FORMER,
    UNDONE_WHERE_KEPT,
    AnotherRuns,
    NoSuchOperation,
    NoSuchSet,
    Restored,
    RestoreRefused,
    RestoreRequest,
    RestoreScope,
    TooManyRestored,
)
from controller.offsets.restore.restorer import BrokerChange
from controller.offsets.restore.site import BrokerAccess, RestoreSite
from controller.offsets.restore.values import RESTORED_MAX, PlannedOffset, RestoreOptions, WantedOffset
from controller.offsets.service.manager_role import ManagerNotLeading
from controller.offsets.service.offset_service import OffsetService, StoredChanges
from controller.offsets.values import GroupTopic, QueueKey, StoredOffset
from serving.http.views import HttpRefused, NotFound, StateConflict, TooManyRequests, UnprocessableBody, ViewRequest


class RestoreViews:
    """One method per path."""

    def __init__(self, service: OffsetService, site: RestoreSite) -> None:
        self._service = service
        self._site = site

    async def reset(self, entries: Sequence[OffsetEntry], source: OffsetWriter) -> tuple[StoredChanges, str]:
        """Reset offsets of this manager, and return the id that undoes it as well; blank for none."""
        return await self._site.own.reset(
            OwnChange(OperationKind.RESET, source.writer, is_dry_run=False), entries, source
        )

    async def restore(self, request: ViewRequest) -> shapes.RestoreAnswer:
        """Write offsets of the mirror at brokers, or show what that would do."""
        body: shapes.RestoreBody = request.body
        check_writer(body.writer)
        _check_named(body)
        wanted = RestoreRequest(
            writer=body.writer,
            scope=RestoreScope(body.cluster, body.group, body.topic, body.broker_name),
            moment=FORMER if body.moment == "former" else body.moment,
            options=RestoreOptions(body.allow_back, body.allow_unproved, body.pulls),
            is_dry_run=body.dry_run,
        )
        with _restore_refusals():
            self._service.role.check_serves()
            return _answer(await self._brokers.restorer.restore(wanted), is_dry_run=body.dry_run)

    async def undo(self, request: ViewRequest) -> shapes.RestoreAnswer:
        """Bring back what there was before an operation, or show what that would do."""
        body: shapes.UndoBody = request.body
        check_writer(body.writer)
        with _restore_refusals():
            await self._check_undoes(body.operation_id)
            operation = await self._site.kept.find(body.operation_id)
            return _answer(await self._undo(operation, body), is_dry_run=body.dry_run)

    async def operations(self, _: ViewRequest) -> shapes.KeptOperationListing:
        """Return the operations that can be undone."""
        with _restore_refusals():
            found = await self._site.kept.last()
        return shapes.KeptOperationListing(
            [
                shapes.KeptOperationView(
                    each.operation_id, each.kind, each.writer, each.unix_ms, each.undoes, each.queues, each.is_finished
                )
                for each in found
            ]
        )

    async def lag(self, request: ViewRequest) -> shapes.LagListing:
        """Return how far a group is behind."""
        query = request.query
        if not (group := query.get("group", "")):
            raise HttpRefused("group must be given.")
        cluster, topic = query.get("cluster", DEFAULT_CLUSTER), query.get("topic")
        with _restore_refusals():
            scope = OffsetScope(cluster, query.get("namespace", ""), group, topic, None)
            managed = await self._managed(scope)
            followed = [each for each in self._brokers.followed.sets.values() if each.cluster == cluster]
            found = await self._brokers.lags.read(followed, LagRequest(group, topic, managed))
        known = [each.lag for each in found.queues if each.lag is not None]
        return shapes.LagListing(
            group=group,
            known_lag=sum(known) if known else None,
            unknown=len(found.queues) - len(known),
            queues=[_lag_view(each) for each in found.queues],
            unavailable=[shapes.SetProblemView(*each) for each in sorted(found.unavailable.items())],
        )

    async def import_file(self, request: ViewRequest) -> shapes.ImportAnswer:
        """Store the offsets of a file, or show what that would do."""
        body: shapes.ImportBody = request.body
        check_writer(body.writer)
        _check_named(body)
        with _restore_refusals():
            self._service.role.check_serves()
            # A large one takes a second, which others do not wait for.
            read = await asyncio.to_thread(_read_file, body)
            if len(read.offsets) > RESTORED_MAX:
                raise TooManyRestored(RESTORED_MAX)
            if body.target == "manager":
                done = await self._import_here(body, read)
            else:
                options = RestoreOptions(body.allow_back, pulls=body.pulls)
                change = BrokerChange(OperationKind.IMPORT, body.writer, options, body.dry_run)
                wanted = [WantedOffset(queue, offset) for queue, offset in read.offsets.items()]
                done = await self._brokers.restorer.write(change, wanted)
        answer = _answer(done, is_dry_run=body.dry_run)
        return shapes.ImportAnswer(
            answer.dry_run, answer.operation_id, answer.counts, answer.queues, answer.problems, list(read.problems)
        )

    async def export_file(self, request: ViewRequest) -> shapes.ExportAnswer:
        """Return offsets as a file."""
        body: shapes.ExportBody = request.body
        _check_export(body)
        with _restore_refusals():
            found = await self._exported(body)
            if body.dialect is FileDialect.ROCKSDB:
                records = [shapes.RecordView(*each) for each in export_records(found.offsets)]
                return shapes.ExportAnswer(b"", records, len(found.offsets), found.unavailable)
            emit = export_broker_file if body.dialect is FileDialect.BROKER else export_client_file
            return shapes.ExportAnswer(emit(found.offsets), [], len(found.offsets), found.unavailable)

    async def _check_undoes(self, operation_id: str) -> None:
        """Raise ManagerFollows, which says who has the operation, or StillLoading unless this manager serves."""
        try:
            self._service.role.check_serves()
        except ManagerNotLeading as error:
            try:
                await self._site.kept.find(operation_id)
                where = f"Operation {operation_id!a} is kept here, and the leader does not have it. {UNDONE_WHERE_KEPT}"
            except NoSuchOperation as unknown:
                where = _capital(str(unknown))
            raise ManagerFollows(error, f"{where}.") from error

    @property
    def _brokers(self) -> BrokerAccess:
        if self._site.brokers is None:
            raise StateConflict(
                "This offset manager follows no brokers: set controllerHttpAddr or namesrvAddr, and start it again."
            )
        return self._site.brokers

    async def _undo(self, operation: Operation, body: shapes.UndoBody) -> Restored:
        if not operation.queues:
            return await self._site.own.undo(operation, body.writer, is_forced=body.force, is_dry_run=body.dry_run)
        return await self._brokers.restorer.undo(
            operation,
            body.writer,
            RestoreOptions(allow_unproved=body.allow_unproved, pulls=body.pulls),
            is_forced=body.force,
            is_dry_run=body.dry_run,
        )

    async def _managed(self, scope: OffsetScope) -> dict[LagQueue, ReadAnswer]:
        found = await offsets_of_manager(self._service, scope)
        return {
            LagQueue(queue.key.topic, queue.set_name.broker_name, queue.queue_id): StoredOffset(offset)
            for queue, offset in found.offsets.items()
        }

    async def _exported(self, body: shapes.ExportBody) -> ExportedOffsets:
        if body.source == "manager":
            scope = OffsetScope(body.cluster, body.namespace, body.group, body.topic, body.broker_name)
            return await offsets_of_manager(self._service, scope)
        assert body.broker_name is not None, "checked before"
        name = SetName(body.cluster, body.broker_name)
        return await offsets_of_mirror(self._brokers.mirrored, name, body.group, body.topic)

    async def _import_here(self, body: shapes.ImportBody, read: ImportedFile) -> Restored:
        entries = [
            OffsetEntry(
                QueueKey(
                    GroupTopic(body.cluster, body.namespace, each.key.group, each.key.topic, each.set_name.broker_name),
                    each.queue_id,
                ),
                offset,
            )
            for each, offset in read.offsets.items()
        ]
        change = OwnChange(OperationKind.IMPORT, body.writer, body.dry_run)
        return await self._site.own.put(change, entries, allow_back=body.allow_back)


@contextmanager
def _restore_refusals() -> Iterator[None]:
    """Answer what is refused inside with its status and a sentence."""
    try:
        with refusals():
            yield
    except RestoreRefused as error:
        kinds: dict[type[RestoreRefused], type[HttpRefused]] = {
            AnotherRuns: StateConflict,
            NoSuchOperation: NotFound,
            NoSuchSet: NotFound,
            LagsTooOften: TooManyRequests,
        }
        raise kinds.get(type(error), UnprocessableBody)(f"{_capital(str(error))}.") from error


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _check_named(body: shapes.RestoreBody | shapes.ImportBody) -> None:
    if body.pulls and not body.group:
        raise UnprocessableBody("With pulls give the group: it says that this group pulls, and does not pop.")


def _read_file(body: shapes.ImportBody) -> ImportedFile:
    """Return what the file of a body has; raises UnprocessableBody where something is missing, and UnusableFile."""
    owner = FileOwner(body.cluster, body.broker_name, body.group)
    is_rocksdb, is_client = body.dialect is FileDialect.ROCKSDB, body.dialect is FileDialect.CLIENT
    if is_rocksdb is not bool(body.records) or is_rocksdb is bool(body.file):
        raise UnprocessableBody("Of dialect rocksdb give records and no file, of the others a file and no records.")
    if is_client and (not body.group or body.broker_name):
        raise UnprocessableBody("Of dialect client give the group, and no brokerName: the file names brokers.")
    if not is_client and not body.broker_name:
        raise UnprocessableBody(f"Of dialect {body.dialect.value} give brokerName: the file does not name it.")
    if is_rocksdb:
        return import_records((FileRecord(each.key, each.value) for each in body.records), owner)
    return import_client_file(body.file, owner) if is_client else import_broker_file(body.file, owner)


def _check_export(body: shapes.ExportBody) -> None:
    if body.dialect is FileDialect.CLIENT:
        if body.group is None:
            raise UnprocessableBody("A file of dialect client has the offsets of one group: give it.")
    elif body.broker_name is None:
        raise UnprocessableBody(f"A file of dialect {body.dialect.value} is of one broker set: give brokerName.")
    if body.source == "mirror" and body.broker_name is None:
        raise UnprocessableBody("The mirror has the offsets of each broker set: give brokerName.")


def _answer(done: Restored, *, is_dry_run: bool) -> shapes.RestoreAnswer:
    return shapes.RestoreAnswer(
        dry_run=is_dry_run,
        operation_id=done.operation_id,
        counts=dict(done.counts),
        queues=[_restored_view(each) for each in done.queues],
        problems=[shapes.SetProblemView(each.set_name.broker_name, each.reason) for each in done.problems],
    )


def _restored_view(each: PlannedOffset) -> shapes.RestoredView:
    set_name, key, queue_id = each.queue
    return shapes.RestoredView(
        group=key.group,
        topic=key.topic,
        broker_name=set_name.broker_name,
        queue_id=queue_id,
        status=each.status,
        old=each.old,
        new=each.new,
        messages_again=each.messages_again,
        messages_skipped=each.messages_skipped,
        reason=each.reason,
    )


def _lag_view(each: GroupLag) -> shapes.LagView:
    return shapes.LagView(
        topic=each.queue.topic,
        broker_name=each.queue.broker_name,
        queue_id=each.queue.queue_id,
        max_offset=each.max_offset,
        committed_offset=each.committed,
        committed_in=each.committed_in,
        lag="unknown" if each.lag is None else each.lag,
        reason=each.reason,
    )
