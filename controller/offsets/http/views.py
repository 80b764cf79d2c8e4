"""What each HTTP path about offsets answers, as values; knows no web server."""

from collections.abc import Mapping

from msgspec.structs import replace

from controller.offsets.commits.clone import CloneRequest
from controller.offsets.commits.freezes import Freeze
from controller.offsets.commits.page_order import PageCursor
from controller.offsets.commits.results import OffsetResult, OffsetStatus
from controller.offsets.commits.scopes import OffsetScope
from controller.offsets.http import shapes
from controller.offsets.http.offset_bodies import (
    change_answer,
    check_writer,
    commit_entries,
    entry_results,
    listed_offset,
    offset_entries,
    queue_keys,
    read_result,
    scope_of,
)
from controller.offsets.http.refusing import refusals
from controller.offsets.http.restore_views import RestoreViews
from controller.offsets.service.offset_service import OffsetService
from controller.offsets.storage.write_behind import WriteBehind
from serving.http.views import HttpRefused, ViewRequest


class OffsetViews:
    """One method per path."""

    def __init__(self, service: OffsetService, store: WriteBehind, restores: RestoreViews, run: str) -> None:
        """`run` differs in each run of the process: cursors and revisions of another one mean nothing."""
        self._service = service
        self._store = store
        self._restores = restores
        self._run = run

    # Clients

    async def commit(self, request: ViewRequest) -> shapes.CommitAnswer:
        """Store what a client has consumed."""
        body: shapes.CommitBody = request.body
        check_writer(body.writer)
        with refusals():
            stored = await self._service.commit(commit_entries(body), body.writer)
        return shapes.CommitAnswer(stored.durability.value, entry_results(stored.results))

    def read(self, request: ViewRequest) -> shapes.ReadAnswerView:
        """Return the offsets of queues."""
        body: shapes.ReadBody = request.body
        with refusals():
            answers = self._service.read(queue_keys(body.cluster, body.namespace, body.keys))
        return shapes.ReadAnswerView(list(map(read_result, answers)))

    def offsets(self, request: ViewRequest) -> shapes.OffsetListing:
        """Return a page of offsets."""
        cursor = None if request.page.cursor is None else self._cursor(request.page.cursor)
        with refusals():
            page = self._service.page(_scope(request.query), cursor, request.page.limit)
        return shapes.OffsetListing(
            offsets=[listed_offset(key, stored) for key, stored in page.offsets],
            unavailable=[
                shapes.UnavailableRow(of.group, of.topic, of.broker_name, why) for of, why in page.unavailable
            ],
            revision=f"{self._run}:{page.revision}",
            next_cursor=None if page.next is None else f"{self._run}.{page.next.generation}.{page.next.position}",
        )

    def _cursor(self, text: str) -> PageCursor:
        run, _, place = text.partition(".")
        generation, _, position = place.partition(".")
        digits = 12
        if run != self._run or not all(
            each.isascii() and each.isdigit() and len(each) <= digits for each in (generation, position)
        ):
            raise HttpRefused(
                "cursor must be the nextCursor of the page before, of this run of the manager: begin anew."
            )
        return PageCursor(int(generation), int(position))

    async def flush(self, request: ViewRequest) -> shapes.FlushAnswer:
        """Answer once the store has all that was acknowledged of a scope."""
        with refusals():
            await self._service.flush(scope_of(request.body))
        return shapes.FlushAnswer(self._store.dirty_keys)

    # Operators

    async def seed(self, request: ViewRequest) -> shapes.ChangeAnswer:
        """Store offsets where there are none."""
        body: shapes.SeedBody = request.body
        check_writer(body.writer)
        entries = offset_entries(body)
        with refusals():
            stored = await self._service.seed(entries, self._service.writer(body.writer, body.operation))
        keyed = zip((each.key for each in entries), stored.results, strict=True)
        return change_answer(keyed, stored.changes, is_dry_run=False)

    async def reset(self, request: ViewRequest) -> shapes.ChangeAnswer:
        """Store offsets, lower ones too, or show what that would do."""
        body: shapes.ResetBody = request.body
        check_writer(body.writer)
        entries = offset_entries(body)
        writer, operation_id = self._service.writer(body.writer, body.operation), ""
        with refusals():
            if body.dry_run:
                decision = self._service.preview_reset(entries, writer)
                results, changes = decision.results, decision.changes
            else:
                stored, operation_id = await self._restores.reset(entries, writer)
                results, changes = tuple(stored.results), tuple(stored.changes)
        keyed = zip((each.key for each in entries), results, strict=True)
        return replace(change_answer(keyed, changes, is_dry_run=body.dry_run), operation_id=operation_id)

    async def clone(self, request: ViewRequest) -> shapes.ChangeAnswer:
        """Let a group begin where another one is, or show what that would do."""
        body: shapes.CloneBody = request.body
        check_writer(body.writer)
        wanted = CloneRequest(
            cluster=body.cluster,
            namespace=body.namespace,
            source_group=body.source_group,
            to_group=body.to_group,
            topics=None if body.topics is None else frozenset(body.topics),
            if_exists=body.if_exists,
        )
        writer = self._service.writer(body.writer, body.operation)
        with refusals():
            if body.dry_run:
                cloned, decision = self._service.preview_clone(wanted, writer)
                changes = decision.changes
            else:
                cloned, stored = await self._service.clone(wanted, writer)
                changes = tuple(stored.changes)
        return change_answer(((each.key, each.result) for each in cloned), changes, is_dry_run=body.dry_run)

    async def delete(self, request: ViewRequest) -> shapes.ChangeAnswer:
        """Delete offsets, or show which ones that would be."""
        body: shapes.DeleteBody = request.body
        check_writer(body.writer)
        writer = self._service.writer(body.writer, body.operation)
        with refusals():
            if body.dry_run:
                decision = self._service.preview_deletion(scope_of(body), writer)
                changes, results = decision.changes, decision.results
            else:
                stored = await self._service.delete(scope_of(body), writer)
                changes, results = tuple(stored.changes), tuple(stored.results)
        fenced = [each for each in results if each.status is not OffsetStatus.OK]
        answer = change_answer(
            ((each.key, OffsetResult(OffsetStatus.OK)) for each in changes), changes, is_dry_run=body.dry_run
        )
        # Those that stay have no name in the decision; their number and the reason are what counts.
        counts = answer.counts | ({OffsetStatus.FENCED.value: len(fenced)} if fenced else {})
        return shapes.ChangeAnswer(answer.dry_run, counts, answer.queues)

    def freezes(self, _: ViewRequest) -> shapes.FreezeListing:
        """Return the freezes that last."""
        with refusals():
            return shapes.FreezeListing([_freeze_view(each) for each in self._service.lasting_freezes()])

    def freeze(self, request: ViewRequest) -> shapes.FreezeView:
        """Freeze offsets and locks for an operation."""
        body: shapes.FreezeBody = request.body
        freeze = Freeze(
            operation=body.operation,
            reason=body.reason,
            scopes=tuple(map(scope_of, body.scopes)),
            keys=frozenset(queue_keys(body.cluster, body.namespace, body.keys)),
            lease_ms=body.lease_ms,
        )
        with refusals():
            self._service.freeze(freeze)
        return _freeze_view(freeze)

    def renew_freeze(self, request: ViewRequest) -> shapes.FreezeView:
        """Let a freeze last for its lease from now on."""
        with refusals():
            return _freeze_view(self._service.renew_freeze(request.body.operation))

    def thaw(self, request: ViewRequest) -> shapes.ThawAnswer:
        """End the freeze of an operation."""
        with refusals():
            return shapes.ThawAnswer(self._service.thaw(request.body.operation))


def _scope(query: Mapping[str, str]) -> OffsetScope:
    return OffsetScope(
        query.get("cluster", shapes.DEFAULT_CLUSTER),
        query.get("namespace", ""),
        query.get("group"),
        query.get("topic"),
        query.get("brokerName"),
    )


def _freeze_view(freeze: Freeze) -> shapes.FreezeView:
    return shapes.FreezeView(freeze.operation, freeze.reason, freeze.lease_ms, len(freeze.scopes), len(freeze.keys))
