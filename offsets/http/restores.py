"""What the paths about restores, undoes, lags, files and the groups of a topic answer. Times are Unix ms, UTC."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TypeAlias

import msgspec

from offsets import offset_files
from offsets.commits.rules import Entry
from offsets.commits.rules import Status as EntryStatus
from offsets.commits.service import OffsetService
from offsets.commits.stored import RowName
from offsets.commits.table import PAGE_OFFSETS_MAX
from offsets.commits.table import Scope as OwnScope
from offsets.http.commits import refusals
from offsets.lead import Lead
from offsets.offset_files import ClientQueue, OffsetFileError
from offsets.readings.readings import Readings
from offsets.restore.lag import LagQueue, LagReader, LagsTooOften
from offsets.restore.operations import NoSuchOperation, OperationKind, Operations
from offsets.restore.restorer import AnotherRuns, Change, NoSuchSet, Restored, Restorer, RestoreRefused, Scope
from offsets.restore.rules import RESTORED_MAX, Options, RestoredQueue
from offsets.sets.following import Following
from offsets.values import QueueKey, SetName
from remoting.protocol.shapes.broker_admin import BROADCAST_SUFFIX
from serving.durable_file import DurableFileError
from serving.http.paths import Parameter, get, post
from serving.http.views import (
    HttpRefused,
    NotFound,
    StateConflict,
    TooManyRequests,
    Unavailable,
    UnprocessableBody,
    ViewRequest,
    requested_page,
)
from serving.shapes.offsets import (
    DEFAULT_CLUSTER,
    AllowedBody,
    ExportAnswer,
    ExportBody,
    ImportBody,
    KeptOperationListing,
    KeptOperationView,
    LagListing,
    RestoreAnswer,
    RestoreBody,
    RestoredView,
    SetProblemView,
    Status,
    TopicGroupListing,
    TopicGroupView,
    UndoBody,
)

IMPORT_BYTES_MAX: Final = 5 << 20
#: Offsets of one file.
EXPORTED_MAX: Final = 100_000
#: Each reads the offset tables of all brokers; each has a file in memory; one is worked on, others are answered 409.
_LAGS_MAX: Final = 2
_FILES_MAX: Final = 2
_RESTORES_MAX: Final = 8
_GROUP_LISTS_MAX: Final = 2


#: What a file has, by broker set.
_OfSets: TypeAlias = Mapping[SetName, Mapping[QueueKey, int]]


class RestoreViews:
    def __init__(
        self,
        restorer: Restorer,
        operations: Operations,
        lags: LagReader,
        readings: Readings,
        following: Following,
        commits: OffsetService,
        lead: Lead,
    ) -> None:
        self._restorer, self._operations, self._lags = restorer, operations, lags
        self._readings, self._following = readings, following
        self._commits, self._lead = commits, lead

    @post("/v1/offsets/restore", refusals=(404, 409, 503), concurrent_max=_RESTORES_MAX)
    async def restore(self, body: RestoreBody) -> RestoreAnswer:
        """Restore offsets at brokers to a former moment; with dryRun only show old and new."""
        options = Options(body.allow_back, body.allow_unproved, body.over_resets, body.pulls)
        change = Change(OperationKind.RESTORE, body.writer, options, body.dry_run)
        scope = Scope(body.cluster, body.group, body.topic, body.broker_name)
        with self._refusals(body):
            unix_ms = None if body.moment == "former" else body.moment
            return _answer(await self._restorer.restore(change, scope, unix_ms), body)

    @post("/v1/offsets/undo", refusals=(404, 409, 503), concurrent_max=_RESTORES_MAX)
    async def undo(self, body: UndoBody) -> RestoreAnswer:
        """Restore the offsets from before a restore, import or undo; with dryRun only show old and new."""
        options = Options(allow_unproved=body.allow_unproved, pulls=body.pulls)
        change = Change(OperationKind.UNDO, body.writer, options, body.dry_run, body.operation_id)
        with self._refusals(body):
            operation = await self._operations.find(body.operation_id)
            return _answer(await self._restorer.undo(change, operation, is_forced=body.force), body)

    @get("/v1/offsets/operations", refusals=(503,))
    async def operations(self) -> KeptOperationListing:
        """The last restores, imports and undoes at brokers, which can be undone; the newest first."""
        self._lead.check()
        return KeptOperationListing(
            [
                KeptOperationView(
                    operation_id=operation.operation_id,
                    kind=operation.kind.value,
                    writer=operation.writer,
                    unix_ms=operation.unix_ms,
                    undoes=operation.undoes,
                    queues=len(operation.written()),
                    finished=operation.is_finished,
                )
                for operation in await self._operations.last()
            ]
        )

    @get(
        "/v1/offsets/lag",
        parameters=(
            Parameter("group", "The group; must be given."),
            Parameter("topic", "Only this topic."),
            Parameter("cluster", "Name of the cluster; DefaultCluster by default."),
            Parameter("namespace", "Namespace of offsets of this manager; none by default."),
        ),
        refusals=(400, 409, 422, 503),
        concurrent_max=_LAGS_MAX,
    )
    async def lag(self, request: ViewRequest) -> LagListing:
        """The lag of a group in each queue, read from brokers now; unknown is never 0."""
        query = request.query
        if not (group := query.get("group", "")):
            raise HttpRefused("group must be given.")
        cluster, topic = query.get("cluster", DEFAULT_CLUSTER), query.get("topic")
        with self._refusals():
            own, _ = await self._own(OwnScope(cluster, query.get("namespace", ""), group, topic))
            managed = {LagQueue(name.topic, name.broker_name, queue): offset for (name, queue), offset in own.items()}
            sets = [followed for followed in self._following.sets.values() if followed.set_name.cluster == cluster]
            found = await self._lags.read(sets, group, topic, managed)
        known = [lag.lag for lag in found.queues if lag.lag != "unknown"]
        return LagListing(
            group=group,
            known_lag=sum(known) if known else None,
            unknown=len(found.queues) - len(known),
            queues=found.queues,
            unavailable=[SetProblemView(*problem) for problem in sorted(found.unavailable.items())],
        )

    @get(
        "/v1/offsets/groups",
        parameters=(Parameter("topic", "The topic; must be given."),),
        paged=True,
        refusals=(400,),
        concurrent_max=_GROUP_LISTS_MAX,
    )
    async def groups(self, request: ViewRequest) -> TopicGroupListing:
        """Groups that have offsets in a topic, from the newest reading of each broker set."""
        if not (topic := request.query.get("topic", "")):
            raise HttpRefused("topic must be given.")
        sets: Counter[tuple[str, str, int]] = Counter()
        for set_name, reading in self._readings.newest().items():
            await asyncio.sleep(0)
            for name in reading.offsets:
                if name.topic == topic:
                    group = name.group.removesuffix(BROADCAST_SUFFIX)
                    sets[set_name.cluster, group, int(group != name.group)] += 1
        page = requested_page(sorted(sets), request, tuple[str, str, int])
        views = [
            TopicGroupView(
                cluster=key[0], group=key[1], kind="broadcast" if key[2] else "clustering", broker_sets=sets[key]
            )
            for key in page.keys
        ]
        return TopicGroupListing(views, page.total, page.next_cursor)

    @post("/v1/offsets/import", refusals=(409, 503), body_bytes_max=IMPORT_BYTES_MAX, concurrent_max=_FILES_MAX)
    async def import_file(self, body: ImportBody) -> RestoreAnswer:
        """Import offsets from a file of a broker or client, here or to brokers; with dryRun only show them."""
        with self._refusals(body):
            # A large one takes a second, which others do not wait for.
            offsets, problems = await asyncio.to_thread(_read_file, body)
            if sum(map(len, offsets.values())) > RESTORED_MAX:
                raise UnprocessableBody(f"The file has more than {RESTORED_MAX} offsets: name a group.")
            if body.target == "manager":
                return await self._import_here(body, offsets, problems)
            options = Options(allow_back=body.allow_back, allow_unproved=body.allow_unproved, pulls=body.pulls)
            change = Change(OperationKind.IMPORT, body.writer, options, body.dry_run)
            return _answer(await self._restorer.write(change, offsets), body, problems)

    @post("/v1/offsets/export", refusals=(409, 503), concurrent_max=_FILES_MAX)
    async def export_file(self, body: ExportBody) -> ExportAnswer:
        """Export offsets of this manager or of a reading as a file of a broker or client."""
        if body.dialect == "client" and body.group is None:
            raise UnprocessableBody("A file of dialect client has the offsets of one group: give group.")
        if (body.dialect != "client" or body.source == "readings") and body.broker_name is None:
            raise UnprocessableBody("This needs one broker set: give brokerName.")
        with self._refusals():
            offsets, unavailable = await self._exported(body)
        if len(offsets) > EXPORTED_MAX:
            raise UnprocessableBody(f"This covers more than {EXPORTED_MAX} offsets: name a group, a topic or a broker.")
        by_key = {QueueKey(name.group, name.topic, queue): offset for (name, queue), offset in offsets.items()}
        if body.dialect == "broker":
            file, left_out = offset_files.broker_file(by_key)
            return ExportAnswer(file, len(offsets) - len(left_out), unavailable + left_out)
        queues = {ClientQueue(name.topic, name.broker_name, queue): offset for (name, queue), offset in offsets.items()}
        return ExportAnswer(offset_files.client_file(queues), len(offsets), unavailable)

    async def _exported(self, body: ExportBody) -> tuple[dict[tuple[RowName, int], int], list[str]]:
        if body.source == "manager":
            return await self._own(OwnScope(body.cluster, body.namespace, body.group, body.topic, body.broker_name))
        assert body.broker_name is not None, "checked before"
        if (reading := self._readings.newest().get(SetName(body.cluster, body.broker_name))) is None:
            raise NotFound(f"There is no reading of broker set {body.broker_name} of cluster {body.cluster}.")
        offsets = {
            (RowName(body.cluster, "", name.group, name.topic, body.broker_name), queue): offset
            for name in reading.offsets
            if body.group in (None, name.group) and body.topic in (None, name.topic)
            for queue, offset in reading.offsets[name].items()
        }
        return offsets, []

    async def _own(self, scope: OwnScope) -> tuple[dict[tuple[RowName, int], int], list[str]]:
        """Return the offsets of this manager in a scope, and what cannot be read."""
        found: dict[tuple[RowName, int], int] = {}
        unavailable: list[str] = []
        start: int | None = 0
        while start is not None and len(found) <= EXPORTED_MAX:
            page = self._commits.page(scope, start, PAGE_OFFSETS_MAX)
            found |= {(name, queue): stored.offset for name, queue, stored in page.offsets}
            unavailable += (f"group {name.group} in topic {name.topic}: {why}" for name, why in page.unreadable)
            start = page.next
            await asyncio.sleep(0)
        return found, unavailable

    async def _import_here(self, body: ImportBody, offsets: _OfSets, problems: list[str]) -> RestoreAnswer:
        entries = [
            Entry(
                RowName(body.cluster, body.namespace, key.group, key.topic, set_name.broker_name), key.queue_id, offset
            )
            for set_name, queues in offsets.items()
            for key, offset in queues.items()
        ]
        table, views, changed = self._commits.table, list[RestoredView](), list[Entry]()
        decided = Status.WOULD_CHANGE if body.dry_run else Status.DONE
        for entry in entries:
            stored = table.read(entry.name, entry.queue_id)
            old = None if stored is None or stored.is_deleted else stored.offset
            status, why = decided, ""
            if old == entry.offset:
                status = Status.RIGHT
            elif old is not None and old > entry.offset and not body.allow_back:
                status, why = Status.NOT_PROVED, f"{old - entry.offset} messages would be read again (allowBack)"
            else:
                changed.append(entry)
            views.append(_own_view(entry, old, status, why))
        reset = await self._commits.reset(changed, body.writer, dry_run=body.dry_run)
        results = iter(reset.results)
        for at, view in enumerate(views):
            if view.status is decided and (result := next(results)).status is not EntryStatus.OK:
                views[at] = msgspec.structs.replace(view, status=Status.FAILED, why=result.reason)
        counts = Counter(view.status.value for view in views)
        return RestoreAnswer(body.dry_run, "", dict(counts), views, [], problems)

    @contextmanager
    def _refusals(self, body: AllowedBody | None = None) -> Iterator[None]:
        """Answer what is refused inside with its status and a sentence."""
        try:
            with refusals(None if body is None else body.writer):
                self._lead.check()
                yield
        except RestoreRefused as error:
            kinds: dict[type[RestoreRefused], type[HttpRefused]] = {
                AnotherRuns: StateConflict,
                NoSuchSet: NotFound,
                LagsTooOften: TooManyRequests,
            }
            raise kinds.get(type(error), UnprocessableBody)(str(error)) from error
        except NoSuchOperation as error:
            raise NotFound(str(error)) from error
        except OffsetFileError as error:
            raise UnprocessableBody(f"The file cannot be used: {error}.") from error
        except DurableFileError as error:
            raise Unavailable(f"Nothing was written: {error}.") from error


def _read_file(body: ImportBody) -> tuple[_OfSets, list[str]]:
    """Return what the file of a body has, and why entries are not used; raises UnprocessableBody."""
    is_client = body.dialect == "client"
    if is_client and (not body.group or body.broker_name):
        raise UnprocessableBody("For dialect client give group and no brokerName: the file names brokers.")
    if not is_client and not body.broker_name:
        raise UnprocessableBody("For dialect broker give brokerName: the file does not name it.")
    if is_client:
        of_client, problems = offset_files.read_client_file(body.file)
        found: dict[SetName, dict[QueueKey, int]] = {}
        for queue, offset in of_client.items():
            name = SetName(body.cluster, queue.broker_name)
            found.setdefault(name, {})[QueueKey(body.group, queue.topic, queue.queue_id)] = offset
        return found, problems
    of_broker, problems = offset_files.read_broker_file(body.file)
    wanted = {key: offset for key, offset in of_broker.items() if body.group in ("", key.group)}
    return {SetName(body.cluster, body.broker_name): wanted}, problems


def _answer(done: Restored, body: AllowedBody, unused: list[str] | None = None) -> RestoreAnswer:
    return RestoreAnswer(
        dry_run=body.dry_run,
        operation_id=done.operation_id,
        counts=dict(Counter(queue.status.value for queue in done.queues)),
        queues=[msgspec.convert(queue, RestoredView, from_attributes=True) for queue in done.queues],
        problems=list(done.problems),
        unused=unused or [],
    )


def _own_view(entry: Entry, old: int | None, status: Status, why: str) -> RestoredView:
    name = entry.name
    queue = RestoredQueue(
        name.cluster, name.broker_name, name.group, name.topic, entry.queue_id, status, old, entry.offset, why
    )
    return msgspec.convert(queue, RestoredView, from_attributes=True)
