"""An answer of etcd to a write that cannot be read leaves open whether the write was done: it is not sent again."""

import pytest

from controller.offsets.storage.etcd_rows import put_rows
from controller.offsets.storage.formats.batches import KeyPut
from store.etcd.calls import OwnLeaderKey
from store.etcd.keys import Keys
from store.store import ControllerMember, OutcomeUnknown


class Connection:
    """Answers each transaction with the same bytes, as a proxy in front of etcd may."""

    address = "10.0.0.1:2379"

    def __init__(self, answer):
        self._answer = answer

    def transact(self, request, *, timeout, metadata):
        return self._answer


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="not stored, and nothing of the leader"),
        pytest.param(b"\x0a\x02\x18\x05", id="a header alone"),
        pytest.param(b"\x0a\x7f", id="cut within a field"),
        pytest.param(b"\x1a\x02\x0a\x7f", id="cut within what an operation answers"),
    ],
)
def test_answer_without_what_it_must_have_leaves_the_outcome_unknown(answer):
    own_key = OwnLeaderKey(ControllerMember(id="n0", address="10.0.0.2:9878"), "run", 1)
    write = put_rows(Keys("g"), own_key, [KeyPut(b"key", b"value", 0)])
    with pytest.raises(OutcomeUnknown, match=r"10\.0\.0\.1:2379: the answer to a write cannot be read"):
        write(Connection(answer), 1.0, ())
