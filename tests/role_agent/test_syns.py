"""Requests for a connection: the filter as the kernel runs it, and packets byte for byte."""

import ctypes
import socket
import struct
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from role_agent.network.frames import with_tcp_checksum
from role_agent.network.syns import SYN_BYTES_MAX, connection_name, connection_of, relayed, syn_filter, target_of

ADDRESSES = [ip_address("10.99.0.100"), ip_address("10.99.0.101")]
ADDRESSES_6 = [ip_address("fd99::100"), ip_address("fd99:0:0:1::100")]
SYN, ACK, RST = 0x02, 0x10, 0x04
CLIENT, CLIENT_6 = ip_address("10.99.0.4"), ip_address("fd99::4")
BOTH = pytest.mark.parametrize(("addresses", "client"), [(ADDRESSES, CLIENT), (ADDRESSES_6, CLIENT_6)], ids=[4, 6])


def packet(client, target, flags=SYN, *, ttl=64, protocol=6, fragment=0, ip_options=b"", extra=b""):
    """A TCP packet of port 40000 to 10911 from its IP header on, with a valid checksum."""
    segment = struct.pack("!HHIIBBHHH", 40_000, 10_911, 7, 0, 6 << 4, flags, 64_240, 0, 0) + bytes.fromhex("020405b4")
    segment = with_tcp_checksum(client.packed + target.packed, segment)
    if target.version == 6:
        head = struct.pack("!IHBB", 6 << 28, len(segment), protocol, ttl)
    else:
        length, words = 20 + len(ip_options) + len(segment), 5 + len(ip_options) // 4
        head = struct.pack("!BBHHHBBH", 0x40 | words, 0, length, 0, fragment, ttl, protocol, 0)
    return head + client.packed + target.packed + ip_options + segment + extra


@pytest.fixture
def passes():
    """Return what tells whether a kernel's filter for some addresses lets a packet through."""
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.setblocking(False)

    def passed(addresses, data):
        program = syn_filter(addresses)
        steps = ctypes.create_string_buffer(program)
        receiver.setsockopt(socket.SOL_SOCKET, 26, struct.pack("@HP", len(program) // 8, ctypes.addressof(steps)))
        sender.send(data)
        try:
            return receiver.recv(2_000) == data[:SYN_BYTES_MAX]
        except BlockingIOError:
            return False

    yield passed
    sender.close()
    receiver.close()


@BOTH
def test_filter_passes_requests_to_each_of_its_addresses(passes, addresses, client):
    assert all(passes(addresses, packet(client, each)) for each in addresses)
    assert passes(addresses[:1], packet(client, addresses[0]))


@BOTH
def test_filter_passes_no_other_address_flags_or_protocol(passes, addresses, client):
    target = addresses[0]
    assert not passes(addresses[1:], packet(client, target))
    assert not passes(addresses, packet(target, client))
    assert not any(passes(addresses, packet(client, target, flags)) for flags in (ACK, SYN | ACK, SYN | RST, RST, 0))
    assert not passes(addresses, packet(client, target, protocol=17))


def test_filter_passes_ip_options_and_no_fragments(passes):
    target = ADDRESSES[0]
    assert passes(ADDRESSES, packet(CLIENT, target, ip_options=b"\1" * 8))
    assert not passes(ADDRESSES, packet(CLIENT, target, ACK, ip_options=b"\1" * 8))
    assert passes(ADDRESSES, packet(CLIENT, target, fragment=0x4000))
    assert not any(passes(ADDRESSES, packet(CLIENT, target, fragment=each)) for each in (1, 0x2001))


@BOTH
def test_eight_addresses_fit_into_a_filter(passes, addresses, client):
    others = [addresses[0] + 16 * each for each in range(1, 8)]
    assert passes([*others, addresses[0]], packet(client, addresses[0]))
    assert not passes(others, packet(client, addresses[0]))


@BOTH
def test_relayed_packet_has_one_hop_less_and_is_otherwise_the_same(addresses, client):
    target = addresses[0]
    assert relayed(packet(client, target)) == packet(client, target, ttl=63)
    assert target_of(packet(client, target)) == target


@BOTH
def test_relayed_packet_has_a_checksum_and_no_padding(addresses, client):
    whole = packet(client, addresses[0])
    at = len(whole) - 8
    unchecked = whole[:at] + b"\xbe\xef" + whole[at + 2 :]
    assert relayed(unchecked + bytes(6)) == packet(client, addresses[0], ttl=63)


@BOTH
def test_packet_that_has_no_hop_left_is_not_relayed(addresses, client):
    assert relayed(packet(client, addresses[0], ttl=1)) is None
    assert relayed(packet(client, addresses[0], ttl=2)) is not None


@BOTH
def test_packet_that_is_not_whole_is_left_out(addresses, client):
    whole = packet(client, addresses[0])
    assert {connection_of(whole[:length]) for length in range(len(whole))} == {None}
    assert {relayed(whole[:length]) for length in range(len(whole))} == {None}
    assert connection_of(packet(client, addresses[0], protocol=17)) is None


@BOTH
def test_connection_is_known_by_its_addresses_and_ports_alone(addresses, client):
    one, other = packet(client, addresses[0]), packet(client, addresses[0], ttl=3)
    assert connection_of(one) == connection_of(other) == connection_name(client, 40_000, addresses[0], 10_911)
    assert connection_of(one) != connection_of(packet(client, addresses[1]))


@given(st.binary(max_size=100), st.sampled_from([b"\x45", b"\x4f", b"\x60", b""]))
def test_any_packet_is_read_without_an_error(data, start):
    found = relayed(start + data)
    assert found is None or len(found) <= len(start + data)
    assert (connection_of(start + data) is None) <= (found is None)
