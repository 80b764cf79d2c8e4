"""A real server on a real port with a dispatcher of the test's own, and peers that talk to it byte by byte."""

import asyncio
import socket
import struct
from contextlib import asynccontextmanager, suppress

from fakes.background import background_tasks

from remoting.clock import SystemClock
from remoting.protocol.codes import SerializeType
from remoting.protocol.command import RemotingCommand
from remoting.protocol.frame import decode, encode
from remoting.server.limits import BodyLimits, ServerLimits, ServerOptions
from remoting.server.server import RemotingServer

#: Limits that make a peer which does not read felt after few answers.
SMALL_BUFFERS = {
    "response_buffer_high_bytes": 100_000,
    "response_buffer_low_bytes": 50_000,
    "socket_send_bytes": 32 * 1024,
}

ROUTE = 105
REGISTER = 103

#: Examples of the protocol description, byte for byte.
E1 = bytes.fromhex("0000008700000083") + (
    b'{"code":105,"extFields":{"topic":"TopicTest"},"flag":0,"language":"JAVA","opaque":9,'
    b'"serializeTypeCurrentRPC":"JSON","version":479}'
)
E2_BODY = (
    b'{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"},"brokerName":"broker-a",'
    b'"cluster":"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":'
    b'"broker-a","perm":6,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8}]}'
)
#: With the version of 5.5.0, as that server answers.
E2 = (
    bytes.fromhex("0000017d0000005f")
    + b'{"code":0,"flag":1,"language":"JAVA","opaque":9,"serializeTypeCurrentRPC":"JSON","version":513}'
    + E2_BODY
)
E4 = bytes.fromhex(
    "0000002d 01000029 0069 00 01df 00000009 00000000 00000000 000000140005 746f706963 00000009 546f70696354657374"
)
E5 = (
    bytes.fromhex("00000099 01000095 0011 00 0201 00000001 00000001 00000080")
    + b"No topic route info in name server for the topic: t\n"
    + b"See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
    + bytes(4)
)
E6 = (
    bytes.fromhex("0000009b00000097")
    + b'{"code":105,"extFields":{"AccessKey":"","OnsChannel":"","Signature":"","topic":"Nope"},"flag":0,'
    b'"language":"CPP","opaque":4,"remark":"","version":333}\n'
)
E9 = bytes.fromhex("000000c9000000c5") + (
    b'{"code":904,"extFields":{"clusterName":"DefaultCluster","brokerAddr":"10.0.0.1:10911","brokerName":"broker-a"},'
    b'"flag":2,"language":"JAVA","opaque":10,"serializeTypeCurrentRPC":"JSON","version":479}'
)
E11 = bytes.fromhex("0000006600000062") + (
    b'{"code":9999,"flag":0,"language":"JAVA","opaque":8,"serializeTypeCurrentRPC":"JSON","version":479}'
)
E11_ANSWER = bytes.fromhex("0000008f0000008b") + (
    b'{"code":3,"flag":1,"language":"JAVA","opaque":8,"remark":" request type 9999 not supported",'
    b'"serializeTypeCurrentRPC":"JSON","version":513}'
)
E13_START = b"PROXY TCP4 9.9.9.9 8.8.8.8 1234 80\r\n"


UNLIMITED = BodyLimits()


def a_request(code=ROUTE, opaque=1, **fields):
    return encode(RemotingCommand(code, opaque, **fields))


def success(request, connection):
    return request.reply(body=b"%d" % request.opaque)


class RecordingObserver:
    """Observes the server and keeps what it was told, in order."""

    def __init__(self):
        self.all = []

    def of(self, kind):
        return [facts for each, facts in self.all if each == kind]

    def connection_opened(self, connection):
        self.all.append(("opened", connection))

    def connection_refused(self, peer, connections_max):
        self.all.append(("refused", (peer, connections_max)))

    def connection_paused(self, connection, response_buffer_bytes):
        self.all.append(("paused", (connection, response_buffer_bytes)))

    def connection_lost(self, connection):
        self.all.append(("lost", connection))

    def connection_closed(self, connection, reason):
        self.all.append(("closed", (connection, reason)))

    def frame_rejected(self, connection, error):
        self.all.append(("frame", (connection, error)))

    def request_rejected(self, connection, request, reason, error):
        self.all.append(("request", (request.opaque, reason, error)))

    def handler_failed(self, connection, request, error):
        self.all.append(("fault", (request.opaque, error)))


class Dispatching:
    def __init__(self, dispatch):
        self.dispatch = dispatch


class PeerStream:
    """The other end: sends bytes as they are, reads whole frames."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def frame(self):
        """Return the next frame, with its length prefix."""
        prefix = await self.reader.readexactly(4)
        return prefix + await self.reader.readexactly(struct.unpack(">I", prefix)[0])

    async def answer(self):
        frame = await self.frame()
        return decode(frame, 0, len(frame) - 4)

    async def answers(self, count):
        return [await self.answer() for _ in range(count)]

    async def request(self, data):
        await self.send(data)
        return await self.answer()

    async def until_closed(self):
        """Return what still comes before the server closes the connection."""
        try:
            return await self.reader.read()
        except ConnectionResetError:
            return b""

    async def close(self):
        self.writer.close()
        with suppress(ConnectionError, OSError):
            await self.writer.wait_closed()


class Serving:
    def __init__(self, server, observer):
        self.server, self.observed = server, observer
        self.statistics = server.statistics
        self._peers = []

    @property
    def port(self):
        return self.server.address[1]

    async def connect(self, **options):
        peer = PeerStream(*await asyncio.open_connection("127.0.0.1", self.port, **options))
        self._peers.append(peer)
        return peer

    async def connect_with_little_room(self):
        """Return a peer that the kernel keeps next to nothing for; to be used with SMALL_BUFFERS."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        peer = PeerStream(*await asyncio.open_connection(sock=sock, limit=1024))
        self._peers.append(peer)
        return peer

    async def answers_to(self, data, count=1):
        """Send all bytes on a connection of their own and return so many answers."""
        peer = await self.connect()
        await peer.send(data)
        return await peer.answers(count)

    async def close_peers(self):
        for peer in self._peers:
            await peer.close()


async def until(true, seconds=5):
    """Wait until something has become true."""
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.002)


@asynccontextmanager
async def serving(
    dispatch=success,
    *,
    tls=None,
    clock=None,
    serialize_type=SerializeType.JSON,
    urgent=(ROUTE,),
    oneway=None,
    body_limits=UNLIMITED,
    kept=(),
    audience_of=None,
    workers=0,
    tally=None,
    **limits,
):
    observer = RecordingObserver()
    options = ServerOptions(
        limits=ServerLimits(**limits),
        urgent=frozenset(urgent),
        oneway=oneway,
        body_limits=body_limits,
        serialize_type=serialize_type,
        is_protected=kept.__contains__,
        audience_of=audience_of,
        workers=workers,
        tally=tally,
    )
    async with background_tasks() as tasks:
        server = RemotingServer(Dispatching(dispatch), observer, tasks, clock or SystemClock(), options, tls)
        await server.start("127.0.0.1", 0)
        running = Serving(server, observer)
        try:
            yield running
        finally:
            await running.close_peers()
            await server.close()
