"""How large the store is: polled in the background, for the ticks of the history."""

import asyncio
from typing import Final

from history.schemas import TICK_INTERVAL_MS
from store.store import StoreBackend, StoreError

#: One answer for each tick.
_POLL_S: Final = TICK_INTERVAL_MS / 1000


class StoreSize:
    """The newest answer of a store."""

    def __init__(self, backend: StoreBackend) -> None:
        self._backend = backend
        #: Bytes; None where the store has no such size, or did not answer the last time.
        self.latest: int | None = None

    async def poll_store_size(self) -> None:
        """Poll for as long as the controller serves."""
        while True:
            try:
                self.latest = await self._backend.size_bytes()
            except StoreError:
                # The calls that matter report whether etcd serves.
                self.latest = None
            await asyncio.sleep(_POLL_S)
