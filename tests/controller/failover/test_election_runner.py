"""Elections as they are held: who is not elected unasked, what was stored but not told, and sets that were lost."""

import pytest
from fakes.control_room import CLUSTER, SET, ControlRoom, at

from controller.failover import requests as control_module
from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.log_ends import LogEnd
from controller.failure_detection.suspicion import ProbeOutcome
from controller.sets.broker_set import RAISED_EPOCH_MAX, RECOVERY_MARGIN
from controller.sets.events import MasterElected
from controller.sets.stored_set import StoredSet
from controller.storage.store import OutcomeUnknown, VersionedEntry
from remoting.protocol.codes import ResponseCode

FAILED = ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
NOT_AVAILABLE = ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE
REFUSED = ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
UNKNOWN_SET = ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST
TOO_MANY = ResponseCode.CONTROLLER_INVALID_REQUEST


@pytest.fixture
async def room(tmp_path):
    async with ControlRoom(tmp_path) as room:
        yield room


async def configure(room, line):
    await room.settings.update_config(line.encode())


async def dies(room, broker_id, name=SET):
    """Let a broker be found dead."""
    room.control.monitor.connection_lost(broker_id)
    await room.pass_ms(100)
    for probe in room.asked():
        room.control.monitor.probed(probe.key, ProbeOutcome.REFUSED)
    await room.done()
    assert room.live.get(BrokerKey(name, broker_id)) is None


async def other_controller_stores(room, make):
    """Store what another controller makes of the set, and hear of it as from a watch."""
    entry = StoredSet(broker_set=make(room.stored()))
    revision = await room.backend.commit(SET, entry, (await room.backend.read(SET)).revision)
    room.store.entry_changed(SET, VersionedEntry(entry, revision))


# A set that was lost


async def a_newcomer_beside_a_stranger(room):
    await room.apply(1)
    await room.register(1)
    await room.beat(1, epoch=-1, maxOffset=0)
    await room.beat(2, epoch=7, maxOffset=900)


async def test_an_empty_newcomer_is_not_elected_over_a_living_broker_that_has_everything(room):
    await a_newcomer_beside_a_stranger(room)
    answer = await room.elect(1)
    assert answer.code == FAILED
    assert "1 a broker of this name that is not known here has messages" in answer.remark
    assert room.stored().master is None
    assert (await room.elect(1, designate=True)).code == 0


async def test_such_a_broker_is_taken_in_where_that_is_allowed_and_leads(room):
    await a_newcomer_beside_a_stranger(room)
    assert (await room.info()).code == 0
    await configure(room, "adoptUnknownBrokers=true")
    # What makes it register.
    assert (await room.info()).code == UNKNOWN_SET
    assert (await room.register(2)).code == 0
    assert (await room.elect(1)).code == FAILED
    for _ in range(9):
        await room.beat(1, epoch=-1, maxOffset=0)
        await room.beat(2, epoch=7, maxOffset=900)
        await room.pass_ms(1_000)
    assert room.stored().master == 2
    assert room.stored().master_epoch > 7


async def test_a_newcomer_that_has_taken_the_id_of_such_a_broker_is_not_elected_over_it_either(room):
    await configure(room, "adoptUnknownBrokers=true")
    await room.apply(1)
    await room.register(1)
    for _ in range(10):
        await room.beat(1, epoch=-1, maxOffset=0)
        await room.beat(1, epoch=7, maxOffset=900, over=5, brokerAddr="10.0.0.99:30911")
        assert (await room.elect(1)).code == FAILED
        await room.pass_ms(1_000)
    assert room.stored().master is None
    # Who has the id must not be told that the other one is it.
    assert (await room.info()).code == 0
    await room.pass_ms(5_000)
    await room.beat(1, epoch=-1, maxOffset=0)
    assert (await room.elect(1)).code == 0


async def test_who_registers_with_an_id_that_another_one_had_reserved_does_not_stand_in_its_own_way(room):
    await configure(room, "adoptUnknownBrokers=true")
    await room.apply(1, address=at(2))
    # Until it registers it is heard as somebody whose id another one has.
    await room.beat(1, epoch=7, maxOffset=900)
    assert (await room.register(1)).code == 0
    for _ in range(10):
        await room.beat(1, epoch=7, maxOffset=900)
        await room.pass_ms(1_000)
    assert room.stored().master == 1


async def test_a_broker_that_begins_anew_on_an_empty_disk_is_not_held_up_by_what_it_was_before(room):
    await room.beat(7, epoch=7, maxOffset=900, brokerAddr=at(1))
    await room.apply(1)
    await room.register(1)
    await room.beat(1, epoch=-1, maxOffset=0)
    assert (await room.elect(1)).code == 0


async def test_a_set_that_waits_for_its_brokers_answers_an_operator_who_names_none_as_the_table_says(room):
    await room.a_set(1, 2)
    await room.beat(1, 2, epoch=9)
    assert (await room.elect(2)).code == FAILED
    answer = await room.elect(-1)
    assert (answer.code, "waits some seconds" in answer.remark) == (NOT_AVAILABLE, True)


async def test_unasked_nobody_is_elected_who_has_started_and_not_said_how_far_its_log_is(room):
    await room.a_set(1, 2)
    await room.register(2)
    await room.lose(1)
    await room.pass_ms(2_000)
    assert room.stored().master is None
    await room.beat(2)
    await room.pass_ms(2_000, beating=(2,))
    assert room.stored().master == 2


async def test_a_set_that_looks_well_by_its_heartbeats_is_not_where_its_master_reports_what_the_store_never_had(room):
    await room.a_set(1, 2)
    for _ in range(2):
        await room.report([1, 2], master=1, master_epoch=5, epoch=9)
        await room.pass_ms(5_000, beating=(1, 2))
    await room.pass_ms(10_000, beating=(1, 2))
    assert room.stored().master_epoch == 6 + RECOVERY_MARGIN


async def test_behind_an_old_backup_nobody_leads_before_one_that_has_started_says_how_far_its_log_is(room):
    await room.a_set(1, 2, 3)
    for second in range(12):
        await room.beat(1, 2, epoch=9, maxOffset=500)
        if second == 6:
            await room.register(3)
        elif second < 6:
            await room.beat(3, epoch=9, maxOffset=900)
        assert (await room.elect(2)).code != 0
        await room.pass_ms(1_000)
    assert room.stored().master_epoch == 1
    await room.beat(3, epoch=9, maxOffset=900)
    await room.elect(2)
    assert (room.stored().master, room.stored().master_epoch) == (3, 10 + RECOVERY_MARGIN)


async def test_a_backup_that_is_restored_once_more_is_waited_for_once_more(room):
    backup = await room.a_set(1, 2)
    await room.pass_ms(9_000)

    async def behind(epoch, seconds):
        for _ in range(seconds):
            await room.beat(1, 2, epoch=epoch)
            await room.pass_ms(1_000)
        return room.stored().master_epoch

    assert await behind(5, 7) == 1
    assert await behind(5, 3) == 6 + RECOVERY_MARGIN
    assert await behind(6 + RECOVERY_MARGIN, 3) == 6 + RECOVERY_MARGIN
    await other_controller_stores(room, lambda _: backup)
    assert await behind(6 + RECOVERY_MARGIN, 7) == 1
    assert await behind(6 + RECOVERY_MARGIN, 3) == 7 + 2 * RECOVERY_MARGIN


async def test_a_controller_that_leads_anew_waits_anew(room):
    await room.a_set(1, 2)
    await room.beat(1, 2, epoch=9)
    assert (await room.elect(2)).code == FAILED
    room.control.deposed()
    room.clock.pass_ms(600_000)
    await room.beat(1, 2, epoch=9)
    assert (await room.elect(2)).code == FAILED


async def test_a_set_that_was_cleaned_while_it_waited_waits_anew(room):
    await room.a_set(1, 2)
    await room.beat(1, 2, epoch=9)
    assert (await room.elect(2)).code == FAILED
    assert (await room.clean(living=True)).code == 0
    room.clock.pass_ms(600_000)
    for broker_id in (3, 4):
        await room.apply(broker_id)
        await room.register(broker_id)
        await room.beat(broker_id, epoch=9)
    assert (await room.elect(3)).code == FAILED


async def test_no_claim_of_a_broker_that_lasts_uses_up_epochs(room):
    await room.a_set(1, 2)
    for _ in range(10):
        await room.beat(1)
        await room.beat(2, epoch=2**31 - 1)
        await room.pass_ms(1_000)
    assert room.stored().master_epoch == 1
    assert (await room.elect(2, designate=True)).code == 0
    assert room.stored().master_epoch == RAISED_EPOCH_MAX + 1


async def test_what_a_stranger_claims_for_the_master_ends_where_the_master_answers(room):
    """A machine of another set is in the place of 3, with a higher epoch. The master is cut off for a while."""
    await room.a_set(1, 2, 3, in_sync=(1, 2))
    await room.beat(3, epoch=403, maxOffset=5)
    await room.beat(1, 2, maxOffset=1000)
    room.log_ends = {1: LogEnd(1, 1000, is_master=True), 2: LogEnd(1, 1000), 3: LogEnd(403, 5)}
    for _ in range(20):
        await room.pass_ms(1_000)
        await room.beat(1, over=50, epoch=203, maxOffset=10**6)
        await room.beat(2, maxOffset=1000)
        await room.beat(3, epoch=403, maxOffset=5)
    assert room.queried
    stored = room.stored()
    assert (stored.master, stored.master_epoch, stored.sync_state_set) == (1, 1, {1, 2})


# Who is not in sync


async def test_nobody_out_of_sync_leads_while_one_in_sync_is_only_suspect(room):
    await configure(room, "enableElectUncleanMaster=true")
    await room.a_set(1, 2, in_sync=[1])
    await room.register(1)
    await room.beat(1)
    room.control.monitor.connection_lost(1)
    assert (await room.elect(2)).code == FAILED
    assert room.stored().master is None


async def test_a_set_without_a_candidate_is_not_given_up_because_another_is_forced(room):
    for name in (SET, "broker-b"):
        await room.a_set(1, 2, name=name, in_sync=[1])
        await room.pass_ms(500)
        await dies(room, 1, name=name)
    assert [room.stored(name).master for name in (SET, "broker-b")] == [None, None]
    await configure(room, "enableElectUncleanMaster=true")
    for _ in range(5):
        await room.beat(2)
        await room.beat(2, name="broker-b")
        await room.pass_ms(1_000)
    answer = await room.elect(2, designate=True)
    assert (answer.code, answer.ext_fields["masterBrokerId"]) == (0, "2")
    assert [room.stored(name).master for name in (SET, "broker-b")] == [2, None]


async def test_a_broker_out_of_sync_that_asks_leads_where_that_is_allowed(room):
    await room.a_set(1, 2, in_sync=[1])
    await room.pass_ms(500)
    await dies(room, 1)
    assert (await room.elect(2)).code == FAILED
    await configure(room, "enableElectUncleanMaster=true")
    assert (await room.elect(2)).code == 0


# Stored, and not told


async def test_an_election_that_is_stored_after_it_was_given_up_is_told_with_its_reason(room, monkeypatch):
    await room.a_set(1, 2, 3)
    await room.pass_ms(500)
    room.effects.clear()
    late, real = [], room.backend.commit

    async def slow(*what):
        late.append(what)
        raise OutcomeUnknown("slow")

    monkeypatch.setattr(room.backend, "commit", slow)
    await dies(room, 1)
    monkeypatch.undo()
    assert (room.stored().master, room.notices()) == (1, [])
    await real(*late[0])
    for _ in range(3):
        await room.beat(2, 3)
        await room.pass_ms(1_000)
    assert (room.stored().master, room.stored().master_epoch) == (2, 2)
    (notice,) = room.notices()
    assert (notice.master.broker_id, notice.master_epoch) == (2, 2)
    (elected,) = [line for line in room.events("master_elected") if line["master_epoch"] == 2]
    assert (elected["trigger"], elected["candidates"][0]["verdict"]) == ("master_dead", "not alive")


async def test_what_another_controller_has_stored_and_not_told_is_told_once(room):
    await room.a_set(1, 2)
    room.effects.clear()
    await other_controller_stores(room, lambda known: known.apply(MasterElected(2)))
    for _ in range(3):
        await room.beat(1, 2)
        await room.pass_ms(1_000)
    (notice,) = room.notices()
    assert (notice.master.broker_id, notice.master_epoch, notice.sync_state_set) == (2, 2, (2,))
    (told,) = room.events("role_notification_resent")
    assert (told["broker"], told["master"], told["master_epoch"]) == (SET, 2, 2)


async def test_a_set_in_which_nothing_was_written_between_elections_had_no_election_when_a_controller_starts(tmp_path):
    """Its logs know nothing of the epoch, as if nobody had been told."""
    async with ControlRoom(tmp_path) as before:
        await before.a_set(1, 2)
        await dies(before, 1)
        assert before.stored().master_epoch == 2
    async with ControlRoom(tmp_path) as room:
        await room.beat(2)
        await room.pass_ms(2_000, beating=(2,))
        assert [each.master.broker_id for each in room.notices()] == [2]
        assert (list(room.elections), room.events("master_elected")) == ([], [])
        assert len(room.events("role_notification_resent")) == 1


async def test_a_master_that_knows_its_epoch_is_not_told_again(room):
    await room.a_set(1, 2)
    room.effects.clear()
    await room.beat(1, 2, epoch=2)
    await other_controller_stores(room, lambda known: known.apply(MasterElected(2)))
    for _ in range(3):
        await room.beat(1, 2, epoch=2)
        await room.pass_ms(1_000)
    assert room.notices() == []


async def test_a_master_that_has_not_said_how_far_its_log_is_is_not_told_yet(room):
    await room.a_set(1, 2)
    room.effects.clear()
    await other_controller_stores(room, lambda known: known.apply(MasterElected(3 - known.master)))
    room.detector.remove(BrokerKey(SET, 2))
    room.detector.contact(BrokerKey(SET, 2), room.clock.now_ms(), 2, at(2))
    await room.pass_ms(500)
    assert room.notices() == []
    await room.beat(2)
    await room.pass_ms(500)
    assert len(room.notices()) == 1


# Cleaning, and limits


async def test_a_broker_that_was_not_heard_since_the_start_is_not_cleaned_before_it_had_its_time(tmp_path):
    async with ControlRoom(tmp_path) as before:
        await before.a_set(1, 2)
    async with ControlRoom(tmp_path) as room:
        await room.beat(1)
        refused = await room.clean("2")
        assert (refused.code, "may be alive" in refused.remark) == (REFUSED, True)
        await room.pass_ms(14_000, beating=(1,))
        assert (await room.clean("2")).code == 0


async def test_there_is_a_largest_number_of_sets(room, monkeypatch):
    await room.a_set(1)
    monkeypatch.setattr(control_module, "SETS_MAX", 1)
    refused = await room.apply(1, name="one-too-many")
    assert refused.code == TOO_MANY
    assert refused.remark == "there are 1 sets, 1 are allowed; one-too-many cannot begin"
    await configure(room, "adoptUnknownBrokers=true")
    assert (await room.register(1, name="one-too-many")).code == TOO_MANY
    assert (await room.apply(2)).code == 0
    assert {each.cluster for each in room.store.sets()} == {CLUSTER}
