"""Rules for nftables on the host of an HAProxy, by which its sessions end with a reset: pure.

HAProxy ends a session of a client in order (FIN), also with `option nolinger`. A Java client 4.9 does not notice that:
it lets a send wait for its timeout of 3 s, and a pull for 30 s (its NettyRemotingClient handles exceptions of a
channel, but not its end). After a reset it sends again at once.
"""

from collections.abc import Iterable, Iterator
from ipaddress import IPv6Address, ip_address
from typing import Final

from remoting.protocol.addresses import split_address
from rmq.haproxy_config.frontends import Frontends

_TABLE: Final = "table inet rocketmq_proxy_sessions"
#: A reset that carries data is not read: the last answer of a session keeps its end. An end without data has 40 or,
#: with timestamps, 52 bytes over IPv4, and 20 more over IPv6. Data of 20 bytes or less are not seen: frames of RocketMQ
#: are longer.
_RESET: Final = "tcp flags & (fin | rst) == fin tcp flags set rst | ack"
_BYTES_WITHOUT_DATA: Final = {"ip": 60, "ip6": 80}


def reset_rules(frontends: Frontends) -> str:
    """Return a script for `nft -f -` that replaces the table of the role addresses of this host."""
    of_masters = (address for each in frontends.masters for address in each.addresses)
    of_slaves = (address for each in frontends.slaves for address in each.addresses)
    chain = [
        "  chain session_ends {",
        "    type filter hook output priority mangle; policy accept;",
        *_rules((*of_masters, *of_slaves)),
        "  }",
    ]
    return "\n".join([_TABLE, f"delete {_TABLE}", f"{_TABLE} {{", *chain, "}"]) + "\n"


def _rules(addresses: Iterable[str]) -> Iterator[str]:
    for address in addresses:
        found = split_address(address)
        assert found is not None, "rules have addresses with ports only"
        ip, port = ip_address(found[0]), found[1]
        family = "ip6" if isinstance(ip, IPv6Address) else "ip"
        yield f"    {family} saddr {ip} tcp sport {port} meta length <= {_BYTES_WITHOUT_DATA[family]} {_RESET}"
