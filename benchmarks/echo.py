"""echo.py PORT FILE: answers every chunk of bytes with the content of FILE, on the event loop that we use.

As many answers leave as frames are in the chunk; their lengths are looked at, nothing else. This is the limit that one
core of a machine sets for any NameServer on this loop.
"""

import asyncio
import struct
import sys
from pathlib import Path

import uvloop


class Echo(asyncio.Protocol):
    """Knows where frames end, and nothing more."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._length = struct.Struct(">I").unpack_from

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Keep the way back."""
        self._write = transport.write

    def data_received(self, data: bytes) -> None:
        """Answer; the generator sends whole frames."""
        at = count = 0
        while at < len(data):
            at += 4 + self._length(data, at)[0]
            count += 1
        self._write(self._answer if count == 1 else self._answer * count)


async def main(answer: bytes) -> None:
    """Serve until killed."""
    server = await asyncio.get_running_loop().create_server(lambda: Echo(answer), "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


uvloop.run(main(Path(sys.argv[2]).read_bytes()))
