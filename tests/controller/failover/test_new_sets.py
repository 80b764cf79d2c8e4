"""Sets that never get a master: one host begins only so many, they expire, and looking after sets stays cheap."""

from controller_builders import replicas
from fakes.in_process_controller import SET

from controller.failover import monitor, requests
from controller.sets.broker_set import BrokerSet
from controller.sets.stored_set import StoredSet
from store.store import VersionedEntry

INVALID = 2005
HOURS_MS = 3_600_000


async def begin(controller, *names):
    return [(await controller.apply(1, name=name)).code for name in names]


async def look_for(controller, ms, beating=()):
    """Let time pass in large steps, in each of which all sets are looked at; brokers that beat do so all the while."""
    for _ in range(ms // (HOURS_MS // 6)):
        controller.clock.pass_ms(HOURS_MS // 6)
        for name in beating:
            await controller.heartbeat(1, name=name, epoch=-1, maxOffset=0)
        for _ in range(4):
            controller.control.monitor.look_at_sets()
            await controller.done()


# So many from one host


async def test_new_sets_of_one_host_are_limited_and_those_of_other_hosts_are_not(controller, monkeypatch):
    monkeypatch.setattr(requests, "BURST", 3)
    controller.peer_host = "10.9.9.9"
    assert await begin(controller, "a", "b", "c", "d") == [0, 0, 0, INVALID]
    # Brokers of sets that are there already join them, and ask again.
    assert (await controller.apply(2, name="a")).code == 0
    assert await begin(controller, "b") == [0]
    controller.peer_host = "10.9.9.8"
    assert await begin(controller, "d") == [0]
    controller.peer_host = "10.9.9.9"
    controller.clock.pass_ms(requests.REFILL_MS)
    assert await begin(controller, "e", "f") == [0, INVALID]


async def test_adopted_sets_count_towards_the_limit_of_their_host(controller, monkeypatch):
    monkeypatch.setattr(requests, "BURST", 1)
    controller.peer_host = "10.9.9.9"
    await controller.settings.update_config(b"adoptUnknownBrokers=true")
    assert [(await controller.register(1, name=name)).code for name in ("a", "b")] == [0, INVALID]


def test_only_a_limited_number_of_hosts_with_new_sets_is_kept(monkeypatch):
    monkeypatch.setattr(requests, "HOSTS_MAX", 2)
    begun = requests.NewSets()
    for number in range(10):
        assert begun.take(f"10.0.0.{number}", 1_000)
    assert len(begun._budgets) == 2


# Sets that never had a master


async def test_broker_that_registers_days_after_its_application_becomes_master(controller):
    await begin(controller, "late")
    controller.restart()
    await look_for(controller, 72 * HOURS_MS)
    controller.peer_host = "10.0.0.11"
    assert (await controller.register(1, name="late")).code == 0
    await controller.heartbeat(1, name="late", epoch=-1, maxOffset=0)
    assert (await controller.elect(1, name="late")).code == 0
    assert controller.stored("late").master == 1


async def test_silent_set_that_never_had_a_master_expires_where_there_are_many(controller, monkeypatch):
    monkeypatch.setattr(monitor, "SETS_NEVER_EXPIRED", 2)
    await controller.a_set(1, 2)
    await begin(controller, "made-up", "served")
    await look_for(controller, 5 * HOURS_MS, beating=["served"])
    assert {each.broker_name for each in controller.store.sets()} == {SET, "made-up", "served"}
    await look_for(controller, 2 * HOURS_MS, beating=["served"])
    assert {each.broker_name for each in controller.store.sets()} == {SET, "served"}
    assert len(controller.store) == 2
    assert [line["broker"] for line in controller.events("broker_set_expired")] == ["made-up"]
    await controller.store.load()
    assert len(controller.store) == 2
    # The name can begin again.
    assert await begin(controller, "made-up") == [0]
    assert controller.stored("made-up").next_broker_id == 2


async def test_all_silent_sets_that_never_had_a_master_expire(controller, monkeypatch):
    monkeypatch.setattr(monitor, "SETS_NEVER_EXPIRED", 0)
    monkeypatch.setattr(monitor, "_EXPIRIES_AT_ONCE", 1)
    await begin(controller, "one", "two", "three")
    await look_for(controller, 8 * HOURS_MS)
    assert len(controller.store) == 0


async def test_cleaned_set_does_not_expire_and_keeps_its_floor(controller, monkeypatch):
    monkeypatch.setattr(monitor, "SETS_NEVER_EXPIRED", 0)
    await controller.a_set(1, 2)
    await controller.clean(living=True)
    floor = controller.store.entry(SET).floor
    assert (await controller.apply(floor.next_broker_id)).code == 0
    await look_for(controller, 8 * HOURS_MS)
    assert controller.stored() is not None
    assert controller.store.entry(SET).floor == floor


# Looks


def fill(controller, sets):
    for number in range(sets):
        name = f"made-up-{number}"
        broker_set = BrokerSet(broker_name=name, cluster="C", replicas=replicas(1), next_broker_id=2)
        controller.store.entry_changed(name, VersionedEntry(StoredSet(broker_set=broker_set), 1))


async def test_sets_checked_in_one_round_are_limited(controller, monkeypatch):
    fill(controller, 30_000)
    looked = []
    monkeypatch.setattr(
        controller.control.monitor, "_look_at_set", lambda broker_set, _now_ms: looked.append(broker_set)
    )
    most = 0
    for _ in range(20):
        controller.control.monitor.look_at_sets()
        most, looked[:] = max(most, len(looked)), []
    assert most <= 2_000


async def test_sets_without_a_master_or_a_living_broker_do_not_pile_up_for_the_next_round(controller):
    fill(controller, 10_000)
    for _ in range(60):
        controller.control.monitor.look_at_sets()
    assert len(controller.control.monitor._unwell) == 0
