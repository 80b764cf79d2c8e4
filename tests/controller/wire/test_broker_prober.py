"""Probes of brokers over real connections on loopback."""

import asyncio
import json
import os
import resource
import socket
from contextlib import contextmanager

import pytest
from controller_builders import SET
from fakes.answering_broker import Sender, listening
from peers.processes import free_port

from controller.failover.effects import CheckReachability, ProbeBroker
from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.suspicion import Probe, ProbeOutcome
from controller.wire.broker_prober import BrokerProber
from remoting.background_tasks import BackgroundTasks
from remoting.protocol.codes import RequestCode


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


class Edge(Sender):
    """A prober, and what it reported."""

    def __init__(self):
        super().__init__()
        self.probed = []
        self.prober = BrokerProber(self.start, self.client, self.told, lambda *told: self.reached.append(told))

    def report(self, *told):
        self.probed.append(told)

    async def ask(self, address, timeout_ms=20_000):
        self.prober.probe(ProbeBroker(probe=Probe(BrokerKey(SET, 1), timeout_ms), address=address, report=self.report))
        await self.done()
        ((key, outcome, _),) = self.probed
        assert key == BrokerKey(SET, 1)
        assert self.told.outcomes == [outcome]
        return outcome


@pytest.fixture
async def edge():
    edge = Edge()
    yield edge
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
            assert await edge.ask(broker.address) is ProbeOutcome.NOT_PROBED
        edge.probed.clear()
        edge.told.outcomes.clear()
        assert await edge.ask(broker.address) is ProbeOutcome.ANSWERED


# Greetings


async def test_a_broker_that_answers_a_greeting_is_reached(edge):
    async with listening() as broker:
        edge.prober.check_reachability(CheckReachability(key=BrokerKey(SET, 1), address=broker.address))
        await edge.done()
        assert edge.reached == [(BrokerKey(SET, 1), broker.address, broker.address)]
    assert edge.told.outcomes == [ProbeOutcome.ANSWERED]
    assert edge.probed == []


async def test_nobody_is_reached_where_another_broker_answers_or_none(edge):
    async with listening() as broker:
        broker.body = b'{"brokerName": "broker-b"}'
        for address in (broker.address, f"127.0.0.1:{free_port()}"):
            edge.prober.check_reachability(CheckReachability(key=BrokerKey(SET, 1), address=address))
        await edge.done()
    assert sorted(each.value for each in edge.told.outcomes) == ["another_broker", "refused"]
    assert edge.reached == []
    assert edge.probed == []


class FailingClient:
    """A network that fails as nobody thought of."""

    async def invoke_on_new_connection(self, address, request, timeout_ms):
        raise MemoryError

    invoke = invoke_on_new_connection


async def test_a_fault_while_a_broker_is_asked_is_no_verdict_about_it_and_ends_nothing():
    edge, failures = Edge(), []
    async with BackgroundTasks(lambda name, error: failures.append((name, type(error)))) as tasks:
        prober = BrokerProber(lambda work: tasks.start(work, "work"), FailingClient(), edge.told, lambda *_: None)
        probe = Probe(BrokerKey(SET, 1), 1000)
        prober.probe(ProbeBroker(probe=probe, address="10.0.0.1:10911", report=edge.report))
        prober.check_reachability(CheckReachability(key=BrokerKey(SET, 1), address="10.0.0.1:10911"))
    assert edge.probed == [(BrokerKey(SET, 1), ProbeOutcome.NOT_PROBED, "")]
    assert failures == [("work", MemoryError)] * 2
