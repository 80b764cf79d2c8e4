"""A transaction that writes rows of offsets, as the bytes that etcd takes, and what its answer says. Pure.

etcd3's messages are made by protobuf's implementation in Python, which takes 0.1 ms for each row; thousands of rows are
written each second. Fields and numbers: rpc.proto of etcd 3.5, of which etcd3 has a copy
(`TxnRequest`, `Compare`, `RequestOp`, `PutRequest`, `DeleteRangeRequest`, `RangeRequest`, `TxnResponse`).
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from controller.offsets.storage.formats.batches import KeyPut

#: The greatest value of a byte of a number that no further byte follows.
_LAST_MAX: Final = 0x7F
#: Wire types: a number, or bytes with their length.
_NUMBER, _BYTES = 0, 2

#: `Compare.target`: EQUAL is 0 in `result`, which proto3 leaves out, as VERSION is in `target`.
_CREATE, _MOD, _VALUE = 1, 2, 3
#: Fields of `TxnResponse`, and of its `ResponseHeader`.
_HEADER, _SUCCEEDED, _REVISION = 1, 2, 3


def _number(value: int) -> bytes:
    if value <= _LAST_MAX:
        return bytes((value,))
    made = bytearray()
    while value > _LAST_MAX:
        made.append(value & _LAST_MAX | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def _number_field(field: int, value: int) -> bytes:
    return _number(field << 3 | _NUMBER) + _number(value)


def _bytes_field(field: int, value: bytes) -> bytes:
    return bytes((field << 3 | _BYTES,)) + _number(len(value)) + value


class LeaderCondition(NamedTuple):
    """The key of the leader, and what it is to be: made at this revision, with this value."""

    key: bytes
    create_revision: int
    value: bytes


def encoded_transaction(leader: LeaderCondition, puts: Sequence[KeyPut]) -> bytes:
    """Return a `TxnRequest`: writes the keys if each is at its revision and the leader's is as it should be.

    Otherwise it reads the leader's key and all of the others, in their order.
    """
    leader_key = _bytes_field(3, leader.key)
    parts = [
        _bytes_field(1, _number_field(2, _CREATE) + leader_key + _number_field(5, leader.create_revision)),
        _bytes_field(1, _number_field(2, _VALUE) + leader_key + _bytes_field(7, leader.value)),
    ]
    is_mod, writes, reads = _number_field(2, _MOD), [], [_read(leader.key)]
    for key, value, revision in puts:
        parts.append(_bytes_field(1, is_mod + _bytes_field(3, key) + _number_field(6, revision)))
        writes.append(_written(key, value))
        reads.append(_read(key))
    return b"".join((*parts, *writes, *reads))


def _written(key: bytes, value: bytes | None) -> bytes:
    if value is None:
        return _bytes_field(2, _bytes_field(3, _bytes_field(1, key)))
    return _bytes_field(2, _bytes_field(2, _bytes_field(1, key) + _bytes_field(2, value)))


def _read(key: bytes) -> bytes:
    return _bytes_field(3, _bytes_field(1, _bytes_field(1, key)))


class AnsweredTransaction(NamedTuple):
    """What a `TxnResponse` says, without what each operation has answered."""

    is_stored: bool
    #: Of etcd, after it.
    revision: int


def decoded_answer(answer: bytes) -> AnsweredTransaction:
    """Return what a transaction has come to; raises IndexError or ValueError if the bytes are no answer."""
    is_stored, revision = False, 0
    for field, value in _fields(answer):
        if field == _HEADER and isinstance(value, bytes):
            revision = next((each for of, each in _fields(value) if of == _REVISION and isinstance(each, int)), 0)
        elif field == _SUCCEEDED:
            is_stored = bool(value)
    return AnsweredTransaction(is_stored, revision)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(message):
        tag, at = _read_number(message, at)
        value, at = _read_number(message, at)
        if tag & 7 == _NUMBER:
            yield tag >> 3, value
        elif tag & 7 == _BYTES:
            if at + value > len(message):
                raise ValueError(f"etcd: an answer ends within field {tag >> 3}")
            yield tag >> 3, message[at : at + value]
            at += value
        else:
            raise ValueError(f"etcd: an answer has wire type {tag & 7}, which no transaction has")


def _read_number(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := message[at]) > _LAST_MAX:
        value |= (byte & _LAST_MAX) << shift
        shift += 7
        at += 1
    return value | byte << shift, at + 1
