"""Topics as brokers report them, and which topics of a broker set change: compared one by one with what the set has.

Pure values and functions. Of thousands of topics few have different settings, so equal ones share one value, and there
are few different changes: they are counted in the one walk over the topics.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from namesrv.core.values.cooperative import CooperativeTask, in_batches
from remoting.protocol.shapes.route import QueueData

#: Topics of one registration, with the mappings of its static topics: twice as many as the largest brokers have.
TOPICS_MAX: Final = 200_000


class TopicSettings(msgspec.Struct, frozen=True, gc=False):
    """The settings of a topic that routes depend on, as `TopicConfig` has them."""

    perm: int
    read_queue_nums: int
    write_queue_nums: int
    topic_sys_flag: int


class SharedSettings(dict[tuple[int, int, int, int], TopicSettings]):
    """One value for all topics that are set alike, by the fields of `TopicSettings`."""

    def __missing__(self, settings: tuple[int, int, int, int]) -> TopicSettings:
        value = self[settings] = TopicSettings(*settings)
        return value


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
    #: How many topics the set does not get, because its host has too many sets in them.
    left_out: int = 0


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
