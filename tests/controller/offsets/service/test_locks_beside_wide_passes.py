"""Locks while thousands of offsets wait for a store that takes a few hundred of them at a time."""

import asyncio
import contextlib

from fakes.leadership_listener import eventually
from service_site import GROUP, a_key, service_site

from controller.offsets.commits.commit import CommitEntry
from controller.offsets.locks.sessions.acquire import AcquireStatus
from controller.offsets.locks.sessions.handover import FinalOffset, ReleaseStatus
from controller.offsets.storage.row_flusher import FLUSH_ROWS_MAX
from controller.offsets.values import is_lock_row

ROWS = 8 * FLUSH_ROWS_MAX
#: One write of the store; a pass over all rows takes longer than a change of a lock may.
WRITE_S = 0.5
CHANGE_MS = 3000


@contextlib.asynccontextmanager
async def site_in_a_wide_pass(folder):
    """Yield a site with a lock, a slow store, and many dirty offsets of other groups, and the rows of each write."""
    async with service_site(folder, is_write_through=is_lock_row, write_through_ms=CHANGE_MS) as site:
        await site.locks.declare_orderly("alice", GROUP)
        await site.session("s1")
        (held,) = await site.acquire("s1", 0)
        written, put = [], site.remote.put

        async def slow_put(writes):
            await asyncio.sleep(WRITE_S)
            written.append([each.of for each in writes])
            return await put(writes)

        site.remote.put = slow_put
        keys = [a_key(group=f"wide-{n}") for n in range(ROWS)]
        await site.service.commit([CommitEntry(key, 1) for key in keys], "client-2")
        await eventually(lambda: written, seconds=10, what="the pass has begun")
        yield site, held, written
        assert site.store.dirty_keys, "all of it was while the pass lasted"
        site.remote.put = put


async def test_queues_are_granted_and_sessions_renewed_during_a_wide_pass(tmp_path):
    async with site_in_a_wide_pass(tmp_path) as (site, held, _):
        (granted,) = await site.acquire("s1", 1)
        assert granted.status is AcquireStatus.GRANTED
        renewed = await site.locks.renew("s1")
        assert dict(renewed.queues) == {a_key(0): held.token, a_key(1): granted.token}


async def test_renewals_wait_for_unsettled_rows_and_not_for_a_wide_pass(tmp_path):
    async with site_in_a_wide_pass(tmp_path) as (site, _, _):
        (granted,) = await site.acquire("s1", 1)
        # As after a change that the store did not confirm in time.
        site.keeper._unsettled = frozenset(of for of in site.journal.dirty.rows if of.group == f"wide-{ROWS - 1}")
        renewed = await site.locks.renew("s1")
        assert dict(renewed.queues)[a_key(1)] == granted.token


async def test_store_has_the_final_offset_of_a_queue_no_later_than_its_release(tmp_path):
    async with site_in_a_wide_pass(tmp_path) as (site, _, written):
        (released,) = await site.locks.release("s1", [a_key(0)], {a_key(0): FinalOffset(7)})
        assert released.status is ReleaseStatus.RELEASED
        part = next(part for part in written if any(is_lock_row(of) for of in part))
        lock_at = next(at for at, of in enumerate(part) if is_lock_row(of))
        earlier = [of for each in written[: written.index(part)] for of in each] + part[:lock_at]
        assert a_key(0).of in earlier
