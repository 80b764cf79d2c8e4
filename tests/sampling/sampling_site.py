"""NameServers and brokers on loopback that answer what a sampler asks as their test says."""

import asyncio
import contextlib
import json

from remoting.protocol.codes import BrokerRequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.frame import decode, encode

ROUTE = 105
#: What a peer answers that does not answer.
NOTHING = RemotingCommand(-1)


class Peer:
    """Answers each request with what `answer(code, fields)` returns, as long as it listens."""

    def __init__(self, answer):
        self.answer = answer
        self.received = []
        self.under_way = self.under_way_most = 0
        self.port = 0
        self._server = None
        self._writers = []
        self._tasks = set()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def count(self, code):
        return sum(1 for each, _ in self.received if each == code)

    async def open(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def close(self):
        """Be gone; `open` brings it back at the same address."""
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        self._writers = []
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader, writer):
        self._writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                prefix = await reader.readexactly(4)
                length = int.from_bytes(prefix)
                request = decode(prefix + await reader.readexactly(length), 0, length)
                task = asyncio.create_task(self._answer(request, writer))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _answer(self, request, writer):
        self.received.append((request.code, dict(request.ext_fields)))
        self.under_way += 1
        self.under_way_most = max(self.under_way, self.under_way_most)
        # Long enough for all that are asked together to be here.
        await asyncio.sleep(0.02)
        self.under_way -= 1
        answer = self.answer(request.code, request.ext_fields)
        if answer is not NOTHING:
            writer.write(encode(request.reply(answer.code, remark=answer.remark, body=answer.body)))


def success(body):
    return RemotingCommand(0, body=body if isinstance(body, bytes) else json.dumps(body).encode())


def refusal(code):
    return RemotingCommand(code, remark="no")


def a_route(**masters):
    """Return the answer of a NameServer: the address of the master by the name of its set."""
    sets = [
        {"brokerName": name, "cluster": "c", "brokerAddrs": {"0": address} if address else {"1": "127.0.0.1:1"}}
        for name, address in masters.items()
    ]
    return success({"brokerDatas": sets, "queueDatas": [], "filterServerTable": {}})


class Topics:
    """What one broker knows: ends by topic, and of each group its offsets by topic and its members."""

    def __init__(self, ends, groups=None, members=None):
        self.ends = ends
        self.groups = groups or {}
        self.members = members or {}

    def __call__(self, code, fields):
        match code:
            case BrokerRequestCode.GET_TOPIC_STATS_INFO:
                return success(table(fields["topic"], maxOffset=self.ends[fields["topic"]]))
            case BrokerRequestCode.QUERY_TOPIC_CONSUME_BY_WHO:
                names = [group for group, offsets in self.groups.items() if fields["topic"] in offsets]
                return success({"groupList": names})
            case BrokerRequestCode.GET_CONSUME_STATS:
                topic = fields["topic"]
                offset = self.groups[fields["consumerGroup"]][topic]
                return success(table(topic, brokerOffset=self.ends[topic], consumerOffset=offset))
            case BrokerRequestCode.GET_CONSUMER_CONNECTION_LIST:
                members = self.members.get(fields["consumerGroup"])
                if not members:
                    return refusal(206)
                clients = [{"clientId": each} for each in members]
                return success({"connectionSet": clients, "messageModel": "CLUSTERING"})


def table(topic, **values):
    queue = json.dumps({"brokerName": "b", "queueId": 0, "topic": topic})
    return f'{{"offsetTable":{{{queue}:{json.dumps(values)}}}}}'.encode()


@contextlib.asynccontextmanager
async def peers(*answers):
    """Let a peer listen for each of these functions."""
    opened = [await Peer(answer).open() for answer in answers]
    try:
        yield opened
    finally:
        for each in opened:
            await each.close()
