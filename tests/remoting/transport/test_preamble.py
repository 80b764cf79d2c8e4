import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from listening import E1, E4, E13_START

from remoting.protocol.errors import FrameError
from remoting.transport.preamble import (
    PREAMBLE_BYTES_MIN,
    PROXY_V1_BYTES_MAX,
    PROXY_V2_BYTES_MAX,
    ParsedPreamble,
    Preamble,
)

V2 = b"\r\n\r\n\0\r\nQUIT\n"
CLIENT_HELLO = bytes.fromhex("160301020001") + bytes(20)


V2_IPV4 = bytes([9, 9, 9, 9, 8, 8, 8, 8]) + struct.pack(">HH", 1234, 80)


def v2(command=0x21, family=0x11, content=V2_IPV4):
    return V2 + bytes([command, family]) + struct.pack(">H", len(content)) + content


def opened(data):
    return Preamble().receive(data)


def test_plain_frame_passes_the_preamble_unchanged():
    assert opened(E1) == ParsedPreamble(tls=False, source=None, rest=E1)
    assert opened(E4) == ParsedPreamble(tls=False, source=None, rest=E4)


def test_a_tls_handshake_is_known_by_its_first_byte():
    assert opened(CLIENT_HELLO) == ParsedPreamble(tls=True, source=None, rest=CLIENT_HELLO)


def test_preamble_waits_for_twelve_bytes():
    opening = Preamble()
    shortest = bytes.fromhex("00000006 00000002 7b7d")
    assert opening.receive(shortest) is None
    assert opening.partial_bytes == len(shortest)
    assert opening.receive(b"\0\0") == ParsedPreamble(tls=False, source=None, rest=shortest + b"\0\0")
    assert opening.partial_bytes == 0


@pytest.mark.parametrize(
    ("header", "source"),
    [
        (E13_START, "9.9.9.9:1234"),
        (b"PROXY TCP6 2001:db8::1 ::1 65535 0\r\n", "[2001:db8::1]:65535"),
        (b"PROXY UNKNOWN\r\n", None),
        (b"PROXY UNKNOWN ffff::1 whatever it says\r\n", None),
        (v2(), "9.9.9.9:1234"),
        (v2(family=0x12), "9.9.9.9:1234"),
        (v2(content=V2_IPV4 + b"\xea\0\x03abc"), "9.9.9.9:1234"),
        (v2(family=0x21, content=bytes(15) + b"\1" + bytes(16) + struct.pack(">HH", 7, 80)), "[::1]:7"),
        (v2(command=0x20, family=0, content=b""), None),
        (v2(command=0x20, content=b"tlv"), None),
        (v2(family=0x00, content=b""), None),
        (v2(family=0x31, content=bytes(216)), None),
    ],
    ids=lambda value: repr(value)[:24],
)
@pytest.mark.parametrize("after", [E1, CLIENT_HELLO], ids=["plain", "tls"])
def test_proxy_header_is_cut_off_in_any_chunks(header, source, after):
    data = header + after
    for chunk in (1, 5, 13, len(data)):
        opening, result, at = Preamble(), None, 0
        while result is None:
            result = opening.receive(data[at : at + chunk])
            at += chunk
        assert (result.tls, result.source) == (after is CLIENT_HELLO, source)
        assert result.rest + data[at:] == after


def test_preamble_waits_for_bytes_after_the_proxy_header():
    opening = Preamble()
    assert opening.receive(E13_START) is None
    assert opening.receive(b"\0") == ParsedPreamble(tls=False, source="9.9.9.9:1234", rest=b"\0")


@pytest.mark.parametrize(
    "header",
    [
        b"PROXY\r\n" + E1,
        b"PROXYTCP4 9.9.9.9 8.8.8.8 1234 80\r\n",
        b"PROXY UDP4 9.9.9.9 8.8.8.8 1234 80\r\n",
        b"PROXY TCP4 9.9.9.9 8.8.8.8 1234\r\n",
        b"PROXY TCP4 9.9.9.9 8.8.8.8 1234 80 90\r\n",
        b"PROXY TCP4 9.9.9.999 8.8.8.8 1234 80\r\n",
        b"PROXY TCP4 ::1 ::1 1234 80\r\n",
        b"PROXY TCP6 9.9.9.9 8.8.8.8 1234 80\r\n",
        b"PROXY TCP4 9.9.9.9 8.8.8.8 65536 80\r\n",
        b"PROXY TCP4 9.9.9.9 8.8.8.8 -1 80\r\n",
        b"PROXY TCP4 9.9.9.9 8.8.8.8 1234 \xb2\r\n",
        b"PROXY UNKNOWN".ljust(PROXY_V1_BYTES_MAX) + b"\r\n",
        v2(command=0x22),
        v2(command=0x11),
        v2(family=0x13),
        v2(content=bytes(11)),
        v2(family=0x21, content=bytes(35)),
        v2(content=bytes(PROXY_V2_BYTES_MAX)),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_a_malformed_proxy_header_is_refused(header):
    with pytest.raises(FrameError, match="PROXY"):
        opened(header)


def test_an_overlong_proxy_header_is_refused_before_it_has_come():
    with pytest.raises(FrameError, match="over 107 bytes"):
        opened(b"PROXY UNKNOWN".ljust(PROXY_V1_BYTES_MAX))
    with pytest.raises(FrameError, match="over the limit"):
        opened(V2 + bytes([0x21, 0x11]) + struct.pack(">H", PROXY_V2_BYTES_MAX))


@pytest.mark.parametrize(
    ("start", "who"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP client"),
        (b"POST / HTTP/1.1\r\n", "HTTP client"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/2"),
        (b"SSH-2.0-OpenSSH_9.2", "SSH"),
        (b"AMQP\0\0\x09\x01\0\0\0\0", "AMQP"),
        (b"\x15\x03\x03\0\x02\x02\x28\0\0\0\0\0", "TLS alert"),
        (E13_START + E13_START, "second PROXY header"),
        (E13_START + v2(), "second PROXY header"),
        # ApiVersions, version 3, as the first request of every Kafka client now; Metadata of older ones.
        (bytes.fromhex("00000026 0012 0003 00000001 0007") + b"rdkafka" + bytes(20), r"Kafka client \(api key 18"),
        (bytes.fromhex("00000014 0003 0000 00000001 000a") + b"console-01", "Kafka client"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_peer_of_another_protocol_is_refused_by_name(start, who):
    with pytest.raises(FrameError, match=who):
        opened(start)


@given(st.binary(max_size=200) | st.binary(max_size=100).map(lambda tail: E13_START + tail), st.integers(1, 50))
def test_preamble_has_one_result_in_any_chunks(data, chunk):
    def fate(chunks):
        opening = Preamble()
        try:
            for each in chunks:
                if result := opening.receive(each):
                    return result.tls, result.source
        except FrameError:
            return "refused"
        return opening.partial_bytes

    whole = fate([data])
    cut = fate([data[at : at + chunk] for at in range(0, len(data), chunk)])
    # A longer first chunk may show another protocol where a shorter one leaves that to the frames.
    left_to_frames = whole == "refused" and isinstance(cut, tuple) and not cut[0]
    assert cut == whole or left_to_frames or len(data) < PREAMBLE_BYTES_MIN
