"""Queries a broker whether it has changed to master, by GET_BROKER_HA_STATUS (907).

It shows the role by which the broker's store refuses or takes messages (docs/protocol/broker-admin.md 27).
"""

from typing import Final

from remoting.admin.brokers import ha_status
from remoting.client import Requester
from remoting.protocol.errors import BodyError, InvokeError, Refused

#: How long a broker may take to answer; it does from memory.
ANSWER_MS: Final = 500


class ServingQueries:
    """Queries over a connection that stays open until the answer is yes: thousands are elected after a restart."""

    def __init__(self, client: Requester) -> None:
        self._client = client

    async def is_master(self, address: str) -> bool:
        """Return whether the broker at an address is a master; false if it refuses, or does not answer."""
        wanted = ha_status()
        try:
            is_master = wanted.read_response(await self._client.invoke(address, wanted.request, ANSWER_MS)).is_master
        except (InvokeError, Refused, BodyError):
            return False
        if is_master:
            self._client.release(address)
        return is_master
