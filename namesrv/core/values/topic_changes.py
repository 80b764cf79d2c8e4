"""Which topics of a broker set are to be changed, and how: compared with what the set has, topic by topic.

Pure. Topics share their settings, so there are few different changes however many topics change; they are counted in
the one walk over the topics, and whoever wants to know more about them looks at these few.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from namesrv.core.values.cooperative import CooperativeTask, in_batches
from remoting.protocol.shapes.route import QueueData


class QueueTransition(NamedTuple):
    """Some topics that change in the same way."""

    #: None: the set did not have them.
    before: QueueData | None
    after: QueueData
    topics: int


class QueueChanges(NamedTuple):
    """The topics whose queues are not as they are to be."""

    queues: Mapping[str, QueueData] = {}
    transitions: tuple[QueueTransition, ...] = ()


def compare_topics(
    before: Mapping[str, QueueData], wanted: Iterable[tuple[str, QueueData]]
) -> CooperativeTask[QueueChanges]:
    """Return the topics of which a set has something else `before` than is `wanted`; a cooperative task.

    No topic may be wanted twice.
    """
    queues: dict[str, QueueData] = {}
    transitions: list[QueueTransition] = []
    # Neighbours mostly change alike, so their run is counted, not each.
    last_old: QueueData | None = None
    last_new: QueueData | None = None
    run = 0
    for part in in_batches(wanted):
        for topic, new in part:
            old = before.get(topic)
            if old == new:
                continue
            queues[topic] = new
            if new is last_new and old is last_old:
                run += 1
                continue
            if last_new is not None:
                transitions.append(QueueTransition(last_old, last_new, run))
            last_old, last_new, run = old, new, 1
        yield
    if last_new is not None:
        transitions.append(QueueTransition(last_old, last_new, run))
    return QueueChanges(queues, tuple(transitions))
