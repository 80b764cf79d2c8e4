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


async def test_empty_member_is_not_elected_while_a_non_member_has_messages(room):
    await a_newcomer_beside_a_stranger(room)
    answer = await room.elect(1)
    assert answer.code == FAILED
    assert "1 a broker of this name that is not known here has messages" in answer.remark
    assert room.stored().master is None
    assert (await room.elect(1, designate=True)).code == 0


async def test_non_member_with_messages_is_adopted_and_elected_if_adoption_is_allowed(room):
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


async def test_empty_member_is_not_elected_while_another_broker_with_its_id_has_messages(room):
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


async def test_broker_registered_with_an_id_applied_for_by_another_is_elected(room):
    await configure(room, "adoptUnknownBrokers=true")
    await room.apply(1, address=at(2))
    # Until it registers it is heard as somebody whose id another one has.
    await room.beat(1, epoch=7, maxOffset=900)
    assert (await room.register(1)).code == 0
    for _ in range(10):
        await room.beat(1, epoch=7, maxOffset=900)
        await room.pass_ms(1_000)
    assert room.stored().master == 1


async def test_past_heartbeat_of_the_same_address_under_another_id_does_not_block_the_election(room):
    await room.beat(7, epoch=7, maxOffset=900, brokerAddr=at(1))
    await room.apply(1)
    await room.register(1)
    await room.beat(1, epoch=-1, maxOffset=0)
    assert (await room.elect(1)).code == 0


async def test_election_refused_during_a_wait_has_one_code_for_brokers_and_one_for_operators(room):
    await room.a_set(1, 2)
    await room.beat(1, 2, epoch=9)
    assert (await room.elect(2)).code == FAILED
    answer = await room.elect(-1)
    assert (answer.code, "waits some seconds" in answer.remark) == (NOT_AVAILABLE, True)


async def test_registered_slave_is_elected_only_after_its_first_heartbeat(room):
    await room.a_set(1, 2)
    await room.register(2)
    await room.lose(1)
    await room.pass_ms(2_000)
    assert room.stored().master is None
    await room.beat(2)
    await room.pass_ms(2_000, beating=(2,))
    assert room.stored().master == 2


async def test_newer_epoch_in_reports_of_the_master_raises_the_master_epoch(room):
    await room.a_set(1, 2)
    for _ in range(2):
        await room.report([1, 2], master=1, master_epoch=5, epoch=9)
        await room.pass_ms(5_000, beating=(1, 2))
    await room.pass_ms(10_000, beating=(1, 2))
    assert room.stored().master_epoch == 6 + RECOVERY_MARGIN


async def test_no_election_on_an_old_backup_before_the_first_heartbeat_of_a_restarted_broker(room):
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


async def test_second_restore_of_a_backup_is_waited_for_like_the_first(room):
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


async def test_deposed_controller_waits_for_brokers_anew(room):
    await room.a_set(1, 2)
    await room.beat(1, 2, epoch=9)
    assert (await room.elect(2)).code == FAILED
    room.control.deposed()
    room.clock.pass_ms(600_000)
    await room.beat(1, 2, epoch=9)
    assert (await room.elect(2)).code == FAILED


async def test_cleaned_set_waits_for_its_brokers_anew(room):
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


async def test_lasting_report_of_the_largest_epoch_does_not_raise_the_master_epoch(room):
    await room.a_set(1, 2)
    for _ in range(10):
        await room.beat(1)
        await room.beat(2, epoch=2**31 - 1)
        await room.pass_ms(1_000)
    assert room.stored().master_epoch == 1
    assert (await room.elect(2, designate=True)).code == 0
    assert room.stored().master_epoch == RAISED_EPOCH_MAX + 1


async def test_heartbeats_of_a_non_member_for_the_master_have_no_effect_while_the_master_responds(room):
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


async def test_no_unclean_election_while_the_broker_in_sync_is_only_suspect(room):
    await configure(room, "enableElectUncleanMaster=true")
    await room.a_set(1, 2, in_sync=[1])
    await room.register(1)
    await room.beat(1)
    room.control.monitor.connection_lost(1)
    assert (await room.elect(2)).code == FAILED
    assert room.stored().master is None


async def test_forced_election_of_one_set_leaves_the_other_set_without_master_alone(room):
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


async def test_election_request_of_a_broker_out_of_sync_succeeds_if_unclean_elections_are_allowed(room):
    await room.a_set(1, 2, in_sync=[1])
    await room.pass_ms(500)
    await dies(room, 1)
    assert (await room.elect(2)).code == FAILED
    await configure(room, "enableElectUncleanMaster=true")
    assert (await room.elect(2)).code == 0


# Stored, and not told


async def test_election_stored_after_its_timeout_is_notified_and_logged_with_its_reason(room, monkeypatch):
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


async def test_role_notification_for_an_election_of_another_controller_is_resent_once(room):
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


async def test_role_notification_after_a_restart_counts_as_resent_and_not_as_election(tmp_path):
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


async def test_master_that_reports_its_epoch_gets_no_role_notification(room):
    await room.a_set(1, 2)
    room.effects.clear()
    await room.beat(1, 2, epoch=2)
    await other_controller_stores(room, lambda known: known.apply(MasterElected(2)))
    for _ in range(3):
        await room.beat(1, 2, epoch=2)
        await room.pass_ms(1_000)
    assert room.notices() == []


async def test_master_gets_its_role_notification_after_its_first_heartbeat(room):
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


async def test_broker_without_heartbeat_since_the_start_is_cleaned_only_after_its_timeout(tmp_path):
    async with ControlRoom(tmp_path) as before:
        await before.a_set(1, 2)
    async with ControlRoom(tmp_path) as room:
        await room.beat(1)
        refused = await room.clean("2")
        assert (refused.code, "may be alive" in refused.remark) == (REFUSED, True)
        await room.pass_ms(14_000, beating=(1,))
        assert (await room.clean("2")).code == 0


async def test_application_and_adoption_beyond_the_limit_of_sets_are_refused(room, monkeypatch):
    await room.a_set(1)
    monkeypatch.setattr(control_module, "SETS_MAX", 1)
    refused = await room.apply(1, name="one-too-many")
    assert refused.code == TOO_MANY
    assert refused.remark == "there are 1 sets, 1 are allowed; one-too-many cannot begin"
    await configure(room, "adoptUnknownBrokers=true")
    assert (await room.register(1, name="one-too-many")).code == TOO_MANY
    assert (await room.apply(2)).code == 0
    assert {each.cluster for each in room.store.sets()} == {CLUSTER}
