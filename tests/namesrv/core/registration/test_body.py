import struct
import zlib

import pytest

from namesrv.core.registration.body import decode_registration
from namesrv.core.registration.json_body import VALUE_BYTES_MAX
from namesrv.core.tables.topic_table import TOPICS_MAX
from namesrv.core.values.cooperative import run_to_completion
from namesrv.refusals import RegistrationRefused
from remoting.protocol.codes import VERSION_3_0_11, VERSION_5_0_0

VERSION = b'{"counter":1,"stateVersion":0,"timestamp":1700000000000}'


def part(text):
    return struct.pack(">i", len(text)) + text


def compressed(*topics, count=None):
    plain = part(VERSION) + struct.pack(">i", len(topics) if count is None else count)
    plain += b"".join(map(part, topics)) + part(b"[]") + struct.pack(">i", 0)
    return zlib.compress(plain, 9)


def decoded(body, *, is_compressed=True, version=413):
    return run_to_completion(decode_registration(body, crc32=0, compressed=is_compressed, version=version, unix_ms=0))


def with_mappings(*mappings, topics=(), count=None):
    """Return a compressed body as brokers write it from 5.0.0 on."""
    plain = part(VERSION) + struct.pack(">i", len(topics)) + b"".join(map(part, topics)) + part(b"[]")
    plain += struct.pack(">i", len(mappings) if count is None else count) + b"".join(map(part, mappings))
    return zlib.compress(plain, 1)


@pytest.mark.parametrize("announced", [True, False])
def test_a_compressed_body_is_read_whether_it_was_announced_or_not(announced):
    read = decoded(compressed(b"TopicTest 8 6 6 SINGLE_TAG {}"), is_compressed=announced)
    config = read.topics["TopicTest"]
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (8, 6, 6)
    assert read.data_version.counter == 1


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


def test_the_first_release_with_static_topics_compresses_their_mappings_too_and_no_earlier_one():
    mapping = b'{"topic":"Static","bname":"broker-a","totalQueues":1,"currIdMap":{"0":0},"epoch":1}'
    assert decoded(with_mappings(mapping), version=VERSION_5_0_0).mappings.keys() == {"Static"}
    assert decoded(with_mappings(mapping), version=VERSION_5_0_0 - 1).mappings == {}


def test_each_part_of_a_compressed_body_that_is_left_out_is_counted():
    too_long = b"Long 8 8 6 X " + b"a" * VALUE_BYTES_MAX
    topics = [b" 8 8 6 X {}", b"t" * 2_000 + b" 8 8 6 X {}", too_long, b"TopicTest 8 8 6 X {}"]
    mappings = [b'{"bname":"broker-a"}', b'{"topic":"' + b"t" * VALUE_BYTES_MAX + b'"}']
    read = decoded(with_mappings(*mappings, topics=topics), version=VERSION_5_0_0)
    assert (read.topics.keys(), read.mappings, read.ignored_topics) == ({"TopicTest"}, {}, 5)


def test_topics_and_mappings_of_a_compressed_body_have_one_limit_together():
    topics = [b"t%d 1 1 6 X" % number for number in range(TOPICS_MAX // 2 + 1)]
    assert len(decoded(with_mappings(topics=topics), version=VERSION_5_0_0).topics) == len(topics)
    with pytest.raises(RegistrationRefused, match=str(TOPICS_MAX)):
        decoded(with_mappings(topics=topics, count=TOPICS_MAX // 2), version=VERSION_5_0_0)


@pytest.mark.parametrize(("version", "servers"), [(VERSION_3_0_11, ("10.0.0.9:1",)), (VERSION_3_0_11 - 1, None)])
def test_filter_servers_are_read_from_3_0_11_on(version, servers):
    body = b'{"filterServerList":["10.0.0.9:1"],"topicConfigSerializeWrapper":{"topicConfigTable":{}}}'
    if servers is None:
        body = b'{"topicConfigTable":{}}'
    assert decoded(body, is_compressed=False, version=version).filter_servers == servers


def test_decoder_yields_after_512_short_topics():
    steps = decode_registration(
        compressed(*(b"t%d 1 1 6 X" % number for number in range(1_200))),
        crc32=0,
        compressed=True,
        version=413,
        unix_ms=0,
    )
    rests = 0
    while True:
        try:
            next(steps)
        except StopIteration:
            break
        rests += 1
    assert rests >= 2
