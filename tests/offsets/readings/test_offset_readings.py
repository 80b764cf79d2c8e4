"""Readings of a broker set from start to failover, as its brokers and those who follow them tell."""

import asyncio

import pytest
from read_brokers import ReadBroker
from read_site import KEY, NAME, PERIOD_MS, Site, running
from set_builders import SET, a_master, an_address

from offsets.readings import readings as module
from offsets.readings.jumps import OffsetsMovedBack
from offsets.readings.readings import COPIES_WITHIN_MS, REPLICA_WITHIN_MS, MasterNotRead, ReplicaCopiesNothing
from offsets.sets.followed import FollowedSet, MasterChange, MasterChangeKind
from offsets.values import GroupKind, GroupTopic
from serving.shapes.offsets import JumpCause


@pytest.fixture
async def site(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_TICK_S", 0.001)
    async with running(tmp_path) as site:
        # It gets its part of the period.
        await site.pass_ms(0)
        yield site


async def test_a_master_is_read_once_in_a_period_and_its_replica_after_it(site):
    order = []
    for number, broker in site.brokers.items():
        broker.before = lambda code, number=number: order.append((number, code))
    await site.read(3)

    assert order[:6] == [(1, 28), (1, 26), (1, 43), (1, 907), (1, 1007), (1, 33)]
    assert [row for row in order if row[1] == 43] == [(1, 43), (2, 43)] * 3
    status = site.status()
    assert (status.fresh, status.problem, status.groups) == (True, "", 1)
    assert site.newest().offset(KEY) == 1


async def test_what_a_former_master_had_is_known_once_another_one_is_elected(site):
    for offset in range(1, 20):
        await site.read(offset=offset)
    site.brokers[2].offsets = {"orders@g": {0: 7}}
    await site.pass_ms()
    site.promote(2, 6)
    known = site.known()

    # The last minute, the newest last; each with a message below its end.
    assert [reading.offset(KEY) for reading in known.readings] == [7, *range(8, 20), 19][-len(known.readings) :]
    assert 12 <= len(known.readings) <= 13
    assert [replica.offset(KEY) for replica in known.replica_readings][-1] == 7
    newest = known.readings[-1]
    assert newest.fingerprint == known.fingerprints[-1] == site.brokers[1].message(newest.fingerprint.place)
    assert newest.fingerprint.end == newest.first_end
    assert known.replica_readings[-1].began_ms >= newest.ended_ms


async def test_readings_of_the_new_master_say_nothing_of_before(site):
    await site.read(3, offset=9)
    site.promote(2, 6)
    before = site.known()
    await site.read(3, offset=1, master=2)

    assert site.known() == before
    assert site.newest().master == an_address(2)
    # Its readings are in a file of their own.
    assert len(site.readings.moments(NAME)) == 3
    # To the next master both are former ones.
    site.promote(1, 7)
    assert [reading.master_epoch for reading in site.known().readings] == [5, 5, 5, 6, 6, 6]


async def test_no_repair_goes_by_what_is_behind_the_place_where_logs_part(site, tmp_path):
    await site.read(6, offset=9)
    site.promote(2, 6)
    known = site.known()
    await site.read(2, offset=1, master=2)
    place = known.readings[2].first_end
    site.readings.parted(site.master, place)

    found = site.known()
    assert [reading.first_end for reading in found.readings] == [reading.first_end for reading in known.readings[:3]]
    kept = [mark for mark in known.fingerprints if mark.place < place]
    assert list(found.fingerprints) == kept
    assert [*found.fingerprints, *found.lost] == [*known.fingerprints]
    assert site.newest().master_epoch == 6
    # The next master has this log, and the next process knows it too.
    await site.read(2, offset=1, master=2)
    site.promote(1, 7)
    own = [mark for mark in site.known().fingerprints if mark not in kept]
    assert own
    assert not set(own) & set(known.fingerprints)
    await site.readings.close()
    async with running(tmp_path) as again:
        again.elect(3, 8)
        assert set(again.known().fingerprints) == {*kept, *own}


async def test_what_is_lost_can_be_restored_once_its_log_is_back(site, tmp_path):
    await site.read(6, offset=9)
    site.promote(2, 6)
    lost = site.known().readings[-1]
    site.readings.parted(site.master, 0)
    assert site.known() is None
    await site.read(3, offset=1, master=2)
    await site.readings.close()

    async with running(tmp_path) as again:
        for readings in (site.readings, again.readings):
            found = readings.at(NAME, lost.ended_unix_ms)
            assert found.first_end == lost.first_end
            before, own = readings.log_before(found)
            assert lost.fingerprint in own
            # Those of the log that came meanwhile say nothing of it.
            assert set(before.fingerprints) == set(own)


async def test_a_restart_within_an_epoch_is_noticed_by_the_reading_and_told(site):
    restarted = []
    site.readings.restarted.append(restarted.append)
    await site.read(3, offset=9)
    site.brokers[1].boot_ms += 5
    await site.read(offset=4)

    (master,) = restarted
    assert (master.address, master.boot_unix_ms) == (an_address(1), site.brokers[1].boot_ms)
    assert [reading.offset(KEY) for reading in site.known(master).readings] == [9, 9, 9]
    # As the controllers know it, nobody was master before.
    assert site.known() is None
    (jump,) = site.readings.jumps(9)
    assert (jump.cause, jump.messages_again) == (JumpCause.RESTART, 5)


@pytest.mark.parametrize("is_known", [False, True])
async def test_a_restart_is_told_by_the_reading_unless_the_change_of_the_master_has_told_its_start(site, is_known):
    """A broker that is starting refuses to say since when; once it says so, that is no change of its set."""
    restarted, broker = [], site.brokers[1]
    broker.epochs = None
    site.readings.restarted.append(restarted.append)
    site.elect(1, None, boot=broker.boot_ms)
    await site.read(3, offset=9)
    broker.boot_ms += 5
    site.elect(1, None, boot=broker.boot_ms if is_known else None)
    followed = site.following.sets[SET]
    site.master = site.master._replace(boot_unix_ms=broker.boot_ms)
    site.following.sets = {SET: followed._replace(master=site.master)}
    await site.read(offset=4)
    assert restarted == ([] if is_known else [site.master])


async def test_what_jumped_in_a_failover_is_listed_told_and_kept(site, tmp_path):
    await site.read(3, offset=900)
    site.brokers[2].write(20)
    site.promote(2, 6)
    site.readings.parted(site.master, 0)
    await site.read(2, offset=100, master=2)

    (jump,) = site.readings.jumps(9)
    assert (jump.cause, jump.group, jump.messages_again) == (JumpCause.FAILOVER, "g", 800)
    (line,) = site.told(OffsetsMovedBack)
    assert (line.line()["broker"], line.jumps) == (SET, [jump])
    await site.readings.close()
    again = Site(tmp_path)
    await again.readings.load()
    assert again.readings.jumps(9) == [jump]


async def test_the_file_of_jumps_is_written_anew_once_it_is_long(site, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "JUMPS_MAX", 3)
    for offset in range(20, 10, -1):
        await site.read(offset=offset)
    await site.readings.close()
    assert len((tmp_path / "jumps.jsonl").read_bytes().splitlines()) <= 9
    (tmp_path / "jumps.jsonl").write_bytes(b"no jump\n")
    again = Site(tmp_path)
    await again.readings.load()
    assert again.readings.jumps(9) == []


async def test_nothing_counts_that_came_once_another_broker_was_master(site):
    await site.read(2)
    site.brokers[1].before = lambda code: code == 1007 and site.elect(2, 6)
    await site.read()
    assert site.newest().master_epoch == 5
    assert len(site.known().readings) == 2


async def test_nobody_is_read_while_it_is_not_known_who_is_master(site):
    await site.read()
    for _ in range(3):
        await site.pass_ms(is_fresh=False)
    assert site.brokers[1].asked.count(43) == 1
    site.following.sets = {SET: FollowedSet(NAME, None)}
    await site.pass_ms()
    assert site.brokers[1].asked.count(43) == 1


async def test_a_master_that_cannot_be_read_is_told_once_until_it_can(site):
    await site.read()
    for _ in range(2):
        site.brokers[1].is_down = True
        await site.read(3)
        assert "nobody listens" in site.status().problem
        site.brokers[1].is_down = False
        await site.read(2)
    assert len(site.told(MasterNotRead)) == 2
    assert site.status().problem == ""


async def test_brokers_that_hang_keep_nobody_waiting(site, monkeypatch):
    monkeypatch.setattr(module, "FAILING_READS_MAX", 1)
    hanging = []
    for number in range(5):
        address, name = f"hang-{number}", f"hung-{number}"
        broker = ReadBroker(name)
        broker.is_down, broker.hangs = True, asyncio.Event()
        site.client.by_address[address] = broker
        master = a_master(name=name, address=address)
        site.following.sets |= {name: FollowedSet(master.set_name, master, ("hang-0",))}
        hanging.append(broker)
    await site.pass_ms()
    for broker in hanging:
        broker.is_down = False
    await site.pass_ms()
    before = site.newest()
    await site.read(3)

    assert site.newest().ended_ms > before.ended_ms
    assert sum(not status.fresh for status in site.readings.statuses()) == 5
    measures = {measure.gauge.name: measure.value for measure in site.readings.measures()}
    assert (measures["readings_sets"], measures["readings_stale_sets"]) == (1, 5)
    for broker in hanging:
        broker.hangs.set()


async def test_a_replica_that_copies_nothing_is_told_and_one_that_does_is_not(site):
    for offset in range(2, 2 + COPIES_WITHIN_MS // PERIOD_MS + 3):
        await site.read(offset=offset)
    assert site.status().replicas[0].copies is False
    (line,) = site.told(ReplicaCopiesNothing)
    assert line.addr == an_address(2)
    site.brokers[2].offsets = dict(site.brokers[1].offsets)
    await site.pass_ms()
    assert site.status().replicas[0].copies is True
    for _ in range(40):
        await site.pass_ms()
    # Nothing moves, and it has all of it.
    assert site.status().replicas[0].copies is True
    assert len(site.told(ReplicaCopiesNothing)) == 1


@pytest.mark.parametrize(
    "change",
    [
        # Clients may have committed to it by then: it is master, or its master is not there any more.
        lambda site: site.elect(2, 6),
        lambda site: site.clock.pass_ms(REPLICA_WITHIN_MS + 1),
    ],
)
async def test_a_replica_that_answers_late_is_not_counted(site, change):
    await site.read(2)
    taken = site.known(other(site)).replica_readings
    site.brokers[2].before = lambda code: change(site)
    await site.read()
    assert site.known(other(site)).replica_readings == taken


def other(site):
    """Return the second broker as a master of the next epoch."""
    return a_master(2, 6) if site.master.broker_id == 1 else a_master(2, 7)


async def test_a_replica_that_does_not_answer_is_no_reason_to_wait(site):
    site.brokers[2].is_down = True
    await site.read(3)
    replica = site.status().replicas[0]
    assert "nobody listens" in replica.problem
    assert replica.copies is None
    assert len(site.told(ReplicaCopiesNothing)) == 0


async def test_the_next_process_knows_what_this_one_read_and_pushes_none_of_it(site, tmp_path):
    await site.read(5, offset=9)
    known = site.readings._sets[NAME].fingerprints
    await site.readings.close()
    async with running(tmp_path, clock=site.clock, brokers=site.brokers) as again:
        again.following.sets = {}
        await again.pass_ms()
        before = again.known(a_master(2, 6))
        assert [reading.offset(KEY) for reading in before.readings] == [9]
        assert again.clock.now_ms() - before.readings[0].ended_ms > 60_000
        assert before.fingerprints == tuple(sorted(mark.fingerprint for mark in known))
        # What changed while nobody read is a jump.
        site.brokers[1].offsets = {"orders@g": {0: 3}}
        again.elect(1, 5)
        await again.pass_ms()
        (jump,) = again.readings.jumps(9)
        assert (jump.cause, jump.messages_again) == (JumpCause.RESET, 6)


async def test_damaged_tables_cost_the_next_process_offsets_and_no_fingerprints(site, tmp_path):
    await site.read(3, offset=9)
    await site.readings.close()
    (path,) = (tmp_path / "readings").glob("*/*")
    content = path.read_bytes()
    # The end of the first table, between two heads.
    at = content.index(b"10.0.0.1", 60) - 30
    path.write_bytes(content[:at] + b"?" + content[at + 1 :])
    again = Site(tmp_path, clock=site.clock)
    await again.readings.load()
    (status,) = again.readings.statuses()
    assert (again.readings.newest(), status.fingerprints) == ({}, len(site.readings._sets[NAME].fingerprints))


async def test_a_reading_of_any_moment_is_there(site):
    start_ms = site.clock.unix_ms()
    for offset in range(40):
        await site.read(offset=offset)
    await site.readings.close()

    found = [site.readings.at(NAME, start_ms + PERIOD_MS * (number + 1)) for number in (0, 7, 20, 38)]
    assert [reading.offset(KEY) for reading in found] == [0, 7, 20, 38]
    assert site.readings.at(NAME, start_ms - 1) is None
    assert site.readings.moments(NAME)[0] > start_ms


async def test_a_moment_between_two_masters_is_that_of_the_later_one(site):
    await site.read(3, offset=7)
    site.promote(2, 6)
    await site.read(30, offset=5, master=2)
    moment = site.clock.unix_ms() - 20 * PERIOD_MS
    await site.readings.close()
    # What is in memory of the first master is older than what files have of the second.
    assert site.readings.at(NAME, moment).master_epoch == 6
    assert moment - site.readings.at(NAME, moment).ended_unix_ms < PERIOD_MS


async def test_kinds_of_groups_that_moved_are_in_the_readings(site, monkeypatch):
    site.brokers[1].groups = {"g": ["c1"]}
    await site.read(2, offset=7)
    await asyncio.sleep(0.15)
    await site.read(offset=8)
    assert site.newest().kinds == {"g": GroupKind.PULL}


async def test_a_set_that_is_gone_is_forgotten_but_for_its_files(site):
    await site.read(3)
    await site.readings.close()
    site.following.sets = {}
    for listener in site.following.listeners:
        listener(MasterChange(MasterChangeKind.REMOVED, NAME, site.master, None, 0))
    assert site.readings.statuses() == []
    assert site.readings.at(NAME, site.clock.unix_ms()).offset(KEY) == 1


async def test_fingerprints_are_thinned_by_their_age(site, monkeypatch):
    monkeypatch.setattr(module, "_FINGERPRINTS_MAX", 100)
    await site.read(200)
    kept = site.readings._sets[NAME].fingerprints
    newest = kept[-1].unix_ms

    assert len(kept) <= 100
    assert sum(newest - mark.unix_ms <= 5 * 60_000 for mark in kept) >= 60
    assert kept == sorted(kept, key=lambda mark: mark.unix_ms)
    assert GroupTopic("g", "orders") in site.newest().offsets
