"""Bodies of requests about locks, and their answers; `openapi.py` describes them from here. Times are Unix ms, UTC."""

from typing import Annotated, Final

import msgspec

from controller.offsets.http.shapes import DEFAULT_CLUSTER, QueueName, Writer
from controller.offsets.locks.sessions.values import TTL_MS_DEFAULT

#: Queues of one request.
QUEUES_MAX: Final = 1_000


class SessionBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A client of an orderly group that is to hold queues."""

    cluster: str = DEFAULT_CLUSTER
    namespace: str = ""
    group: str
    client_id: str
    #: How long the session lasts unless it is renewed.
    ttl_ms: int = TTL_MS_DEFAULT


class SessionIdBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """An open session."""

    session_id: str


class GroupQueue(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A queue of the group of the session."""

    topic: str
    broker_name: str
    queue_id: int


class AcquireBody(SessionIdBody, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Queues that a session wants."""

    queues: Annotated[list[GroupQueue], msgspec.Meta(min_length=1, max_length=QUEUES_MAX)]
    #: The operation whose freeze lets it pass; blank if it has none.
    operation: str = ""


class FinalQueue(GroupQueue, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A queue that is given up."""

    #: How far its holder has come; absent if it has consumed nothing.
    offset: int | None = None
    reset_epoch: int = 0


class ReleaseBody(SessionIdBody, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Queues that a session gives up."""

    queues: Annotated[list[FinalQueue], msgspec.Meta(min_length=1, max_length=QUEUES_MAX)]


class TransferBody(SessionIdBody, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A queue that its holder gives to another client of the group."""

    queue: FinalQueue
    to_client: str
    operation: str = ""


class ForceReleaseBody(QueueName, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A queue that an operator takes from its holder."""

    writer: Writer
    cluster: str = DEFAULT_CLUSTER
    namespace: str = ""


class GroupBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A consumer group."""

    writer: Writer
    cluster: str = DEFAULT_CLUSTER
    namespace: str = ""
    group: str


# Answers


class SessionQueue(msgspec.Struct, frozen=True, rename="camel"):
    """A queue that a session holds."""

    topic: str
    broker_name: str
    queue_id: int
    #: For commits.
    token: int


class SessionAnswer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A session, and what its client has to keep to."""

    session_id: str
    #: Without a renewal the client stops consuming after so long, from before it sent the last one.
    valid_ms: int
    renew_every_ms: int
    #: A queue that is missing is lost: drop what is cached of it.
    queues: list[SessionQueue]
    #: Of a new session: that its client id has others open, and when their queues are free.
    note: str = ""


class AcquiredQueue(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What became of one queue."""

    #: granted, held_by, frozen or refused.
    status: str
    #: For commits, if it is granted.
    token: int = 0
    #: The client that holds it.
    holder: str = ""
    #: When to try again, unless the holder renews.
    remaining_ms: int = 0
    reason: str = ""


class AcquireAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """What became of the queues, in their order."""

    results: list[AcquiredQueue]


class ReleasedView(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What became of one queue."""

    #: released, not_held, or kept because its final offset was not stored.
    status: str
    reason: str = ""


class ReleaseAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """What became of the queues, in their order."""

    results: list[ReleasedView]


class CloseAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """How many queues are free since."""

    released: int


class TokenAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """From which token on commits of the queue are accepted."""

    token: int


class OrderlyAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """Whether the request changed anything."""

    changed: bool


class LockedQueue(msgspec.Struct, frozen=True, rename="camel"):
    """A lock."""

    topic: str
    broker_name: str
    queue_id: int
    #: Blank: taken from its holder, and not acquired since.
    client_id: str
    token: int
    #: Until another client may have it; below 0: it may.
    remaining_ms: int
    since_unix_ms: int


class LockListing(msgspec.Struct, frozen=True, rename="camel"):
    """Locks of a group in the order of their queues."""

    #: Whether the group is declared orderly, and so may have locks.
    is_orderly: bool
    locks: list[LockedQueue]
    next_cursor: str | None
