"""Knows what the process of a broker reported about itself (28), for as long as the connection to it lives.

28 costs a broker of 5.x 60 to 200 ms of a core, as it counts all slots of its timer wheel (measured; 1 ms in 4.9). An
open connection leads to one process, so what that never changes is kept as long as the connection lives. The first
answer is not kept: it may have come over a connection that opened and broke in between.
"""

from remoting.admin.brokers import BrokerRuntime, broker_runtime
from remoting.admin.client import AdminClient


class BrokerProcess:
    """The process at one address."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._connection_number: int | None = None
        self._runtime: BrokerRuntime | None = None

    def known(self, admin: AdminClient) -> BrokerRuntime | None:
        """Return what the connected process reported earlier; None if it may be another process by now."""
        number = admin.connection_number(self._address)
        return self._runtime if number is not None and number == self._connection_number else None

    async def report(self, admin: AdminClient) -> BrokerRuntime:
        """Return what the process reports now (28); raises what `AdminClient.call` raises."""
        number = admin.connection_number(self._address)
        runtime = await admin.call(self._address, broker_runtime())
        # Sent over a connection that was open before and still is, so it came from this process.
        if number is not None and number == admin.connection_number(self._address):
            self._connection_number, self._runtime = number, runtime
        return runtime
