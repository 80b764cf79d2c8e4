"""Offsets in etcd: only the manager that leads writes, what cannot be read is named and kept, and limits are kept."""

import asyncio
import time

import pytest
from fakes.leadership_listener import RecordingListener, eventually
from peers.etcd import running_etcd
from remote_stores import SOON_S, all_rows, leading
from stored_offset_builders import an_offset, row_name

from controller.offsets.storage.etcd_remote import EtcdRemote
from controller.offsets.storage.formats.batches import WriteRate
from controller.offsets.storage.formats.row_values import encoded_row
from controller.offsets.storage.remote import RemoteRow, RowMoved, RowStored, RowTooLarge, RowWrite
from remoting.clock import SystemClock
from store.etcd.client import EtcdOptions
from store.etcd.keys import Keys
from store.store import Deposed, StoreError

pytestmark = pytest.mark.etcd


@pytest.fixture(scope="module")
def etcd(tmp_path_factory):
    with running_etcd(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture
def group(tmp_path):
    """A group of managers of its own for each test."""
    return str(tmp_path)


def a_write(offset=100, group="payments", *, revision=0):
    return RowWrite(row_name(group), {0: an_offset(offset)}, revision)


def key_of(group, path="DefaultCluster//payments/orders/broker-a"):
    return Keys(group, "rmq-offsets").prefix.decode() + "offsets/" + path


async def test_manager_that_does_not_lead_writes_nothing(etcd, group):
    listener = RecordingListener()
    async with leading(etcd.endpoints, group) as leader:
        await leader.put([a_write()])
        async with leading_later(etcd, group, listener) as follower:
            await eventually(lambda: listener.leader is not None, seconds=SOON_S, what="it follows")
            assert listener.leader.id == "m1"
            with pytest.raises(Deposed, match="does not lead"):
                await follower.put([a_write(500)])
            rows, _ = await all_rows(follower)
            assert rows[row_name()].queues == {0: an_offset(100)}


def leading_later(etcd, group, listener):
    """Open a store that stands for election while another one leads."""
    listener_that_does_not_wait = _Impatient(listener)
    return leading(etcd.endpoints, group, listener=listener_that_does_not_wait, member="m2")


class _Impatient:
    """Passes on to a listener; its manager does not wait for the lead."""

    is_leading = True

    def __init__(self, listener):
        self._listener = listener

    def __getattr__(self, name):
        return getattr(self._listener, name)


async def test_number_of_the_lead_rises_with_each_lead(etcd, group):
    leads = []
    for member in ("m1", "m2", "m1"):
        async with leading(etcd.endpoints, group, member=member) as remote:
            leads.append(remote.lead)
            await remote.put([a_write(len(leads), f"g{len(leads)}")])
            await remote.resign()
            assert remote.lead == 0
    assert 0 < leads[0] < leads[1] < leads[2]


async def test_leader_whose_key_is_gone_is_deposed_by_its_next_write(etcd, group):
    listener = RecordingListener()
    async with leading(etcd.endpoints, group, listener=listener) as remote:
        (stored,) = (await remote.put([a_write()])).results
        etcd.ctl("del", Keys(group, "rmq-offsets").leader.decode())
        etcd.ctl("put", Keys(group, "rmq-offsets").leader.decode(), '{"id":"m9","addr":"10.0.0.9:9880","run":"x"}')
        with pytest.raises(Deposed, match=r"m9 at 10\.0\.0\.9:9880 leads instead"):
            await remote.put([a_write(500, revision=stored.revision)])
        assert not listener.is_leading
        rows, _ = await all_rows(remote)
        assert rows[row_name()].queues == {0: an_offset(100)}
        etcd.ctl("del", Keys(group, "rmq-offsets").leader.decode())


async def test_next_manager_writes_on_where_the_former_one_ended(etcd, group):
    async with leading(etcd.endpoints, group) as former:
        await former.put([a_write()])
    async with leading(etcd.endpoints, group, member="m2") as remote:
        rows, _ = await all_rows(remote)
        outcome = await remote.put([a_write(200, revision=rows[row_name()].revision)])
        assert isinstance(outcome.results[0], RowStored)


async def test_unreadable_row_is_named_with_its_key_and_never_written_over(etcd, group):
    async with leading(etcd.endpoints, group) as remote:
        await remote.put([a_write(), a_write(7, "other")])
        etcd.ctl("put", key_of(group), "{nonsense")
        etcd.ctl("put", key_of(group, "a/b"), "{}")
        rows, (foreign,) = await all_rows(remote)
        assert rows[row_name("other")].queues == {0: an_offset(7)}
        assert key_of(group) in rows[row_name()].problem
        assert "Restore this key from a backup, or delete it" in rows[row_name()].problem
        assert "has 2 parts" in foreign
        (moved,) = (await remote.put([a_write(500)])).results
        assert "cannot be read" in moved.present.problem
        assert etcd.ctl("get", "--print-value-only", key_of(group)).stdout == "{nonsense\n"


async def test_row_of_a_later_release_is_left_alone(etcd, group):
    async with leading(etcd.endpoints, group) as remote:
        etcd.ctl("put", key_of(group), '{"v":2}')
        rows, _ = await all_rows(remote)
        assert "version 2" in rows[row_name()].problem


async def test_groups_of_managers_do_not_see_one_another(etcd, group):
    async with leading(etcd.endpoints, group) as one, leading(etcd.endpoints, f"{group}x") as other:
        await one.put([a_write()])
        assert (await all_rows(other))[0] == {}
        await other.put([a_write(7)])
        assert (await all_rows(one))[0][row_name()].queues == {0: an_offset(100)}


async def test_batch_above_a_hundred_rows_is_split_and_says_so(etcd, group):
    async with leading(etcd.endpoints, group) as remote:
        outcome = await remote.put([a_write(n, f"g{n}") for n in range(250)])
        assert (outcome.transactions, outcome.is_atomic) == (3, False)
        assert all(isinstance(each, RowStored) for each in outcome.results)
        assert (await remote.put([a_write(n, f"h{n}") for n in range(100)])).is_atomic


async def test_batch_above_a_megabyte_is_split_before_etcd_refuses_it(etcd, group):
    rows = [RowWrite(row_name(f"g{n}"), {q: an_offset(n, unix_ms=q) for q in range(1000)}, 0) for n in range(56)]
    assert sum(len(encoded_row(each.queues)) for each in rows) > 1_500_000
    async with leading(etcd.endpoints, group) as remote:
        outcome = await remote.put(rows)
        assert outcome.transactions == 2
        assert (await all_rows(remote))[0].keys() == {each.of for each in rows}


async def test_row_that_no_request_takes_is_refused_alone(etcd, group):
    large = RowWrite(row_name("large"), {q: an_offset(q, writer=f"{q:>2000}") for q in range(1000)}, 0)
    async with leading(etcd.endpoints, group) as remote:
        refused, stored = (await remote.put([large, a_write()])).results
        assert isinstance(refused, RowTooLarge)
        assert "large" in refused.problem
        assert isinstance(stored, RowStored)
        assert (await all_rows(remote))[0].keys() == {row_name()}


async def test_moved_rows_of_a_batch_keep_no_other_away(etcd, group):
    async with leading(etcd.endpoints, group) as remote:
        await remote.put([a_write(n, f"g{n}") for n in range(0, 100, 2)])
        results = (await remote.put([a_write(n + 1, f"g{n}") for n in range(100)])).results
        assert [isinstance(each, RowMoved) for each in results] == [n % 2 == 0 for n in range(100)]
        rows, _ = await all_rows(remote)
        assert [rows[row_name(f"g{n}")].queues[0].offset for n in range(100)] == [n + n % 2 for n in range(100)]


async def test_requests_follow_one_another_no_faster_than_the_rate(etcd, group):
    async with leading(etcd.endpoints, group, rate=WriteRate(requests_per_s=10)) as remote:
        begun = time.perf_counter()
        await asyncio.gather(*(remote.put([a_write(n, f"g{n}")]) for n in range(6)))
        assert time.perf_counter() - begun > 0.45


async def test_calls_fail_while_no_endpoint_answers_and_go_on_after_it(tmp_path):
    listener = RecordingListener()
    with running_etcd(tmp_path) as etcd:
        async with leading(etcd.endpoints, "g", listener=listener) as remote:
            await remote.put([a_write()])
            etcd.kill()
            with pytest.raises(StoreError, match=etcd.endpoints[0]):
                await remote.load_page(None)
            with pytest.raises(StoreError):
                await remote.put([a_write(500, "other")])
            etcd.restart()
            await eventually(lambda: listener.is_leading, seconds=SOON_S, what="it leads again")
            rows, _ = await all_rows(remote)
            assert rows == {row_name(): RemoteRow({0: an_offset()}, rows[row_name()].revision)}


async def test_id_of_a_store_is_that_of_its_group_and_is_made_by_the_first_leader(etcd, group):
    follower = EtcdRemote(EtcdOptions(endpoints=tuple(etcd.endpoints), group=group), SystemClock())
    assert await follower.store_id() == ""
    async with leading(etcd.endpoints, group) as remote:
        made = await remote.store_id()
        assert len(made) == 16
        assert (await follower.store_id(), await remote.store_id()) == (made, made)
        await remote.put([a_write()])
        assert list((await all_rows(remote))[0]) == [row_name()]
    async with leading(etcd.endpoints, group, member="m2") as remote:
        assert await remote.store_id() == made
    async with leading(etcd.endpoints, f"{group}-other") as remote:
        assert await remote.store_id() != made
    await follower.close()


async def test_manager_that_passes_its_lead_on_leads_again_where_nobody_else_does(etcd, group):
    listener = RecordingListener()
    async with leading(etcd.endpoints, group, listener=listener) as remote:
        remote.pass_on()
        assert not listener.is_leading
        await eventually(lambda: listener.is_leading, seconds=SOON_S, what="it stands again, and leads")
        assert isinstance((await remote.put([a_write()])).results[0], RowStored)
