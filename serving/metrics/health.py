"""Whether peers should be sent to this server: what the probes answer."""

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Serving(Enum):
    """Where the server is in its life; the values are what `/readyz` answers."""

    STARTING = "starting"
    READY = "ready"
    WAITING = "waiting"
    DRAINING = "draining"


class Health:
    """Holds the present state; the service moves it on."""

    def __init__(self) -> None:
        self._serving = Serving.STARTING
        #: Returns what a server that serves is still waiting for; blank for nothing.
        self.waits_for: Callable[[], str] = lambda: ""

    @property
    def serving(self) -> Serving:
        return Serving.WAITING if self._serving is Serving.READY and self.waits_for() else self._serving

    @serving.setter
    def serving(self, serving: Serving) -> None:
        self._serving = serving

    @property
    def state(self) -> str:
        """The present state in words, which follow the name of the server and "is"."""
        present = self.serving
        return f"waiting for {self.waits_for()}" if present is Serving.WAITING else present.value
