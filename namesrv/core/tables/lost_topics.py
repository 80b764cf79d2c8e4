"""Topics that routes have and no broker of their set: a new master registered without them.

They were created when no slave had copied them yet, and their master failed. Clients get their route, and the master
refuses what they send. An entry ends when the master registers with the topic, or the topic leaves the set's routes.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import msgspec

#: A broker may register its topics in parts, which follow each other at once: what none had after so long is lost.
SETTLE_MS: Final = 10_000
NAMES_MAX: Final = 10


class SetLosses(msgspec.Struct):
    #: All of them are in the topic table, so they take no room of their own.
    topics: dict[str, None]
    #: Monotonic ms of the registration that lacked them.
    since_ms: int
    #: Peers are told of it.
    is_reported: bool = False

    @property
    def names(self) -> list[str]:
        """A few of the topics."""
        return sorted(islice(self.topics, NAMES_MAX))


class LostTopicTable:
    """Broker name -> the topics that its set lacks."""

    def __init__(self) -> None:
        self._sets: dict[str, SetLosses] = {}

    def of(self, broker_name: str) -> SetLosses | None:
        """Return what is reported of a set."""
        losses = self._sets.get(broker_name)
        return losses if losses is not None and losses.is_reported else None

    def reported(self) -> Iterator[tuple[str, SetLosses]]:
        """Return the sets that lack topics, by name."""
        return ((name, losses) for name, losses in sorted(self._sets.items()) if losses.is_reported)

    def put(self, broker_name: str, topics: Iterable[str], now_ms: int) -> None:
        """Take what a new master lacks, all of it."""
        lost = dict.fromkeys(topics)
        former = self._sets.pop(broker_name, None)
        if former is not None and lost.keys() <= former.topics.keys():
            former.topics = lost
            self._sets[broker_name] = former
        else:
            self._sets[broker_name] = SetLosses(lost, now_ms)
        self.remove(broker_name, ())

    def remove(self, broker_name: str, topics: Iterable[str]) -> None:
        """Forget topics that the master has again, or routes have no longer."""
        if (losses := self._sets.get(broker_name)) is None:
            return
        for topic in topics:
            losses.topics.pop(topic, None)
        if not losses.topics:
            del self._sets[broker_name]

    def report(self, now_ms: int) -> list[tuple[str, SetLosses]]:
        """Return the sets whose losses are certain by now; each is returned once."""
        due = [
            (name, losses)
            for name, losses in self._sets.items()
            if not losses.is_reported and now_ms - losses.since_ms >= SETTLE_MS
        ]
        for _, losses in due:
            losses.is_reported = True
        return due
