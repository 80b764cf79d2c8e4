"""Resets, imports and undoes of a manager's own offsets can be undone, whatever ends them."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from fakes.leadership_listener import eventually
from service_site import OTHER, Reported, a_key, service_site

from controller.offsets.commits.seed import OffsetEntry
from controller.offsets.http.refusing import ManagerFollows
from controller.offsets.http.restore_shapes import UndoBody
from controller.offsets.http.restore_views import RestoreViews
from controller.offsets.restore.kept_operations import KeptOperations
from controller.offsets.restore.operation_file import OperationFile
from controller.offsets.restore.operations import OperationKind
from controller.offsets.restore.own_offsets import OwnChange, OwnOffsets
from controller.offsets.restore.site import RestoreSite
from controller.offsets.storage.remote import PutOutcome, RowTooLarge
from controller.offsets.storage.row_flusher import RowNotWritable
from serving.http.views import NotFound, ViewRequest
from store.store import StoreError

RESET = OwnChange(OperationKind.RESET, "alice", is_dry_run=False)
IMPORT = OwnChange(OperationKind.IMPORT, "alice", is_dry_run=False)


class FullDisk:
    """A file that takes nothing any more."""

    def __init__(self):
        self.kept = []

    def keep(self, operation):
        raise StoreError("no space left on device")

    def last(self):
        return self.kept

    def close(self):
        pass


class OwnSite:
    def __init__(self, site, file):
        self.site, self.observer = site, Reported()
        self.kept = KeptOperations(file, lambda: "offsets-1:9883")
        self.own = OwnOffsets(site.service, self.kept, site.clock, self.observer)

    async def reset(self, offset, *queue_ids):
        entries = [OffsetEntry(a_key(each), offset) for each in queue_ids or (0,)]
        return await self.own.reset(RESET, entries, self.site.service.writer("alice", ""))

    async def put(self, offset, *, allow_back=False, change=IMPORT):
        done = await self.own.put(change, [OffsetEntry(a_key(), offset)], allow_back=allow_back)
        ((status, old, new),) = [(each.status.value, each.old, each.new) for each in done.queues]
        return status, old, new

    async def undo(self, operation_id):
        operation = await self.kept.find(operation_id)
        return await self.own.undo(operation, "alice", is_forced=False, is_dry_run=False)

    async def listed(self):
        return [(each.kind, each.is_finished, each.queues) for each in await self.kept.last()]


@asynccontextmanager
async def own_site(folder, file=None):
    async with service_site(folder) as site:
        found = OwnSite(site, file or OperationFile(folder, site.clock))
        try:
            yield found
        finally:
            await found.kept.close()


async def test_reset_is_listed_before_the_store_has_it(tmp_path):
    async with own_site(tmp_path) as own:
        await own.site.commit(50)
        await own.site.service.flush(None)
        own.site.remote.passes.clear()
        reset = asyncio.create_task(own.reset(10))
        await eventually(lambda: own.site.remote.held, seconds=10, what="the reset waits for the store")
        # What a kill -9 leaves behind now.
        assert await own.listed() == [("reset", False, 1)]
        (head,) = await own.kept.last()
        own.site.remote.passes.set()
        await reset
        assert await own.listed() == [("reset", True, 1)]
        await own.undo(head.operation_id)
        assert own.site.read().offset == 50


async def test_queues_that_the_store_refused_stay_as_they_are_when_their_reset_is_undone(tmp_path):
    async with own_site(tmp_path) as own:
        await own.site.commit(50)
        await own.site.service.flush(None)
        put = own.site.remote.put

        async def refuse(writes):
            return PutOutcome([RowTooLarge("the row takes 2000000 bytes") for _ in writes], 0)

        own.site.remote.put = refuse
        with pytest.raises(RowNotWritable):
            await own.reset(10)
        own.site.remote.put = put
        (head,) = await own.kept.last()
        assert not head.is_finished
        done = await own.undo(head.operation_id)
        assert (own.site.read().offset, dict(done.counts)) == (50, {"moved_on": 1})


async def test_reset_that_ends_is_finished_and_has_an_id(tmp_path):
    async with own_site(tmp_path) as own:
        await own.site.commit(50)
        _, operation_id = await own.reset(10)
        assert await own.listed() == [("reset", True, 1)]
        done = await own.undo(operation_id)
        assert (own.site.read().offset, dict(done.counts)) == (50, {"restored": 1})
        assert await own.listed() == [("undo", True, 1), ("reset", True, 1)]


async def test_full_disk_does_not_keep_an_operator_from_a_reset(tmp_path):
    async with own_site(tmp_path, FullDisk()) as own:
        await own.site.commit(50)
        _, operation_id = await own.reset(10)
        assert (operation_id, own.site.read().offset) == ("", 10)
        assert own.observer.of("operation_not_kept") == [("reset", "no space left on device")]


async def test_undo_at_a_manager_that_cannot_says_which_one_can_and_what_to_do_without_it(tmp_path):
    async with own_site(tmp_path) as own:
        await own.site.commit(50)
        _, operation_id = await own.reset(10)
        views = RestoreViews(own.site.service, RestoreSite(own=own.own, kept=own.kept, brokers=None))
        with pytest.raises(NotFound, match="is undone by the manager that did it, while that one leads"):
            await views.undo(ViewRequest(body=UndoBody(writer="alice", operation_id="0123")))
        own.site.service.follows(OTHER)
        with pytest.raises(ManagerFollows, match=r"at 10\.0\.0\.2:9883\. Operation .* is kept here, and the leader"):
            await views.undo(ViewRequest(body=UndoBody(writer="alice", operation_id=operation_id)))


async def test_import_goes_forward_and_back_only_where_that_is_allowed(tmp_path):
    async with own_site(tmp_path) as own:
        await own.site.commit(50)
        assert await own.put(60, change=IMPORT._replace(is_dry_run=True)) == ("ready", 50, 60)
        assert await own.put(60) == ("restored", 50, 60)
        assert await own.put(60) == ("unchanged", 60, 60)
        assert await own.put(10) == ("backward", 60, 10)
        assert await own.put(10, allow_back=True) == ("restored", 60, 10)
        assert own.site.read().offset == 10


@pytest.mark.parametrize(("allow_back", "status", "stored"), [(False, "backward", 100), (True, "restored", 60)])
async def test_import_sees_what_groups_commit_while_it_is_kept(tmp_path, allow_back, status, stored):
    async with own_site(tmp_path) as own:
        await own.site.commit(50)
        keep = own.kept.keep

        async def commit_meanwhile(operation):
            if not operation.is_finished:
                await own.site.commit(100)
            await keep(operation)

        own.kept.keep = commit_meanwhile
        assert await own.put(60, allow_back=allow_back) == (status, 100, 60)
        assert own.site.read().offset == stored


async def test_import_sees_what_groups_have_committed_that_is_not_durable_yet(tmp_path):
    async with own_site(tmp_path) as own:
        await own.site.commit(50)
        commit = asyncio.create_task(own.site.commit(100))
        await asyncio.sleep(0)
        assert own.site.read().offset == 50
        assert await own.put(60) == ("backward", 100, 60)
        await commit
        assert own.site.read().offset == 100
