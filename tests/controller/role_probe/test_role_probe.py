"""The probe over real sockets: what it sends, what it measures, and that it disturbs nobody."""

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from fakes.answering_broker import WAIT_S, listening
from fakes.scaling_controller import ME, OTHER

from controller.config import ControllerConfig
from controller.failover.group import Group
from controller.role_probe import service
from controller.role_probe.events import SETS, ProbeResult, RoleProbeGapEnded, RoleProbeRouteMissing
from controller.role_probe.service import PROBED_SETS_MAX, RoleProbe
from remoting.background_tasks import BackgroundTasks
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from serving.telemetry.events import Count, Counted

TOPIC = "RMQ_ROLE_PROBE"
INTERVAL_MS = 100
ROUTE = 105
SEND = 310


def route(addresses, perm=6):
    """Return the body of a route: broker name -> address of id 0, None for no master."""
    queues = {"readQueueNums": 1, "writeQueueNums": 1, "perm": perm, "topicSysFlag": 0}
    members = {name: {"0": address} if address else {"1": "127.0.0.1:1"} for name, address in addresses.items()}
    return json.dumps(
        {
            "queueDatas": [{"brokerName": name, **queues} for name in addresses],
            "brokerDatas": [
                {"cluster": "C", "brokerName": name, "brokerAddrs": each} for name, each in members.items()
            ],
            "filterServerTable": {},
        }
    ).encode()


class Seen:
    """What was told."""

    def __init__(self):
        self.results, self.gaps, self.problems = [], [], []

    def emit(self, event):
        match event:
            case Counted(count=Count(labels=(result,))):
                self.results.append(result)
            case RoleProbeGapEnded():
                self.gaps.append((event.cluster, event.broker, event.gap))
            case RoleProbeRouteMissing(error=error):
                self.problems.append(error)

    @property
    def acknowledged(self):
        return self.results.count(ProbeResult.ACKNOWLEDGED)


class Probed:
    """A NameServer with a route, and the probe of a controller."""

    def __init__(self, namesrv):
        self.namesrv = namesrv
        self.seen = Seen()
        self.clock = SystemClock()
        self.client = RemotingClient(self.clock)
        self.faults = []
        self.tasks = BackgroundTasks(lambda name, error: self.faults.append((name, error)))
        self.group = Group("g", ME, self.clock, None)
        self.name_servers = (namesrv.address,)
        self.probe = RoleProbe(
            group=self.group,
            client=self.client,
            clock=self.clock,
            config=self.config,
            emit=self.seen.emit,
            start=lambda work: self.tasks.start(work, "probe"),
        )

    def config(self):
        return ControllerConfig(
            role_probe_topic=TOPIC,
            role_probe_namesrv_addr=";".join(self.name_servers),
            role_probe_interval_ms=INTERVAL_MS,
        )

    def looked(self):
        """Return how many sets are probed, and how many are left out, as the metrics have it."""
        return [measure.value for measure in self.probe.measures() if measure.gauge is SETS]

    def lead(self):
        self.group.leads(None)
        self.group.ready(self.group.term)

    async def until(self, condition):
        async with asyncio.timeout(WAIT_S):
            while not (value := condition()):
                await asyncio.sleep(0.01)
        return value


@asynccontextmanager
async def probing(**addresses):
    async with listening(0) as namesrv:
        namesrv.body = route(addresses)
        probed = Probed(namesrv)
        probed.lead()
        running = asyncio.ensure_future(probed.probe.probe_roles())
        try:
            yield probed
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            async with probed.tasks:
                pass
            await probed.client.close()
            assert probed.faults == []


@asynccontextmanager
async def brokers(count):
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(listening(0)) for _ in range(count)]


async def test_small_message_goes_to_each_set_of_the_route_one_at_a_time():
    async with brokers(2) as (one, two), probing(a=one.address, b=two.address) as probed:
        await probed.until(lambda: len(one.requests) >= 4 and len(two.requests) >= 4)
    assert [each.code for each in probed.namesrv.requests] == [ROUTE]
    assert probed.namesrv.requests[0].ext_fields["topic"] == TOPIC
    sent = one.requests[0]
    assert (sent.code, sent.ext_fields["b"], sent.ext_fields["n"], sent.ext_fields["a"]) == (
        SEND,
        TOPIC,
        "a",
        "RMQ_ROLE_PROBE",
    )
    assert len(sent.body) < 100
    assert (one.connections, two.connections) == (1, 1)
    assert set(probed.seen.results) == {ProbeResult.ACKNOWLEDGED}
    assert probed.seen.gaps == []
    assert probed.seen.problems == []


async def test_set_that_refuses_for_a_while_has_a_gap():
    async with brokers(1) as (broker,), probing(a=broker.address) as probed:
        await probed.until(lambda: probed.seen.acknowledged >= 2)
        broker.codes = [14]
        failed = len(probed.seen.results) + 3
        await probed.until(lambda: len(probed.seen.results) >= failed)
        broker.codes = [0]
        ((cluster, name, gap),) = await probed.until(lambda: probed.seen.gaps)
    assert (cluster, name) == ("C", "a")
    assert gap.failed >= 2
    assert gap.gap_ms >= gap.failed * INTERVAL_MS
    assert gap.error.startswith("code 14")
    assert (gap.former_address, gap.address) == (broker.address, broker.address)


async def test_hanging_set_ends_in_a_timeout_and_holds_up_no_other(monkeypatch):
    monkeypatch.setattr(service, "SEND_MS", 400)
    async with brokers(2) as (one, two), probing(a=one.address, b=two.address) as probed:
        await probed.until(lambda: len(one.requests) >= 2)
        one.codes = [None]
        came = len(two.requests)
        await probed.until(lambda: ProbeResult.TIMEOUT in probed.seen.results)
        assert len(two.requests) > came
        one.codes = [0]
        ((_, name, gap),) = await probed.until(lambda: probed.seen.gaps)
    assert name == "a"
    assert gap.failed >= 1
    assert gap.gap_ms >= 400
    assert "no answer within 400 ms" in gap.error


async def test_set_without_a_master_in_the_route_is_sent_nothing():
    async with probing(a=None) as probed:
        await probed.until(lambda: probed.seen.results)
    assert set(probed.seen.results) == {ProbeResult.NO_MASTER}


async def test_only_the_leader_probes_and_measures_nothing_across_a_change_of_the_lead():
    async with brokers(1) as (broker,), probing(a=broker.address) as probed:
        await probed.until(lambda: probed.seen.acknowledged >= 2)
        probed.group.follows(OTHER)
        await probed.until(lambda: probed.looked() == [0, 0])
        sent = len(broker.requests)
        await asyncio.sleep(0.6)
        assert len(broker.requests) == sent
        probed.lead()
        await probed.until(lambda: len(broker.requests) > sent + 2)
    assert probed.seen.gaps == []


@pytest.mark.parametrize(
    ("code", "body", "problem"),
    [(17, b"", "code 17"), (0, route({"a": "127.0.0.1:1"}, perm=4), "no broker takes messages of RMQ_ROLE_PROBE")],
)
async def test_topic_without_a_route_is_reported(code, body, problem):
    async with listening(code) as namesrv:
        namesrv.body = body
        probed = Probed(namesrv)
        probed.lead()
        await probed.probe.look()
        assert probed.looked()[0] == 0
        assert problem in probed.seen.problems[0]
        await probed.client.close()


async def test_next_nameserver_is_queried_where_one_does_not_answer():
    async with listening(0) as namesrv, listening(1) as other:
        namesrv.body = route({"a": None})
        probed = Probed(namesrv)
        probed.name_servers = (other.address, namesrv.address)
        probed.lead()
        await probed.probe.look()
        assert probed.looked() == [1, 0]
        probed.group.follows(OTHER)
        await probed.probe.look()
        async with probed.tasks:
            pass
        await probed.client.close()


async def test_sets_beyond_the_limit_are_left_out_and_counted():
    async with listening(0) as namesrv:
        namesrv.body = route({f"b{number:03}": None for number in range(PROBED_SETS_MAX + 3)})
        probed = Probed(namesrv)
        probed.lead()
        await probed.probe.look()
        assert probed.looked() == [PROBED_SETS_MAX, 3]
        # 200 sets each 100 ms would be 2,000 messages a second.
        assert probed.probe._interval_ms() == 400
        probed.group.follows(OTHER)
        await probed.probe.look()
        async with probed.tasks:
            pass
        await probed.client.close()
