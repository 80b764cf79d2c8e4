import struct
import zlib

import pytest

from namesrv.registration_body import TOPICS_MAX, RegistrationRefused, decoding
from namesrv.slices import whole

VERSION = b'{"counter":1,"stateVersion":0,"timestamp":1700000000000}'


def part(text):
    return struct.pack(">i", len(text)) + text


def compressed(*topics, count=None):
    plain = part(VERSION) + struct.pack(">i", len(topics) if count is None else count)
    plain += b"".join(map(part, topics)) + part(b"[]") + struct.pack(">i", 0)
    return zlib.compress(plain, 9)


def decoded(body, *, is_compressed=True):
    return whole(decoding(body, crc32=0, compressed=is_compressed, version=413, unix_ms=0))


@pytest.mark.parametrize("announced", [True, False])
def test_a_compressed_body_is_read_whether_it_was_announced_or_not(announced):
    said = decoded(compressed(b"TopicTest 8 6 6 SINGLE_TAG {}"), is_compressed=announced)
    config = said.topics["TopicTest"]
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (8, 6, 6)
    assert said.data_version.counter == 1


@pytest.mark.parametrize("number", [b"9" * 400, b"2147483648", b"1_0", "\u0663".encode(), b"", b"x"])
def test_a_queue_number_that_is_no_int_is_refused(number):
    with pytest.raises(RegistrationRefused, match="TopicTest"):
        decoded(compressed(b"TopicTest " + number + b" 8 6 SINGLE_TAG {}"))


def test_more_topics_than_a_broker_can_have_are_refused_before_they_are_read():
    with pytest.raises(RegistrationRefused, match=str(TOPICS_MAX)):
        decoded(compressed(count=TOPICS_MAX + 1))


def test_a_body_that_inflates_beyond_the_limit_is_refused():
    with pytest.raises(RegistrationRefused, match="inflates to more than"):
        decoded(zlib.compress(bytes(20 * 1024 * 1024)))


@pytest.mark.parametrize("body", [compressed()[:-3], b"x", b"\x78\x9c"])
def test_a_compressed_body_without_its_end_is_refused(body):
    with pytest.raises(RegistrationRefused, match="Failed to decode RegisterBrokerBody"):
        decoded(body)
