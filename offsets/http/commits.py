"""The paths of offsets that clients commit to this manager. Times are Unix ms, UTC.

An entry that breaks a limit of names, queue ids or offsets (`commits/stored.py`) is refused by itself.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Final, Literal

import msgspec

from offsets.commits.log_file import StoreBusy
from offsets.commits.rules import STORED, Entry, NotNow, OffsetsRefused, Result
from offsets.commits.service import OffsetService, Unavailable
from offsets.commits.stored import Change, RowName, StoredOffset, problem_of_writer, shown
from offsets.commits.table import Scope
from serving.http.paths import Parameter, get, post
from serving.http.views import HttpRefused, TooManyRequests, UnprocessableBody, ViewRequest
from serving.http.views import Unavailable as Unavailable503
from serving.shapes.offsets import DEFAULT_CLUSTER, Who
from store.store import OutcomeUnknown, StoreError

#: Entries of one request: more would hold up the requests of others.
ENTRIES_MAX: Final = 1_000
#: Requests of operators at work at a time.
OPERATORS_MAX: Final = 8
#: Requests of clients at work at a time.
CLIENTS_MAX: Final = 64
#: Queues that an answer about a deletion lists.
LISTED_MAX: Final = 1_000
#: A thousand entries with names of the greatest length, of ASCII.
BODY_BYTES_MAX: Final = 2 << 20


class QueueName(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A queue that a group consumes."""

    group: str
    topic: str
    broker_name: str
    queue_id: int


class CommitItem(QueueName, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """What a client has consumed of one queue."""

    #: The next offset to consume.
    offset: int
    #: As the offset had it that was read; 0 if there was none.
    reset_epoch: int = 0


class OffsetItem(QueueName, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """An offset for one queue."""

    offset: int


class _OfWriter(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    writer: Who
    cluster: str = DEFAULT_CLUSTER
    namespace: str = ""


class CommitBody(_OfWriter, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Commits of one client."""

    entries: Annotated[list[CommitItem], msgspec.Meta(min_length=1, max_length=ENTRIES_MAX)]


class ReadBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Queues whose offsets are read."""

    cluster: str = DEFAULT_CLUSTER
    namespace: str = ""
    keys: Annotated[list[QueueName], msgspec.Meta(min_length=1, max_length=ENTRIES_MAX)]


class ResetBody(_OfWriter, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Offsets that replace the stored ones, even higher ones."""

    entries: Annotated[list[OffsetItem], msgspec.Meta(min_length=1, max_length=ENTRIES_MAX)]
    #: Only answer what would become of each entry.
    dry_run: bool = False


class DeleteBody(_OfWriter, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Offsets to delete: of a group, of a topic, or of a group in a topic."""

    group: str | None = None
    topic: str | None = None
    broker_name: str | None = None
    #: Only answer which offsets that would be.
    dry_run: bool = False


class CommitAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """Outcomes for the entries, in their order."""

    #: local: synced on the disk of this manager; remote: etcd has it.
    durability: Literal["local", "remote"]
    results: Sequence[Result]


class ReadResult(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The offset of one queue."""

    status: Literal["ok", "not_found", "unavailable"]
    stored: StoredOffset | None = None
    #: Why it is unavailable.
    reason: str = ""
    #: Of the first commit of a queue that was not found: that of the deletion, absent if there was none.
    reset_epoch: int = 0


class ReadAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The offsets of the keys, in their order."""

    results: list[ReadResult]


class ListedOffset(msgspec.Struct, frozen=True, rename="camel"):
    """One stored offset with its queue."""

    group: str
    topic: str
    broker_name: str
    queue_id: int
    stored: StoredOffset


class UnavailableRow(msgspec.Struct, frozen=True, rename="camel"):
    """Offsets that cannot be read."""

    group: str
    topic: str
    broker_name: str
    reason: str


class OffsetListing(msgspec.Struct, frozen=True, rename="camel"):
    """A page of offsets. It may be empty and not the last: the last one has no `nextCursor`."""

    offsets: list[ListedOffset]
    #: On the last page alone.
    unavailable: list[UnavailableRow]
    next_cursor: str | None


class QueueChange(msgspec.Struct, frozen=True, rename="camel"):
    """Actual or, with dryRun, expected outcome for one queue."""

    group: str
    topic: str
    broker_name: str
    queue_id: int
    status: str
    #: What is stored before and after; null for nothing.
    old: StoredOffset | None
    new: StoredOffset | None
    reason: str = ""


class ChangeAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """Actual or, with dryRun, expected outcome for the queues."""

    dry_run: bool
    #: How many queues have each status.
    counts: dict[str, int]
    #: The first 1,000.
    queues: list[QueueChange]


_SCOPE: Final = (
    Parameter("cluster", "Name of the cluster; DefaultCluster by default."),
    Parameter("namespace", "Namespace; none by default."),
    Parameter("group", "Only this group."),
    Parameter("topic", "Only this topic."),
    Parameter("brokerName", "Only this broker set."),
)


class CommitViews:
    def __init__(self, service: OffsetService, run: str) -> None:
        """`run` differs in each run of the process: cursors of another one mean nothing."""
        self._service, self._run = service, run

    @post(
        "/v1/offsets/commit",
        refusals=(422, 429, 503),
        body_bytes_max=BODY_BYTES_MAX,
        is_for_clients=True,
        concurrent_max=CLIENTS_MAX,
    )
    async def commit(self, body: CommitBody) -> CommitAnswer:
        """Store the offsets that a client has consumed."""
        with refusals(body.writer):
            entries = list(_entries(body.cluster, body.namespace, body.entries))
            results, durability = await self._service.commit(entries, body.writer)
        return CommitAnswer(durability, results)

    @post(
        "/v1/offsets/read",
        refusals=(422, 503),
        body_bytes_max=BODY_BYTES_MAX,
        is_for_clients=True,
        concurrent_max=CLIENTS_MAX,
    )
    def read(self, body: ReadBody) -> ReadAnswer:
        """Read the offsets of queues: ok, not_found or unavailable."""
        entries = ((RowName(body.cluster, body.namespace, *_names(key)), key.queue_id) for key in body.keys)
        return ReadAnswer([_read_result(answer) for answer in self._service.read(list(entries))])

    @get("/v1/offsets", refusals=(400, 503), parameters=_SCOPE, paged=True)
    def offsets(self, request: ViewRequest) -> OffsetListing:
        """Stored offsets of groups, page by page."""
        generation, start = self._service.table.generation, 0
        if request.page.cursor is not None:
            run, *place = request.page.cursor.split(".")
            if [run, str(generation)] != [self._run, *place[:1]] or not _is_place(place[-1]):
                raise HttpRefused("cursor must be the nextCursor of the previous page of the same run: start again.")
            start = int(place[-1])
        with refusals():
            page = self._service.page(_scope(request.query), start, request.page.limit)
        return OffsetListing(
            offsets=[ListedOffset(*_names(name), queue_id, stored) for name, queue_id, stored in page.offsets],
            unavailable=[UnavailableRow(*_names(name), why) for name, why in page.unreadable],
            next_cursor=None if page.next is None else f"{self._run}.{generation}.{page.next}",
        )

    @post("/v1/offsets/reset", refusals=(422, 503), body_bytes_max=BODY_BYTES_MAX, concurrent_max=OPERATORS_MAX)
    async def reset(self, body: ResetBody) -> ChangeAnswer:
        """Set offsets, also to lower values, in a new reset epoch; with dryRun only show old and new."""
        entries = list(_entries(body.cluster, body.namespace, body.entries))
        with refusals(body.writer):
            done = await self._service.reset(entries, body.writer, dry_run=body.dry_run)
        changed = {(change.name, change.queue_id): change for change in done.changes}
        results = zip(entries, done.results, strict=True)
        queues = [_queue(entry, result, changed.get((entry.name, entry.queue_id))) for entry, result in results]
        return ChangeAnswer(body.dry_run, _counts(done.results), queues)

    @post("/v1/offsets/delete", refusals=(422, 503), concurrent_max=OPERATORS_MAX)
    async def delete(self, body: DeleteBody) -> ChangeAnswer:
        """Delete the offsets of a group or topic; with dryRun only show them."""
        scope = Scope(body.cluster, body.namespace, body.group, body.topic, body.broker_name)
        with refusals(body.writer):
            done = await self._service.delete(scope, body.writer, dry_run=body.dry_run)
        queues = [_queue(change, STORED, change) for change in done.changes[:LISTED_MAX]]
        return ChangeAnswer(body.dry_run, _counts(done.results), queues)


@contextmanager
def refusals(writer: str | None = None) -> Iterator[None]:
    """Answer what rules and stores refuse with a status and a sentence."""
    if writer is not None and (problem := problem_of_writer(writer)):
        raise UnprocessableBody(_sentence(problem))
    try:
        yield
    except NotNow as error:
        raise Unavailable503(_sentence(error), retry_after_s=1) from error
    except OffsetsRefused as error:
        raise UnprocessableBody(_sentence(error)) from error
    except StoreBusy as error:
        raise TooManyRequests(_sentence(error)) from error
    except OutcomeUnknown as error:
        text = f"It is unknown whether all of this will be stored: {error}."
        raise Unavailable503(text, retry_after_s=1) from error
    except StoreError as error:
        raise Unavailable503(_sentence(error), retry_after_s=1) from error


def _sentence(error: object) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _names(key: QueueName | RowName) -> tuple[str, str, str]:
    return key.group, key.topic, key.broker_name


def _entries(cluster: str, namespace: str, items: Sequence[CommitItem | OffsetItem]) -> Iterator[Entry]:
    """Yield entries; neighbours with equal names share one row name, which the rules look up once."""
    names = ("", "", "")
    row = RowName(cluster, namespace, *names)
    for item in items:
        if (item.group, item.topic, item.broker_name) != names:
            names = _names(item)
            row = RowName(cluster, namespace, *names)
        yield Entry(row, item.queue_id, item.offset, item.reset_epoch if isinstance(item, CommitItem) else 0)


def _scope(query: Mapping[str, str]) -> Scope:
    names = (query.get("group"), query.get("topic"), query.get("brokerName"))
    return Scope(query.get("cluster", DEFAULT_CLUSTER), query.get("namespace", ""), *names)


def _is_place(text: str) -> bool:
    digits_max = 12
    return text.isascii() and text.isdigit() and len(text) <= digits_max


def _read_result(answer: StoredOffset | Unavailable | None) -> ReadResult:
    if isinstance(answer, Unavailable):
        return ReadResult("unavailable", reason=answer.reason)
    if answer is None or answer.is_deleted:
        return ReadResult("not_found", reset_epoch=0 if answer is None else answer.reset_epoch)
    return ReadResult("ok", answer)


def _counts(results: Iterable[Result]) -> dict[str, int]:
    return dict(Counter(result.status.value for result in results))


def _queue(of: Entry | Change, result: Result, change: Change | None) -> QueueChange:
    old, new = (result.stored, result.stored) if change is None else (shown(change.before), shown(change.after))
    return QueueChange(*_names(of.name), of.queue_id, result.status.value, old, new, result.reason)
