"""The calls to etcd for rows of offsets: builds the request, returns what counts in the answer."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from controller.offsets.storage.formats.batches import KeyPut
from controller.offsets.storage.formats.etcd_transaction import LeaderCondition, decoded_answer, encoded_transaction
from store.etcd.calls import LeaderKeyState, OwnLeaderKey
from store.etcd.client import EtcdConnection, MessageDecodeError, Metadata, messages
from store.etcd.keys import Keys, holder_of, leader_value
from store.store import OutcomeUnknown


class BatchOutcome(NamedTuple):
    """What came of a batch."""

    is_stored: bool
    #: Of etcd, after it.
    revision: int
    #: Who leads, where nothing was stored.
    leader_key: LeaderKeyState | None
    #: What stands at each key of the batch, where nothing was stored; None: nothing.
    present: Sequence[Any]


def put_rows(
    keys: Keys, own_key: OwnLeaderKey, puts: Sequence[KeyPut]
) -> Callable[[EtcdConnection, float, Metadata], BatchOutcome]:
    """Write keys, all or none: if each is at its revision, and this manager still leads.

    The value of the key `leader` is compared as well: revisions come again where etcd was put back to an older state.
    """
    leader = LeaderCondition(keys.leader, own_key.token, leader_value(own_key.me, own_key.run))
    request = encoded_transaction(leader, puts)

    def call(connection: EtcdConnection, seconds: float, metadata: Metadata) -> BatchOutcome:
        answer = connection.transact(request, timeout=seconds, metadata=metadata)
        try:
            is_stored, revision = decoded_answer(answer)
            if is_stored:
                return BatchOutcome(is_stored=True, revision=revision, leader_key=None, present=())
            responses = messages.TxnResponse.FromString(answer).responses
            leader_kv, *present = (next(iter(each.response_range.kvs), None) for each in responses)
        except (IndexError, ValueError, MessageDecodeError) as error:
            raise OutcomeUnknown(
                f"etcd at {connection.address}: the answer to a write cannot be read: {error}"
            ) from None
        holder = None if leader_kv is None else holder_of(leader_kv)
        return BatchOutcome(
            is_stored=False, revision=revision, leader_key=LeaderKeyState(holder, revision), present=present
        )

    return call


def rows_from(
    start: bytes, end: bytes, limit: int
) -> Callable[[EtcdConnection, float, Metadata], tuple[Sequence[Any], bool]]:
    """Return so many keys from one on and before another, and whether there are more."""
    request = messages.RangeRequest(key=start, range_end=end, limit=limit)

    def call(connection: EtcdConnection, seconds: float, metadata: Metadata) -> tuple[Sequence[Any], bool]:
        answer = connection.kv.Range(request, timeout=seconds, metadata=metadata)
        return list(answer.kvs), bool(answer.more)

    return call
