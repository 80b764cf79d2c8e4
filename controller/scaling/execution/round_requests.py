"""The requests of one round of a resize: a peer that has not answered one of them gets no other one in this round.

Otherwise a master that hangs would be waited for once for each of its queues.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from controller.scaling.execution.shared_offsets import SharedOffsets
from remoting.admin.admin_request import AdminRequest
from remoting.admin.client import AdminClient
from remoting.admin.offset_table import TopicOffsets
from remoting.protocol.errors import InvokeError, NotSent

Found = TypeVar("Found")


class Requests(Protocol):
    """Sends administrative requests."""

    async def call(self, address: str, wanted: AdminRequest[Found]) -> Found:
        """Return the answer as `AdminClient.call`."""


class RoundRequests:
    """Sends the requests of one round."""

    def __init__(self, admin: AdminClient, offsets: SharedOffsets) -> None:
        self._admin = admin
        self._offsets = offsets
        self._silent: set[str] = set()

    async def call(self, address: str, wanted: AdminRequest[Found]) -> Found:
        """Return the answer as `AdminClient.call`; raises NotSent if there was none in this round before."""
        return await self._answer(address, lambda: self._admin.call(address, wanted, lambda: self._check(address)))

    async def offsets(self, address: str, topic: str) -> TopicOffsets:
        """Return the stored offsets of a topic, requested within this round; raises as `call` does."""
        self._check(address)
        return await self._answer(address, lambda: self._offsets.of_topic(address, topic))

    async def _answer(self, address: str, call: Callable[[], Awaitable[Found]]) -> Found:
        try:
            return await call()
        except InvokeError:
            self._silent.add(address)
            raise

    def _check(self, address: str) -> None:
        if address in self._silent:
            raise NotSent(address, "it has not answered an earlier request of this round")
