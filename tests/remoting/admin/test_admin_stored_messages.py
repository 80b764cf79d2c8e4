"""Where messages are, in the answers of brokers."""

import json
import struct

import pytest

from remoting.admin.stored_messages import QueueEntry, StoredMessage, message_in_log, queue_entry, read_message
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError, Refused

#: Of 4.9.7: the message at 10 of a queue of 101, and what it answers for one beyond the end.
ENTRY = (
    b'{"filterData":"@b1 is not online!","maxQueueIndex":101,"minQueueIndex":0,'
    b'"queueData":[{"eval":false,"physicOffset":2032,"physicSize":205,"tagsCode":0}]}'
)
BEYOND = RemotingCommand(0, remark="Index 1000000 of 0@b1 is not exist!")

MAGIC = -626843481
MAGIC_OF_LONG_TOPIC = -626843477
BORN_HOST_V6 = 0x10


def a_message(*, magic=MAGIC, queue_id=3, offset=7, physical=609, flags=0, stored=1_795_720_164_051, size=None):
    host = 20 if flags & BORN_HOST_V6 else 8
    head = struct.pack(">iIiiqqiq", magic, 0, queue_id, 0, offset, physical, flags, stored - 5)
    rest = bytes(host) + struct.pack(">q", stored) + bytes(40)
    return struct.pack(">i", size or 4 + len(head) + len(rest)) + head + rest


def entry(answer):
    return queue_entry("orders", 3, 10).read_response(answer)


def test_entry_of_a_queue_is_requested_without_a_group():
    assert queue_entry("orders", 3, 10).request.ext_fields == {
        "topic": "orders",
        "queueId": "3",
        "index": "10",
        "count": "1",
        "consumerGroup": "",
    }


def test_entry_shows_the_place_in_the_log_and_the_limits_of_the_queue():
    assert entry(RemotingCommand(0, body=ENTRY)) == QueueEntry(physical_offset=2032, min_offset=0, max_offset=101)


def test_offset_without_an_entry_is_none_and_a_queue_that_is_not_there_a_refusal():
    assert entry(BEYOND) is None
    assert entry(RemotingCommand(0, body=b'{"maxQueueIndex":0,"minQueueIndex":0,"queueData":[]}')) is None
    with pytest.raises(Refused):
        entry(RemotingCommand(1, remark="0@nope is not exist!"))


@pytest.mark.parametrize(
    "changed", [{"queueData": [{"physicOffset": -1}]}, {"queueData": [{}]}, {"maxQueueIndex": None}], ids=str
)
def test_entry_that_no_queue_has_is_an_error(changed):
    with pytest.raises(BodyError):
        entry(RemotingCommand(0, body=json.dumps(json.loads(ENTRY) | changed).encode()))


@pytest.mark.parametrize("options", [{}, {"magic": MAGIC_OF_LONG_TOPIC}, {"flags": BORN_HOST_V6}], ids=str)
def test_message_is_read_up_to_when_it_was_stored(options):
    found = message_in_log(609).read_response(RemotingCommand(0, body=a_message(**options)))
    times = {"store_unix_ms": 1_795_720_164_051, "born_unix_ms": 1_795_720_164_046}
    assert found == StoredMessage(queue_id=3, queue_offset=7, physical_offset=609, **times)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "at least 48 bytes, the response 0"),
        (a_message()[:47], "the response 47"),
        (a_message()[:60], "is no message"),
        (a_message(magic=7), "with magic 7"),
        (a_message(size=50), "is no message"),
        (a_message(size=2**31 - 1), "is no message"),
        (a_message(queue_id=-1), "queue -1"),
        (a_message(offset=-1), "at -1"),
        (a_message(physical=-9), "-9 of the log"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_other_bytes_are_an_error(body, problem):
    with pytest.raises(BodyError, match=problem):
        read_message(body)
