"""A message as a producer sends it."""

import pytest

from remoting.admin.messages import send_message
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import Refused


def test_message_is_sent_to_the_first_queue_of_a_topic_that_no_broker_creates():
    wanted = send_message("RMQ_ROLE_PROBE", "broker-a", b"n0 17", producer_group="g", unix_ms=17)
    assert (wanted.request.code, wanted.request.body) == (310, b"n0 17")
    assert wanted.request.ext_fields == {
        "a": "g",
        "b": "RMQ_ROLE_PROBE",
        "c": "RMQ_ROLE_PROBE",
        "d": "1",
        "e": "0",
        "f": "0",
        "g": "17",
        "h": "0",
        "i": "",
        "j": "0",
        "n": "broker-a",
    }


def test_only_a_send_that_is_ok_is_acknowledged():
    wanted = send_message("t", "broker-a", b"", producer_group="g", unix_ms=17)
    assert wanted.read_response(RemotingCommand(0, ext_fields={"msgId": "x"})) is None
    for code in (10, 11, 12, 14):
        with pytest.raises(Refused, match=f"code {code}"):
            wanted.read_response(RemotingCommand(code))
