"""Which broker sets have a topic: names of sets by topic, worked out in slices and then stored at once.

Topics on the same sets share their list of holders, so a million entries cost little more than their names.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from namesrv.core.values.cooperative import CooperativeTask, in_batches

#: The broker sets that have a topic, in the order they got it.
Holders = tuple[str, ...]


class HolderRemoval(NamedTuple):
    """Topics that one set will no longer have."""

    topics: Sequence[str]
    #: Those of them that nobody else has.
    unheld: Sequence[str]
    #: Who has the others.
    remaining: Mapping[str, Holders]


class HolderTable:
    """Topic -> broker names."""

    def __init__(self) -> None:
        self._holders: dict[str, Holders] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def __contains__(self, topic: str) -> bool:
        return topic in self._holders

    def topics(self) -> Iterable[str]:
        """Return every topic that somebody has."""
        return self._holders

    def of(self, topic: str) -> Holders:
        """Return the broker sets that have a topic, none if it is unknown."""
        return self._holders.get(topic, ())

    def prepare_join(
        self, broker_name: str, topics: Iterable[str], mine: Mapping[str, object]
    ) -> CooperativeTask[dict[str, Holders]]:
        """Return the future holders of those topics that the set has not yet, which are not in `mine`."""
        added: dict[str, Holders] = {}
        # By the identity of the former holders, which topics share, as they will share the new ones.
        grown: dict[int, Holders] = {}
        for part in in_batches(topics):
            for topic in [topic for topic in part if topic not in mine]:
                holders = self._holders.get(topic, ())
                if (more := grown.get(id(holders))) is None:
                    more = grown[id(holders)] = (*holders, broker_name)
                added[topic] = more
            yield
        return added

    def prepare_leave(self, broker_name: str, topics: Iterable[str]) -> CooperativeTask[HolderRemoval]:
        """Return who will have the topics, each named once, when the set has them no longer; a cooperative task."""
        every: list[str] = []
        unheld: list[str] = []
        remaining: dict[str, Holders] = {}
        # As in `prepare_join`.
        shrunk: dict[int, Holders] = {}
        for part in in_batches(topics):
            every += part
            for topic in part:
                holders = self._holders.get(topic, ())
                if len(holders) <= 1:
                    unheld.append(topic)
                    continue
                if (others := shrunk.get(id(holders))) is None:
                    others = shrunk[id(holders)] = tuple(name for name in holders if name != broker_name)
                remaining[topic] = others
            yield
        return HolderRemoval(every, unheld, remaining)

    def store(self, added: Mapping[str, Holders]) -> None:
        """Store what `prepare_join` returned; of no use once the table has changed."""
        self._holders.update(added)

    def discard(self, removal: HolderRemoval) -> None:
        """Forget what `prepare_leave` returned; of no use once the table has changed, but for `store`."""
        for topic in removal.unheld:
            del self._holders[topic]
        self._holders.update(removal.remaining)
