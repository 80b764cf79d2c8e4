"""Sets that never get a master: one host begins only so many, they expire, and looking after sets stays cheap."""

import pytest
from controller_builders import replicas
from fakes.control_room import SET, ControlRoom

from controller.failover import monitor, new_sets
from controller.sets.broker_set import BrokerSet
from controller.sets.stored_set import StoredSet
from controller.storage.store import VersionedEntry

INVALID = 2005
HOURS_MS = 3_600_000


@pytest.fixture
async def room(tmp_path):
    async with ControlRoom(tmp_path) as room:
        yield room


async def begin(room, *names):
    return [(await room.apply(1, name=name)).code for name in names]


async def look_for(room, ms, beating=()):
    """Let time pass in large steps, in each of which all sets are looked at; brokers that beat do so all the while."""
    for _ in range(ms // (HOURS_MS // 6)):
        room.clock.pass_ms(HOURS_MS // 6)
        for name in beating:
            await room.beat(1, name=name, epoch=-1, maxOffset=0)
        for _ in range(4):
            room.control.monitor.look_at_sets()
            await room.done()


# So many from one host


async def test_new_sets_of_one_host_are_limited_and_those_of_other_hosts_are_not(room, monkeypatch):
    monkeypatch.setattr(new_sets, "BURST", 3)
    room.peer_host = "10.9.9.9"
    assert await begin(room, "a", "b", "c", "d") == [0, 0, 0, INVALID]
    # Brokers of sets that are there already join them, and ask again.
    assert (await room.apply(2, name="a")).code == 0
    assert await begin(room, "b") == [0]
    room.peer_host = "10.9.9.8"
    assert await begin(room, "d") == [0]
    room.peer_host = "10.9.9.9"
    room.clock.pass_ms(new_sets.REFILL_MS)
    assert await begin(room, "e", "f") == [0, INVALID]


async def test_adopted_sets_count_towards_the_limit_of_their_host(room, monkeypatch):
    monkeypatch.setattr(new_sets, "BURST", 1)
    room.peer_host = "10.9.9.9"
    await room.settings.update_config(b"adoptUnknownBrokers=true")
    assert [(await room.register(1, name=name)).code for name in ("a", "b")] == [0, INVALID]


def test_only_a_limited_number_of_hosts_with_new_sets_is_kept(monkeypatch):
    monkeypatch.setattr(new_sets, "HOSTS_MAX", 2)
    begun = new_sets.NewSets()
    for number in range(10):
        assert begun.take(f"10.0.0.{number}", 1_000)
    assert begun.hosts == 2


# Sets that never had a master


async def test_broker_that_registers_days_after_its_application_becomes_master(room):
    await begin(room, "late")
    room.start_again()
    await look_for(room, 72 * HOURS_MS)
    room.peer_host = "10.0.0.11"
    assert (await room.register(1, name="late")).code == 0
    await room.beat(1, name="late", epoch=-1, maxOffset=0)
    assert (await room.elect(1, name="late")).code == 0
    assert room.stored("late").master == 1


async def test_silent_set_that_never_had_a_master_expires_where_there_are_many(room, monkeypatch):
    monkeypatch.setattr(monitor, "SETS_NEVER_EXPIRED", 2)
    await room.a_set(1, 2)
    await begin(room, "made-up", "served")
    await look_for(room, 5 * HOURS_MS, beating=["served"])
    assert {each.broker_name for each in room.store.sets()} == {SET, "made-up", "served"}
    await look_for(room, 2 * HOURS_MS, beating=["served"])
    assert {each.broker_name for each in room.store.sets()} == {SET, "served"}
    assert len(room.store) == 2
    assert [line["broker"] for line in room.events("broker_set_expired")] == ["made-up"]
    await room.store.load()
    assert len(room.store) == 2
    # The name can begin again.
    assert await begin(room, "made-up") == [0]
    assert room.stored("made-up").next_broker_id == 2


async def test_all_silent_sets_that_never_had_a_master_expire(room, monkeypatch):
    monkeypatch.setattr(monitor, "SETS_NEVER_EXPIRED", 0)
    monkeypatch.setattr(monitor, "_EXPIRIES_AT_ONCE", 1)
    await begin(room, "one", "two", "three")
    await look_for(room, 8 * HOURS_MS)
    assert len(room.store) == 0


async def test_cleaned_set_does_not_expire_and_keeps_its_floor(room, monkeypatch):
    monkeypatch.setattr(monitor, "SETS_NEVER_EXPIRED", 0)
    await room.a_set(1, 2)
    await room.clean(living=True)
    floor = room.store.entry(SET).floor
    assert (await room.apply(floor.next_broker_id)).code == 0
    await look_for(room, 8 * HOURS_MS)
    assert room.stored() is not None
    assert room.store.entry(SET).floor == floor


# Looks


def fill(room, sets):
    for number in range(sets):
        name = f"made-up-{number}"
        broker_set = BrokerSet(broker_name=name, cluster="C", replicas=replicas(1), next_broker_id=2)
        room.store.entry_changed(name, VersionedEntry(StoredSet(broker_set=broker_set), 1))


async def test_sets_checked_in_one_round_are_limited(room, monkeypatch):
    fill(room, 30_000)
    looked = []
    monkeypatch.setattr(room.control.monitor, "_look_at_set", lambda broker_set, _now_ms: looked.append(broker_set))
    most = 0
    for _ in range(20):
        room.control.monitor.look_at_sets()
        most, looked[:] = max(most, len(looked)), []
    assert most <= 2_000


async def test_sets_without_a_master_or_a_living_broker_do_not_pile_up_for_the_next_round(room):
    fill(room, 10_000)
    for _ in range(60):
        room.control.monitor.look_at_sets()
    assert len(room.control.monitor._unwell) == 0
