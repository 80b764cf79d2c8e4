"""What an offset belongs to, and what is stored of it. Pure.

Source: docs/protocol/offsets.md 7.
"""

import enum
from typing import Final, NamedTuple

import msgspec

#: The longest cluster, namespace, group, topic, broker name, client id or writer, in characters.
NAME_CHARACTERS_MAX: Final = 255
#: Java's long.
OFFSET_MAX: Final = 2**63 - 1
#: A topic has at most so many queues in one broker set here; Java's int is far larger, and so is a forged queue id. All
#: queues of a row are written at once, and one request to etcd takes them with the longest names and writers.
QUEUES_MAX: Final = 1_024
#: In place of an offset: it was deleted. Readers get that there is none, never this number and never 0.
DELETED: Final = -1
#: How long it is stored that an offset was deleted. What came before the deletion may come again until then, from the
#: journal of a manager that did not lead meanwhile; a journal that is nearly as old is refused.
DELETED_KEPT_MS: Final = 7 * 24 * 3_600_000
#: How the cluster name of the row begins that has the last token of locks.
LAST_ROW_MARK: Final = "\x04"
#: No fencing token: the writer holds no lock of this service.
NO_TOKEN: Final = 0


class GroupTopic(NamedTuple):
    """Whose offsets are stored together: those of one group in one topic on one broker set.

    Offsets of one broker name mean nothing on another.
    """

    cluster: str
    namespace: str
    group: str
    topic: str
    broker_name: str


def is_lock_row(of: GroupTopic) -> bool:
    """Return whether a row is none of offsets, but of locks: `service/lock_rows.py` has what is in it."""
    return of.cluster[:1] < " "


def is_last_token_row(of: GroupTopic) -> bool:
    """Return whether a row has the last token of locks, which only grows, whoever leads."""
    return of.cluster[:1] == LAST_ROW_MARK


class QueueKey(NamedTuple):
    """One queue that one group consumes."""

    of: GroupTopic
    queue_id: int


class OffsetSource(enum.StrEnum):
    """Who determined an offset."""

    #: A client committed what it has consumed.
    CLIENT = "client"
    #: A broker has stored it for a client (43).
    MIRROR = "mirror"
    #: Stored before a new queue became readable.
    SEED = "seed"
    OPERATOR = "operator"
    RESTORE = "restore"
    CLONE = "clone"
    IMPORT = "import"


class StoredOffset(msgspec.Struct, frozen=True, gc=False):
    """The next offset to consume, and where it comes from; or that it was deleted, in an epoch of its own."""

    #: 0 to OFFSET_MAX, or DELETED.
    offset: int
    #: A reset raises it; what was committed in an earlier epoch is refused.
    reset_epoch: int = 0
    source: OffsetSource = OffsetSource.CLIENT
    #: The client id, the operator, or the address of the broker.
    writer: str = ""
    #: The highest fencing token that has committed; NO_TOKEN if none has.
    token: int = NO_TOKEN
    #: When it was stored, Unix ms by this service.
    unix_ms: int = 0

    @property
    def is_deleted(self) -> bool:
        """Return whether there is no offset; only the epoch counts then, and the token."""
        return self.offset < 0
