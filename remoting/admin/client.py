"""Sends administrative requests, a limited number at a time. The edge: the requests themselves are pure."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

from remoting.admin.admin_request import AdminRequest
from remoting.client import Requester, send_always

Found = TypeVar("Found")


#: Reading a longer answer would hold up everything else in the event loop for milliseconds.
THREAD_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminLimits:
    timeout_ms: int = 3000
    #: Requests under way.
    requests_max: int = 32
    #: Requests under way to one address: those to a broker that hangs do not hold up the others.
    requests_per_peer_max: int = 4


class AdminClient:
    """Requests something of brokers and NameServers; further callers wait for their turn."""

    def __init__(self, client: Requester, limits: AdminLimits) -> None:
        self._client = client
        self._limits = limits
        self._turns = asyncio.Semaphore(limits.requests_max)
        #: Of addresses to which requests are under way or wait.
        self._peers: dict[str, _PeerTurns] = {}

    async def call(
        self,
        address: str,
        wanted: AdminRequest[Found],
        before_send: Callable[[], None] = send_always,
        odd_rows: list[str] | None = None,
    ) -> Found:
        """Return what the peer at "host:port" answers.

        The timeout begins when it is the request's turn. `before_send` is called then, and again right before the
        request is written; what it raises, NotSent for example, goes through. Raises InvokeError without an answer,
        Refused for an error code, NotSupported for a peer that is too old, and BodyError for an answer that cannot be
        read, but for its `odd_rows` (`AdminRequest.read_response`). Long answers are read in a thread.
        """
        async with self._turn(address), self._turns:
            # Nothing is connected for a request that is not to be sent.
            before_send()
            answer = await self._client.invoke(address, wanted.request, self._limits.timeout_ms, before_send)
        if len(answer.body) < THREAD_BYTES:
            return wanted.read_response(answer, odd_rows)
        return await asyncio.to_thread(wanted.read_response, answer, odd_rows)

    def connection_number(self, address: str) -> int | None:
        """Return the number of the open connection to an address, None without one."""
        return self._client.connection_number(address)

    @asynccontextmanager
    async def _turn(self, address: str) -> AsyncIterator[None]:
        if (peer := self._peers.get(address)) is None:
            peer = self._peers[address] = _PeerTurns(self._limits.requests_per_peer_max)
        peer.callers += 1
        try:
            async with peer.turns:
                yield
        finally:
            peer.callers -= 1
            if not peer.callers:
                del self._peers[address]


class _PeerTurns:
    def __init__(self, requests_max: int) -> None:
        self.turns = asyncio.Semaphore(requests_max)
        self.callers = 0
