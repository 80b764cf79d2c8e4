"""What was delivered survives a restart, in few documents however many sets there are."""

import json

import pytest
from callback_builders import a_change, a_master
from controller_builders import a_set
from fakes.scaling_controller import ME, FailingStore

from controller.callbacks.delivered import DELIVERED_FORMAT, SHARDS, DeliveredMaster, DeliveredMasters, shard_of
from controller.failover.group import Group
from controller.wire.handlers import ReplicaInfoCache
from remoting.clock import SystemClock
from store.documents import DocumentKind
from store.store import SetStore, StoreError

KIND = DocumentKind.ROLE_CALLBACK


@pytest.fixture
async def backend(tmp_path):
    backend = FailingStore(tmp_path)
    await backend.join(ME, Group("g", ME, SystemClock(), SetStore(backend, ReplicaInfoCache())))
    yield backend
    await backend.close()


@pytest.fixture
async def delivered(backend):
    return await loaded(backend)


async def loaded(backend):
    delivered = DeliveredMasters(backend)
    assert await delivered.load(lambda: True) == {}
    return delivered


async def test_stored_deliveries_are_known_to_the_next_leader(backend, delivered):
    delivered.record(a_change())
    delivered.record(a_change(broker_name="broker-b", new=None, master_epoch=9))
    assert delivered.has_unstored
    await delivered.store(lambda _: True)
    assert not delivered.has_unstored
    other = await loaded(backend)
    assert other.of_set("broker-a") == DeliveredMaster(6, 2, "10.0.0.2:30911")
    assert other.of_set("broker-a").master == a_master(2)
    assert other.of_set("broker-b") == DeliveredMaster(9)
    assert other.of_set("broker-b").master is None
    assert other.of_set("unknown") is None


async def test_recorded_delivery_counts_before_it_is_stored(backend, delivered):
    delivered.record(a_change())
    assert delivered.of_set("broker-a").epoch == 6
    assert (await loaded(backend)).of_set("broker-a") is None


@pytest.mark.parametrize(
    ("broker_set", "is_left"),
    [
        (a_set(master_epoch=6, master=2), False),
        (a_set(master_epoch=7, master=2), True),
        (a_set(master_epoch=5, master=3), False),
        (a_set(master_epoch=6, master=None), True),
        (a_set(master_epoch=6, master=3), True),
    ],
)
async def test_later_epochs_and_other_addresses_are_still_to_be_delivered(delivered, broker_set, is_left):
    delivered.record(a_change())
    assert delivered.of_set("broker-a").precedes(broker_set) is is_left


async def test_store_that_fails_is_written_next_time(backend, delivered):
    delivered.record(a_change())
    backend.fails = True
    with pytest.raises(StoreError, match="the disk is full"):
        await delivered.store(lambda _: True)
    assert delivered.has_unstored
    backend.fails = False
    await delivered.store(lambda _: True)
    assert (await loaded(backend)).of_set("broker-a").epoch == 6


async def test_thousands_of_changes_are_few_documents(backend, delivered):
    names = [f"broker-{number}" for number in range(3000)]
    for name in names:
        delivered.record(a_change(broker_name=name))
    await delivered.store(lambda _: True)
    documents = await backend.load_documents(KIND)
    assert len(documents) <= SHARDS
    assert max(len(each.value) for each in documents.values()) < 4_096
    assert {shard_of(name) for name in names} == set(documents)
    other = await loaded(backend)
    assert all(other.of_set(name).epoch == 6 for name in names)


async def test_sets_that_are_gone_leave_their_documents(backend, delivered):
    names = [name for number in range(10_000) if shard_of(name := f"b{number}") == "00"][:3]
    for name in names[:2]:
        delivered.record(a_change(broker_name=name))
    await delivered.store(lambda _: True)
    delivered.record(a_change(broker_name=names[2]))
    await delivered.store(lambda name: name != names[0])
    (document,) = (await backend.load_documents(KIND)).values()
    assert sorted(json.loads(document.value)["sets"]) == sorted(names[1:])


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b'{"sets": 7}', "cannot be read: Expected `object`, got `int`"),
        (
            b'{"format": %d, "sets": {}}' % (DELIVERED_FORMAT + 1),
            "has format 2, and this release reads formats up to 1",
        ),
    ],
)
async def test_document_that_cannot_be_read_is_named_and_never_overwritten(backend, value, problem):
    await backend.commit_document(KIND, shard_of("broker-a"), value, 0)
    delivered = DeliveredMasters(backend)
    problems = await delivered.load(lambda: True)
    assert problem in problems[shard_of("broker-a")]
    assert delivered.of_set("broker-a") is None
    delivered.record(a_change())
    with pytest.raises(StoreError, match="role-callback document"):
        await delivered.store(lambda _: True)
    assert (await backend.read_document(KIND, shard_of("broker-a"))).value == value


async def test_load_that_is_wanted_no_more_changes_nothing(backend, delivered):
    delivered.record(a_change())
    assert await delivered.load(lambda: False) == {}
    assert delivered.of_set("broker-a").epoch == 6
