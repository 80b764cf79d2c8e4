"""A follower's journal, handed over to a real manager that leads."""

import asyncio
import contextlib

import pytest
from fakes.clock import FakeClock
from offset_builders import UNIX_MS, an_offset
from peers.offset_managers import OffsetManager, a_queue, an_entry

from controller.offsets.app.journal_handover import HandoverSource, JournalHandover
from controller.offsets.commits.changes import OffsetChange
from controller.offsets.service.manager_role import ManagerRole
from controller.offsets.storage.journal import Journal
from controller.offsets.values import GroupTopic, QueueKey
from remoting.clock import SystemClock
from store.store import ControllerMember


@pytest.fixture(scope="module")
def leader(tmp_path_factory):
    manager = OffsetManager(tmp_path_factory.mktemp("leader")).start()
    yield manager
    assert manager.process.stop() == 0


@pytest.fixture
def busy(tmp_path):
    """A leader whose store gets nothing by itself for 10 s, and may lack 1,000 queues."""
    manager = OffsetManager(tmp_path / "busy", flush_interval_ms=10_000, dirty_keys_max=1_000).start()
    yield manager
    manager.process.kill()


class Reports:
    def __init__(self):
        self.handed, self.failed = [], []

    def handed_over(self, leader, settled, left):
        self.handed.append((settled, left))

    def handover_failed(self, leader, error):
        self.failed.append(error)


@contextlib.asynccontextmanager
async def follower(folder, address, *offsets, days=0, store_id="s1"):
    """Yield the journal of a follower that has acknowledged these when it led, days ago, and what hands it over."""
    clock = FakeClock(unix_ms=UNIX_MS + days * 24 * 3_600_000)
    journal, reports = Journal(folder, SystemClock()), Reports()
    role = ManagerRole(SystemClock(), lambda _: None, lambda: None)
    role.follows(ControllerMember(id="m1", address=address))
    await journal.belong_to("s1")
    await journal.record([OffsetChange(key, None, stored) for key, stored in offsets])

    async def present():
        return store_id

    try:
        yield journal, JournalHandover(HandoverSource(journal, role, present), lambda: "", clock, reports), reports
    finally:
        await journal.close()


def key(queue_id=0, group="handed", topic="orders", cluster="DefaultCluster", namespace=""):
    return QueueKey(GroupTopic(cluster, namespace, group, topic, "broker-a"), queue_id)


async def test_the_leader_has_it_and_the_journal_is_clean(leader, tmp_path):
    offsets = [(key(queue_id), an_offset(70, writer=f"client-{queue_id % 3}")) for queue_id in range(9)]
    async with follower(tmp_path, leader.address, *offsets) as (journal, handover, reports):
        assert await handover._attempt(leader.address)
        assert len(journal.dirty) == 0
        assert reports.handed == [(9, 0)]
    answer = await asyncio.to_thread(leader.post, "/v1/offsets/read", {"keys": [a_queue(4, group="handed")]})
    stored = answer.body["results"][0]["stored"]
    assert (stored["offset"], stored["writer"]) == (70, "client-1")


async def test_what_may_have_been_deleted_since_is_not_handed_over(leader, tmp_path):
    async with follower(tmp_path, leader.address, (key(group="old"), an_offset(70)), days=7) as (journal, handover, _):
        assert await handover._attempt(leader.address)
        assert len(journal.dirty) == 1
    answer = await asyncio.to_thread(leader.post, "/v1/offsets/read", {"keys": [a_queue(group="old")]})
    assert answer.statuses == ["not_found"]


async def test_what_the_leader_has_newer_stays_there(leader, tmp_path):
    await asyncio.to_thread(leader.commit, an_entry(100, group="newer"))
    async with follower(tmp_path, leader.address, (key(group="newer"), an_offset(70))) as (journal, handover, _):
        assert await handover._attempt(leader.address)
        assert len(journal.dirty) == 0
    assert await asyncio.to_thread(leader.offset, group="newer") == 100


async def test_what_is_frozen_is_kept_for_the_next_attempt(leader, tmp_path):
    freeze = {"operation": "op-h", "reason": "test", "scopes": [{"group": "icy"}]}
    await asyncio.to_thread(leader.post, "/v1/offsets/freeze", freeze)
    offsets = [(key(group="icy"), an_offset(5)), (key(1, group="warm"), an_offset(6))]
    async with follower(tmp_path, leader.address, *offsets) as (journal, handover, reports):
        assert not await handover._attempt(leader.address)
        assert reports.handed == [(1, 1)]
        assert len(journal.dirty) == 1
        await asyncio.to_thread(leader.post, "/v1/offsets/thaw", {"operation": "op-h"})
        assert await handover._attempt(leader.address)
        assert len(journal.dirty) == 0


async def test_it_leaves_the_journal_when_the_store_has_it_in_each_cluster_and_namespace(busy, tmp_path):
    offsets = [(key(cluster=cluster, namespace=name), an_offset(5)) for cluster in ("A", "B") for name in ("", "n")]
    async with follower(tmp_path, busy.address, *offsets) as (journal, handover, reports):
        assert await handover._attempt(busy.address)
        assert len(journal.dirty) == 0
        assert reports.handed == [(4, 0)]
    assert (await asyncio.to_thread(busy.get, "/v1/manager")).body["dirtyKeys"] == 0


async def test_a_request_that_the_leader_refuses_keeps_no_other_back(leader, tmp_path):
    offsets = [(key(0, group="kept"), an_offset(5, writer="\n")), (key(1, group="kept"), an_offset(6))]
    async with follower(tmp_path, leader.address, *offsets) as (journal, handover, reports):
        assert not await handover._attempt(leader.address)
        assert reports.handed == [(1, 1)]
        assert "commit was answered 422" in reports.failed[0]
        assert journal.dirty.get(key(0, group="kept")) is not None
    assert await asyncio.to_thread(leader.offset, 1, group="kept") == 6


async def test_a_request_that_is_too_large_is_sent_in_parts(leader, tmp_path):
    long = "\N{CJK UNIFIED IDEOGRAPH-7D44}" * 255
    offsets = [(key(queue_id, group=long, topic=long), an_offset(5)) for queue_id in range(1_000)]
    # It takes 2 MiB, so names of that many bytes do not fit.
    async with follower(tmp_path, leader.address, *offsets) as (journal, handover, reports):
        assert await handover._attempt(leader.address)
        assert (len(journal.dirty), reports.failed) == (0, [])


async def test_what_a_leader_took_until_it_had_too_much_to_do_leaves_the_journal(busy, tmp_path):
    offsets = [(key(n % 1_000, topic=f"t{n // 1_000}"), an_offset(5)) for n in range(1_500)]
    async with follower(tmp_path, busy.address, *offsets) as (journal, handover, reports):
        assert not await handover._attempt(busy.address)
        assert "commit was answered 429" in reports.failed[0]
        assert (len(journal.dirty), reports.handed) == (500, [(1_000, 500)])
        assert await handover._attempt(busy.address)
        assert len(journal.dirty) == 0


async def test_what_was_acknowledged_for_another_store_is_not_handed_over(leader, tmp_path):
    more = {"store_id": "s2"}
    async with follower(tmp_path, leader.address, (key(group="other"), an_offset(70)), **more) as (
        journal,
        handover,
        reports,
    ):
        assert not await handover._attempt(leader.address)
        assert "it has offsets of 1 queues for the store s1, and this is the store s2" in reports.failed[0]
        assert len(journal.dirty) == 1
    answer = await asyncio.to_thread(leader.post, "/v1/offsets/read", {"keys": [a_queue(group="other")]})
    assert answer.statuses == ["not_found"]


async def test_a_leader_that_refuses_or_is_none_leaves_the_journal_as_it_is(tmp_path):
    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n[]")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with follower(tmp_path, f"127.0.0.1:{port}", (key(), an_offset(1))) as (journal, handover, reports):
        assert not await handover._attempt(f"127.0.0.1:{port}")
        assert "not that of an offset manager" in reports.failed[0]
        server.close()
        assert not await handover._attempt(f"127.0.0.1:{port}")
        assert len(reports.failed) == 2
        assert len(journal.dirty) == 1
