"""Documents in etcd: only the leader writes, everybody reads, nobody watches, neither sets nor leases wait for them."""

import asyncio
import contextlib
import threading

import pytest
from contract.etcd_group import SOON_S, Controller, an_entry, group
from controller_builders import SET
from fakes.leadership_listener import eventually
from peers.etcd import Way, running_etcd

from store.document_store import ChangedDocument, DocumentStore
from store.documents import DocumentKind, VersionedDocument
from store.etcd.etcd_store import DOCUMENT_CALLS_MAX
from store.etcd.keys import Keys
from store.store import Deposed, OutcomeUnknown, StoreError, VersionedEntry

pytestmark = pytest.mark.etcd

POLICY = DocumentKind.SCALING_POLICY


@pytest.fixture(scope="module")
def etcd(tmp_path_factory):
    with running_etcd(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture
def name(tmp_path):
    """A group of its own for each test."""
    return str(tmp_path)


@pytest.fixture
def way(etcd):
    way = Way(etcd.endpoints[0])
    yield way
    way.close()


@contextlib.asynccontextmanager
async def led_over(way, name):
    """Let one controller lead that reaches etcd over a proxy."""
    controller = Controller(1, [way.endpoint], group=name)
    try:
        await controller.join()
        yield await controller.leads()
    finally:
        way.let_go()
        way.delay_s = 0
        await controller.close()


def stored_value(etcd, name, topic):
    return etcd.ctl("get", "--print-value-only", Keys(name).document(POLICY, topic).decode()).stdout.strip()


async def test_followers_and_controllers_that_have_not_joined_read_documents(etcd, name):
    async with group(etcd.endpoints, number=2, group=name) as (leader, follower):
        revision = await leader.store.commit_document(POLICY, "Orders", b"[1]", 0)
        reader = Controller(3, etcd.endpoints, group=name)
        for each in (follower, reader):
            assert dict(await each.store.load_documents(POLICY)) == {"Orders": VersionedDocument(b"[1]", revision)}
            assert await each.store.read_document(POLICY, "Orders") == VersionedDocument(b"[1]", revision)
            with pytest.raises(Deposed, match="scaling-policy Orders: this controller does not lead"):
                await each.store.commit_document(POLICY, "Orders", b"[2]", revision)
        await reader.store.close()
        assert await leader.store.commit_document(POLICY, "Orders", b"[2]", revision) > revision


async def test_documents_are_no_news_for_controllers(etcd, name):
    async with group(etcd.endpoints, number=2, group=name) as (leader, follower):
        await leader.store.commit_document(POLICY, "Orders", b"[1]", 0)
        etcd.ctl("put", Keys(name).documents.decode() + "a-later-kind/%FF", "{nonsense")
        # What comes after them is reported, also to who begins to watch now.
        revision = await leader.commit()
        late = Controller(3, etcd.endpoints, group=name)
        await late.join()
        for each in (follower, late):
            reported = [(SET, VersionedEntry(an_entry(), revision))]
            await eventually(
                lambda each=each, reported=reported: each.listener.entries == reported, seconds=SOON_S, what="the set"
            )
        await late.close()


async def test_unreadable_document_is_named_until_repaired_and_hides_no_other(etcd, name):
    async with group(etcd.endpoints, group=name) as (leader,):
        revision = await leader.store.commit_document(POLICY, "Payments", b"[1]", 0)
        key = Keys(name).document(POLICY, "Orders").decode()
        etcd.ctl("put", key, "{nonsense")
        etcd.ctl("put", Keys(name).documents_of(POLICY).decode() + "%FF", "{}")
        documents = DocumentStore(leader.store)
        await documents.load()
        assert documents.get(POLICY, "Payments") == b"[1]"
        problems = dict(documents.problems(POLICY))
        assert f"{key} cannot be read" in problems.pop("Orders")
        assert [("%FF is not ours" in problem) for problem in problems.values()] == [True]
        with pytest.raises(StoreError, match="cannot be read"):
            await documents.change(POLICY, "Orders", lambda _: b"[2]")
        etcd.ctl("put", key, "[1]")
        assert await documents.change(POLICY, "Orders", lambda _: b"[2]") == ChangedDocument(b"[1]", b"[2]")
        assert (await leader.store.read_document(POLICY, "Payments")).revision == revision


async def test_late_document_of_a_deposed_leader_is_refused(etcd, name, way):
    other = Controller(2, etcd.endpoints, group=name)
    async with led_over(way, name) as late:
        await other.join()
        revision = await late.store.commit_document(POLICY, "Orders", b"[1]", 0)
        way.hold()
        with pytest.raises(OutcomeUnknown):
            await late.store.commit_document(POLICY, "Orders", b"[2]", revision)
        await other.leads()
        way.let_go()
        await late.knows(other.member)
        documents = DocumentStore(other.store)
        await documents.load()
        assert await documents.change(POLICY, "Orders", lambda _: b"[3]") == ChangedDocument(b"[1]", b"[3]")
        with pytest.raises(Deposed):
            await late.store.commit_document(POLICY, "Orders", b"[4]", revision)
        assert stored_value(etcd, name, "Orders") == "[3]"
        await other.close()


async def test_document_of_a_leader_that_missed_its_deposition_deposes_it(etcd, name, way):
    async with led_over(way, name) as slow:
        revision = await slow.store.commit_document(POLICY, "Orders", b"[1]", 0)
        key = Keys(name).leader.decode()
        way.delay_s = 0.4
        sent = asyncio.create_task(slow.store.commit_document(POLICY, "Orders", b"[2]", revision))
        etcd.ctl("del", key)
        etcd.ctl("put", key, '{"id":"n2","addr":"10.0.0.2:9878","run":"x"}')
        with pytest.raises(Deposed, match=r"n2 at 10\.0\.0\.2:9878 leads instead"):
            await sent
        assert not slow.listener.is_leading
        assert stored_value(etcd, name, "Orders") == "[1]"
        way.delay_s = 0
        etcd.ctl("del", key)


@pytest.mark.parametrize("value", [b"[2]", None], ids=["changed", "removed"])
async def test_change_of_a_document_with_a_lost_response_is_found_by_reading(etcd, name, way, value):
    async with led_over(way, name) as leader:
        documents = DocumentStore(leader.store)
        await documents.change(POLICY, "Orders", lambda _: b"[1]")
        way.hold_answers()
        changing = asyncio.create_task(documents.change(POLICY, "Orders", lambda _: value))
        expected = "" if value is None else value.decode()
        await eventually(
            lambda: stored_value(etcd, name, "Orders") == expected, seconds=SOON_S, what="etcd has the change"
        )
        way.cut()
        way.let_go()
        assert await changing == ChangedDocument(b"[1]", value)
        assert documents.get(POLICY, "Orders") == value


async def test_waiting_documents_delay_neither_sets_nor_the_lease(etcd, name):
    async with group(etcd.endpoints, group=name) as (leader,):
        free = threading.Event()
        for _ in range(DOCUMENT_CALLS_MAX):
            leader.store._document_calls._pool.submit(free.wait)
        waiting = [
            asyncio.create_task(leader.store.commit_document(POLICY, f"topic-{n}", b"[1]", 0)) for n in range(50)
        ]
        await asyncio.sleep(0)
        until_ms = leader.listener.until_ms
        revision = await leader.commit()
        assert (await leader.store.read(SET)).revision == revision
        await eventually(lambda: leader.listener.until_ms > until_ms, seconds=SOON_S, what="the lease is renewed")
        free.set()
        # Those whose time was over by then were not sent.
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(each, int | StoreError) for each in results)
        assert not any(isinstance(each, Deposed) for each in results)
