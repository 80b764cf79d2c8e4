"""Peers on loopback that answer each request with what a function returns."""

import asyncio
import contextlib
import json
from inspect import isawaitable

from peers.processes import free_port

from remoting.protocol.command import RemotingCommand
from remoting.protocol.frame import decode, encode

#: What a peer answers that does not answer.
NOTHING = RemotingCommand(-1)


class AnsweringPeer:
    """Answers each request with what `answer(code, fields)` returns or waits for, as long as it listens."""

    #: How long an answer takes.
    pause_s = 0

    def __init__(self, answer, tls=None):
        """Speak TLS with the context `tls`; plain without one."""
        self.answer = answer
        self._tls = tls
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
        # No port that the system gives to whoever connects: it is to be there again after `close`.
        self.port = self.port or free_port()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self._tls)
        return self

    async def close(self):
        """Be gone; `open` brings it back at the same address."""
        self._server.close()
        self.drop_connections()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def drop_connections(self):
        """Break all connections; further ones are accepted."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers = []

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
        sent = dict(request.ext_fields or {})
        self.received.append((request.code, sent))
        self.under_way += 1
        self.under_way_most = max(self.under_way, self.under_way_most)
        await asyncio.sleep(self.pause_s)
        self.under_way -= 1
        answer = self.answer(request.code, sent)
        if isawaitable(answer):
            answer = await answer
        if answer is not NOTHING:
            fields, body = answer.ext_fields or None, answer.body
            writer.write(encode(request.reply(answer.code, remark=answer.remark, ext_fields=fields, body=body)))


def success(body):
    return RemotingCommand(0, body=body if isinstance(body, bytes) else json.dumps(body).encode())


def refusal(code, remark="no"):
    return RemotingCommand(code, remark=remark)


@contextlib.asynccontextmanager
async def peers(*answers):
    """Let a peer listen for each of these functions."""
    opened = [await AnsweringPeer(answer).open() for answer in answers]
    try:
        yield opened
    finally:
        for each in opened:
            await each.close()
