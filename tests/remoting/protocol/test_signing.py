"""Signatures, beside those of the Java client.

The golden ones are those of `AclClientRPCHook.doBeforeRequest` of rocketmq-client 5.5.0 and of rocketmq-acl 4.9.7,
which are the same: it was given a `RemotingCommand` with these fields and this body.
"""

import pytest

from remoting.protocol.codes import ResponseCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.signing import Credentials, is_denied, signed

KEYS = Credentials("RocketMQ", "12345678")
ROLE = {"masterBrokerId": "2", "masterAddress": "127.0.0.1:30911", "masterEpoch": "3", "syncStateSetEpoch": "7"}


@pytest.mark.parametrize(
    ("keys", "fields", "body", "signature"),
    [
        (KEYS, ROLE, b'{"syncStateSet":[1,2],"syncStateSetEpoch":7}', "Qkh4lAW91ZlK3MuAvsOVw0ervT4="),
        (KEYS, None, b"", "IUc8rrO/0gDch8CjObLQsW2rsiA="),
        (Credentials("użytkownik", "hasło ☃"), {"topic": "Zażółć"}, b"x", "lrD2tGV1LriTwVW1W/T1N37no7k="),
    ],
)
def test_a_request_is_signed_as_the_java_client_signs_it(keys, fields, body, signature):
    request = RemotingCommand(1008, ext_fields=fields, body=body)
    expected = (fields or {}) | {"AccessKey": keys.access_key, "Signature": signature}
    assert signed(request, keys) == RemotingCommand(1008, ext_fields=expected, body=body)


def test_the_order_of_the_fields_does_not_matter():
    other_way = dict(reversed(ROLE.items()))
    first, second = (signed(RemotingCommand(1008, ext_fields=each), KEYS) for each in (ROLE, other_way))
    assert first.ext_fields == second.ext_fields


def test_a_request_that_is_signed_again_has_the_same_signature():
    once = signed(RemotingCommand(1008, ext_fields=ROLE), KEYS)
    assert signed(once, KEYS) == once


def test_credentials_show_neither_key():
    assert "RocketMQ" not in repr(KEYS)
    assert "12345678" not in f"{KEYS} {[KEYS]}"


@pytest.mark.parametrize(
    ("code", "remark", "denied"),
    [
        (ResponseCode.NO_PERMISSION, "username cannot be null.", True),
        (ResponseCode.SYSTEM_ERROR, "org.apache.rocketmq.acl.common.AclException: No accessKey is configured, ", True),
        (ResponseCode.SYSTEM_ERROR, "java.lang.NullPointerException", False),
        (ResponseCode.SYSTEM_ERROR, None, False),
        (ResponseCode.SUCCESS, None, False),
    ],
)
def test_both_kinds_of_acl_are_known_by_their_refusals(code, remark, denied):
    assert is_denied(RemotingCommand(code, remark=remark)) is denied
