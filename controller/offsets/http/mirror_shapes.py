"""Answers about the mirror of brokers' offsets. Times are Unix ms, UTC."""

from typing import Literal

import msgspec

from controller.offsets.entry_keys import EntryKind
from controller.offsets.mirror.regressions import RegressionCause


class ReadingView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A reading of a master's offsets: which run of which master it is of, and when it was."""

    address: str
    #: None where no controller elects masters.
    master_epoch: int | None
    #: When the broker started, by its own clock.
    boot_unix_ms: int
    read_unix_ms: int
    #: Where its log ended; None if it does not report it.
    commit_log_max_offset: int | None


class RegressionView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """An offset that went back; one for each queue and cause, the newest."""

    cluster: str
    broker_name: str
    group: str
    topic: str
    queue_id: int
    kind: EntryKind
    cause: RegressionCause
    #: When it was seen.
    unix_ms: int
    #: How often it has happened to this queue for this cause.
    times: int
    from_offset: int
    #: None: there is no offset any more.
    to_offset: int | None
    #: What the group would read again, if it is all still there; None without an offset.
    messages_again: int | None
    before: ReadingView
    after: ReadingView


class RegressionListing(msgspec.Struct, frozen=True, rename="camel"):
    """Offsets that went back, the newest first."""

    regressions: list[RegressionView]
    #: All that are remembered, and those that were dropped for newer ones since the start.
    remembered: int
    dropped: int


class TopicGroupView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A group that has offsets in a topic, so that it reads it or has read it."""

    cluster: str
    group: str
    kind: EntryKind
    #: How many broker sets have them.
    broker_sets: int


class TopicGroupListing(msgspec.Struct, frozen=True, rename="camel"):
    """A page of the groups of a topic, by cluster, name and kind."""

    groups: list[TopicGroupView]
    total: int
    next_cursor: str | None


class MirroredSetView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The mirror of a broker set."""

    cluster: str
    broker_name: str
    #: The newest reading; None if there was none.
    reading: ReadingView | None
    #: How long ago it was requested; None if it is one of before the last start.
    age_ms: int | None
    #: `fresh`, `stale` after three periods without a reading, or `absent`: nobody shows the set any more.
    state: Literal["fresh", "stale", "absent"]
    #: Groups in topics.
    entries: int
    #: Why the last reading failed; None if it did not.
    error: str | None
    #: The first moment whose offsets are kept.
    kept_since_unix_ms: int | None
    #: None while somebody shows the set. After 14 days nothing is kept of it.
    absent_since_unix_ms: int | None


class MirrorListing(msgspec.Struct, frozen=True, rename="camel"):
    """A page of mirrored sets, by cluster and name."""

    sets: list[MirroredSetView]
    total: int
    next_cursor: str | None
