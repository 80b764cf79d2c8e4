"""Reads this server's own history for its HTTP API: a process of its own answers each query, a few at a time.

The loop that serves brokers and clients reads no files, and what a process has read is gone from memory with it.
"""

import asyncio
import subprocess
import sys
from typing import Final

import msgspec

from remoting.protocol.shapes.history import PastQuery, nothing_known
from serving.http.views import TooManyRequests, Unavailable

#: Queries that are worked on at a time, and those that wait; others are answered 429.
RUNNING_MAX: Final = 2
WAITING_MAX: Final = 16
#: Seconds after which a query is given up.
ANSWER_S: Final = 20

#: By its name: `history.past` knows the servers' tables, so no server imports it. Not from the working directory.
_COMMAND: Final = (sys.executable, "-P", "-m", "history.past.answers")


class HistoryReader:
    """Has `history.past` answer queries about the past."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(RUNNING_MAX)
        self._waiting = 0

    async def answer(self, query: PastQuery) -> bytes:
        """Return the answer as JSON; raises HttpRefused. The process is killed if this is cancelled."""
        if not query.folder:
            return msgspec.json.encode(nothing_known(query, "This server records no history: historyDir is blank."))
        if self._waiting >= WAITING_MAX:
            raise TooManyRequests(f"{WAITING_MAX} requests about the history wait, as many as allowed.")
        self._waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self._waiting -= 1
        try:
            return await _answer(query)
        finally:
            self._turns.release()


class _HistoryProcess:
    """One process that reads."""

    def __init__(self) -> None:
        self._program: subprocess.Popen[bytes] | None = None
        self._is_given_up = False

    def run(self, body: bytes) -> tuple[bytes, int]:
        """Return what it prints, and its exit code; in a thread. Raises OSError and TimeoutExpired.

        `subprocess` starts it by vfork; what asyncio does with uvloop would copy the page tables in the event loop.
        """
        with subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/") as program:  # noqa: S603
            self._program = program
            try:
                if self._is_given_up:
                    program.kill()
                return program.communicate(body, ANSWER_S)[0], program.returncode
            except subprocess.TimeoutExpired:
                program.kill()
                raise

    def give_up(self) -> None:
        """Kill it if it still runs."""
        self._is_given_up = True
        if self._program is not None:
            self._program.kill()


async def _answer(query: PastQuery) -> bytes:
    reading = _HistoryProcess()
    try:
        output, code = await asyncio.to_thread(reading.run, msgspec.json.encode(query))
    except OSError as error:
        raise Unavailable(f"The history cannot be read: {error.strerror}.") from None
    except subprocess.TimeoutExpired:
        raise Unavailable(f"The history was not read within {ANSWER_S} s: request a shorter time.") from None
    finally:
        reading.give_up()
    if code != 0:
        raise Unavailable("The history cannot be read; the standard error of this server has more.")
    return output
