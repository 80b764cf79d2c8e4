"""Queries to brokers for switchovers and rolling restarts: how they acknowledge, and when they have started.

Source: docs/protocol/broker-admin.md 25, 26.
"""

from collections.abc import Awaitable
from typing import Final, TypeVar

from remoting.admin.brokers import ALL_ACK, broker_options, broker_runtime, has_all_ack
from remoting.admin.client import AdminClient, AdminLimits
from remoting.client import Requester
from remoting.protocol.errors import BodyError, InvokeError, Refused

_LIMITS: Final = AdminLimits(timeout_ms=1_000, requests_max=32, requests_per_peer_max=4)

Found = TypeVar("Found")


class SwitchoverQueries:
    """A broker that does not answer, refuses, or answers something else, gives None; each has 1 s."""

    def __init__(self, client: Requester) -> None:
        self._admin = AdminClient(client, _LIMITS)

    async def all_ack(self, address: str) -> bool | None:
        """Return whether a broker acknowledges a message only once everybody in sync has it."""
        options = await _answer(self._admin.call(address, broker_options({ALL_ACK})))
        return None if options is None else has_all_ack(options)

    async def boot_unix_ms(self, address: str) -> int | None:
        """Return when the process of a broker has started, Unix ms by its own clock."""
        runtime = await _answer(self._admin.call(address, broker_runtime()))
        return None if runtime is None else runtime.boot_unix_ms


async def _answer(call: Awaitable[Found]) -> Found | None:
    try:
        return await call
    except (InvokeError, Refused, BodyError):
        return None
