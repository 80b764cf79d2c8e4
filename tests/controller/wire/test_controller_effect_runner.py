"""Telling brokers who leads and asking whether they live, over real connections on loopback."""

import asyncio
import json
import os
import resource
import socket
from contextlib import asynccontextmanager, contextmanager

import pytest
from controller_builders import SET, a_set, heard, view
from fakes.clock import FakeClock
from peers.processes import free_port

from controller.decisions.election import ElectionRequest, elect
from controller.failover.effects import CheckReachability, NotifyRoleChanged, ProbeBroker, Recipient
from controller.failover.election_log import Cause, ElectionLog, HeldElection, Trigger
from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.suspicion import Probe, ProbeOutcome
from controller.wire import effect_runner
from controller.wire.effect_runner import Performer
from remoting.background_tasks import BackgroundTasks
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from remoting.protocol.codes import RequestCode
from remoting.protocol.frame import decode, encode

#: Generous: only waits that would never end end here.
WAIT_S = 20


class Broker:
    """Listens, keeps the requests it gets, and answers as it is told."""

    def __init__(self, *codes):
        #: What the first requests are answered with, None for not at all; those after them as the last one.
        self.codes = list(codes) or [0]
        self.requests = []
        self.connections = 0
        self.remark = None
        self.body = b""
        self.came = asyncio.Condition()

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while True:
                prefix = await reader.readexactly(4)
                length = int.from_bytes(prefix)
                request = decode(prefix + await reader.readexactly(length), 0, length)
                code = self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
                if code is not None:
                    writer.write(encode(request.reply(code, remark=self.remark, body=self.body)))
                async with self.came:
                    self.requests.append(request)
                    self.came.notify_all()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def got(self, number):
        async with asyncio.timeout(WAIT_S), self.came:
            await self.came.wait_for(lambda: len(self.requests) >= number)

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"


@asynccontextmanager
async def listening(*codes):
    broker = Broker(*codes)
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    broker.port = server.sockets[0].getsockname()[1]
    try:
        yield broker
    finally:
        server.close()


@contextmanager
def no_files_left():
    """Let this process open no file for a while."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Told:
    """What an observer is told."""

    def __init__(self):
        self.outcomes = []
        self.notified = []
        self.failed = []

    def broker_probed(self, outcome):
        self.outcomes.append(outcome)

    def role_notified(self, effect, recipient, notified, record):
        self.notified.append((effect, recipient.broker_id, notified, record))

    def role_notification_failed(self, effect, recipient, tries, error):
        self.failed.append((recipient.broker_id, tries, error))


class Edge:
    """A performer, the tasks it started, and what came of them."""

    def __init__(self):
        self.told = Told()
        self.clock = FakeClock()
        self.client = RemotingClient(SystemClock())
        self.elections = ElectionLog("10.0.0.99:9878")
        self.tasks = set()
        self.probed, self.reached = [], []
        self.performer = Performer(
            self.start, self.client, self.elections, self.clock, self.told, lambda *told: self.reached.append(told)
        )

    def report(self, *told):
        self.probed.append(told)

    def start(self, work):
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def done(self):
        async with asyncio.timeout(WAIT_S):
            while self.tasks:
                await asyncio.wait(self.tasks)

    async def ask(self, address, timeout_ms=20_000):
        self.performer.perform(
            ProbeBroker(probe=Probe(BrokerKey(SET, 1), timeout_ms), address=address, report=self.report)
        )
        await self.done()
        ((key, outcome, _),) = self.probed
        assert key == BrokerKey(SET, 1)
        assert self.told.outcomes == [outcome]
        return outcome

    def elected(self):
        """Keep an election that made broker 2 master, as the log of elections has it."""
        before = a_set()
        alive = {2: heard(), 3: heard()}
        election = elect(before, view(alive), ElectionRequest())
        cause = Cause(trigger=Trigger.MASTER_FAILED, why="master 1 is dead")
        after = before.apply(election.event)
        record, _ = self.elections.add(HeldElection(before, after, cause, election, alive, 12), self.clock.unix_ms())
        return record

    def notify(self, *recipients, election=1, master_epoch=6):
        effect = NotifyRoleChanged(
            broker_name=SET,
            election=election,
            master=Recipient(2, "10.0.0.2:30911"),
            master_epoch=master_epoch,
            sync_state_set=(2,),
            sync_state_set_epoch=8,
            recipients=tuple(Recipient(number, each) for number, each in enumerate(recipients, 2)),
            since_ms=self.clock.now_ms(),
        )
        self.performer.perform(effect)
        return effect

    @property
    def results(self):
        return [(broker_id, notified.result, notified.tries) for _, broker_id, notified, _ in self.told.notified]


@pytest.fixture
async def edge(monkeypatch):
    monkeypatch.setattr(effect_runner, "NOTIFY_PAUSES_S", (0.01, 0.02))
    edge = Edge()
    yield edge
    await edge.performer.close()
    await edge.done()
    await edge.client.close()


# Questions


@pytest.mark.parametrize("code", [0, 1, 3])
async def test_a_broker_that_answers_lives_whatever_it_answers(edge, code):
    async with listening(code) as broker:
        assert await edge.ask(broker.address) is ProbeOutcome.ANSWERED
    assert [each.code for each in broker.requests] == [RequestCode.GET_BROKER_EPOCH_CACHE]
    assert not broker.requests[0].is_oneway
    assert edge.probed == [(BrokerKey(SET, 1), ProbeOutcome.ANSWERED, broker.address)]


async def test_a_port_that_nobody_listens_at_refuses(edge):
    assert await edge.ask(f"127.0.0.1:{free_port()}") is ProbeOutcome.REFUSED


async def test_a_broker_that_takes_the_question_and_says_nothing_does_not_answer(edge):
    async with listening(None) as broker:
        assert await edge.ask(broker.address, timeout_ms=100) is ProbeOutcome.NO_ANSWER


async def test_a_stopped_process_whose_kernel_still_takes_connections_does_not_answer(edge):
    with socket.create_server(("127.0.0.1", 0)) as port:
        assert await edge.ask(f"127.0.0.1:{port.getsockname()[1]}", timeout_ms=100) is ProbeOutcome.NO_ANSWER


async def test_a_connection_that_breaks_is_no_answer_and_no_refusal(edge):
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert await edge.ask(f"127.0.0.1:{port}") is ProbeOutcome.NO_ANSWER
    server.close()


@pytest.mark.parametrize("address", ["", "nonsense", "10.0.0..1:30911", "127.0.0.1:0", "127.0.0.1:99999"])
async def test_an_address_that_is_none_ends_nothing_but_its_question(edge, address):
    assert await edge.ask(address) is ProbeOutcome.NO_ANSWER


async def test_each_question_goes_over_a_connection_of_its_own(edge):
    async with listening() as broker:
        for _ in range(2):
            edge.probed.clear()
            edge.told.outcomes.clear()
            await edge.ask(broker.address)
    assert broker.connections == 2


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ({"brokerName": SET, "brokerId": 1}, ProbeOutcome.ANSWERED),
        ({"brokerName": SET, "brokerId": 0}, ProbeOutcome.ANSWERED),
        # One that starts again has not been told its role yet.
        ({"brokerName": SET, "brokerId": -1}, ProbeOutcome.ANSWERED),
        ({"brokerName": SET, "brokerId": 3}, ProbeOutcome.ANOTHER),
        ({"brokerName": "broker-b", "brokerId": 1}, ProbeOutcome.ANOTHER),
        ({"brokerName": "broker-b", "brokerId": 0}, ProbeOutcome.ANOTHER),
        ({}, ProbeOutcome.ANSWERED),
    ],
)
async def test_who_answers_for_a_broker_is_that_broker_or_another(edge, body, outcome):
    async with listening() as broker:
        broker.body = json.dumps({"clusterName": "C", "epochList": [], "maxOffset": 0} | body).encode()
        assert await edge.ask(broker.address) is outcome


@pytest.mark.parametrize(("code", "body"), [(0, b"{"), (0, b"[1]"), (1, b'{"brokerName": "broker-b"}')])
async def test_an_answer_that_does_not_say_who_answers_is_that_of_the_broker(edge, code, body):
    async with listening(code) as broker:
        broker.body = body
        assert await edge.ask(broker.address) is ProbeOutcome.ANSWERED


async def test_a_question_for_which_this_process_has_no_file_left_was_not_asked(edge):
    async with listening() as broker:
        with no_files_left():
            assert await edge.ask(broker.address) is ProbeOutcome.NOT_ASKED
        edge.probed.clear()
        edge.told.outcomes.clear()
        assert await edge.ask(broker.address) is ProbeOutcome.ANSWERED


# Greetings


async def test_a_broker_that_answers_a_greeting_is_reached(edge):
    async with listening() as broker:
        edge.performer.perform(CheckReachability(key=BrokerKey(SET, 1), address=broker.address))
        await edge.done()
        assert edge.reached == [(BrokerKey(SET, 1), broker.address, broker.address)]
    assert edge.told.outcomes == [ProbeOutcome.ANSWERED]
    assert edge.probed == []


async def test_nobody_is_reached_where_another_broker_answers_or_none(edge):
    async with listening() as broker:
        broker.body = b'{"brokerName": "broker-b"}'
        for address in (broker.address, f"127.0.0.1:{free_port()}"):
            edge.performer.perform(CheckReachability(key=BrokerKey(SET, 1), address=address))
        await edge.done()
    assert sorted(each.value for each in edge.told.outcomes) == ["another_broker", "refused"]
    assert edge.reached == []
    assert edge.probed == []


# Notifications


async def test_who_confirms_its_role_is_reached_and_nobody_else(edge):
    async with listening(0) as two, listening(1) as three:
        edge.notify(two.address, three.address)
        await edge.done()
    assert edge.reached == [(BrokerKey(SET, 2), two.address, "")]


async def test_every_recipient_gets_the_fields_and_the_body_of_java(edge):
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


async def test_what_came_of_it_stands_in_the_log_of_elections(edge):
    record = edge.elected()
    async with listening() as two, listening() as three:
        edge.notify(two.address, three.address, election=record.number)
        edge.clock.pass_ms(40)
        await edge.done()
    assert sorted(edge.results) == [(2, "ok", 1), (3, "ok", 1)]
    assert {broker_id: each.after_ms for broker_id, each in record.notified.items()} == {2: 40, 3: 40}
    assert all(told is record for *_, told in edge.told.notified)


async def test_what_came_of_an_election_that_is_not_the_last_any_more_is_kept_nowhere(edge):
    old, new = edge.elected(), edge.elected()
    async with listening() as two:
        edge.notify(two.address, election=old.number)
        await edge.done()
    assert (old.notified, new.notified) == ({}, {})
    ((_, _, notified, record),) = edge.told.notified
    assert (notified.result, record) == ("ok", None)


async def test_a_broker_that_refuses_is_told_again_until_it_confirms(edge):
    async with listening(1, 1, 0) as two:
        edge.notify(two.address)
        await edge.done()
    assert len(two.requests) == 3
    assert edge.results == [(2, "ok", 3)]
    assert edge.told.failed == []


async def test_a_broker_that_goes_on_refusing_is_told_three_times_and_reported_with_its_reason(edge):
    async with listening(1) as two:
        two.remark = "still starting"
        edge.notify(two.address)
        await edge.done()
    assert len(two.requests) == 3
    assert edge.results == [(2, "refused", 3)]
    assert edge.told.failed == [(2, 3, "it answers 1: still starting")]


async def test_a_broker_that_refuses_without_a_word_is_reported_all_the_same(edge):
    async with listening(1) as two:
        edge.notify(two.address)
        await edge.done()
    assert edge.told.failed == [(2, 3, "it answers 1: no remark")]


async def test_a_broker_that_is_gone_is_reported_and_keeps_nobody_else_from_being_told(edge):
    record = edge.elected()
    gone = f"127.0.0.1:{free_port()}"
    async with listening() as three:
        edge.notify(gone, three.address, election=record.number)
        await edge.done()
    assert sorted(edge.results) == [(2, "failed", 3), (3, "ok", 1)]
    ((broker_id, tries, error),) = edge.told.failed
    assert (broker_id, tries) == (2, 3)
    assert gone in error
    assert record.notified[2].result == "failed"


async def test_a_broker_that_does_not_answer_is_told_again(edge, monkeypatch):
    monkeypatch.setattr(effect_runner, "NOTIFY_TIMEOUT_MS", 100)
    async with listening(None) as two:
        edge.notify(two.address)
        await edge.done()
    assert edge.results == [(2, "failed", 3)]
    ((_, _, error),) = edge.told.failed
    assert "100 ms" in error


@pytest.mark.parametrize("address", ["", "nonsense", "10.0.0..1:30911"])
async def test_an_address_that_is_none_ends_nothing_but_its_notification(edge, address):
    async with listening() as three:
        edge.notify(address, three.address)
        await edge.done()
    assert sorted(edge.results) == [(2, "failed", 3), (3, "ok", 1)]


async def test_of_two_notifications_for_one_broker_the_later_counts(edge):
    first, second = edge.elected(), edge.elected()
    async with listening(None, 0) as two:
        edge.notify(two.address, election=first.number, master_epoch=6)
        await two.got(1)
        edge.notify(two.address, election=second.number, master_epoch=7)
        await edge.done()
    assert [each.ext_fields["masterEpoch"] for each in two.requests] == ["6", "7"]
    assert edge.results == [(2, "superseded", 1), (2, "ok", 1)]
    assert edge.told.failed == []
    assert second.notified[2].result == "ok"


async def test_each_notification_takes_the_place_of_the_one_before(edge):
    async with listening(None, None, 0) as two:
        for number, epoch in enumerate((6, 7, 8)):
            await two.got(number)
            edge.notify(two.address, master_epoch=epoch)
        await edge.done()
    assert [each.ext_fields["masterEpoch"] for each in two.requests] == ["6", "7", "8"]
    assert [result for _, result, _ in edge.results] == ["superseded", "superseded", "ok"]


async def test_a_later_notification_ends_the_pause_before_the_next_try_too(edge, monkeypatch):
    monkeypatch.setattr(effect_runner, "NOTIFY_PAUSES_S", (3600.0, 3600.0))
    async with listening(1, 0) as two:
        edge.notify(two.address, master_epoch=6)
        await two.got(1)
        edge.notify(two.address, master_epoch=7)
        await edge.done()
    assert [each.ext_fields["masterEpoch"] for each in two.requests] == ["6", "7"]
    assert [result for _, result, _ in edge.results] == ["superseded", "ok"]


async def test_who_is_no_recipient_of_the_later_one_is_still_told_of_the_earlier(edge):
    async with listening(None, 0) as two, listening(1, 0) as three:
        edge.notify(two.address, three.address)
        await two.got(1)
        edge.notify(two.address, master_epoch=7)
        await edge.done()
    assert len(three.requests) == 2
    assert sorted(edge.results) == [(2, "ok", 1), (2, "superseded", 1), (3, "ok", 2)]


async def test_a_notification_that_is_done_is_not_ended_by_a_later_one(edge):
    async with listening() as two:
        for epoch in (6, 7):
            edge.notify(two.address, master_epoch=epoch)
            await edge.done()
    assert edge.results == [(2, "ok", 1)] * 2


# The end


async def test_after_the_end_nobody_is_told_any_more(edge, monkeypatch):
    monkeypatch.setattr(effect_runner, "NOTIFY_PAUSES_S", (3600.0, 3600.0))
    async with listening(1) as two, listening(None) as three:
        edge.notify(two.address, three.address)
        await two.got(1)
        await three.got(1)
        await edge.performer.close()
        await edge.done()
        assert len(two.requests) == len(three.requests) == 1
    assert edge.told.failed == []


class FailingClient:
    """A network that fails as nobody thought of."""

    async def invoke_on_new_connection(self, address, request, timeout_ms):
        raise MemoryError

    invoke = invoke_on_new_connection


async def test_a_fault_while_a_broker_is_asked_is_no_verdict_about_it_and_ends_nothing():
    edge, failures = Edge(), []
    async with BackgroundTasks(lambda name, error: failures.append((name, type(error)))) as tasks:
        performer = Performer(
            lambda work: tasks.start(work, "work"), FailingClient(), edge.elections, edge.clock, edge.told, edge.report
        )
        probe = Probe(BrokerKey(SET, 1), 1000)
        performer.perform(ProbeBroker(probe=probe, address="10.0.0.1:10911", report=edge.report))
        performer.perform(CheckReachability(key=BrokerKey(SET, 1), address="10.0.0.1:10911"))
    assert edge.probed == [(BrokerKey(SET, 1), ProbeOutcome.NOT_ASKED, "")]
    assert failures == [("work", MemoryError)] * 2
