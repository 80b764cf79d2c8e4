"""Elections as they are held: who is not elected unasked, what was stored but not told, and sets that were lost."""

from fakes.in_process_controller import CLUSTER, SET, InProcessController, at

from controller.failover import requests as control_module
from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.log_ends import LogEnd
from controller.failure_detection.suspicion import ProbeOutcome
from controller.sets.broker_set import RECOVERY_MARGIN, MasterElected
from controller.sets.stored_set import StoredSet
from remoting.protocol.codes import ResponseCode
from store.store import OutcomeUnknown, VersionedEntry

FAILED = ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
NOT_AVAILABLE = ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE
REFUSED = ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
UNKNOWN_SET = ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST
TOO_MANY = ResponseCode.CONTROLLER_INVALID_REQUEST


async def configure(controller, line):
    await controller.settings.update_config(line.encode())


async def fail(controller, broker_id, name=SET):
    """Let a broker be found dead."""
    controller.control.monitor.connection_lost(broker_id)
    await controller.pass_ms(100)
    for probe in controller.take_probes():
        controller.control.monitor.probed(probe.key, ProbeOutcome.REFUSED)
    await controller.done()
    assert controller.live.get(BrokerKey(name, broker_id)) is None


async def other_controller_stores(controller, make):
    """Store what another controller makes of the set, and hear of it as from a watch."""
    entry = StoredSet(broker_set=make(controller.stored()))
    revision = await controller.backend.commit(SET, entry, (await controller.backend.read(SET)).revision)
    controller.store.entry_changed(SET, VersionedEntry(entry, revision))


# A set that was lost


async def new_broker_and_non_member(controller):
    await controller.apply(1)
    await controller.register(1)
    await controller.heartbeat(1, epoch=-1, maxOffset=0)
    await controller.heartbeat(2, epoch=7, maxOffset=900)


async def test_non_member_with_messages_is_adopted_and_elected_if_adoption_is_allowed(controller):
    await new_broker_and_non_member(controller)
    assert (await controller.info()).code == 0
    await configure(controller, "adoptUnknownBrokers=true")
    # What makes it register.
    assert (await controller.info()).code == UNKNOWN_SET
    assert (await controller.register(2)).code == 0
    assert (await controller.elect(1)).code == FAILED
    for _ in range(9):
        await controller.heartbeat(1, epoch=-1, maxOffset=0)
        await controller.heartbeat(2, epoch=7, maxOffset=900)
        await controller.pass_ms(1_000)
    assert controller.stored().master == 2
    assert controller.stored().master_epoch > 7


async def test_empty_member_is_not_elected_while_another_broker_with_its_id_has_messages(controller):
    await configure(controller, "adoptUnknownBrokers=true")
    await controller.apply(1)
    await controller.register(1)
    for _ in range(10):
        await controller.heartbeat(1, epoch=-1, maxOffset=0)
        await controller.heartbeat(1, epoch=7, maxOffset=900, over=5, brokerAddr="10.0.0.99:30911")
        assert (await controller.elect(1)).code == FAILED
        await controller.pass_ms(1_000)
    assert controller.stored().master is None
    # Who has the id must not be told that the other one is it.
    assert (await controller.info()).code == 0
    await controller.pass_ms(5_000)
    await controller.heartbeat(1, epoch=-1, maxOffset=0)
    assert (await controller.elect(1)).code == 0


async def test_broker_registered_with_an_id_applied_for_by_another_is_elected(controller):
    await configure(controller, "adoptUnknownBrokers=true")
    await controller.apply(1, address=at(2))
    # Until it registers it is heard as somebody whose id another one has.
    await controller.heartbeat(1, epoch=7, maxOffset=900)
    assert (await controller.register(1)).code == 0
    for _ in range(10):
        await controller.heartbeat(1, epoch=7, maxOffset=900)
        await controller.pass_ms(1_000)
    assert controller.stored().master == 1


async def test_past_heartbeat_of_the_same_address_under_another_id_does_not_block_the_election(controller):
    await controller.heartbeat(7, epoch=7, maxOffset=900, brokerAddr=at(1))
    await controller.apply(1)
    await controller.register(1)
    await controller.heartbeat(1, epoch=-1, maxOffset=0)
    assert (await controller.elect(1)).code == 0


async def test_election_refused_during_a_wait_has_one_code_for_brokers_and_one_for_operators(controller):
    await controller.a_set(1, 2)
    await controller.heartbeat(1, 2, epoch=9)
    assert (await controller.elect(2)).code == FAILED
    answer = await controller.elect(-1)
    assert (answer.code, "waits some seconds" in answer.remark) == (NOT_AVAILABLE, True)


async def test_newer_epoch_in_reports_of_the_master_raises_the_master_epoch(controller):
    await controller.a_set(1, 2)
    for _ in range(2):
        await controller.report([1, 2], master=1, master_epoch=5, epoch=9)
        await controller.pass_ms(5_000, beating=(1, 2))
    await controller.pass_ms(10_000, beating=(1, 2))
    assert controller.stored().master_epoch == 6 + RECOVERY_MARGIN


async def test_second_restore_of_a_backup_is_waited_for_like_the_first(controller):
    backup = await controller.a_set(1, 2)
    await controller.pass_ms(9_000)

    async def behind(epoch, seconds):
        for _ in range(seconds):
            await controller.heartbeat(1, 2, epoch=epoch)
            await controller.pass_ms(1_000)
        return controller.stored().master_epoch

    assert await behind(5, 7) == 1
    assert await behind(5, 3) == 6 + RECOVERY_MARGIN
    assert await behind(6 + RECOVERY_MARGIN, 3) == 6 + RECOVERY_MARGIN
    await other_controller_stores(controller, lambda _: backup)
    assert await behind(6 + RECOVERY_MARGIN, 7) == 1
    assert await behind(6 + RECOVERY_MARGIN, 3) == 7 + 2 * RECOVERY_MARGIN


async def test_deposed_controller_waits_for_brokers_anew(controller):
    await controller.a_set(1, 2)
    await controller.heartbeat(1, 2, epoch=9)
    assert (await controller.elect(2)).code == FAILED
    controller.control.deposed()
    controller.clock.pass_ms(600_000)
    await controller.heartbeat(1, 2, epoch=9)
    assert (await controller.elect(2)).code == FAILED


async def test_cleaned_set_waits_for_its_brokers_anew(controller):
    await controller.a_set(1, 2)
    await controller.heartbeat(1, 2, epoch=9)
    assert (await controller.elect(2)).code == FAILED
    assert (await controller.clean(living=True)).code == 0
    controller.clock.pass_ms(600_000)
    for broker_id in (3, 4):
        await controller.apply(broker_id)
        await controller.register(broker_id)
        await controller.heartbeat(broker_id, epoch=9)
    assert (await controller.elect(3)).code == FAILED


async def test_heartbeats_of_a_non_member_for_the_master_have_no_effect_while_the_master_responds(controller):
    """A machine of another set is in the place of 3, with a higher epoch. The master is cut off for a while."""
    await controller.a_set(1, 2, 3, in_sync=(1, 2))
    await controller.heartbeat(3, epoch=403, maxOffset=5)
    await controller.heartbeat(1, 2, maxOffset=1000)
    controller.log_ends = {1: LogEnd(1, 1000, is_master=True), 2: LogEnd(1, 1000), 3: LogEnd(403, 5)}
    for _ in range(20):
        await controller.pass_ms(1_000)
        await controller.heartbeat(1, over=50, epoch=203, maxOffset=10**6)
        await controller.heartbeat(2, maxOffset=1000)
        await controller.heartbeat(3, epoch=403, maxOffset=5)
    assert controller.queried
    stored = controller.stored()
    assert (stored.master, stored.master_epoch, stored.sync_state_set) == (1, 1, {1, 2})


# Who is not in sync


async def test_forced_election_of_one_set_leaves_the_other_set_without_master_alone(controller):
    for name in (SET, "broker-b"):
        await controller.a_set(1, 2, name=name, in_sync=[1])
        await controller.pass_ms(500)
        await fail(controller, 1, name=name)
    assert [controller.stored(name).master for name in (SET, "broker-b")] == [None, None]
    await configure(controller, "enableElectUncleanMaster=true")
    for _ in range(5):
        await controller.heartbeat(2)
        await controller.heartbeat(2, name="broker-b")
        await controller.pass_ms(1_000)
    answer = await controller.elect(2, designate=True)
    assert (answer.code, answer.ext_fields["masterBrokerId"]) == (0, "2")
    assert [controller.stored(name).master for name in (SET, "broker-b")] == [2, None]


# Stored, and not told


async def test_election_stored_after_its_timeout_is_notified_and_logged_with_its_reason(controller, monkeypatch):
    await controller.a_set(1, 2, 3)
    await controller.pass_ms(500)
    controller.effects.clear()
    late, real = [], controller.backend.commit

    async def slow(*what):
        late.append(what)
        raise OutcomeUnknown("slow")

    monkeypatch.setattr(controller.backend, "commit", slow)
    await fail(controller, 1)
    monkeypatch.undo()
    assert (controller.stored().master, controller.notices()) == (1, [])
    await real(*late[0])
    for _ in range(3):
        await controller.heartbeat(2, 3)
        await controller.pass_ms(1_000)
    assert (controller.stored().master, controller.stored().master_epoch) == (2, 2)
    (notice,) = controller.notices()
    assert (notice.master.broker_id, notice.master_epoch) == (2, 2)
    (elected,) = [line for line in controller.events("master_elected") if line["master_epoch"] == 2]
    assert (elected["trigger"], elected["candidates"][0]["verdict"]) == ("master_dead", "not alive")


async def test_role_notification_after_a_restart_counts_as_resent_and_not_as_election(tmp_path):
    """Its logs know nothing of the epoch, as if nobody had been told."""
    async with InProcessController(tmp_path) as before:
        await before.a_set(1, 2)
        await fail(before, 1)
        assert before.stored().master_epoch == 2
    async with InProcessController(tmp_path) as controller:
        await controller.heartbeat(2)
        await controller.pass_ms(2_000, beating=(2,))
        assert [each.master.broker_id for each in controller.notices()] == [2]
        assert (list(controller.elections), controller.events("master_elected")) == ([], [])
        assert len(controller.events("role_notification_resent")) == 1


async def test_master_that_reports_its_epoch_gets_no_role_notification(controller):
    await controller.a_set(1, 2)
    controller.effects.clear()
    await controller.heartbeat(1, 2, epoch=2)
    await other_controller_stores(controller, lambda known: known.apply(MasterElected(2)))
    for _ in range(3):
        await controller.heartbeat(1, 2, epoch=2)
        await controller.pass_ms(1_000)
    assert controller.notices() == []


async def test_master_gets_its_role_notification_after_its_first_heartbeat(controller):
    await controller.a_set(1, 2)
    controller.effects.clear()
    await other_controller_stores(controller, lambda known: known.apply(MasterElected(3 - known.master)))
    controller.detector.remove(BrokerKey(SET, 2))
    controller.detector.contact(BrokerKey(SET, 2), controller.clock.now_ms(), 2, at(2))
    await controller.pass_ms(500)
    assert controller.notices() == []
    await controller.heartbeat(2)
    await controller.pass_ms(500)
    assert len(controller.notices()) == 1


# Cleaning, and limits


async def test_broker_without_heartbeat_since_the_start_is_cleaned_only_after_its_timeout(tmp_path):
    async with InProcessController(tmp_path) as before:
        await before.a_set(1, 2)
    async with InProcessController(tmp_path) as controller:
        await controller.heartbeat(1)
        refused = await controller.clean("2")
        assert (refused.code, "may be alive" in refused.remark) == (REFUSED, True)
        await controller.pass_ms(14_000, beating=(1,))
        assert (await controller.clean("2")).code == 0


async def test_application_and_adoption_beyond_the_limit_of_sets_are_refused(controller, monkeypatch):
    await controller.a_set(1)
    monkeypatch.setattr(control_module, "SETS_MAX", 1)
    refused = await controller.apply(1, name="one-too-many")
    assert refused.code == TOO_MANY
    assert refused.remark == "there are 1 sets, 1 are allowed; one-too-many cannot begin"
    await configure(controller, "adoptUnknownBrokers=true")
    assert (await controller.register(1, name="one-too-many")).code == TOO_MANY
    assert (await controller.apply(2)).code == 0
    assert {each.cluster for each in controller.store.sets()} == {CLUSTER}
