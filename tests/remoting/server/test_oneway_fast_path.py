"""One-way requests that are handed over without becoming commands: only such, and nothing of them is lost."""

import pytest
from listening import serving, until

from remoting.protocol.codes import SerializeType
from remoting.protocol.command import RemotingCommand
from remoting.protocol.frame import encode
from remoting.protocol.shapes.controller import BrokerHeartbeatHeader
from remoting.server.observer import ConnectionKind
from remoting.server.oneway_fast_path import OnewayFastPath, OnewayKind
from remoting.server.statistics import ServerStatistics

HEARTBEAT = 904
FIELDS = {"brokerName": "broker-a", "brokerId": "1", "brokerAddr": "127.0.0.1:1", "maxOffset": "123456789012"}


def a_heartbeat(code=HEARTBEAT, flag=2, serialize_type=SerializeType.JSON, body=b"", **fields):
    return encode(RemotingCommand(code, 7, flag, ext_fields=FIELDS | fields, body=body), serialize_type)


class Taker:
    """Takes heartbeats until it is told to fail."""

    def __init__(self):
        self.taken = []
        self.error = None
        self.statistics = ServerStatistics()
        self.notices = OnewayFastPath(OnewayKind(HEARTBEAT, BrokerHeartbeatHeader, self.take), self.statistics)

    def take(self, header, peer):
        if self.error is not None:
            raise self.error
        self.taken.append(header)


@pytest.fixture
def taker():
    return Taker()


def test_fast_path_takes_a_heartbeat_with_its_fields_and_counts_it(taker):
    assert taker.notices.take(a_heartbeat(), None)
    assert taker.taken == [
        BrokerHeartbeatHeader(
            broker_name="broker-a", broker_id=1, broker_addr="127.0.0.1:1", max_offset=123_456_789_012
        )
    ]
    assert taker.statistics.finished() == {(HEARTBEAT, 0): 1}
    assert sum(taker.statistics.latencies_of(HEARTBEAT).buckets) == 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        a_heartbeat()[:7],
        a_heartbeat()[:-1],
        a_heartbeat() + b"\0",
        a_heartbeat() + a_heartbeat(),
        a_heartbeat(flag=0),
        a_heartbeat(flag=3),
        a_heartbeat(code=103),
        a_heartbeat(body=b"x"),
        a_heartbeat(serialize_type=SerializeType.ROCKETMQ),
        a_heartbeat(brokerId="one"),
        a_heartbeat(brokerId="99999999999999999999"),
        encode(RemotingCommand(HEARTBEAT, 7, 2)),
        a_heartbeat().replace(b"{", b"[", 1),
        a_heartbeat().replace(b"broker-a", b"broker-\xff"),
    ],
)
def test_fast_path_leaves_all_but_exact_heartbeats(taker, data):
    assert not taker.notices.take(data, None)
    assert not taker.taken
    assert not taker.statistics.finished()


def test_fast_path_leaves_a_heartbeat_whose_handler_fails(taker):
    taker.error = ValueError("no such broker")
    assert not taker.notices.take(a_heartbeat(), None)
    assert not taker.statistics.finished()


class Site:
    """A dispatcher that notes what comes the usual way, beside the takers of heartbeats."""

    def __init__(self):
        self.dispatched = []
        self.taken = []

    def dispatch(self, request, connection):
        connection.kind = ConnectionKind.BROKER
        self.dispatched.append(request.opaque)
        return request.reply()

    def take(self, header, peer):
        if header.broker_id == 13:
            raise ValueError("an unlucky number")
        self.taken.append((header.broker_id, peer.kind))


async def test_first_heartbeat_shows_a_broker_and_later_ones_take_the_fast_path():
    site = Site()
    kind = OnewayKind(HEARTBEAT, BrokerHeartbeatHeader, site.take)
    async with serving(site.dispatch, oneway=kind, urgent=frozenset({HEARTBEAT})) as server:
        peer = await server.connect()
        await peer.send(a_heartbeat())
        await until(lambda: site.dispatched)
        for broker_id in ("2", "13", "3"):
            before = len(site.taken) + len(site.dispatched)
            await peer.send(a_heartbeat(brokerId=broker_id))
            await until(lambda count=before: len(site.taken) + len(site.dispatched) > count)
    assert [broker_id for broker_id, _ in site.taken] == [2, 3]
    assert site.dispatched == [7, 7]
