"""How large the store is: asked for beside everything else, and told by the ticks of the history."""

import asyncio
from typing import Final

from controller.storage.store import StoreBackend, StoreError
from history.schemas import TICK_INTERVAL_MS

#: One answer for each tick.
_ASK_S: Final = TICK_INTERVAL_MS / 1000


class StoreSize:
    """The newest answer of a store."""

    def __init__(self, backend: StoreBackend) -> None:
        self._backend = backend
        #: Bytes; None where the store has no such size, or did not tell when it was asked last.
        self.latest: int | None = None

    async def ask_for_store_size(self) -> None:
        """Ask again and again, for as long as the controller serves."""
        while True:
            try:
                self.latest = await self._backend.size_bytes()
            except StoreError:
                # Whether etcd serves is told by the calls that matter.
                self.latest = None
            await asyncio.sleep(_ASK_S)
