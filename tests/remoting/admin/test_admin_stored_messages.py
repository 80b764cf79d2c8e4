"""Where messages are, in the answers of brokers."""

import json
import struct

import pytest

from remoting.admin.stored_messages import (
    LogFileEnds,
    QueueEntry,
    StoredMessage,
    is_none_there,
    message_in_log,
    queue_entry,
    read_message,
)
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
STORE_HOST_V6 = 0x20
#: At the end of a file of the log: 300 bytes are left.
BLANK = struct.pack(">ii", 300, -875286124) + bytes(292)


def a_message(
    *, magic=MAGIC, queue_id=3, offset=7, physical=609, flags=0, stored=1_795_720_164_051, size=None, topic=b"orders"
):
    born_host, store_host = (20 if flags & flag else 8 for flag in (BORN_HOST_V6, STORE_HOST_V6))
    head = struct.pack(">iIiiqqiq", magic, 77, queue_id, 0, offset, physical, flags, stored - 5)
    rest = bytes(born_host) + struct.pack(">q", stored) + bytes(store_host + 12) + struct.pack(">i", 4) + b"body"
    rest += struct.pack(">B" if magic == MAGIC else ">H", len(topic)) + topic + struct.pack(">h", 0)
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


def test_no_queue_begins_below_0():
    body = json.dumps(json.loads(ENTRY) | {"minQueueIndex": -1}).encode()
    assert entry(RemotingCommand(0, body=body)).min_offset == 0


@pytest.mark.parametrize(
    "changed", [{"queueData": [{"physicOffset": -1}]}, {"queueData": [{}]}, {"maxQueueIndex": None}], ids=str
)
def test_entry_that_no_queue_has_is_an_error(changed):
    with pytest.raises(BodyError):
        entry(RemotingCommand(0, body=json.dumps(json.loads(ENTRY) | changed).encode()))


@pytest.mark.parametrize(
    "options",
    [{}, {"magic": MAGIC_OF_LONG_TOPIC}, {"flags": BORN_HOST_V6}, {"flags": STORE_HOST_V6 | BORN_HOST_V6}],
    ids=str,
)
def test_message_is_read_with_what_it_is_known_again_by(options):
    body = a_message(**options)
    found = message_in_log(609).read_response(RemotingCommand(0, body=body))
    known_by = {"length": len(body), "body_crc": 77, "topic": "orders"}
    times = {"store_unix_ms": 1_795_720_164_051, "born_unix_ms": 1_795_720_164_046}
    assert found == StoredMessage(queue_id=3, queue_offset=7, physical_offset=609, **known_by, **times)


def test_end_of_a_file_of_the_log_says_where_the_next_one_begins():
    with pytest.raises(LogFileEnds) as raised:
        message_in_log(700).read_response(RemotingCommand(0, body=BLANK))
    assert raised.value.next_offset == 1000


def test_message_of_another_place_is_an_error():
    with pytest.raises(BodyError, match="of 609, not of 600"):
        message_in_log(600).read_response(RemotingCommand(0, body=a_message()))


@pytest.mark.parametrize(
    ("code", "remark", "expected"),
    [
        (1, "can not find message by the offset, 7", True),
        (1, "java.lang.IllegalArgumentException: newLimit < 0: (-457334555 < 0), java.base/java.nio.Buffer", True),
        (1, "java.lang.NullPointerException", False),
        (2, None, False),
    ],
)
def test_refusal_says_whether_no_message_begins_there(code, remark, expected):
    assert is_none_there(Refused(code, remark)) is expected


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
        (a_message(size=98), "its topic begins at 92 of 98"),
        (a_message(size=90), "is no message"),
        (a_message(topic=b"\xff"), "is no message"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_other_bytes_are_an_error(body, problem):
    with pytest.raises(BodyError, match=problem):
        read_message(body)
