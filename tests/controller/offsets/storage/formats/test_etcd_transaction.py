"""A transaction has the very bytes that etcd's own messages have, and its answer is read as they read it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.offsets.storage.formats.batches import KeyPut
from controller.offsets.storage.formats.etcd_transaction import LeaderCondition, decoded_answer, encoded_transaction
from store.etcd.client import messages

LONG_MAX = 2**63 - 1

revisions = st.one_of(st.integers(0, 300), st.integers(0, LONG_MAX))
names = st.binary(min_size=1, max_size=300)
puts = st.builds(KeyPut, names, st.one_of(st.none(), st.binary(min_size=1, max_size=20_000)), revisions)
leaders = st.builds(LeaderCondition, names, revisions, names)


def as_messages(leader, puts):
    compare = messages.Compare
    read = [
        messages.RequestOp(request_range=messages.RangeRequest(key=key)) for key in (leader.key, *(p.key for p in puts))
    ]
    return messages.TxnRequest(
        compare=[
            compare(target=compare.CREATE, key=leader.key, create_revision=leader.create_revision),
            compare(target=compare.VALUE, key=leader.key, value=leader.value),
            *(compare(target=compare.MOD, key=put.key, mod_revision=put.revision) for put in puts),
        ],
        success=[
            messages.RequestOp(request_delete_range=messages.DeleteRangeRequest(key=put.key))
            if put.value is None
            else messages.RequestOp(request_put=messages.PutRequest(key=put.key, value=put.value))
            for put in puts
        ],
        failure=read,
    )


@settings(max_examples=100, deadline=None)
@given(leaders, st.lists(puts, max_size=5))
def test_transaction_has_the_bytes_of_etcds_messages(leader, puts):
    assert encoded_transaction(leader, puts) == as_messages(leader, puts).SerializeToString()


@settings(max_examples=100, deadline=None)
@given(revisions, st.booleans(), st.integers(0, 2**64 - 1), st.lists(names, max_size=3))
def test_answer_is_read_as_etcds_messages_read_it(revision, is_stored, cluster_id, keys):
    header = messages.ResponseHeader(cluster_id=cluster_id, member_id=1, revision=revision, raft_term=LONG_MAX)
    responses = [
        messages.ResponseOp(response_range=messages.RangeResponse(header=header, kvs=[messages_kv(key)]))
        for key in keys
    ]
    answer = messages.TxnResponse(header=header, succeeded=is_stored, responses=responses)
    assert decoded_answer(answer.SerializeToString()) == (is_stored, revision)


def messages_kv(key):
    kvs = messages.RangeResponse().kvs
    kv = kvs.add()
    kv.key, kv.value, kv.mod_revision = key, b"value", 7
    return kv


@pytest.mark.parametrize(
    "answer", [b"\x0a", b"\x0a\x05\x18", b"\x0d\x01\x02\x03\x04", b"\x0a\x05\x18\x01", b"\x22\x7f"]
)
def test_bytes_that_are_no_answer_are_refused(answer):
    with pytest.raises((IndexError, ValueError)):
        decoded_answer(answer)
