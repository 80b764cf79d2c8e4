"""Which offsets the guard looks at: what the mirror has saved, beside what the new master shows. Pure."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple

from controller.offsets.entry_keys import EntryKey
from controller.offsets.guard.rules import OffsetCandidate, OffsetKeeping
from remoting.admin.offset_table import GroupOffsets
from remoting.protocol.shapes.broker_clients import SYSTEM_GROUP_PREFIX, TOOL_GROUP

_LMQ_PREFIX: Final = "%LMQ%"
_RETRY_PREFIX: Final = "%RETRY%"
#: Between group and topic in the name of a pop retry topic, of version 1 and 2.
_POP_RETRY_SEPARATORS: Final = frozenset("_+")


class TableKey(NamedTuple):
    """An entry of a broker's offset table."""

    group: str
    topic: str
    is_broadcast: bool = False


class SavedQueue(NamedTuple):
    """What the mirror has of one queue."""

    #: None: somebody has deleted it.
    offset: int | None
    #: The value before a rewind or a deletion that the new master may not have copied.
    rewound_from: int | None = None
    #: Where an operator has set it since, or so shortly before that the saved offset may not show it.
    reset_to: int | None = None


#: By entry and queue id.
SavedTable = Mapping[TableKey, Mapping[int, SavedQueue]]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownGroups:
    """How groups consume, as far as something shows it. A group of which nothing does may pop."""

    popping: AbstractSet[str]
    #: Their members show it now.
    pulling: AbstractSet[str]
    #: Groups that do not show that they pull are not raised: the broker can pop at all, or the reading is old.
    can_pop: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTable:
    """What the new master has: one answer to 43."""

    offsets: Mapping[TableKey, Mapping[int, int]]
    pulled: Mapping[TableKey, Mapping[int, int]] = field(default_factory=dict)
    #: The broker says which groups have pulled from it.
    has_pulls: bool = False
    #: Topics with an entry that cannot be read; it may be that of any group.
    unreadable_topics: frozenset[str] = frozenset()

    def offset(self, key: TableKey, queue_id: int) -> int | None:
        """Return the offset of a queue; None if none is stored."""
        return self.offsets.get(key, {}).get(queue_id)


def groups_with_offsets(saved: SavedTable) -> frozenset[str]:
    """Return the groups of which something was saved, but for broadcasting ones."""
    return frozenset(
        key.group
        for key, queues in saved.items()
        if not key.is_broadcast and any(each.offset is not None for each in queues.values())
    )


def key_of(read: GroupOffsets) -> TableKey:
    """Return the key of an entry of an offset table."""
    return TableKey(read.group, read.topic, read.is_broadcast)


def shows_pop(key: TableKey | EntryKey) -> bool:
    """Return whether an entry is of a retry topic that only groups have that pop.

    Those are `%RETRY%group_topic` and `%RETRY%group+topic`, once the group has had a retry; others may pop too.
    """
    retry = f"{_RETRY_PREFIX}{key.group}"
    return key.topic.startswith(retry) and key.topic[len(retry) : len(retry) + 1] in _POP_RETRY_SEPARATORS


def candidates_of(saved: SavedTable, shown: ShownTable, groups: KnownGroups) -> Iterator[OffsetCandidate]:
    """Yield each group and queue that either of them has, but for those of the brokers' own groups and of tools.

    Those read with offsets in memory of their own, and read again what they have read before.
    """
    for key in chain(saved, (each for each in shown.offsets if each not in saved)):
        if key.group.startswith(SYSTEM_GROUP_PREFIX) or key.group == TOOL_GROUP:
            continue
        keeping, of_mirror = keeping_of(key, groups), saved.get(key, {})
        pulled = shown.pulled.get(key, {})
        for queue_id in of_mirror.keys() | shown.offsets.get(key, {}).keys():
            found, at_master = of_mirror.get(queue_id), shown.offset(key, queue_id)
            if at_master is None and (found is None or found.offset is None):
                # It was deleted there too.
                continue
            yield OffsetCandidate(
                group=key.group,
                topic=key.topic,
                queue_id=queue_id,
                saved=found.offset if found else None,
                shown=at_master,
                keeping=keeping,
                pulled=pulled.get(queue_id),
                rewound_from=found.rewound_from if found else None,
                reset_to=found.reset_to if found else None,
                is_readable=key.topic not in shown.unreadable_topics,
            )


def keeping_of(key: TableKey, groups: KnownGroups) -> OffsetKeeping:
    """Return how the offsets of an entry are kept; POP also where a group may pop."""
    if key.is_broadcast:
        return OffsetKeeping.BROADCAST
    if key.topic.startswith(_LMQ_PREFIX):
        return OffsetKeeping.LMQ
    if key.group in groups.popping or (groups.can_pop and key.group not in groups.pulling):
        return OffsetKeeping.POP
    return OffsetKeeping.CLUSTERING
