"""Signals of the system: to stop, or to read the certificates again. All servers in the process follow."""

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Final

_STDIN: Final = 0


class Signals:
    """SIGTERM and SIGINT, which stop, and SIGHUP; one for a process, whatever serves in it.

    SIGHUP stops a process that was started in a terminal which is no more. Sent by anybody else it is a request to read
    the certificates again.
    """

    def __init__(self) -> None:
        #: Set by the first of the signals that stop.
        self.stop = asyncio.Event()
        #: Set by the second one: the wait for peers to leave ends.
        self.force_stop = asyncio.Event()
        self._at_hangup: list[Callable[[], None]] = []
        self._in_terminal = os.isatty(_STDIN)

    def listen(self) -> None:
        """Take signals from now on; before, they end the process as the system does by itself."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGHUP, self._hang_up)

    def at_hangup(self, call: Callable[[], None]) -> None:
        self._at_hangup.append(call)

    def _stop(self) -> None:
        if self.stop.is_set():
            self.force_stop.set()
        self.stop.set()

    def _hang_up(self) -> None:
        # A terminal that was closed is none any more.
        if self._in_terminal and not os.isatty(_STDIN):
            self._stop()
            return
        loop = asyncio.get_running_loop()
        for call in self._at_hangup:
            # Each by itself: one that fails keeps no other from being called.
            loop.call_soon(call)
