"""Rules of nftables for a host; tests/role_agent/test_agent_hosts.py shows what they do."""

from role_agent.nft_rules import nft_rules
from role_agent.settings import settings_of

FILE = """
set = "broker-a.1"
brokerId = 1
addresses = ["10.9.0.5/24", "fd00::5/64"]
interface = "eth0"
controllers = ["10.0.0.11:9879"]
listen = "10.0.0.1:9990"
peers = []
"""


def test_rules_replace_the_table_of_the_set_and_are_about_its_addresses_alone():
    assert nft_rules(settings_of(FILE)).splitlines() == [
        "table inet rocketmq_role_broker_a_1_45ba4a99",
        "delete table inet rocketmq_role_broker_a_1_45ba4a99",
        "table inet rocketmq_role_broker_a_1_45ba4a99 {",
        "  chain role_address {",
        "    type filter hook output priority filter; policy accept;",
        "    ip saddr 10.9.0.5 tcp flags & (rst | ack) == (rst | ack) tcp sequence 0 drop",
        "    ip saddr 10.9.0.5 fib saddr type != local tcp sequence != 0 drop",
        "    ip saddr 10.9.0.5 meta length <= 60 tcp flags & (fin | rst) == fin tcp flags set rst | ack",
        "    ip6 saddr fd00::5 tcp flags & (rst | ack) == (rst | ack) tcp sequence 0 drop",
        "    ip6 saddr fd00::5 fib saddr type != local tcp sequence != 0 drop",
        "    ip6 saddr fd00::5 meta length <= 80 tcp flags & (fin | rst) == fin tcp flags set rst | ack",
        "  }",
        "}",
    ]


def test_sets_of_one_host_have_tables_of_their_own():
    names = ["a.b", "a-b", "a_b", "a:b"]
    tables = {nft_rules(settings_of(FILE.replace("broker-a.1", name))).splitlines()[0] for name in names}
    assert len(tables) == len(names)
    assert "table inet rocketmq_role_a_b" in tables
