"""The calls to etcd for rows of offsets: builds the request, returns what counts in the answer."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from controller.offsets.storage.formats.batches import KeyPut
from controller.storage.etcd.calls import LeaderKeyState, OwnLeaderKey
from controller.storage.etcd.client import EtcdConnection, Metadata, messages
from controller.storage.etcd.keys import Keys, holder_of, leader_value

_COMPARE: Final = messages.Compare


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
    request = messages.TxnRequest(
        compare=[
            _COMPARE(
                result=_COMPARE.EQUAL, target=_COMPARE.CREATE, key=keys.leader, create_revision=own_key.token
            ),
            _COMPARE(
                result=_COMPARE.EQUAL, target=_COMPARE.VALUE, key=keys.leader,
                value=leader_value(own_key.me, own_key.run),
            ),
            *(
                _COMPARE(result=_COMPARE.EQUAL, target=_COMPARE.MOD, key=each.key, mod_revision=each.revision)
                for each in puts
            ),
        ],
        success=[_written(each) for each in puts],
        failure=[_read(keys.leader), *(_read(each.key) for each in puts)],
    )  # fmt: skip

    def call(connection: EtcdConnection, seconds: float, metadata: Metadata) -> BatchOutcome:
        answer = connection.kv.Txn(request, timeout=seconds, metadata=metadata)
        revision = int(answer.header.revision)
        if answer.succeeded:
            return BatchOutcome(is_stored=True, revision=revision, leader_key=None, present=())
        leader, *present = (next(iter(each.response_range.kvs), None) for each in answer.responses)
        holder = None if leader is None else holder_of(leader)
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


def _written(put: KeyPut) -> Any:
    if put.value is None:
        return messages.RequestOp(request_delete_range=messages.DeleteRangeRequest(key=put.key))
    return messages.RequestOp(request_put=messages.PutRequest(key=put.key, value=put.value))


def _read(key: bytes) -> Any:
    return messages.RequestOp(request_range=messages.RangeRequest(key=key))
