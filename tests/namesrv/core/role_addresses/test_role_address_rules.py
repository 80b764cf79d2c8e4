"""Which rule counts, for whom, and what tells rules apart."""

import pytest

from namesrv.core.role_addresses.documents import rules_of_toml
from namesrv.core.role_addresses.rules import PLAIN, Audiences

RULES = """
[[roleAddress]]
set = "broker-*"
slaves = "omit"
[[roleAddress]]
set = "broker-a"
networks = ["10.1.0.0/16", "fd00:1::/64"]
master = "10.0.0.5:10911"
[[roleAddress]]
set = "broker-a"
networks = ["10.2.0.0/16"]
master = "10.0.1.5:10911"
[[roleAddress]]
set = "broker-a?"
networks = ["10.1.2.0/24"]
"""


@pytest.mark.parametrize(
    ("name", "peer", "position"),
    [
        ("broker-a", "10.1.0.1:5000", 2),
        ("broker-a", "[::ffff:10.1.0.1]:5000", 2),
        ("broker-a", "[fd00:1::9]:5000", 2),
        ("broker-a", "10.2.3.4:5000", 3),
        ("broker-a", "10.3.3.4:5000", 1),
        ("broker-a", "unknown", 1),
        ("broker-b", "10.1.0.1:5000", 1),
        ("broker-aa", "10.1.2.1:5000", 4),
        ("broker-aa", "10.1.3.1:5000", 1),
        ("other", "10.1.0.1:5000", None),
    ],
)
def test_exact_name_wins_before_the_longest_pattern_among_the_rules_for_a_peer(name, peer, position):
    rules = rules_of_toml(RULES)
    audiences = Audiences(rules)
    found = rules.rule_of(name, audiences.networks_of(audiences.of_peer(peer)))
    assert (None if found is None else rules.rules.index(found) + 1) == position


def test_peers_of_the_same_networks_are_one_audience():
    audiences = Audiences(rules_of_toml(RULES))
    peers = ["10.1.0.1:1", "10.1.0.2:9", "10.1.2.1:1", "10.2.0.1:1", "192.168.0.1:1", "192.168.0.2:1", "broker:1"]
    numbers = [audiences.of_peer(peer) for peer in peers]
    assert numbers == [1, 1, 2, 3, 4, 4, 4]
    assert PLAIN not in numbers
    assert list(audiences.numbers()) == [1, 2, 3, 4]


def test_peers_of_no_network_get_plain_answers_where_no_rule_is_for_everybody():
    audiences = Audiences(rules_of_toml('[[roleAddress]]\nset = "broker-a"\nnetworks = ["10.1.0.0/16"]\n'))
    assert [audiences.of_peer(peer) for peer in ("10.2.0.1:1", "[fd00::1]:1", "unknown")] == [PLAIN] * 3
    assert audiences.of_peer("10.1.0.1:1") != PLAIN


def test_digest_is_of_what_rules_say_and_not_of_how_they_are_written():
    rules = rules_of_toml(RULES)
    assert (
        rules_of_toml("# A comment.\n" + RULES.replace('"10.1.0.0/16", "fd', '"10.1.0.0/16",   "FD')).digest
        == rules.digest
    )
    assert rules_of_toml(RULES.replace("10.0.0.5:", "10.0.0.6:")).digest != rules.digest
    assert len(rules.digest) == 12
