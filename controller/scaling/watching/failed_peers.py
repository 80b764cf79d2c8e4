"""Sends nothing for a while to who did not answer: of all topics of a broker that hangs, one waits for it."""

from collections.abc import Callable
from typing import Final

from remoting.client import PeerResponse, Requester, send_always
from remoting.clock import Clock
from remoting.protocol.codes import BrokerRequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import InvokeError, NotSent, OutOfResources

#: No request so long after one without an answer.
PAUSE_MS: Final = 10_000
#: Addresses that are remembered; those that answer again are not.
PEERS_MAX: Final = 10_000

#: A client answers it, so silence says nothing about the broker.
_OF_CLIENTS: Final = frozenset({BrokerRequestCode.GET_CONSUMER_RUNNING_INFO})


class FailedPeers:
    """A client that remembers who did not answer."""

    def __init__(self, client: Requester, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        #: Address -> until when no request is sent there, monotonic.
        self._until_ms: dict[str, int] = {}

    async def invoke(
        self,
        address: str,
        request: RemotingCommand,
        timeout_ms: int,
        before_send: Callable[[], None] = send_always,
    ) -> RemotingCommand:
        """Return the answer of a peer; raises InvokeError at once where there was none a moment ago."""
        self._check(address)
        try:
            answer = await self._client.invoke(address, request, timeout_ms, before_send)
        except (OutOfResources, NotSent):
            raise
        except InvokeError:
            self._failed(address, request.code)
            raise
        self._until_ms.pop(address, None)
        return answer

    async def invoke_on_new_connection(self, address: str, request: RemotingCommand, timeout_ms: int) -> PeerResponse:
        """As `invoke`, over a connection of its own."""
        self._check(address)
        return await self._client.invoke_on_new_connection(address, request, timeout_ms)

    def release(self, address: str) -> None:
        """Close the connection to an address, unless others use it."""
        self._client.release(address)

    def _check(self, address: str) -> None:
        if self._until_ms.get(address, 0) > self._clock.now_ms():
            raise InvokeError(address, f"it did not answer within the last {PAUSE_MS // 1000} s")

    def _failed(self, address: str, code: int) -> None:
        if code not in _OF_CLIENTS:
            if len(self._until_ms) >= PEERS_MAX:
                self._until_ms.clear()
            self._until_ms[address] = self._clock.now_ms() + PAUSE_MS
