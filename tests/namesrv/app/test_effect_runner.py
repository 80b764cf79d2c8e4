import asyncio
import contextlib

import msgspec
import pytest
from builders import a_live_row
from fakes.background import background_tasks

from namesrv.app.effect_runner import EffectRunner
from namesrv.core.tables.live_table import LiveKey, LiveTable
from namesrv.core.values.effects import CloseConnection, NotifyMinBrokerIdChange, ProbeConnection, RouteOutcome
from namesrv.observability.log_events import MIN_BROKER_ID_NOTIFICATION_FAILED, MIN_BROKER_ID_NOTIFIED
from namesrv.observability.metric_catalogue import NOTIFICATIONS
from remoting.background_tasks import BackgroundTasks
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from remoting.protocol.codes import RequestCode
from remoting.protocol.errors import InvokeError
from serving.metrics.counters import CounterTable

UNREACHABLE = "10.0.0.9:10911"


class Network:
    """Brokers that can be reached, but for one, and a server whose connections can be closed."""

    def __init__(self):
        self.sent = []
        self.closed = []
        self.probed = []
        #: Requests wait while this is not set.
        self.open = asyncio.Event()
        self.open.set()

    async def post(self, address, request, timeout_ms):
        await self.open.wait()
        if address == UNREACHABLE:
            raise InvokeError(address, "nobody is there")
        self.sent.append((address, request))

    def close_connection(self, number, reason):
        self.closed.append(number)

    def probe_connection(self, number):
        self.probed.append(number)


class Observer:
    def __init__(self):
        self.events = []
        #: Log event -> the keys of its lines.
        self.lines = {MIN_BROKER_ID_NOTIFIED: [], MIN_BROKER_ID_NOTIFICATION_FAILED: []}
        self.counts = {NOTIFICATIONS: CounterTable(known=NOTIFICATIONS.known)}

    @property
    def failed(self):
        return [line["addr"] for line in self.lines[MIN_BROKER_ID_NOTIFICATION_FAILED]]

    @property
    def sent(self):
        return self.lines[MIN_BROKER_ID_NOTIFIED]

    def record(self, events):
        self.events += events

    def write(self, event, **keys):
        self.lines[event].append(keys)


@pytest.fixture
async def network():
    return Network()


@pytest.fixture
def observed():
    return Observer()


def notification(min_broker_id=1, *, recipients=("10.0.0.2:10911",), broker_name="broker-a", offline="10.0.0.1:10911"):
    return NotifyMinBrokerIdChange(
        broker_name=broker_name,
        min_broker_id=min_broker_id,
        min_broker_addr=f"10.0.0.{min_broker_id + 1}:10911",
        offline_broker_addr=offline,
        ha_broker_addr=None,
        recipients=recipients,
    )


@contextlib.asynccontextmanager
async def running(network, client, observed, live=()):
    """Yield what takes outcomes; their effects run until the end of the context."""
    table = LiveTable()
    for connection_id in live:
        table.put(LiveKey("broker-a", "10.0.0.1:10911"), a_live_row(connection_id=connection_id))
    async with background_tasks() as tasks:
        runner = EffectRunner(table, observed, tasks, observed.record)
        effects = tasks.keep_running(lambda: runner.run_effects(network, client), "run_effects")
        await asyncio.sleep(0.01)
        yield runner.perform
        await asyncio.sleep(0.01)
        effects.cancel()


async def performed(network, observed, *effects, live=()):
    async with running(network, network, observed, live) as perform:
        for effect in effects:
            perform(RouteOutcome(reply=None, effects=(effect,)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        network.open.set()


async def test_notification_has_the_fields_of_java(network, observed):
    await performed(network, observed, notification())
    ((address, request),) = network.sent
    assert address == "10.0.0.2:10911"
    assert request.code == RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE
    assert not request.is_oneway
    assert request.ext_fields == {
        "offlineBrokerAddr": "10.0.0.1:10911",
        "minBrokerAddr": "10.0.0.2:10911",
        "minBrokerId": "1",
    }


async def test_unreachable_recipient_delays_no_other_notification(network, observed):
    effect = notification(recipients=(UNREACHABLE, "10.0.0.2:10911", "10.0.0.3:10911"))
    await performed(network, observed, effect)
    assert [address for address, _ in network.sent] == ["10.0.0.2:10911", "10.0.0.3:10911"]
    assert observed.failed == [UNREACHABLE]
    assert observed.sent == [
        {
            "broker": "broker-a",
            "broker_id": 1,
            "addr": "10.0.0.2:10911",
            "offline_addr": "10.0.0.1:10911",
            "ha_addr": None,
            "recipients": effect.recipients,
            "reached": 2,
        }
    ]
    assert observed.counts[NOTIFICATIONS].counts() == {("sent",): 2, ("failed",): 1}


async def test_only_the_latest_waiting_notification_of_a_set_is_sent(network, observed):
    network.open.clear()
    await performed(network, observed, notification(1), notification(2), notification(3))
    assert [request.ext_fields["minBrokerId"] for _, request in network.sent] == ["1", "3"]


async def test_notifications_of_two_sets_do_not_wait_for_each_other(network, observed):
    await performed(network, observed, notification(1), notification(2, broker_name="broker-b"))
    assert len(network.sent) == 2


async def test_effects_run_after_the_reply_is_written(network, observed):
    async with running(network, network, observed) as perform:
        perform(RouteOutcome(reply=None, events=("event",), effects=(CloseConnection(7),)))
        assert (observed.events, network.closed) == (["event"], [])
        await asyncio.sleep(0)
        assert network.closed == [7]


async def test_probe_effect_probes_the_connection(network, observed):
    await performed(network, observed, ProbeConnection(7))
    assert (network.probed, network.closed) == ([7], [])


async def test_close_effect_spares_a_connection_over_which_a_broker_registered_again(network, observed):
    await performed(network, observed, CloseConnection(7), CloseConnection(8), live=(7,))
    assert network.closed == [8]


async def test_failed_effect_is_reported_and_delays_no_other(network, observed):
    def fail(number):
        raise ValueError(number)

    network.probe_connection = fail
    async with BackgroundTasks(lambda *_: None) as tasks:
        runner = EffectRunner(LiveTable(), observed, tasks, observed.record)
        running_effects = tasks.keep_running(lambda: runner.run_effects(network, network), "run_effects")
        runner.perform(RouteOutcome(reply=None, effects=(ProbeConnection(7), CloseConnection(8))))
        await asyncio.sleep(0.01)
        running_effects.cancel()
    assert tasks.failures["run_effects"] == 1
    assert network.closed == [8]


async def test_unresolvable_address_fails_its_notification_only(observed):
    # The real client: what it raises for such an address is the point.
    client = RemotingClient(SystemClock())
    async with running(Network(), client, observed) as perform:
        perform(RouteOutcome(reply=None, effects=(notification(recipients=("10.0.0..1:10911",)),)))
        await asyncio.sleep(0.01)
    await client.close()
    assert observed.failed == ["10.0.0..1:10911"]
    assert observed.sent == []


async def test_too_large_notification_fails_alone(observed):
    """The real client: it raises what the frame raises otherwise."""

    left = asyncio.Event()

    async def broker(reader, writer):
        await reader.read()
        writer.close()
        await writer.wait_closed()
        left.set()

    server = await asyncio.start_server(broker, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    client = RemotingClient(SystemClock())
    effect = msgspec.structs.replace(
        notification(recipients=(f"{host}:{port}",)), ha_broker_addr="\x01" * 3 * 1024 * 1024
    )
    async with running(Network(), client, observed) as perform:
        perform(RouteOutcome(reply=None, effects=(effect,)))
        async with asyncio.timeout(20):
            while not observed.failed:
                await asyncio.sleep(0.01)
    await client.close()
    await asyncio.wait_for(left.wait(), 20)
    server.close()
    (failed,) = observed.lines[MIN_BROKER_ID_NOTIFICATION_FAILED]
    assert "over the limit" in failed["error"]
