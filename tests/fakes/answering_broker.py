"""A broker with programmed responses, and what a controller needs to send requests to it."""

import asyncio
from contextlib import asynccontextmanager

from controller.failover.events import BrokerProbed, RoleNotificationFailed, RoleNotified
from fakes.clock import FakeClock
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from remoting.protocol.frame import decode, encode

#: Generous: only waits that would never end end here.
WAIT_S = 20


class AnsweringBroker:
    """Listens, keeps the requests it gets, and sends the programmed responses."""

    def __init__(self, *codes):
        #: What the first requests are answered with, None for not at all; those after them as the last one.
        self.codes = list(codes) or [0]
        self.requests = []
        self.connections = 0
        self.remark = None
        self.body = b""
        #: Called before each response.
        self.answers = lambda: None
        self.came = asyncio.Condition()

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while True:
                prefix = await reader.readexactly(4)
                length = int.from_bytes(prefix)
                request = decode(prefix + await reader.readexactly(length), 0, length)
                code = self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
                self.answers()
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
    broker = AnsweringBroker(*codes)
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    broker.port = server.sockets[0].getsockname()[1]
    try:
        yield broker
    finally:
        server.close()


class RecordingObserver:
    """What was reported to an observer."""

    def __init__(self):
        self.outcomes = []
        self.notified = []
        self.failed = []

    def emit(self, event):
        match event:
            case BrokerProbed(outcome=outcome):
                self.outcomes.append(outcome)
            case RoleNotified():
                self.notified.append((event.effect, event.recipient.broker_id, event.notified, event.record))
            case RoleNotificationFailed():
                self.failed.append((event.broker_id, event.tries, event.error))


class Sender:
    """A client, the tasks that it was used in, and what was reported."""

    def __init__(self):
        self.observer = RecordingObserver()
        self.clock = FakeClock()
        self.client = RemotingClient(SystemClock())
        self.tasks = set()
        self.reached = []

    def start(self, work):
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def done(self):
        async with asyncio.timeout(WAIT_S):
            while self.tasks:
                await asyncio.wait(self.tasks)
