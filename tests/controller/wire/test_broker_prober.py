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

from controller.failover.events import CheckReachability, ProbeBroker
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
        self.prober = BrokerProber(
            self.start, self.client, self.observer.emit, lambda *reported: self.reached.append(reported)
        )

    def report(self, *reported):
        self.probed.append(reported)

    async def probe(self, address, timeout_ms=20_000):
        self.prober.probe(ProbeBroker(probe=Probe(BrokerKey(SET, 1), timeout_ms), address=address, report=self.report))
        await self.done()
        ((key, outcome, _),) = self.probed
        assert key == BrokerKey(SET, 1)
        assert self.observer.outcomes == [outcome]
        return outcome


@pytest.fixture
async def edge():
    edge = Edge()
    yield edge
    await edge.done()
    await edge.client.close()


# Questions


@pytest.mark.parametrize("code", [0, 1, 3])
async def test_probe_is_answered_by_any_response_code(edge, code):
    async with listening(code) as broker:
        assert await edge.probe(broker.address) is ProbeOutcome.ANSWERED
    assert [each.code for each in broker.requests] == [RequestCode.GET_BROKER_EPOCH_CACHE]
    assert not broker.requests[0].is_oneway
    assert edge.probed == [(BrokerKey(SET, 1), ProbeOutcome.ANSWERED, broker.address)]


async def test_probe_of_a_closed_port_is_refused(edge):
    assert await edge.probe(f"127.0.0.1:{free_port()}") is ProbeOutcome.REFUSED


async def test_probe_without_a_response_is_unanswered(edge):
    async with listening(None) as broker:
        assert await edge.probe(broker.address, timeout_ms=100) is ProbeOutcome.NO_ANSWER


async def test_probe_of_a_stopped_process_is_unanswered(edge):
    with socket.create_server(("127.0.0.1", 0)) as port:
        assert await edge.probe(f"127.0.0.1:{port.getsockname()[1]}", timeout_ms=100) is ProbeOutcome.NO_ANSWER


async def test_probe_with_a_broken_connection_is_unanswered(edge):
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert await edge.probe(f"127.0.0.1:{port}") is ProbeOutcome.NO_ANSWER
    server.close()


@pytest.mark.parametrize("address", ["", "nonsense", "10.0.0..1:30911", "127.0.0.1:0", "127.0.0.1:99999"])
async def test_probe_of_an_invalid_address_is_unanswered(edge, address):
    assert await edge.probe(address) is ProbeOutcome.NO_ANSWER


async def test_each_probe_has_its_own_connection(edge):
    async with listening() as broker:
        for _ in range(2):
            edge.probed.clear()
            edge.observer.outcomes.clear()
            await edge.probe(broker.address)
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
async def test_probe_distinguishes_the_broker_from_another_one(edge, body, outcome):
    async with listening() as broker:
        broker.body = json.dumps({"clusterName": "C", "epochList": [], "maxOffset": 0} | body).encode()
        assert await edge.probe(broker.address) is outcome


@pytest.mark.parametrize(("code", "body"), [(0, b"{"), (0, b"[1]"), (1, b'{"brokerName": "broker-b"}')])
async def test_response_without_broker_name_counts_for_the_broker(edge, code, body):
    async with listening(code) as broker:
        broker.body = body
        assert await edge.probe(broker.address) is ProbeOutcome.ANSWERED


async def test_probe_without_a_free_file_descriptor_is_not_sent(edge):
    async with listening() as broker:
        with no_files_left():
            assert await edge.probe(broker.address) is ProbeOutcome.NOT_PROBED
        edge.probed.clear()
        edge.observer.outcomes.clear()
        assert await edge.probe(broker.address) is ProbeOutcome.ANSWERED


# Greetings


async def test_broker_that_answers_a_reachability_check_is_reached(edge):
    async with listening() as broker:
        edge.prober.check_reachability(CheckReachability(key=BrokerKey(SET, 1), address=broker.address))
        await edge.done()
        assert edge.reached == [(BrokerKey(SET, 1), broker.address, broker.address)]
    assert edge.observer.outcomes == [ProbeOutcome.ANSWERED]
    assert edge.probed == []


async def test_refused_check_or_another_broker_does_not_count_as_reached(edge):
    async with listening() as broker:
        broker.body = b'{"brokerName": "broker-b"}'
        for address in (broker.address, f"127.0.0.1:{free_port()}"):
            edge.prober.check_reachability(CheckReachability(key=BrokerKey(SET, 1), address=address))
        await edge.done()
    assert sorted(each.value for each in edge.observer.outcomes) == ["another_broker", "refused"]
    assert edge.reached == []
    assert edge.probed == []


class FailingClient:
    """A network that fails as nobody thought of."""

    async def invoke_on_new_connection(self, address, request, timeout_ms):
        raise MemoryError

    invoke = invoke_on_new_connection


async def test_exception_during_a_probe_counts_as_not_probed():
    edge, failures = Edge(), []
    async with BackgroundTasks(lambda name, error: failures.append((name, type(error)))) as tasks:
        prober = BrokerProber(
            lambda work: tasks.start(work, "work"), FailingClient(), edge.observer.emit, lambda *_: None
        )
        probe = Probe(BrokerKey(SET, 1), 1000)
        prober.probe(ProbeBroker(probe=probe, address="10.0.0.1:10911", report=edge.report))
        prober.check_reachability(CheckReachability(key=BrokerKey(SET, 1), address="10.0.0.1:10911"))
    assert edge.probed == [(BrokerKey(SET, 1), ProbeOutcome.NOT_PROBED, "")]
    assert failures == [("work", MemoryError)] * 2
