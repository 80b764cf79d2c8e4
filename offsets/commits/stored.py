"""What a client's offset belongs to, and what is stored of it. Pure.

Of two values of a queue the one of the higher reset epoch counts, then the higher offset; a deletion is a value in an
epoch of its own. So a value can be stored again, or late, and nothing ever goes back: memory, the local file and etcd
are brought together by `is_newer` alone. Source: docs/protocol/offsets.md 7.
"""

import enum
from typing import Final, NamedTuple

import msgspec

from offsets.values import NAME_CHARACTERS_MAX, OFFSET_MAX, QUEUES_MAX
from remoting.protocol.plain_text import is_plain

#: The longest writer: a row of QUEUES_MAX queues with one each fits into a request to etcd.
WRITER_BYTES_MAX: Final = 400
#: In place of an offset: it was deleted. Readers get that there is none.
DELETED: Final = -1
#: How long it stays stored that an offset was deleted: a client that has read the old one must not store it again.
DELETED_KEPT_MS: Final = 7 * 24 * 3_600_000
#: The number of a lead takes three digits of a reset epoch.
_LEADS: Final = 1000


class RowName(NamedTuple):
    """Whose offsets are stored together: those of one group in one topic on one broker set."""

    cluster: str
    namespace: str
    group: str
    topic: str
    broker_name: str


class Source(enum.StrEnum):
    """Who determined an offset."""

    #: A client committed what it has consumed.
    CLIENT = "client"
    #: An operator has reset or deleted it.
    OPERATOR = "operator"


class StoredOffset(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The next offset to consume, and where it comes from; or that it was deleted."""

    #: 0 to OFFSET_MAX, or DELETED.
    offset: int
    #: A reset raises it; commits of an earlier epoch are refused.
    reset_epoch: int = 0
    source: Source = Source.CLIENT
    #: The client id, or the operator.
    writer: str = ""
    #: When it was stored.
    unix_ms: int = 0

    @property
    def is_deleted(self) -> bool:
        """Whether there is no offset; only the epoch counts then."""
        return self.offset < 0


class Change(NamedTuple):
    """An offset before and after a decision."""

    name: RowName
    queue_id: int
    before: StoredOffset | None
    after: StoredOffset


def shown(stored: StoredOffset | None) -> StoredOffset | None:
    """Return what readers see of a value: nothing if it was deleted."""
    return None if stored is None or stored.is_deleted else stored


def is_newer(value: StoredOffset, than: StoredOffset | None) -> bool:
    """Return whether a value takes the place of another one."""
    return than is None or (value.reset_epoch, value.offset) > (than.reset_epoch, than.offset)


def begin_epoch(offset: int, before: StoredOffset | None, *, writer: str, unix_ms: int, lead: int) -> StoredOffset:
    """Return an operator's offset in a new reset epoch, in which nothing that was committed or read before counts.

    The epoch has the time in it, so an older copy of the store never gives it again, and the number of the lead in its
    last digits: two managers that reset one queue, each unseen by the other, give different ones.
    """
    least = max((0 if before is None else before.reset_epoch) + 1, unix_ms * _LEADS)
    return StoredOffset(offset, least + (lead - least) % _LEADS, Source.OPERATOR, writer, unix_ms)


def problem_of_names(name: RowName) -> str:
    """Return what is wrong with the names of a row; blank if nothing is. The namespace may be empty."""
    for field, text in zip(RowName._fields, name, strict=True):
        word = field.replace("_", " ")
        if not text.strip() and (text or field != "namespace"):
            return f"the {word} is blank: name it"
        if len(text) > NAME_CHARACTERS_MAX:
            return f"the {word} has {len(text)} characters, at most {NAME_CHARACTERS_MAX} are allowed: {text[:40]!r}..."
        if not is_plain(text):
            return f"the {word} contains characters that cannot be shown: {text!r}"
    return ""


def problem_of_writer(writer: str) -> str:
    """Return what is wrong with a writer; blank if nothing is."""
    if not writer.strip():
        return "the writer is blank: name the client or the operator"
    if not is_plain(writer):
        return f"the writer contains characters that cannot be shown: {writer!r}"
    if (size := len(msgspec.json.encode(writer)) - len('""')) > WRITER_BYTES_MAX:
        return f"the writer takes {size} bytes, at most {WRITER_BYTES_MAX} are allowed: {writer[:40]!r}..."
    return ""


def problem_of_queue(queue_id: int, offset: int) -> str:
    """Return what is wrong with a queue id or an offset; blank if nothing is."""
    if not 0 <= queue_id < QUEUES_MAX:
        return f"queue id {queue_id} is not in 0 to {QUEUES_MAX - 1}"
    if offset < 0:
        return f"offset {offset} is negative: an offset that is not known is left out, never stored"
    return f"offset {offset} is above {OFFSET_MAX}" if offset > OFFSET_MAX else ""
