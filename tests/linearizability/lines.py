"""A connection to one controller on which many wait for answers at once, as a broker has it."""

import asyncio
import contextlib
import itertools
import json

from peers.scripted import ONE_WAY
from peers.wire import Answer, frame

#: A broker waits so long, and then closes the connection.
ANSWER_S = 3.0
CONNECT_S = 1.0


class NotSent(Exception):
    """The request has not left; nothing can have come of it."""


class Line:
    """Connects when it is needed, and again after it was closed."""

    def __init__(self, address):
        self.address = address
        self._numbers = itertools.count(1)
        self._waiting = {}
        self._writer = None
        self._reading = None
        self._connecting = asyncio.Lock()

    async def request(self, code, fields=None, body=b"", *, on_send=lambda: None):
        """Return the answer; raises NotSent, or OSError or TimeoutError if nobody knows what came of it."""
        await self.connect()
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(ANSWER_S):
                on_send()
                self._writer.write(frame(code, fields, body, opaque=number))
                return await answer
        except TimeoutError:
            await self.close()
            raise
        finally:
            self._waiting.pop(number, None)

    async def send_oneway(self, code, fields):
        """Send what is not answered."""
        await self.connect()
        self._writer.write(frame(code, fields, opaque=next(self._numbers), flag=ONE_WAY))

    async def connect(self):
        async with self._connecting:
            if self._writer is not None:
                return
            host, port = self.address.split(":")
            try:
                async with asyncio.timeout(CONNECT_S):
                    reader, self._writer = await asyncio.open_connection(host, int(port))
            except (OSError, TimeoutError) as error:
                raise NotSent(self.address) from error
            self._reading = asyncio.create_task(self._read(reader, self._writer))

    async def close(self):
        """Close it; whoever waits for an answer gets none."""
        writer, reading, self._writer = self._writer, self._reading, None
        if writer is not None:
            reading.cancel()
            await closed(writer)
        self._give_up()

    def _give_up(self):
        for each in self._waiting.values():
            if not each.done():
                each.set_exception(ConnectionResetError(self.address))

    async def _read(self, reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                number, _, answer = await read_frame(reader)
                waiting = self._waiting.get(number)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
        if self._writer is writer:
            self._writer = None
            self._give_up()
        await closed(writer)


async def closed(writer):
    """Close a connection, and wait until its socket is."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def read_frame(reader):
    """Return the number of the next frame, whether it wants an answer, and what it says."""
    length = int.from_bytes(await reader.readexactly(4), "big")
    whole = await reader.readexactly(length)
    end = 4 + (int.from_bytes(whole[:4], "big") & 0xFFFFFF)
    header = json.loads(whole[4:end])
    wants_answer = not header["flag"] & ONE_WAY
    answer = Answer(header["code"], header.get("remark"), header.get("extFields") or {}, whole[end:])
    return header["opaque"], wants_answer, answer
