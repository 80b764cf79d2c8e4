"""Answers about who holds which queue at brokers; `openapi.py` describes them from here. Times are Unix ms, UTC."""

import msgspec


class HeldQueueView(msgspec.Struct, frozen=True, rename="camel"):
    """A queue whose lock a client has by its last answer."""

    topic: str
    broker_name: str
    queue_id: int
    #: held; expired: the client could not renew the lock for 30 s and does not consume; dropped: it is giving it up.
    state: str
    #: When the client took or renewed the lock, by its own clock; null if it does not report it.
    locked_unix_ms: int | None
    #: Since when this manager keeps the lock at the master in the client's name; null if it does not.
    replayed_unix_ms: int | None


class HolderView(msgspec.Struct, frozen=True, rename="camel"):
    """A client, and what it holds."""

    client_id: str
    #: When it answered last.
    confirmed_unix_ms: int
    queues: list[HeldQueueView]


class HolderListing(msgspec.Struct, frozen=True, rename="camel"):
    """Who holds the queues of a group at brokers, in the order of the client ids."""

    #: Whether the group is declared orderly: of others nobody is queried.
    is_declared: bool
    #: orderly, concurrent (a client is not orderly: nothing is replayed), or unknown (none has answered yet).
    kind: str
    #: Clients of the group that brokers list.
    members: int
    holders: list[HolderView]
    next_cursor: str | None


class OverlapView(msgspec.Struct, frozen=True, rename="camel"):
    """A queue that two clients hold at the same time; both may consume it."""

    cluster: str
    group: str
    topic: str
    broker_name: str
    queue_id: int
    clients: tuple[str, str]
    #: At the latest since then.
    since_unix_ms: int


class OverlapListing(msgspec.Struct, frozen=True, rename="camel"):
    """Open overlaps in the order of clusters, groups and queues."""

    #: Of all clusters.
    total: int
    overlaps: list[OverlapView]
    next_cursor: str | None
