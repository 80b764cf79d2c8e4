"""The offsets of a master as it has written them: decoded only when somebody wants them. Pure.

A million queues are some 30 MB as text, and several hundred as numbers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from controller.offsets.entry_keys import EntryKey, OddEntryKey, parse_entry_key, shown
from controller.offsets.mirror.changes import ReadState
from controller.offsets.values import OFFSET_MAX, QUEUES_MAX
from remoting.admin.offset_table import decode_key, decode_offsets
from remoting.protocol.errors import BodyError

#: Entries that are decoded before the caller is let go on with something else: about a millisecond.
DECODED_AT_ONCE: Final = 100
#: Keys that are looked at before that: most are those of other topics.
KEYS_AT_ONCE: Final = 1000
#: Keys of groups that move again and again; 100 bytes and two names each.
KEYS_CACHED: Final = 16_384
#: The only queue of a light message queue.
_LMQ_QUEUE: Final = 0


class UnusableOffsets(ValueError):
    """An entry of a broker has a key that names nobody, or no offsets."""


@dataclass(frozen=True, slots=True)
class RawTable:
    """One table of an answer, entry by entry, in its order."""

    #: Whether it is that of light message queues.
    is_lmq: bool
    #: The text of each entry, with its key.
    entries: Sequence[bytes] = ()
    keys: Sequence[bytes] = ()
    #: Key -> place in both.
    places: Mapping[bytes, int] = field(default_factory=dict)
    #: Keys of entries that are not usable -> the last value that was; None if none ever was.
    unusable: Mapping[bytes, bytes | None] = field(default_factory=dict)

    def value_at(self, place: int) -> bytes:
        """Return the value of an entry."""
        text = self.entries[place]
        return text[text.index(b":", len(self.keys[place]) + 2) + 1 :].lstrip()

    def last_usable(self, key: bytes) -> bytes | None:
        """Return the value of an entry, or what it was while it was usable; None if it never was."""
        return self.unusable[key] if key in self.unusable else self.value_at(self.places[key])


class SavedEntry(NamedTuple):
    """What a master had stored of a group in a topic, by queue id; a queue without an offset is absent."""

    key: EntryKey
    offsets: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedOffsets:
    """What one reading of a master has found. It never changes."""

    read: ReadState
    tables: tuple[RawTable, RawTable]
    #: When it was requested, monotonic ms; None: by an earlier process.
    requested_ms: int | None = None

    def __len__(self) -> int:
        """Return how many entries there are."""
        return sum(len(table.entries) for table in self.tables)

    def entries(self) -> Iterator[SavedEntry | None]:
        """Yield what is usable, and None after each slice of about a millisecond."""
        decoded = 0
        for table in self.tables:
            for place, key in enumerate(table.keys):
                if key not in table.unusable:
                    yield SavedEntry(usable_key(key, table.is_lmq), usable_offsets(table.value_at(place), table.is_lmq))
                decoded += 1
                if decoded == DECODED_AT_ONCE:
                    decoded = 0
                    yield None

    def groups_of(self, topic: str) -> Iterator[EntryKey | None]:
        """Yield the usable keys of a topic, and None after each slice of about a millisecond."""
        part = topic.encode()
        # Other names may be escaped in more than one way.
        is_plain = topic.isascii() and topic.isprintable() and not {'"', "\\"}.intersection(topic)
        looked_at = 0
        for table in self.tables:
            for key in table.keys:
                if key not in table.unusable and (not is_plain or part in key):
                    found = usable_key(key, table.is_lmq)
                    if found.topic == topic:
                        yield found
                looked_at += 1
                if looked_at == KEYS_AT_ONCE:
                    looked_at = 0
                    yield None


@lru_cache(maxsize=KEYS_CACHED)
def usable_key(key: bytes, is_lmq: bool) -> EntryKey:  # noqa: FBT001  # a fact of the table, not a switch
    """Return whom a key names; raises UnusableOffsets."""
    try:
        return parse_entry_key(decode_key(key), is_lmq=is_lmq)
    except (BodyError, OddEntryKey) as error:
        raise UnusableOffsets(str(error)) from None


def usable_offsets(value: bytes, is_lmq: bool) -> dict[int, int]:  # noqa: FBT001  # as above
    """Return offsets by queue id; raises UnusableOffsets if one of them is none, as an entry counts whole or not."""
    try:
        offsets = {_LMQ_QUEUE: int(value)} if is_lmq else decode_offsets(value)
    except (BodyError, ValueError) as error:
        raise UnusableOffsets(f"these are no offsets: {shown(value.decode(errors='replace'))}: {error}") from None
    stored = offsets.values()
    if (
        min(stored, default=0) >= 0
        and max(stored, default=0) <= OFFSET_MAX
        and min(offsets, default=0) >= 0
        and max(offsets, default=0) < QUEUES_MAX
    ):
        return offsets
    raise UnusableOffsets(_odd_queue(offsets))


def _odd_queue(offsets: Mapping[int, int]) -> str:
    for queue_id in offsets:
        if not 0 <= queue_id < QUEUES_MAX:
            return f"queue id {queue_id} is not one of 0 to {QUEUES_MAX - 1}"
    queue_id, offset = next((each, at) for each, at in offsets.items() if not 0 <= at <= OFFSET_MAX)
    return f"queue {queue_id} has offset {offset}: offsets are 0 to {OFFSET_MAX}"
