"""Whether peers should be sent to this server: what the probes answer."""

from enum import Enum


class Serving(Enum):
    """Where the server is in its life; the values are what `/readyz` answers."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"


class Health:
    """Holds the present state; the service moves it on."""

    def __init__(self) -> None:
        self.serving = Serving.STARTING
