"""How many topics of which kind each cluster has: kept up at every change, so that a scrape never walks the tables."""

from collections import Counter
from collections.abc import Collection, Mapping

from remoting.protocol.topic_kinds import SYSTEM_PREFIX, SYSTEM_TOPICS, TopicKind, kind_of


def kinds_of(topics: Collection[str]) -> Counter[TopicKind]:
    """Return how many of the topics are of each kind by their names alone, whatever clusters and sets there are."""
    # Nearly all are normal, and counting an enum for each would take longer than all the rest.
    special = [topic for topic in topics if topic[:1] == "%" or topic in SYSTEM_TOPICS or topic[:8] == SYSTEM_PREFIX]
    kinds = Counter(kind_of(topic, ()) for topic in special)
    kinds[TopicKind.NORMAL] += len(topics) - len(special)
    return kinds


class TopicCountTable:
    """Counts by cluster and kind; each topic once per cluster, however many of its broker sets have it."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[TopicKind, int]] = {}

    def counts(self) -> Mapping[str, Mapping[TopicKind, int]]:
        """Return the number of topics by cluster and kind."""
        return self._counts

    def add(self, cluster: str, kinds: Counter[TopicKind]) -> None:
        """Count topics that no broker set of the cluster had before."""
        if not any(kinds.values()):
            return
        counts = self._counts.setdefault(cluster, dict.fromkeys(TopicKind, 0))
        for kind, topics in kinds.items():
            counts[kind] += topics

    def remove(self, cluster: str, kinds: Counter[TopicKind]) -> None:
        """Count topics that no broker set of the cluster has any longer."""
        if not any(kinds.values()):
            return
        counts = self._counts[cluster]
        for kind, topics in kinds.items():
            counts[kind] -= topics
        if not any(counts.values()):
            del self._counts[cluster]
