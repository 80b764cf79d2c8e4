"""A server of ours, as its users start it, with a witness on its event loop.

    held.py PROGRAM PORT ARGUMENTS...

Who connects to the port is told for how long the loop was held without a pause since somebody asked last, in seconds of
the processor: what else the machine does does not count.
"""

import asyncio
import importlib
import sys
import time

import uvloop

LOOK_S = 0.001


class Witness:
    """Looks each millisecond at how much the thread of the loop has worked since."""

    def __init__(self):
        self._longest = 0.0
        self._last = time.thread_time()

    def look(self):
        now = time.thread_time()
        self._longest = max(self._longest, now - self._last)
        self._last = now
        asyncio.get_running_loop().call_later(LOOK_S, self.look)

    async def write_longest(self, _, writer):
        # What holds the loop now is seen by the next look.
        await asyncio.sleep(5 * LOOK_S)
        writer.write(f"{self._longest}\n".encode())
        self._longest = 0.0
        writer.close()


async def watched(server, port):
    witness = Witness()
    witness.look()
    async with await asyncio.start_server(witness.write_longest, "127.0.0.1", port):
        await server


if __name__ == "__main__":
    program, port, *arguments = sys.argv[1:]
    sys.argv[1:] = arguments
    run = uvloop.run
    uvloop.run = lambda server: run(watched(server, int(port)))
    importlib.import_module(f"{program}.__main__").main()
