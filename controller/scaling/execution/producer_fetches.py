"""Which producers have an old route, as NameServers of this product know it; where they do not, a fixed wait counts."""

from collections.abc import Collection

from controller.scaling.resize.observation import StaleProducers
from controller.scaling.resize.operation import ResizeOperation


class UnknownProducers:
    """Knows nothing of producers."""

    async def stale(self, _: ResizeOperation, __: Collection[str]) -> StaleProducers:
        """Return that nothing is known."""
        return StaleProducers()
