"""The calls to etcd, one function each: builds the request, waits for the answer, returns what counts in it.

Each takes a connection, the seconds it may take, and metadata, which `client.py` fills in.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from store.etcd.client import Answer, Compacted, EtcdClient, EtcdConnection, Metadata, messages
from store.etcd.keys import Keys, address_of, holder_of, leader_value, member_value
from store.etcd.lease_state_machine import Holder
from store.store import ControllerMember, OutcomeUnknown

#: A page of 1 KB entries is half a MB.
PAGE_ENTRIES: Final = 500
#: Many entries may take longer than one call does.
PAGE_MS: Final = 5000
#: How often reading all entries begins anew, because etcd was compacted meanwhile.
_SWEEPS: Final = 3

EtcdCall = Callable[[EtcdConnection, float, Metadata], Answer]


def range_call(request: Any, read: Callable[[Any], Answer]) -> EtcdCall[Answer]:
    return lambda connection, seconds, metadata: read(connection.kv.Range(request, timeout=seconds, metadata=metadata))


def transaction(request: Any, read: Callable[[Any], Answer]) -> EtcdCall[Answer]:
    return lambda connection, seconds, metadata: read(connection.kv.Txn(request, timeout=seconds, metadata=metadata))


class LeaderKeyState(NamedTuple):
    """Who holds the key `leader` at a revision of etcd."""

    holder: Holder | None
    revision: int


class OwnLeaderKey(NamedTuple):
    """The key `leader` of one run of one controller."""

    me: ControllerMember
    run: str
    #: Its create revision.
    token: int

    def is_of(self, holder: Holder | None) -> bool:
        """Return whether it is this key that somebody was seen to hold."""
        return holder is not None and (holder.token, holder.run) == (self.token, self.run)


class CommitOutcome(NamedTuple):
    is_stored: bool
    leader_key: LeaderKeyState


def read_leader(keys: Keys) -> EtcdCall[LeaderKeyState]:
    return range_call(
        messages.RangeRequest(key=keys.leader), lambda answer: _leader_key(answer.kvs, answer.header.revision)
    )


def grant_lease(ttl_s: int) -> EtcdCall[tuple[int, int]]:
    """Request a lease, and return its id and how many seconds etcd granted."""

    def call(connection: EtcdConnection, seconds: float, metadata: Metadata) -> tuple[int, int]:
        request = messages.LeaseGrantRequest(TTL=ttl_s)
        answer = connection.lease.LeaseGrant(request, timeout=seconds, metadata=metadata)
        return int(answer.ID), int(answer.TTL)

    return call


def renew_lease(lease_id: int) -> EtcdCall[int]:
    """Renew a lease, and return the seconds it has again; 0: there is no such lease."""

    def call(connection: EtcdConnection, seconds: float, metadata: Metadata) -> int:
        request = messages.LeaseKeepAliveRequest(ID=lease_id)
        call = connection.lease.LeaseKeepAlive(iter((request,)), timeout=seconds, metadata=metadata)
        answer = next(call, None)
        call.cancel()
        if answer is None:
            raise OutcomeUnknown(f"etcd at {connection.address} did not answer whether a lease is renewed")
        return int(answer.TTL)

    return call


def revoke_lease(lease_id: int) -> EtcdCall[Any]:
    """Give a lease back, and with it the keys that are bound to it."""
    request = messages.LeaseRevokeRequest(ID=lease_id)
    return lambda connection, seconds, metadata: connection.lease.LeaseRevoke(
        request, timeout=seconds, metadata=metadata
    )


def campaign(keys: Keys, me: ControllerMember, run: str, lease_id: int) -> EtcdCall[LeaderKeyState]:
    """Create the key `leader` if there is none, and return who holds it then."""
    request = messages.TxnRequest(
        compare=[created_at(keys.leader, 0)],
        success=[put(keys.leader, leader_value(me, run), lease_id)],
        failure=[get(keys.leader)],
    )

    def read(answer: Any) -> LeaderKeyState:
        revision = answer.header.revision
        if answer.succeeded:
            return LeaderKeyState(Holder(member=me, run=run, token=revision, lease_id=lease_id), revision)
        return _leader_key(answer.responses[0].response_range.kvs, revision)

    return transaction(request, read)


def release(keys: Keys, own_key: OwnLeaderKey) -> EtcdCall[Any]:
    """Delete the key `leader` if it is still this one: created at this revision, and by this run of this controller."""
    request = messages.TxnRequest(compare=leads(keys, own_key), success=[delete(keys.leader)])
    return transaction(request, lambda answer: answer)


def commit(
    keys: Keys, own_key: OwnLeaderKey, key: bytes, value: bytes | None, revision: int
) -> EtcdCall[CommitOutcome]:
    """Put a value, or remove it (None), if the key is at this revision (0: not there) and this controller leads."""
    request = messages.TxnRequest(
        compare=[*leads(keys, own_key), modified_at(key, revision)],
        success=[delete(key) if value is None else put(key, value, 0)],
        failure=[get(keys.leader)],
    )

    def read(answer: Any) -> CommitOutcome:
        kvs = () if answer.succeeded else answer.responses[0].response_range.kvs
        return CommitOutcome(answer.succeeded, _leader_key(kvs, answer.header.revision))

    return transaction(request, read)


def leads(keys: Keys, own_key: OwnLeaderKey) -> list[Any]:
    """Compare whose the key `leader` is. Revisions come again where etcd was put back, so its value is compared too."""
    return [
        created_at(keys.leader, own_key.token),
        has_value(keys.leader, leader_value(own_key.me, own_key.run)),
    ]


def read(key: bytes) -> EtcdCall[Any]:
    """Return a key with its value and revisions, None if it is not there."""
    return range_call(messages.RangeRequest(key=key), lambda answer: answer.kvs[0] if answer.kvs else None)


def member_address(key: bytes) -> EtcdCall[tuple[str | None, int]]:
    """Return the address of the controller that holds this key of a member, and the revision of the key."""
    return range_call(
        messages.RangeRequest(key=key),
        lambda answer: (address_of(answer.kvs[0]), answer.kvs[0].mod_revision) if answer.kvs else (None, 0),
    )


def put_member(keys: Keys, me: ControllerMember, lease_id: int, revision: int) -> EtcdCall[bool]:
    """Write the key of this member, and return whether it was still at this revision."""
    key = keys.member(me.id)
    request = messages.TxnRequest(compare=[modified_at(key, revision)], success=[put(key, member_value(me), lease_id)])
    return transaction(request, lambda answer: bool(answer.succeeded))


def database_bytes() -> EtcdCall[int]:
    """Return how large the database of the endpoint is: what its quota limits; free pages count too."""

    def call(connection: EtcdConnection, seconds: float, metadata: Metadata) -> int:
        answer = connection.maintenance.Status(messages.StatusRequest(), timeout=seconds, metadata=metadata)
        return int(answer.dbSize)

    return call


def watch(keys: Keys, since_revision: int, until: Callable[[], object]) -> Callable[[EtcdConnection, Metadata], Any]:
    """Open a watch of a group, its documents apart; it ends when `until`, which may block, returns, or is cancelled."""
    first, end = keys.watched

    def requests() -> Iterator[Any]:
        yield messages.WatchRequest(
            create_request=messages.WatchCreateRequest(
                key=first,
                range_end=end,
                start_revision=since_revision,
                progress_notify=True,
            )
        )
        until()

    def call(connection: EtcdConnection, metadata: Metadata) -> Any:
        # A member that has lost the others ends the watch instead of saying nothing.
        return connection.watch.Watch(requests(), metadata=(*metadata, ("hasleader", "true")))

    return call


def read_all(
    client: EtcdClient, keys: tuple[bytes, bytes], now_ms: Callable[[], int], page: int = PAGE_ENTRIES
) -> tuple[list[Any], int]:
    """Return all keys from one on and before another as they were at one revision, and that revision; in pages."""
    for _ in range(_SWEEPS):
        try:
            return _sweep(client, keys, now_ms, page)
        except Compacted as error:
            problem = error
    raise problem


def _sweep(
    client: EtcdClient, keys: tuple[bytes, bytes], now_ms: Callable[[], int], page: int
) -> tuple[list[Any], int]:
    kvs: list[Any] = []
    (key, end), revision = keys, 0
    while True:
        request = messages.RangeRequest(key=key, range_end=end, limit=page, revision=revision)
        answer = client.request(range_call(request, lambda answer: answer), deadline_ms=now_ms() + PAGE_MS)
        kvs.extend(answer.kvs)
        revision = revision or answer.header.revision
        if not answer.more:
            return kvs, revision
        key = answer.kvs[-1].key + b"\0"


def _leader_key(kvs: Any, revision: int) -> LeaderKeyState:
    return LeaderKeyState(holder_of(kvs[0]) if kvs else None, revision)


# Parts of transactions


def created_at(key: bytes, revision: int) -> Any:
    """Compare the create revision of a key; 0: it is not there."""
    return messages.Compare(
        result=messages.Compare.EQUAL, target=messages.Compare.CREATE, key=key, create_revision=revision
    )


def modified_at(key: bytes, revision: int) -> Any:
    """Compare the revision of the last change of a key; 0: it is not there."""
    return messages.Compare(result=messages.Compare.EQUAL, target=messages.Compare.MOD, key=key, mod_revision=revision)


def has_value(key: bytes, value: bytes) -> Any:
    return messages.Compare(result=messages.Compare.EQUAL, target=messages.Compare.VALUE, key=key, value=value)


def put(key: bytes, value: bytes, lease_id: int) -> Any:
    """Put a value, bound to a lease unless that is 0."""
    return messages.RequestOp(request_put=messages.PutRequest(key=key, value=value, lease=lease_id))


def delete(key: bytes) -> Any:
    return messages.RequestOp(request_delete_range=messages.DeleteRangeRequest(key=key))


def get(key: bytes) -> Any:
    return messages.RequestOp(request_range=messages.RangeRequest(key=key))
