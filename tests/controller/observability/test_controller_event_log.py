"""Which happening of a controller becomes which line, and what is only counted."""

import pytest
from fakes.in_process_controller import CLUSTER, ME, SET, APeer, InProcessController, at

from controller.config import CONTROLLER
from controller.decisions.election import ElectionResult
from controller.failover.election_log import NotificationResult
from controller.failover.events import (
    BROKERS_FAILED,
    ELECTION_DURATION,
    ELECTIONS,
    FAILOVER_PHASES,
    FAILOVERS,
    NOTIFICATIONS,
    PROBES,
    BrokerFailed,
    BrokerProbed,
    NotifyRoleChanged,
    Recipient,
    RoleNotified,
)
from controller.failure_detection.heartbeats import BrokerKey, LastHeartbeat
from controller.failure_detection.suspicion import PROOFS, BrokerFailure, ProbeOutcome, SuspicionReason
from controller.observability.log_events import EVENTS
from controller.wire.handlers import BROKER_CODES
from remoting.protocol.codes import RequestCode
from remoting.protocol.command import RemotingCommand
from serving.logging.events import common_keys
from serving.process.event_log import AttributedDispatcher


class LoggedController(InProcessController):
    """A controller whose lines are taken one by one."""

    def __init__(self, folder, **settings):
        super().__init__(folder, **settings)
        self.seen = []

    def taken(self):
        """Return the lines since the last look, without what every line has."""
        lines = self.lines.decoded()
        self.seen += lines
        self.lines.clear()
        return [{key: value for key, value in line.items() if key not in {"timestamp", "level"}} for line in lines]

    async def fail(self, broker_id, outcome=ProbeOutcome.REFUSED):
        """Let the connection of a broker close, and its port refuse another one."""
        self.control.monitor.connection_lost(broker_id)
        await self.pass_ms(100)
        (probe,) = self.take_probes()
        self.control.monitor.probed(probe.key, outcome)
        await self.done()

    @property
    def emit(self):
        return self.telemetry.emit

    def observed(self, timer):
        found = self.telemetry.timers[timer].histograms()
        return {labels[0]: sum(each.buckets) for labels, each in found.items() if sum(each.buckets)}


@pytest.fixture
async def controller(tmp_path):
    async with LoggedController(tmp_path) as controller:
        yield controller
        for line in controller.lines.decoded() + controller.seen:
            check_against_catalogue(line)


def check_against_catalogue(line):
    event = next(each for each in EVENTS if each.name == line["event"])
    assert line["level"] == event.level.word
    audit = {"audit", "peer", "request_code", "opaque"} if event.audit else set()
    assert set(line) <= {*event.keys, *(key.name for key in common_keys(CONTROLLER)), *audit}


# Brokers


async def test_applied_broker_id_is_logged_once_with_whether_it_added_the_set(controller):
    for broker_id in (1, 2, 1):
        await controller.apply(broker_id)
    line = {"event": "broker_id_applied", "cluster": CLUSTER, "broker": SET}
    assert controller.taken() == [
        line | {"broker_id": 1, "addr": at(1), "set_added": True},
        line | {"broker_id": 2, "addr": at(2), "set_added": False},
    ]


async def test_registration_is_one_line_with_the_old_address_if_it_changed(controller):
    await controller.apply(1)
    controller.taken()
    await controller.register(1)
    await controller.register(1, address="10.0.0.99:1")
    line = {"event": "broker_started", "cluster": CLUSTER, "broker": SET, "broker_id": 1, "adopted": False}
    assert controller.taken() == [
        line | {"addr": at(1), "old_addr": None},
        line | {"addr": "10.0.0.99:1", "old_addr": at(1)},
    ]


async def test_registration_of_the_recorded_master_has_a_line_of_its_own(controller):
    await controller.a_set(1, 2)
    controller.taken()
    await controller.register(1)
    started, restarted = controller.taken()
    assert started["event"] == "broker_started"
    stored = controller.stored()
    assert stored.master is None
    assert restarted == {
        "event": "master_restarted",
        "cluster": CLUSTER,
        "broker": SET,
        "broker_id": 1,
        "addr": at(1),
        "master_epoch": stored.master_epoch,
        "sync_state_set_epoch": stored.sync_state_set_epoch,
    }


async def test_closed_connection_is_logged_for_members_only(controller):
    await controller.a_set(1, 2)
    controller.control.heartbeat(
        CLUSTER, BrokerKey(SET, 99), LastHeartbeat(controller.clock.now_ms(), connection_id=50)
    )
    controller.taken()
    controller.control.monitor.connection_lost(1)
    controller.control.monitor.connection_lost(50)
    line = {"event": "broker_suspected", "cluster": CLUSTER, "broker": SET}
    assert controller.taken() == [line | {"broker_id": 1, "addr": at(1), "was_master": True}]


async def test_failed_broker_is_logged_with_reason_evidence_and_times(controller):
    await controller.a_set(1, 2)
    await controller.pass_ms(300)
    controller.taken()
    await controller.fail(2)
    suspected, died = controller.taken()
    assert (suspected["event"], suspected["was_master"]) == ("broker_suspected", False)
    assert died == {
        "event": "broker_failed",
        "cluster": CLUSTER,
        "broker": SET,
        "broker_id": 2,
        "addr": at(2),
        "was_master": False,
        "reason": "its connection closed and its port refuses connections; last contact 400 ms before",
        "evidence": "channel_closed",
        "silent_ms": 400,
        "suspected_ms": 100,
    }
    assert controller.count(BROKERS_FAILED) == {(CLUSTER, "channel_closed"): 1}
    # A slave that dies is no failover.
    assert controller.count(FAILOVERS) == {}


async def test_failed_broker_of_a_removed_set_is_logged(controller):
    dead = BrokerFailure(
        BrokerKey("gone", 1), SuspicionReason.SILENT, ProbeOutcome.NO_ANSWER, LastHeartbeat(1_000), 4_000, 5_000
    )
    controller.emit(BrokerFailed(key=dead.key, broker_set=None, failure=dead, ago_ms=0))
    (line,) = controller.taken()
    assert (line["broker"], line["cluster"], line["addr"], line["was_master"]) == ("gone", None, None, False)
    assert (line["silent_ms"], line["suspected_ms"], line["evidence"]) == (4_000, 1_000, "timeout")
    assert controller.count(BROKERS_FAILED) == {("", "timeout"): 1}


@pytest.mark.parametrize("outcome", ProbeOutcome)
async def test_probes_are_only_counted(controller, outcome):
    controller.emit(BrokerProbed(outcome=outcome))
    assert controller.taken() == []
    shown = ProbeOutcome.NO_ANSWER if outcome in PROOFS else outcome
    assert controller.count(PROBES) == {(shown.value,): 1}


async def test_heartbeats_and_polls_are_not_logged(controller):
    await controller.a_set(1, 2)
    controller.taken()
    await controller.pass_ms(5_000, beating=(1, 2))
    await controller.info()
    assert controller.taken() == []


async def test_changed_sync_state_set_is_logged_with_the_previous_one(controller):
    await controller.a_set(1, 2)
    controller.taken()
    await controller.report([1], epoch=2)
    assert controller.taken() == [
        {
            "event": "sync_state_set_altered",
            "cluster": CLUSTER,
            "broker": SET,
            "master": 1,
            "old": [1, 2],
            "new": [1],
            "master_epoch": 1,
            "sync_state_set_epoch": 3,
        }
    ]


async def test_cleaning_is_an_audit_line_with_the_peer(controller):
    await controller.a_set(1, 2, in_sync=[1])
    controller.taken()
    fields = {
        "brokerName": SET,
        "clusterName": CLUSTER,
        "brokerControllerIdsToClean": "2",
        "isCleanLivingBroker": "true",
    }
    request = RemotingCommand(RequestCode.CLEAN_BROKER_DATA, opaque=5, ext_fields=fields)
    attributed = AttributedDispatcher(controller.handlers, BROKER_CODES, RequestCode.BROKER_HEARTBEAT)
    assert (await attributed.dispatch(request, APeer(9))).code == 0
    assert controller.taken() == [
        {
            "event": "brokers_cleaned",
            "audit": True,
            "peer": "10.0.0.9:50000",
            "request_code": "clean_broker_data",
            "opaque": 5,
            "cluster": CLUSTER,
            "broker": SET,
            "broker_ids": [2],
            "set_removed": False,
            "was_master": False,
        }
    ]
    await controller.clean(living=True)
    (line,) = controller.taken()
    assert (line["broker_ids"], line["set_removed"], line["was_master"]) == ([1], True, True)


# Elections


async def test_first_election_is_one_line_and_no_failover(controller):
    await controller.apply(1)
    await controller.register(1)
    await controller.heartbeat(1, epoch=-1, maxOffset=0)
    controller.taken()
    await controller.elect(1)
    assert controller.taken() == [
        {
            "event": "master_elected",
            "election": 1,
            "cluster": CLUSTER,
            "broker": SET,
            "trigger": "broker",
            "cause": "broker 1 found no master",
            "reason": "broker 1 was elected",
            "old_master": None,
            "new_master": 1,
            "master_epoch": 1,
            "sync_state_set_epoch": 1,
            "candidates": [{"broker_id": 1, "in_sync": False, "epoch": -1, "max_offset": 0, "verdict": "elected"}],
            "suspect_ms": None,
            "judge_ms": None,
            "fence_ms": None,
            "commit_ms": 0,
        }
    ]
    assert controller.count(ELECTIONS) == {(CLUSTER, SET, "new_master_elected"): 1}
    assert controller.observed(ELECTION_DURATION) == {"new_master_elected": 1}
    assert controller.count(FAILOVERS) == {}


async def test_failover_is_logged_counted_by_evidence_and_measured_by_phase(controller):
    await controller.a_set(1, 2)
    await controller.pass_ms(400)
    controller.taken()
    before = controller.observed(FAILOVER_PHASES)
    await controller.fail(1)
    *_, died, elected = controller.taken()
    assert (died["event"], died["was_master"]) == ("broker_failed", True)
    assert (elected["event"], elected["trigger"], elected["old_master"], elected["new_master"]) == (
        "master_elected",
        "master_dead",
        1,
        2,
    )
    assert (elected["suspect_ms"], elected["judge_ms"], elected["commit_ms"]) == (400, 100, 0)
    assert "force" not in elected
    assert controller.count(FAILOVERS) == {(CLUSTER, "channel_closed", "failed_over"): 1}
    after = controller.observed(FAILOVER_PHASES)
    assert {phase: after[phase] - before.get(phase, 0) for phase in after} == {"detect": 1, "judge": 1, "commit": 1}


async def test_failed_elections_of_a_set_are_one_error_with_the_command_to_force_a_master(controller):
    await controller.a_set(1, 2, in_sync=[1])
    await controller.heartbeat(1, maxOffset=1_000)
    await controller.heartbeat(2, maxOffset=700)
    await controller.pass_ms(300)
    controller.taken()
    await controller.fail(1)
    for _ in range(3):
        await controller.elect(2)
        await controller.pass_ms(1_000, beating=(2,))
    logged = [line for line in controller.taken() if line["event"] == "election_failed"]
    # The broker that asks since gets the same answer.
    assert [line["trigger"] for line in logged] == ["master_dead"]
    assert {line["bytes_at_stake"] for line in logged} == {300}
    assert all(f"rmq controller elect {SET} 2 --controller {ME.address} " in line["force"] for line in logged)
    # Each is counted, and so is how long it took.
    assert controller.count(ELECTIONS)[CLUSTER, SET, "no_master_elected"] == 4
    assert controller.observed(ELECTION_DURATION)["no_master_elected"] == 4
    assert controller.count(FAILOVERS) == {(CLUSTER, "channel_closed", "no_master_elected"): 1}


async def test_returned_master_is_a_failover_with_trigger_no_master(controller):
    await controller.a_set(1, 2, in_sync=[1])
    await controller.pass_ms(300)
    await controller.fail(1)
    controller.taken()
    await controller.heartbeat(1)
    await controller.pass_ms(2_000, beating=(1, 2))
    (elected,) = [line for line in controller.taken() if line["event"] == "master_elected"]
    assert (elected["trigger"], elected["new_master"], elected["suspect_ms"]) == ("no_master", 1, None)
    assert controller.count(FAILOVERS)[CLUSTER, "no_master", "failed_over"] == 1


async def test_election_that_keeps_the_master_is_logged_as_kept(controller):
    await controller.a_set(1, 2)
    controller.taken()
    await controller.elect(2)
    await controller.elect(2)
    (line,) = controller.taken()
    assert (line["event"], line["trigger"], line["new_master"]) == ("master_kept", "broker", 1)
    assert controller.count(ELECTIONS)[CLUSTER, SET, ElectionResult.KEPT.value] == 2


async def test_unclean_election_is_logged_as_an_error_with_the_lost_bytes(tmp_path):
    async with LoggedController(tmp_path, enable_elect_unclean_master=True) as controller:
        await controller.a_set(1, 2, in_sync=[1])
        await controller.heartbeat(1, maxOffset=1_000)
        await controller.heartbeat(2, maxOffset=700)
        await controller.pass_ms(300)
        controller.taken()
        await controller.fail(1)
        await controller.elect(2)
        *_, line = controller.taken()
        assert (line["event"], line["new_master"], line["bytes_at_stake"]) == ("unclean_master_elected", 2, 300)
        assert "force" not in line
        assert controller.seen[-1]["level"] == "error"
        # It was asked for: by itself the controller has found nobody.
        assert controller.count(FAILOVERS) == {(CLUSTER, "channel_closed", "no_master_elected"): 1}


# Notifications


def a_notice(controller):
    return NotifyRoleChanged(
        broker_name=SET,
        election=2,
        master=Recipient(2, at(2)),
        master_epoch=2,
        sync_state_set=(2,),
        sync_state_set_epoch=3,
        recipients=(Recipient(2, at(2)), Recipient(3, at(3))),
        since_ms=controller.clock.now_ms(),
    )


def notified(controller, notice, broker_id, result, record):
    recipient = Recipient(broker_id, at(broker_id))
    controller.emit(RoleNotified(effect=notice, recipient=recipient, notified=result, record=record))


async def test_confirmations_are_only_counted_and_that_of_the_new_master_ends_the_failover(controller):
    await controller.a_set(1, 2)
    await controller.pass_ms(400)
    await controller.fail(1)
    record = controller.elections.of_set(SET)
    notice = a_notice(controller)
    controller.taken()
    before = controller.observed(FAILOVER_PHASES)
    total = controller.telemetry.timers[FAILOVER_PHASES].histograms()["total",]
    # Slaves, and a master that does not confirm, tell nothing about how long it took.
    notified(controller, notice, 3, NotificationResult("ok", 5, 1), record)
    notified(controller, notice, 2, NotificationResult("failed", 9_000, 3), record)
    assert controller.observed(FAILOVER_PHASES) == before
    notified(controller, notice, 2, NotificationResult("ok", 20, 1), record)
    after = controller.observed(FAILOVER_PHASES)
    assert {phase: after[phase] - before.get(phase, 0) for phase in ("notify", "total")} == {"notify": 1, "total": 1}
    assert total.sum == pytest.approx((400 + 100 + 20) / 1000)
    assert controller.count(NOTIFICATIONS) == {("ok",): 2, ("failed",): 1}
    assert controller.taken() == []


async def test_election_without_a_lost_master_has_no_total_duration(controller):
    await controller.a_set(1, 2)
    await controller.elect(2, designate=True)
    record = controller.elections.of_set(SET)
    notified(controller, a_notice(controller), 2, NotificationResult("ok", 20, 1), record)
    notified(controller, a_notice(controller), 2, NotificationResult("ok", 20, 1), None)
    assert "total" not in controller.observed(FAILOVER_PHASES)
    assert controller.observed(FAILOVER_PHASES)["notify"] == 2
