"""Rules of nftables for the host of an HAProxy; test_two_haproxies.py shows what they do."""

from rmq.haproxy_config.configuration import reset_rules
from rmq.haproxy_config.frontends import Frontends, MasterFrontend, SlaveFrontend

RESET = "tcp flags & (fin | rst) == fin tcp flags set rst | ack"


def test_rules_replace_their_table_and_are_about_role_addresses_alone():
    master = MasterFrontend("broker-a", ("10.9.0.5:10911", "[fd00::5]:10911"), {1: "10.0.0.1:10911"})
    slave = SlaveFrontend("broker-a", 2, ("10.9.0.5:10921",), "10.0.0.2:10911")
    assert reset_rules(Frontends((master,), (slave,))).splitlines() == [
        "table inet rocketmq_proxy_sessions",
        "delete table inet rocketmq_proxy_sessions",
        "table inet rocketmq_proxy_sessions {",
        "  chain session_ends {",
        "    type filter hook output priority mangle; policy accept;",
        f"    ip saddr 10.9.0.5 tcp sport 10911 meta length <= 60 {RESET}",
        f"    ip6 saddr fd00::5 tcp sport 10911 meta length <= 80 {RESET}",
        f"    ip saddr 10.9.0.5 tcp sport 10921 meta length <= 60 {RESET}",
        "  }",
        "}",
    ]
