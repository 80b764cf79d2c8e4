"""Notices to systemd: that the agent is ready, and that it still runs (sd_notify(3))."""

import socket
from collections.abc import Mapping
from contextlib import suppress


class SystemdNotices:
    """Sends to the socket that systemd names in the environment; without one, nothing."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Read NOTIFY_SOCKET."""
        path = environment.get("NOTIFY_SOCKET", "")
        # An abstract socket is written with an @.
        self._address = "\0" + path[1:] if path.startswith("@") else path

    def ready(self) -> None:
        """Report that the agent has started."""
        self._send(b"READY=1")

    def still_runs(self) -> None:
        """Put off the end of WatchdogSec."""
        self._send(b"WATCHDOG=1")

    def _send(self, text: bytes) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
            notices.setblocking(False)
            notices.sendto(text, self._address)
