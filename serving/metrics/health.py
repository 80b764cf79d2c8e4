"""Whether peers should be sent to this server: what the probes answer."""

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Serving(Enum):
    """Where the server is in its life; the values are what `/readyz` answers."""

    STARTING = "starting"
    READY = "ready"
    WAITING = "waiting for its route workers"
    DRAINING = "draining"


class Health:
    """Holds the present state; the service moves it on."""

    def __init__(self) -> None:
        self._serving = Serving.STARTING
        #: Whether all route workers serve, where there are to be some.
        self.has_workers: Callable[[], bool] = lambda: True

    @property
    def serving(self) -> Serving:
        return Serving.WAITING if self._serving is Serving.READY and not self.has_workers() else self._serving

    @serving.setter
    def serving(self, serving: Serving) -> None:
        self._serving = serving
