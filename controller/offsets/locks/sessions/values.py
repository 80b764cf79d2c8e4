"""Sessions and locks as they are stored, and what a decision changes of them. Pure.

Source: docs/protocol/queue-locks.md 7.
"""

from typing import Final, NamedTuple

import msgspec

from controller.offsets.values import GroupTopic, QueueKey

#: Leases, in ms. A shorter one does not survive a pause of a JVM, a longer one stops a queue for too long.
TTL_MS_MIN: Final = 10_000
TTL_MS_MAX: Final = 300_000
TTL_MS_DEFAULT: Final = 60_000
#: Sessions at a time: each is looked at every second.
SESSIONS_MAX: Final = 20_000
SESSIONS_PER_GROUP_MAX: Final = 2_000
#: Queues that one session may hold, and that one request may name.
QUEUES_PER_SESSION_MAX: Final = 10_000
#: Locks of all groups. Each takes some 500 bytes.
LOCKS_MAX: Final = 200_000
#: Groups that are declared orderly.
GROUPS_MAX: Final = 10_000
#: The session of a lock that was taken from its holder: nobody's.
NOBODY: Final = ""


class LockGroup(NamedTuple):
    """A consumer group."""

    cluster: str
    namespace: str
    group: str


class Lead(NamedTuple):
    """Between which moments nobody else leads for certain, as the store has shown last; monotonic ms.

    By a clock that goes on while the host is suspended. Whoever loses the lead and gains it again begins another one.
    """

    #: When this lead was gained; not when it was read again.
    since_ms: int
    #: When the lease of the lead ends that the store is known to have renewed.
    until_ms: int

    def lasts(self, now_ms: int) -> bool:
        """Return whether nobody else can lead at this moment."""
        return self.since_ms <= now_ms <= self.until_ms


class LockSession(msgspec.Struct, frozen=True, kw_only=True):
    """A client of a group, for as long as it renews its lease. When it did so is not stored."""

    session_id: str
    group: LockGroup
    client_id: str
    #: How long it lasts after it was opened or renewed: TTL_MS_MIN to TTL_MS_MAX.
    ttl_ms: int = TTL_MS_DEFAULT
    opened_unix_ms: int


class QueueLock(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A queue that a session holds, or that was taken from one; a free queue has none."""

    #: Commits on the queue need it.
    token: int
    #: NOBODY: anybody may acquire it, and the tokens before are fenced.
    session_id: str
    since_unix_ms: int


class SessionChange(NamedTuple):
    """A session before and after; None: there is none."""

    session_id: str
    before: LockSession | None
    after: LockSession | None


class LockChange(NamedTuple):
    """The lock of a queue before and after; None: it is free."""

    key: QueueKey
    before: QueueLock | None
    after: QueueLock | None


class OrderlyChange(NamedTuple):
    """Whether a group is declared orderly, before and after."""

    group: LockGroup
    before: bool
    after: bool


class LockChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What a decision changes; stored in one transaction, together with the last token, which never goes back."""

    sessions: tuple[SessionChange, ...] = ()
    locks: tuple[LockChange, ...] = ()
    groups: tuple[OrderlyChange, ...] = ()
    #: The highest token that was ever granted, with those of this decision; 0: it grants none.
    last_token: int = 0


NO_CHANGES: Final = LockChanges()


def group_of(of: GroupTopic) -> LockGroup:
    """Return the group of a row."""
    return LockGroup(of.cluster, of.namespace, of.group)
