"""Locks as they are kept: stored before they are granted, one change at a time, again after a restart."""

import asyncio

import pytest
from fakes.leadership_listener import eventually
from service_site import GROUP, OTHER, a_key, service_site

from controller.offsets.commits.commit import CommitEntry
from controller.offsets.commits.results import OffsetStatus
from controller.offsets.locks.sessions import operator_rules
from controller.offsets.locks.sessions.acquire import AcquireStatus
from controller.offsets.locks.sessions.refusals import SessionEnded
from controller.offsets.locks.sessions.values import NOBODY, LockChange, LockChanges, QueueLock
from controller.offsets.service.lock_keeper import LocksUnavailable
from controller.offsets.service.manager_role import ManagerNotLeading
from controller.offsets.storage.remote import RowWrite
from controller.offsets.storage.write_behind import InJournalOnly
from controller.offsets.values import is_lock_row
from store.store import StoreError

GRANTED, HELD = AcquireStatus.GRANTED, AcquireStatus.HELD_BY


async def declared(site, *sessions, **options):
    await site.locks.declare_orderly("alice", GROUP)
    for each in sessions:
        await site.session(each, **options)


async def test_a_queue_is_granted_when_the_store_has_it(tmp_path):
    async with service_site(tmp_path, is_write_through=is_lock_row) as site:
        await declared(site, "s1", "s2")
        site.remote.passes.clear()
        first = asyncio.create_task(site.acquire("s1", 0))
        second = asyncio.create_task(site.acquire("s2", 0))
        await asyncio.sleep(0.1)
        assert not first.done()
        assert site.locks.table.count == 0
        site.remote.passes.set()
        assert [each.status for each in await first] == [GRANTED]
        assert [each.status for each in await second] == [HELD]


async def test_a_change_that_waited_while_the_lead_ended_is_not_made(tmp_path):
    async with service_site(tmp_path, is_write_through=is_lock_row) as site:
        await declared(site, "s1", "s2")
        site.remote.passes.clear()
        first, second = (
            asyncio.create_task(site.acquire(session, number)) for number, session in enumerate(["s1", "s2"])
        )
        await asyncio.sleep(0.1)
        site.service.follows(OTHER)
        with pytest.raises(InJournalOnly):
            await first
        with pytest.raises(ManagerNotLeading):
            await second
        site.remote.passes.set()
        await site.lead()
        # The first one was not acknowledged, but may be stored; the second one is not.
        assert a_key(1) not in site.locks.table.locks_of(GROUP)


@pytest.mark.parametrize(
    "change",
    [
        lambda site: site.acquire("s1", 1),
        lambda site: site.session("s2"),
        lambda site: site.locks.release("s1", [a_key(0)], {}),
        lambda site: site.locks.force_release("alice", a_key(0)),
        lambda site: site.locks.declare_orderly("alice", GROUP._replace(group="audit")),
        lambda site: site.locks.close("s1"),
    ],
    ids=["grant", "session", "release", "force-release", "declaration", "close"],
)
async def test_a_change_that_the_shared_store_did_not_get_is_not_made_by_a_later_lead(tmp_path, change):
    async with service_site(tmp_path, is_write_through=is_lock_row, write_through_ms=50) as site:
        site.remote.is_shared = True
        await declared(site, "s1")
        (held,) = await site.acquire("s1", 0)
        stored = await site.remote.load_page(None)
        site.remote.put_error = StoreError("etcd does not answer")
        with pytest.raises(InJournalOnly):
            await change(site)
        site.service.follows(OTHER)
        site.remote.put_error = None
        await site.lead()
        # The other manager may have made the same change, and taken it back.
        assert await site.remote.load_page(None) == stored
        assert site.store.dirty_keys == 0
        assert dict((await site.locks.renew("s1")).queues) == {a_key(0): held.token}
    async with service_site(tmp_path) as site:
        assert await site.remote.load_page(None) == stored


async def test_a_grant_that_is_found_lost_by_a_write_into_its_row_outlives_that_the_store_was_put_back(tmp_path):
    async with service_site(tmp_path, is_write_through=is_lock_row, write_through_ms=50) as site:
        site.remote.is_shared = True
        await declared(site, "s1")
        (held,) = await site.acquire("s1", 0)
        rows = (await site.remote.load_page(None)).rows
        (of,) = (each for each in rows if each.topic == "orders")
        await site.remote.put([RowWrite(of, {}, rows[of].revision)])
        put = site.remote.put

        async def answered_once(writes):
            outcome = await put(writes)
            site.remote.put_error = StoreError("etcd does not answer")
            return outcome

        site.remote.put = answered_once
        with pytest.raises(InJournalOnly):
            await site.acquire("s1", 1)
        site.remote.put = put
        site.remote.put_error = None
        site.service.put_back()
        await eventually(lambda: site.service.role.is_serving, seconds=10, what="the service has loaded")
        assert (await site.locks.renew("s1")).queues[0] == (a_key(0), held.token)


async def test_locks_and_the_last_token_outlive_a_restart(tmp_path):
    async with service_site(tmp_path) as site:
        await declared(site, "s1", "s2")
        (held,) = await site.acquire("s1", 0)
        (released,) = await site.acquire("s2", 1)
        await site.locks.release("s2", [a_key(1)], {})
    async with service_site(tmp_path) as site:
        assert dict((await site.locks.renew("s1")).queues) == {a_key(0): held.token}
        again = await site.acquire("s2", 0, 1)
        assert [each.status for each in again] == [HELD, GRANTED]
        assert again[1].token > released.token
        assert (await site.commit(1, 0, token=held.token)).status is OffsetStatus.OK
        assert (await site.commit(1, 1, token=released.token)).status is OffsetStatus.FENCED


async def test_each_lease_begins_anew_with_a_term(tmp_path):
    async with service_site(tmp_path) as site:
        await declared(site, "s1", "s2", ttl_ms=10_000)
        await site.acquire("s1", 0)
        site.clock.pass_ms(9_000)
        site.service.follows(OTHER)
        await site.lead()
        site.clock.pass_ms(1_500)
        assert [each.status for each in await site.acquire("s2", 0)] == [HELD]
        await site.locks.renew("s1")


async def test_leases_begin_anew_after_a_pause_of_the_manager(tmp_path):
    async with service_site(tmp_path) as site:
        await declared(site, "s1", "s2", ttl_ms=10_000)
        await site.acquire("s1", 0)
        # Renewals could not arrive meanwhile.
        site.clock.pass_ms(60_000)
        assert [each.status for each in await site.acquire("s2", 0)] == [HELD]
        await site.locks.renew("s1")


async def test_leases_do_not_begin_anew_after_a_pause_in_which_the_lead_ended(tmp_path):
    async with service_site(tmp_path, leads=False) as site:
        await site.lead(until_ms=site.clock.now_ms() + 5_000)
        await declared(site, "s1", ttl_ms=10_000)
        site.clock.pass_ms(60_000)
        # Another manager may lead, and may have granted its queues.
        for requested in (site.locks.renew("s1"), site.acquire("s1", 0), site.locks.close("s1")):
            with pytest.raises(ManagerNotLeading):
                await requested
        # The store shows that it was the same lead all the time, so nobody was granted anything.
        site.service.leads(site.clock.now_ms() + 5_000)
        await site.locks.renew("s1")


async def test_a_grant_that_only_the_journal_has_is_no_grant_yet(tmp_path):
    async with service_site(tmp_path, is_write_through=is_lock_row, write_through_ms=50) as site:
        await declared(site, "s1")
        site.remote.passes.clear()
        with pytest.raises(InJournalOnly):
            await site.acquire("s1", 0)
        # Neither does a repetition confirm it, nor a renewal, which names the queues that are held.
        again, renewed = asyncio.create_task(site.acquire("s1", 0)), asyncio.create_task(site.locks.renew("s1"))
        done, _ = await asyncio.wait({again, renewed}, timeout=0.2)
        assert not done
        site.remote.passes.set()
        (granted,) = await again
        assert granted.status is GRANTED
        assert dict((await renewed).queues) == {a_key(0): granted.token}


async def test_a_forced_release_fences_the_former_holder_for_good_and_leaves_no_lock(tmp_path):
    async with service_site(tmp_path, is_write_through=is_lock_row) as site:
        await declared(site, "s1", "s2")
        (former,) = await site.acquire("s1", 0)
        await site.commit(5, token=former.token)
        token = await site.locks.force_release("alice", a_key(0))
        assert site.locks.table.lock_of(a_key(0)) is None
        assert site.store.dirty_keys == 0
        assert (await site.commit(6, token=former.token)).status is OffsetStatus.FENCED
        (granted,) = await site.acquire("s2", 0)
        await site.locks.release("s2", [a_key(0)], {})
        assert granted.token > token
        assert (await site.commit(6, token=former.token)).status is OffsetStatus.FENCED


async def test_sessions_that_are_not_renewed_end(tmp_path):
    async with service_site(tmp_path) as site:
        await declared(site, "s1", "s2", ttl_ms=10_000)
        await site.acquire("s1", 0)
        for _ in range(11):
            site.clock.pass_ms(1_000)
            await site.locks.renew("s2")
            await site.locks.expire()
        assert site.observer.of("sessions_expired") == [(1,)]
        with pytest.raises(SessionEnded):
            await site.locks.renew("s1")
        assert [each.status for each in await site.acquire("s2", 0)] == [GRANTED]


async def test_the_rows_of_locks_are_nobodys_offsets(tmp_path):
    async with service_site(tmp_path) as site:
        await declared(site, "s1")
        await site.acquire("s1", 0)
        site.service.follows(OTHER)
        await site.lead()
        assert site.service.table.count == 0


async def test_nothing_is_granted_while_stored_locks_cannot_be_read(tmp_path):
    async with service_site(tmp_path) as site:
        await declared(site, "s1")
        await site.acquire("s1", 0)
        await site.service.flush(None)
    async with service_site(tmp_path, leads=False) as site:
        site.remote._file.connection.execute("UPDATE offsets SET value = x'00' WHERE key LIKE '\\%01%' ESCAPE '\\'")
        await site.lead()
        with pytest.raises(LocksUnavailable, match="cannot be read"):
            await site.acquire("s1", 0)
        assert (await site.commit(1, group="other")).status is OffsetStatus.OK


async def test_all_queues_that_were_taken_from_their_holders_are_free_once_their_tokens_are_stored(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(operator_rules, "ENTRIES_MAX", 2)
    async with service_site(tmp_path) as site:
        await declared(site, "s1")
        keys = [a_key(each) for each in range(5)]
        await site.service.commit([CommitEntry(key, 1) for key in keys], "client-1")
        forced = tuple(
            LockChange(key, None, QueueLock(token=number, session_id=NOBODY, since_unix_ms=0))
            for number, key in enumerate(keys, 1)
        )
        site.keeper.table.apply(LockChanges(locks=forced), 0)
        await site.locks.end_fences()
        assert site.keeper.table.count == 0
        assert [each.token for each in site.service.read(keys)] == [1, 2, 3, 4, 5]
