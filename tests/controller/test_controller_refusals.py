"""What a refused request is told, where no rule of a set is behind it."""

import pytest

from controller.refusals import MetadataUnknown, NotLeader, NotStoredNow
from remoting.protocol.errors import CodeNotSupported


@pytest.mark.parametrize(
    ("refusal", "code", "remark"),
    [
        (CodeNotSupported(1014), 3, "request type 1014 not supported"),
        (NotLeader("10.0.0.1:9878"), 2007, "the leader is 10.0.0.1:9878"),
        (NotLeader(None), 2007, "no controller leads at present"),
        (NotStoredNow("broker-a", "no answer within 2.0 s"), 1, "no answer within 2.0 s; try again (broker-a)"),
        (MetadataUnknown("broker-a"), 2008, "there is no set broker-a"),
    ],
)
def test_refusal_names_sent_and_current_values(refusal, code, remark):
    assert refusal.code == code
    assert remark in str(refusal)
