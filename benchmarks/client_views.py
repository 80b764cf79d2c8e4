"""What producers and push consumers saw of an event: read from where their logs were before it, not from the beginning.

Their logs grow for an hour, and a whole one read at each look would take the processor from the brokers.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import failover_ways  # noqa: F401  # makes the peers of the tests importable
from peers.clients import Consumer, Load
from peers.processes import Process
from peers.servers import Broker
from peers.waiting import wait_until

#: A client without a role address may need its poll of routes, 30 s, and a request that ends by its timeout.
RESUMED_MAX_S = 120
#: Longest gaps are looked for from so long before an event.
BEFORE_MS = 1_000
#: Only whole lines: the last one may be half written.
_SENT = re.compile(r"^OK (\d+) (\S+) (\d+) (\S+) \d+\n", re.MULTILINE)
_FAILED = re.compile(r"^NO (\d+) (\S+) (\S+) [^\n]*\n", re.MULTILINE)
_GOT = re.compile(r"^GOT (\d+) (\S+)\n", re.MULTILINE)


class Stored(NamedTuple):
    """A message that a broker acknowledged."""

    unix_ms: int
    key: str
    #: host:port of the broker.
    address: str


class Failed(NamedTuple):
    """A send that failed after all retries of its client."""

    unix_ms: int
    key: str
    #: A response code, or the name of an error.
    code: str


@dataclass
class ClientView(ABC):
    """The log of a client, from a mark on."""

    title: str
    _position: int = field(init=False, default=0)

    @property
    @abstractmethod
    def process(self) -> Process:
        """The client."""

    def mark(self) -> None:
        """Begin to look from here on."""
        self._position = self.process.position()

    def rewind(self) -> None:
        """Look at everything from the start on."""
        self._position = 0

    def text(self) -> str:
        """Return what was logged since the mark."""
        return self.process.text(self._position)


@dataclass
class ProducerView(ClientView):
    """A producer as it comes."""

    load: Load

    @property
    def process(self) -> Process:
        """The producer."""
        return self.load.process

    def stored(self) -> list[Stored]:
        """Return what brokers have acknowledged since the mark."""
        found = _SENT.findall(self.text())
        return [Stored(int(unix_ms), key, f"{host}:{port}") for unix_ms, key, port, host in found]

    def failed(self) -> list[Failed]:
        """Return what has failed since the mark."""
        return [Failed(int(at), key, code) for at, key, code in _FAILED.findall(self.text())]

    def stamps_ms(self) -> list[int]:
        """Return when each message since the mark was acknowledged."""
        return [each.unix_ms for each in self.stored()]

    def resumed(self, since_ms: int, victim: str = "") -> Stored:
        """Wait for a message that a broker, not at the victim's address, acknowledged since, and return it."""

        def found() -> Stored | None:
            later = (each for each in self.stored() if each.unix_ms > since_ms and each.address != victim)
            return next(later, None)

        return wait_until(found, seconds=RESUMED_MAX_S, what=f"{self.title}: a message acknowledged by the next master")

    def late(self, since_ms: int, old: Broker) -> int:
        """Return how many messages the old master acknowledged after the next one had acknowledged some."""
        later = [each for each in self.stored() if each.unix_ms > since_ms]
        first = next((number for number, each in enumerate(later) if each.address != old.address), len(later))
        return sum(each.address == old.address for each in later[first:])


@dataclass
class ConsumerView(ClientView):
    """A push consumer as it comes."""

    consumer: Consumer

    @property
    def process(self) -> Process:
        """The consumer."""
        return self.consumer.process

    def received(self) -> list[tuple[int, str]]:
        """Return when each message since the mark was received, and its key."""
        return [(int(at), key) for at, key in _GOT.findall(self.text())]

    def stamps_ms(self) -> list[int]:
        """Return when each message since the mark was received."""
        return [at for at, _ in self.received()]

    def resumed(self, key: str) -> None:
        """Wait until it has received a message."""
        wait_until(lambda: not self.missing({key}), seconds=RESUMED_MAX_S, what=f"{self.title}: {key} is received")

    def missing(self, keys: Iterable[str]) -> set[str]:
        """Return which of the keys it has not received since the mark."""
        return set(keys) - {key for _, key in self.received()}


def longest_gap_s(stamps_ms: list[int], from_ms: int) -> float:
    """Return the longest time between two messages from just before a moment on."""
    stamps = [each for each in stamps_ms if each >= from_ms - BEFORE_MS]
    return max((later - earlier for earlier, later in pairwise(stamps)), default=0) / 1000
