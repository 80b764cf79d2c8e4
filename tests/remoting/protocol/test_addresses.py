"""How an operator names peers, and who is meant."""

import pytest

from remoting.protocol.addresses import host_number, ip_of, named_address, named_addresses

IPV6 = "2001:db8::5"


def means(entry, host, ip, port=10911):
    return named_address(entry).matches(host, ip_of(ip), port)


@pytest.mark.parametrize(
    ("entry", "ip", "port"),
    [
        ("10.0.0.5", "10.0.0.5", 1),
        ("10.0.0.5:10911", "10.0.0.5", 10911),
        ("10.0.0.0/16", "10.0.255.255", 1),
        ("10.0.0.0/16:10911", "10.0.1.2", 10911),
        ("10.0.0.5", "::ffff:10.0.0.5", 1),
        ("::ffff:10.0.0.5", "10.0.0.5", 1),
        ("[::ffff:10.0.0.0/112]:10911", "::ffff:10.0.1.2", 10911),
        (IPV6, "2001:db8:0:0::5", 1),
        (f"[{IPV6}]", IPV6, 1),
        (f"[{IPV6}]:10911", IPV6, 10911),
        ("2001:db8::/32", IPV6, 1),
        ("[2001:db8::/32]:10911", IPV6, 10911),
    ],
)
def test_addresses_and_networks_match_the_end_of_the_connection(entry, ip, port):
    assert means(entry, "whatever.example.org", ip, port)


@pytest.mark.parametrize(
    ("entry", "ip", "port"),
    [
        ("10.0.0.5", "10.0.0.6", 10911),
        ("10.0.0.5:10911", "10.0.0.5", 10912),
        ("10.0.0.0/16", "10.1.0.0", 10911),
        ("10.0.0.0/16", "::5", 10911),
        ("2001:db8::/32", "2001:db9::", 10911),
        ("broker-a", "10.0.0.5", 10911),
    ],
)
def test_who_is_elsewhere_is_not_meant_whatever_it_is_called(entry, ip, port):
    assert not means(entry, "10.0.0.5", ip, port)


def test_a_name_is_resolved_in_any_case_of_letters():
    assert means("Broker-a.Example.org", "broker-A.example.org.", "10.0.0.5")
    assert means("broker-a.example.org.:10911", "broker-a.example.org", "10.0.0.5")
    assert not means("broker-a.example.org:10911", "broker-a.example.org", "10.0.0.5", 10912)
    assert not means("broker-a.example.org", "broker-a", "10.0.0.5")
    assert not means("example.org", "broker-a.example.org", "10.0.0.5")


def test_without_a_known_address_only_names_are_met():
    assert named_address("broker-a").matches("broker-a", None, 1)
    assert not named_address("10.0.0.0/8").matches("10.0.0.5", None, 1)
    assert ip_of("nowhere") is None


@pytest.mark.parametrize(
    "entry",
    [
        *("", ":10911", "host:", "host:0", "host:65536", "host:-1", "host:1:2", "*", "*.example.org", "a b", "a,b"),
        *("10.0.0", "10.0.0.256", "10.0.0.5/16", "10.0.0.0/33", "a/8", "[a]", "[10.0.0.1", "2001:db8::5/32", "[]:1"),
        # Everybody is nobody in particular.
        *("0.0.0.0/0", "::/0", "[::/0]:10911", "0.0.0.0/0:10911", "::ffff:0:0/96"),
        *("x" * 254, "ho\u0455t", "host:\u0661"),
    ],
)
def test_what_names_nobody_is_refused(entry):
    assert named_address(entry) is None
    assert named_addresses(f"10.0.0.0/8;{entry or '-'}") is None


def test_a_list_has_its_entries_in_order_without_what_is_blank():
    assert named_addresses(" 10.0.0.0/8 ;; a:1;") == (named_address("10.0.0.0/8"), named_address("a:1"))
    assert named_addresses("") == ()


@pytest.mark.parametrize(
    ("address", "number"),
    [
        ("10.0.0.255:10911", "10.0.0.255"),
        ("[::ffff:10.0.0.5]:10911", "10.0.0.5"),
        ("[2001:DB8:0::5]:10911", IPV6),
        ("10.0.0.256:10911", ""),
        ("10.0.0.05:10911", ""),
        ("10.0.0:10911", ""),
        ("broker-a.example.org:10911", ""),
        ("", ""),
    ],
)
def test_number_of_a_host_has_one_form(address, number):
    assert host_number(address) == number
