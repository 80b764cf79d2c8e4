"""Role notifications over real connections on loopback."""

import pytest
from controller_builders import SET, a_set, last_heartbeat, view
from fakes.answering_broker import Sender, listening
from peers.processes import free_port

from controller.decisions.election import ElectionRequest, elect
from controller.failover.election_log import Cause, ElectionLog, HeldElection, Trigger
from controller.failover.events import NotifyRoleChanged, Recipient
from controller.failure_detection.heartbeats import BrokerKey
from controller.wire import role_notifier
from controller.wire.role_notifier import RoleNotifier
from remoting.protocol.codes import RequestCode


class Edge(Sender):
    """A notifier, and what it reported."""

    def __init__(self):
        super().__init__()
        self.elections = ElectionLog("10.0.0.99:9878")
        #: The master epoch of the set; None for that of whatever is notified.
        self.master_epoch = None
        #: Brokers whose processes have ended.
        self.ended = set()
        self.notifier = RoleNotifier(
            self.start,
            self.client,
            self.elections,
            self.clock,
            self.observer.emit,
            lambda *reported: self.reached.append(reported),
            lambda effect, key: self.master_epoch in (None, effect.master_epoch) and key.broker_id not in self.ended,
        )

    def elected(self):
        """Keep an election that made broker 2 master, as the log of elections has it."""
        before = a_set()
        alive = {2: last_heartbeat(), 3: last_heartbeat()}
        election = elect(before, view(alive), ElectionRequest())
        cause = Cause(trigger=Trigger.MASTER_FAILED, why="master 1 is dead")
        after = before.apply(election.event)
        record, _ = self.elections.add(HeldElection(before, after, cause, election, alive, 12), self.clock.unix_ms())
        return record

    def notify(self, *recipients, election=1, master_epoch=6, former_master=None):
        effect = NotifyRoleChanged(
            broker_name=SET,
            election=election,
            master=Recipient(2, "10.0.0.2:30911"),
            master_epoch=master_epoch,
            sync_state_set=(2,),
            sync_state_set_epoch=8,
            recipients=tuple(Recipient(number, each) for number, each in enumerate(recipients, 2)),
            former_master=former_master,
            since_ms=self.clock.now_ms(),
        )
        self.notifier.notify(effect)
        return effect

    @property
    def results(self):
        return [(broker_id, notified.result, notified.tries) for _, broker_id, notified, _ in self.observer.notified]


@pytest.fixture
async def edge(monkeypatch):
    monkeypatch.setattr(role_notifier, "NOTIFY_PAUSES_S", (0.01, 0.02))
    edge = Edge()
    yield edge
    await edge.notifier.close()
    await edge.done()
    await edge.client.close()


# Notifications


async def test_only_a_broker_that_confirms_its_role_is_reached(edge):
    async with listening(0) as two, listening(1) as three:
        edge.notify(two.address, three.address)
        await edge.done()
    assert edge.reached == [(BrokerKey(SET, 2), two.address, "")]


async def test_role_notification_has_the_fields_and_body_of_java(edge):
    async with listening() as two, listening() as three:
        edge.notify(two.address, three.address)
        await edge.done()
    for broker in (two, three):
        (request,) = broker.requests
        assert request.code == RequestCode.NOTIFY_BROKER_ROLE_CHANGED
        assert request.ext_fields == {
            "masterBrokerId": "2",
            "masterAddress": "10.0.0.2:30911",
            "masterEpoch": "6",
            "syncStateSetEpoch": "8",
        }
        assert bytes(request.body) == b'{"syncStateSet":[2],"syncStateSetEpoch":8}'
        # A broker that answers is known to have its role.
        assert not request.is_oneway


async def test_result_of_a_role_notification_is_in_the_election_log(edge):
    record = edge.elected()
    async with listening() as two, listening() as three:
        edge.notify(two.address, three.address, election=record.number)
        edge.clock.pass_ms(40)
        await edge.done()
    assert sorted(edge.results) == [(2, "ok", 1), (3, "ok", 1)]
    assert {broker_id: each.after_ms for broker_id, each in record.notified.items()} == {2: 40, 3: 40}
    assert all(reported is record for *_, reported in edge.observer.notified)


async def test_result_for_a_superseded_election_is_in_no_election_log(edge):
    old, new = edge.elected(), edge.elected()
    async with listening() as two:
        edge.notify(two.address, election=old.number)
        await edge.done()
    assert (old.notified, new.notified) == ({}, {})
    ((_, _, notified, record),) = edge.observer.notified
    assert (notified.result, record) == ("ok", None)


async def test_refused_role_notification_is_repeated_until_confirmed(edge):
    async with listening(1, 1, 0) as two:
        edge.notify(two.address)
        await edge.done()
    assert len(two.requests) == 3
    assert edge.results == [(2, "ok", 3)]
    assert edge.observer.failed == []


async def test_role_notification_refused_three_times_is_reported_with_the_reason(edge):
    async with listening(1) as two:
        two.remark = "still starting"
        edge.notify(two.address)
        await edge.done()
    assert len(two.requests) == 3
    assert edge.results == [(2, "refused", 3)]
    assert edge.observer.failed == [(2, 3, "it answers 1: still starting")]


async def test_unreachable_broker_is_reported_and_others_get_their_role_notification(edge):
    record = edge.elected()
    gone = f"127.0.0.1:{free_port()}"
    async with listening() as three:
        edge.notify(gone, three.address, election=record.number)
        await edge.done()
    assert sorted(edge.results) == [(2, "failed", 3), (3, "ok", 1)]
    ((broker_id, tries, error),) = edge.observer.failed
    assert (broker_id, tries) == (2, 3)
    assert gone in error
    assert record.notified[2].result == "failed"


async def test_role_notification_without_a_response_is_repeated(edge, monkeypatch):
    monkeypatch.setattr(role_notifier, "NOTIFY_TIMEOUT_MS", 100)
    async with listening(None) as two:
        edge.notify(two.address)
        await edge.done()
    assert edge.results == [(2, "failed", 3)]
    ((_, _, error),) = edge.observer.failed
    assert "100 ms" in error


async def test_later_role_notification_supersedes_the_earlier_one(edge):
    first, second = edge.elected(), edge.elected()
    async with listening(None, 0) as two:
        edge.notify(two.address, election=first.number, master_epoch=6)
        await two.got(1)
        edge.notify(two.address, election=second.number, master_epoch=7)
        await edge.done()
    assert [each.ext_fields["masterEpoch"] for each in two.requests] == ["6", "7"]
    assert edge.results == [(2, "superseded", 1), (2, "ok", 1)]
    assert edge.observer.failed == []
    assert second.notified[2].result == "ok"


async def test_later_role_notification_ends_the_pause_before_a_retry(edge, monkeypatch):
    monkeypatch.setattr(role_notifier, "NOTIFY_PAUSES_S", (3600.0, 3600.0))
    async with listening(1, 0) as two:
        edge.notify(two.address, master_epoch=6)
        await two.got(1)
        edge.notify(two.address, master_epoch=7)
        await edge.done()
    assert [each.ext_fields["masterEpoch"] for each in two.requests] == ["6", "7"]
    assert [result for _, result, _ in edge.results] == ["superseded", "ok"]


async def test_broker_that_is_no_recipient_of_the_later_notification_still_gets_the_earlier(edge):
    async with listening(None, 0) as two, listening(1, 0) as three:
        edge.notify(two.address, three.address)
        await two.got(1)
        edge.notify(two.address, master_epoch=7)
        await edge.done()
    assert len(three.requests) == 2
    assert sorted(edge.results) == [(2, "ok", 1), (2, "superseded", 1), (3, "ok", 2)]


async def test_broker_that_has_failed_is_not_notified_again_when_another_process_may_be_there(edge):
    async with listening(1, 0) as two:
        edge.notify(two.address)
        await two.got(1)
        edge.ended.add(2)
        await edge.done()
    assert len(two.requests) == 1


async def test_broker_hears_nothing_more_of_a_master_epoch_that_is_over(edge):
    async with listening(None, 0) as two, listening(1, 0) as three:
        edge.notify(two.address, three.address)
        await two.got(1)
        await three.got(1)
        edge.master_epoch = 7
        edge.notify(two.address, master_epoch=7)
        await edge.done()
    assert len(three.requests) == 1
    assert sorted(edge.results) == [(2, "ok", 1), (2, "superseded", 1), (3, "superseded", 2)]


async def test_confirmed_role_notification_is_not_superseded(edge):
    async with listening() as two:
        for epoch in (6, 7):
            edge.notify(two.address, master_epoch=epoch)
            await edge.done()
    assert edge.results == [(2, "ok", 1)] * 2


async def test_former_master_has_confirmed_that_it_is_a_slave_before_anybody_else_is_notified(edge):
    """A broker of 5.5.0 acknowledges what its slaves do not have yet as soon as they leave it."""
    async with listening() as new, listening() as other, listening(1, 0) as former:
        seen = []
        former.answers = lambda: seen.append(len(new.requests) + len(other.requests))
        edge.notify(new.address, other.address, former.address, former_master=4)
        await edge.done()
    assert seen == [0, 0]
    assert sorted(edge.results) == [(2, "ok", 1), (3, "ok", 1), (4, "ok", 2)]


async def test_former_master_that_does_not_answer_keeps_nobody_from_leading(edge, monkeypatch):
    monkeypatch.setattr(role_notifier, "STEP_DOWN_S", 0.05)
    async with listening() as new, listening(None) as former:
        edge.notify(new.address, former.address, former_master=3)
        await new.got(1)
        assert [result for result in edge.results if result[0] == 3] == []


async def test_later_election_does_not_wait_for_the_former_master_of_an_earlier_one(edge, monkeypatch):
    monkeypatch.setattr(role_notifier, "STEP_DOWN_S", 3600.0)
    async with listening() as new, listening(None, 0) as former:
        edge.notify(new.address, former.address, former_master=3)
        await former.got(1)
        edge.notify(new.address, former.address, master_epoch=7)
        await edge.done()
    assert [each.ext_fields["masterEpoch"] for each in new.requests] == ["7"]


# The end


async def test_closed_notifier_sends_no_more_role_notifications(edge, monkeypatch):
    monkeypatch.setattr(role_notifier, "NOTIFY_PAUSES_S", (3600.0, 3600.0))
    async with listening(1) as two, listening(None) as three:
        edge.notify(two.address, three.address)
        await two.got(1)
        await three.got(1)
        await edge.notifier.close()
        await edge.done()
        assert len(two.requests) == len(three.requests) == 1
    assert edge.observer.failed == []
