"""Rules for nftables that a host with an agent needs: pure.

No refusals: where no broker listens, the kernel refuses a connection at once, and a client spends its three attempts of
a send within milliseconds. Without the refusal it waits, and the agent passes its request on to the host that has the
address next.

No late answers: over IPv6 the kernel sends from an address that the host no longer has. A broker that thaws could
answer what it was sent before, and the end of a session would reach its client before another host has the address.

Resets: the kernel ends the connections of a killed broker in order (FIN), where no answer is left to send. A Java
client 4.9 does not notice that: it lets a send wait for its timeout of 3 s, and a pull for 30 s. After a reset it sends
again at once.
"""

import hashlib
import re
from collections.abc import Iterator
from ipaddress import IPv4Interface, IPv6Interface
from typing import Final

from role_agent.settings import AgentSettings

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_]")
_DIGEST_CHARS: Final = 8
#: A refusal acknowledges a SYN and has no number of its own; the end of a session has one, and passes.
_REFUSAL: Final = "tcp flags & (rst | ack) == (rst | ack) tcp sequence 0 drop"
#: What has no number is the agent's own notice to the client of a closed session.
_LATE: Final = "fib saddr type != local tcp sequence != 0 drop"
#: A reset that carries data is not read: the last answer of a session keeps its end. An end without data has 40 or,
#: with timestamps, 52 bytes over IPv4, and 20 more over IPv6. Data of 20 bytes or less are not seen: frames of RocketMQ
#: are longer.
_RESET: Final = "tcp flags & (fin | rst) == fin tcp flags set rst | ack"
_BYTES_WITHOUT_DATA: Final = {"ip": 60, "ip6": 80}


def nft_rules(settings: AgentSettings) -> str:
    """Return a script for `nft -f -` that replaces the table of this set."""
    table = f"table inet rocketmq_role_{_table_name(settings.set_name)}"
    rules = [f"    {rule}" for each in settings.addresses for rule in _rules(each)]
    chain = ["  chain role_address {", "    type filter hook output priority filter; policy accept;", *rules, "  }"]
    return "\n".join([table, f"delete {table}", f"{table} {{", *chain, "}"]) + "\n"


def _table_name(set_name: str) -> str:
    """Return a name that nftables takes: names of sets that differ in other characters get digests."""
    readable = _NOT_IN_NAMES.sub("_", set_name)
    if readable == set_name:
        return set_name
    return f"{readable}_{hashlib.sha256(set_name.encode()).hexdigest()[:_DIGEST_CHARS]}"


def _rules(address: IPv4Interface | IPv6Interface) -> Iterator[str]:
    family = "ip6" if isinstance(address, IPv6Interface) else "ip"
    reset = f"meta length <= {_BYTES_WITHOUT_DATA[family]} {_RESET}"
    for rule in (_REFUSAL, _LATE, reset):
        yield f"{family} saddr {address.ip} {rule}"
