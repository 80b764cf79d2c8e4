"""Frames of ARP, neighbour discovery and TCP, byte for byte."""

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from role_agent.network.frames import (
    advertised_address,
    arp_announcements,
    arp_probe,
    arp_sender,
    nd_announcement,
    nd_probe,
    stray_acknowledgement,
)

MAC = bytes.fromhex("020000000001")
ADDRESS = ip_address("10.99.0.100")
ADDRESS_6 = ip_address("fd99::100")


def checksum_is_valid(source, target, protocol, message):
    """Whether the sum over the pseudo header and the message, checksum and all, is what RFC 1071 wants."""
    data = source.packed + target.packed + len(message).to_bytes(4, "big") + protocol.to_bytes(4, "big") + message
    total = sum(int.from_bytes(data[at : at + 2].ljust(2, b"\0"), "big") for at in range(0, len(data), 2))
    return (total & 0xFFFF) + (total >> 16) in (0xFFFF, 0x1FFFE) or total % 0xFFFF == 0


def test_arp_probe_is_a_broadcast_query_without_a_sender_address():
    assert arp_probe(MAC, ADDRESS).hex(" ", 2) == (
        "ffff ffff ffff 0200 0000 0001 0806 0001 0800 0604 0001 0200 0000 0001 0000 0000 0000 0000 0000 0a63 0064"
    )


def test_gratuitous_arp_comes_as_request_and_as_reply():
    request, reply = arp_announcements(MAC, ADDRESS)
    assert request.hex(" ", 2) == (
        "ffff ffff ffff 0200 0000 0001 0806 0001 0800 0604 0001 0200 0000 0001 0a63 0064 0000 0000 0000 0a63 0064"
    )
    assert reply.hex(" ", 2) == (
        "ffff ffff ffff 0200 0000 0001 0806 0001 0800 0604 0002 0200 0000 0001 0a63 0064 ffff ffff ffff 0a63 0064"
    )


def test_sender_of_an_arp_frame_is_read():
    assert arp_sender(arp_announcements(MAC, ADDRESS)[1]) == (MAC, ADDRESS)
    assert arp_sender(arp_probe(MAC, ADDRESS)) == (MAC, ip_address("0.0.0.0"))


@given(st.binary(max_size=80))
def test_any_bytes_are_read_without_an_error(data):
    assert arp_sender(data) is None or len(data) >= 42
    assert advertised_address(data) is None or data[0] == 136


def test_nd_probe_goes_to_the_solicited_node_group_from_nowhere():
    frame = nd_probe(MAC, ADDRESS_6)
    assert frame[:6].hex() == "3333ff000100"
    source, target, message = ip_address(frame[22:38]), ip_address(frame[38:54]), frame[54:]
    assert (source, target) == (ip_address("::"), ip_address("ff02::1:ff00:100"))
    assert (frame[21], message[0], message[8:]) == (255, 135, ADDRESS_6.packed)
    assert checksum_is_valid(source, target, 58, message)


def test_nd_announcement_overrides_what_all_nodes_know():
    frame = nd_announcement(MAC, ADDRESS_6)
    source, target, message = ip_address(frame[22:38]), ip_address(frame[38:54]), frame[54:]
    assert (source, target) == (ADDRESS_6, ip_address("ff02::1"))
    assert (message[0], message[4], message[24:]) == (136, 0x20, b"\x02\x01" + MAC)
    assert advertised_address(message) == ADDRESS_6
    assert checksum_is_valid(source, target, 58, message)


@pytest.mark.parametrize(
    ("source", "target", "header"), [("10.99.0.100", "10.99.0.4", 20), ("fd99::100", "fd99::4", 40)]
)
def test_stray_acknowledgement_has_the_addresses_of_the_connection_and_no_place_in_it(source, target, header):
    packet = stray_acknowledgement(ip_address(source), 10911, ip_address(target), 40000)
    segment = packet[header:]
    assert segment[:14].hex(" ", 2) == "2a9f 9c40 0000 0000 0000 0000 5010"
    assert segment[20:] == b"\0"
    assert checksum_is_valid(ip_address(source), ip_address(target), 6, segment)
