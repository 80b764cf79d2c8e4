"""Requests that are known again by their bytes: found only if decoding them would give the same but for the opaque."""

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from listening import E1, E2, E2_BODY, E4, ROUTE, a_request
from msgspec.structs import replace

from remoting.protocol.codes import SerializeType
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import FrameError
from remoting.protocol.frame import decode, encode
from remoting.server.response_cache import PreparedResponse, ResponseCache
from remoting.server.statistics import Histogram, ServerStatistics


class Cached:
    """Known requests, asked as a server does: what is not found is decoded, answered and learned."""

    def __init__(self, bytes_max=100_000):
        self.statistics = ServerStatistics()
        self.known = ResponseCache(ROUTE, self.statistics, bytes_max)
        self.tally = Histogram((100, 1000))
        self.prepared = PreparedResponse(b"body", self.tally)

    def find(self, frame):
        found = self.known.find(frame, 0, len(frame))
        return self.known.response(found) if found else None

    def learn(self, frame, prepared=None):
        assert self.find(frame) is None
        key = self.known.missed_key
        if key is not None:
            self.known.store(key, decode(frame, 0, len(frame) - 4), prepared or self.prepared)


@pytest.fixture
def cached():
    return Cached()


def framed(header):
    return struct.pack(">II", 4 + len(header), len(header)) + header


def opaque_of(answer):
    return decode(answer, 0, len(answer) - 4).opaque


def test_prepared_frame_is_that_of_java():
    assert PreparedResponse(E2_BODY, Histogram(())).frame(b"9") == E2


@pytest.mark.parametrize("opaque", [0, 7, -1, 2**31 - 1, -(2**31)])
def test_prepared_frame_equals_the_encoded_response(cached, opaque):
    request = RemotingCommand(ROUTE, opaque)
    assert cached.prepared.frame(b"%d" % opaque) == encode(request.reply(body=b"body"))
    assert cached.prepared.body == b"body"


def test_prepared_responses_are_counted_by_size(cached):
    large = PreparedResponse(bytes(500), cached.tally)
    for prepared in (cached.prepared, large, cached.prepared):
        prepared.frame(b"1")
    assert (cached.tally.buckets, cached.tally.sum) == ([2, 1, 0], 508)


@pytest.mark.parametrize("frame", [E1, E4], ids=["JSON", "ROCKETMQ"])
def test_request_is_found_in_the_cache_whatever_its_opaque(cached, frame):
    cached.learn(frame)
    request = decode(frame, 0, len(frame) - 4)
    kind = SerializeType(frame[4])
    for opaque in (0, 5, 123_456_789):
        again = frame.replace(b'"opaque":9', b'"opaque":%d' % opaque)
        again = struct.pack(">II", len(again) - 4, kind << 24 | len(again) - 8) + again[8:]
        if kind is SerializeType.ROCKETMQ:
            again = again[:13] + struct.pack(">i", opaque) + again[17:]
        assert decode(again, 0, len(again) - 4) == replace(request, opaque=opaque)
        assert opaque_of(cached.find(again)) == opaque
    assert cached.statistics.finished() == {(ROUTE, 0): 3}


def test_request_for_another_topic_is_not_found_in_the_cache(cached):
    cached.learn(a_request(ext_fields={"topic": "a"}))
    assert cached.find(a_request(ext_fields={"topic": "b"})) is None


def test_invalidated_response_is_not_found_until_a_new_one_is_stored(cached):
    frame = a_request()
    cached.learn(frame)
    cached.prepared.invalidate()
    fresh = PreparedResponse(b"new", cached.tally)
    cached.learn(frame, fresh)
    assert cached.find(frame) == fresh.frame(b"1")


@pytest.mark.parametrize(
    "frame",
    [
        a_request(106),
        a_request(flag=2),
        a_request(body=b"x"),
        a_request(ext_fields={"topic": "x" * 1024}),
        framed(b'{"code":105,"opaque":-1,"version":1}'),
        framed(b'{"code":105,"opaque": 1,"version":1}'),
        framed(b'{"code":105,"opaque":1234567890,"version":1}'),
        framed(b'{"code":105,"version":1,"opaque":123}'),
        framed(b' {"opaque":6,"code":105,"opaque":7,"version":1}'),
        framed(b'{"code":105,"version":1}'),
        framed(b'{"code":105,"opaque":1,"opaque":2,"version":1}'),
        framed(b'{"code":105,"extFields":{"opaque":"1"},"opaque":2,"version":1}'),
        framed(b'{"code":105,"extFields":{"opaque":1,"topic":"t"},"\\u006fpaque":2,"version":1}'),
        framed(b'{"code":105,"more":{"opaque":2,"x":1},"\\u006fpaque":2,"version":1}'),
    ],
    ids=str,
)
def test_ambiguous_request_is_never_cached(cached, frame):
    cached.learn(frame)
    assert cached.find(frame) is None


@pytest.mark.parametrize("digits", [b"01", b"00", b"1.5", b"-1", b"", b" 1", b"1e3", b"9999999999", "\u0661".encode()])
def test_unusual_opaque_is_not_found_in_the_cache(cached, digits):
    cached.learn(framed(b'{"code":105,"opaque":1,"version":1}'))
    assert cached.find(framed(b'{"code":105,"opaque":%b,"version":1}' % digits)) is None


@pytest.mark.parametrize("cut", range(4, 30))
def test_frame_with_a_wrong_length_is_not_found_in_the_cache(cached, cut):
    cached.learn(E1)
    assert cached.find(E1[: 4 + cut]) is None
    assert cached.find(E1 + bytes(cut)) is None
    assert cached.find(E1[:7] + bytes([E1[7] ^ cut]) + E1[8:]) is None


def test_invalidated_response_keeps_no_bytes():
    large = PreparedResponse(bytes(1_000_000), Histogram(()))
    large.invalidate()
    assert large.body == b""


def test_response_cache_has_a_limit_of_bytes():
    cached = Cached(bytes_max=5_000)
    frames = [a_request(ext_fields={"topic": f"topic-{number}"}) for number in range(100)]
    for frame in frames:
        cached.learn(frame)
    known = sum(cached.find(frame) is not None for frame in frames)
    assert 0 < known < 5_000 // len(frames[0])
    assert cached.find(frames[-1]) is not None


_HEADERS = st.fixed_dictionaries(
    {"code": st.sampled_from([105, 106]), "opaque": st.integers(-5, 2**31 - 1)},
    optional={
        "extFields": st.dictionaries(st.sampled_from(["topic", "opaque", "x"]), st.text(max_size=5), max_size=3),
        "flag": st.sampled_from([0, 1, 2]),
        "version": st.integers(-1, 600),
        "more": st.fixed_dictionaries({"opaque": st.integers(0, 9), "y": st.just(1)}),
    },
)


@given(_HEADERS, _HEADERS | st.none(), st.integers(0, 2**31 - 1), st.binary(max_size=3), st.integers(0, 200))
def test_cached_response_equals_the_decoded_and_processed_one(header, other, opaque, noise, at):
    """Ask one request, then others that differ from it in little: none is answered as something that it is not."""
    cached = Cached()
    first = framed(json.dumps(header, separators=(",", ":")).encode())
    cached.learn(first)
    learned = decode(first, 0, len(first) - 4)
    again = json.dumps((other or header) | {"opaque": opaque}, separators=(",", ":")).encode()
    for text in (again, again[:at] + noise + again[at:], again[:at] + noise + again[at + len(noise) :]):
        frame = framed(text)
        answer = cached.find(frame)
        if answer is not None:
            try:
                request = decode(frame, 0, len(frame) - 4)
            except FrameError as error:
                raise AssertionError(f"{text} was answered") from error
            assert request == replace(learned, opaque=request.opaque)
            assert opaque_of(answer) == request.opaque
