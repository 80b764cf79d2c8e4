"""Reads rules from a TOML file; mistakes are named, and none is passed over.

[[roleAddress]]
set = "broker-a"
networks = ["10.1.0.0/16", "fd00:1::/64"]
master = "10.0.0.5:10911"
slaves = "omit"
controllerMode = true
hold = "10s"
verify = false
"""

import re
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from itertools import chain
from typing import Any, Final, NamedTuple

from namesrv.core.role_addresses.checks import CHECKED_MAX, RoleAddressUse, checked_uses
from namesrv.core.role_addresses.rules import Network, RoleAddressRule, RoleAddressRules, SlaveAddresses
from remoting.protocol.addresses import NAME_CHARS_MAX, host_and_port, is_name
from remoting.protocol.shapes.route import MASTER_ID
from serving.config.name_patterns import is_pattern
from serving.config.table_documents import (
    Problem,
    PropertyReader,
    TableKind,
    TableLines,
    WrongValue,
    duration,
    read_properties,
    tables_of,
    toml_document,
)

RULES_MAX: Final = 1_000
#: Different networks of all rules: each can make an audience with answers of its own.
NETWORKS_MAX: Final = 100
HOLD_MS_MIN: Final = 1_000
#: Longer than an election takes, and shorter than clients should wait for a set that has no master.
HOLD_MS_MAX: Final = 10_000
_SLAVES_MAX: Final = 100

#: Clients with vipChannelEnabled, the default until 4.5, connect to the port that is this much smaller.
VIP_OFFSET: Final = 2
_PORT_MAX: Final = 65_535
_BROKER_ID_MAX: Final = 2**63 - 1

_SET: Final = re.compile(r"[^\[\]]+")
_IPV4: Final = re.compile(r"([0-9.]+):([0-9]{1,5})")
_IPV6: Final = re.compile(r"\[([0-9a-fA-F:.]+)\]:([0-9]{1,5})")
#: The bits before an IPv4 address that is written as an IPv6 one.
_MAPPED_BITS: Final = 96

_ADDRESS: Final = (
    "an IP address with a port from 3 to 65535, such as 10.0.0.5:10911 or [fd00::5]:10911, and never a host name, as "
    "clients compare the text,"
)


def rules_of_toml(text: str) -> RoleAddressRules:
    """Return the rules of a file; raises TablesRefused."""
    lines = TableLines(text, _KIND.name)
    former = _FormerRules()

    def problems_of(table: Any, position: int) -> Iterator[Problem]:
        problems = _problems(table)
        found = next(problems, None)
        if found is not None:
            return chain((found,), problems)
        return former.problems_with(RoleAddressRule(**_KIND.values(table)), position)

    tables = tables_of(toml_document(text), _KIND, lines, problems_of)
    return RoleAddressRules(
        [
            RoleAddressRule(**_KIND.values(table), line=lines.line_of(position, "", len(tables)))
            for position, table in enumerate(tables)
        ]
    )


class _Use(NamedTuple):
    """Whose address it is: the set, the broker id, and the position of the rule."""

    set_name: str
    broker_id: int
    position: int


class _FormerRules:
    """The rules before one in the file, with which it has to agree."""

    def __init__(self) -> None:
        self._rules: dict[str, list[tuple[int, RoleAddressRule]]] = {}
        self._uses: dict[str, _Use] = {}
        self._networks: set[Network] = set()
        self._checked: set[RoleAddressUse] = set()

    def problems_with(self, rule: RoleAddressRule, position: int) -> Iterator[Problem]:
        """Yield what of a rule does not go with the former ones; it is one of them from now on."""
        yield from self._same_set(rule, position)
        ids = {} if rule.master is None else {MASTER_ID: rule.master}
        for broker_id, address in (ids | dict(rule.slaves.by_id)).items():
            place = "master" if broker_id == MASTER_ID else "slaves"
            for problem in self._same_address(address, _Use(rule.set_name, broker_id, position)):
                yield place, problem
        self._networks.update(rule.networks)
        if len(self._networks) > NETWORKS_MAX:
            yield "networks", f"with this rule the file names more than {NETWORKS_MAX} different networks"
        self._checked.update(checked_uses(rule))
        if len(self._checked) > CHECKED_MAX:
            problem = f"with this rule the file has more than {CHECKED_MAX} addresses that are checked"
            yield "verify", f"{problem}; give rules verify = false, or split the cluster"

    def _same_set(self, rule: RoleAddressRule, position: int) -> Iterator[Problem]:
        same = self._rules.setdefault(rule.set_name, [])
        for earlier, other in same:
            if (overlap := _overlap(rule, other)) is not None:
                problem = (
                    f"roleAddress {earlier + 1} is about {rule.set_name!r} too, and both hold for {overlap}; "
                    "give them networks that have nothing in common, or remove one of them"
                )
                yield "networks" if rule.networks else "set", problem
                break
        same.append((position, rule))

    def _same_address(self, address: str, use: _Use) -> Iterator[str]:
        earlier = self._uses.setdefault(address, use)
        if earlier[:2] != use[:2]:
            yield (
                f"{address} stands for broker id {earlier.broker_id} of {earlier.set_name!r} already "
                f"(roleAddress {earlier.position + 1}); one address leads to one broker only, so give each its own"
            )
        host, _, port = address.rpartition(":")
        for other_port in (int(port) - VIP_OFFSET, int(port) + VIP_OFFSET):
            other = self._uses.get(f"{host}:{other_port}")
            if other is not None:
                yield (
                    f"the ports of {address} and {host}:{other_port} (roleAddress {other.position + 1}) differ by "
                    f"{VIP_OFFSET}: clients with vipChannelEnabled use the port - {VIP_OFFSET}, so they reach the "
                    "other broker; choose another port"
                )


def _overlap(rule: RoleAddressRule, other: RoleAddressRule) -> str | None:
    """Return for whom both rules hold, None for nobody."""
    if not rule.networks or not other.networks:
        only = rule.networks or other.networks
        return str(only[0]) if only else "everybody"
    for network in rule.networks:
        for another in other.networks:
            if network.version == another.version and network.overlaps(another):
                return str(max(network, another, key=lambda each: each.prefixlen))
    return None


def _problems(table: Any) -> Iterator[Problem]:
    """Yield what is wrong with a rule by itself."""
    if isinstance(table, Mapping) and "set" not in table:
        yield "set", "is missing: the name of a broker set, or a pattern with * and ?"
    read, problems = read_properties(table, _KIND)
    yield from problems
    if is_pattern(read.get("set", "")):
        has_addresses = {"master": "master" in read, "slaves": bool(read.get("slaves", SlaveAddresses()).by_id)}
        for name in (name for name, has in has_addresses.items() if has):
            problem = (
                f"{read['set']!r} can match two broker sets, and one address cannot lead to both; name one set in each "
                'rule with addresses (a pattern may have slaves = "omit")'
            )
            yield name, problem
    if "hold" in read and not (read.get("controllerMode") and "master" in read):
        problem = "is for a role address of a set that a controller fails over: add controllerMode = true and master"
        yield "hold", f"{problem}, or remove it"


def _set(value: Any) -> str:
    if not isinstance(value, str) or not is_name(value) or not _SET.fullmatch(value):
        raise WrongValue(f"a brokerName of 1 to {NAME_CHARS_MAX} characters without [ and ], or a pattern with * and ?")
    return value


def _networks(value: Any) -> tuple[Network, ...]:
    if not isinstance(value, list) or not 0 < len(value) <= NETWORKS_MAX:
        raise WrongValue(f"a list of 1 to {NETWORKS_MAX} networks (without the property: everybody)")
    return tuple(dict.fromkeys(map(_network, value)))


def _network(value: Any) -> Network:
    try:
        found = ip_network(value) if isinstance(value, str) else None
    except ValueError as error:
        raise WrongValue(f"a network such as 10.1.0.0/16 or fd00:1::/64 (not {value!r}: {error})") from None
    if found is None:
        raise WrongValue("a network such as 10.1.0.0/16 or fd00:1::/64")
    if isinstance(found, IPv6Network) and found.prefixlen >= _MAPPED_BITS and found.network_address.ipv4_mapped:
        return IPv4Network((found.network_address.ipv4_mapped, found.prefixlen - _MAPPED_BITS))
    return found


def _address(value: Any) -> str:
    """Return an address in its one standard form."""
    found = _IPV4.fullmatch(value) or _IPV6.fullmatch(value) if isinstance(value, str) else None
    if found is None or not VIP_OFFSET < int(found[2]) <= _PORT_MAX:
        raise WrongValue(_ADDRESS)
    try:
        ip: IPv4Address | IPv6Address = ip_address(found[1])
    except ValueError:
        raise WrongValue(_ADDRESS) from None
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped:
        ip = ip.ipv4_mapped
    if ip.is_unspecified or ip.is_multicast:
        raise WrongValue("the address of one host")
    return host_and_port(str(ip), int(found[2]))


def _slaves(value: Any) -> SlaveAddresses:
    allowed = '"omit", or a table of broker ids and addresses such as { 1 = "10.0.0.6:10911" },'
    if value == "omit":
        return SlaveAddresses(are_omitted=True)
    if not isinstance(value, Mapping) or not 0 < len(value) <= _SLAVES_MAX:
        raise WrongValue(allowed)
    addresses = {}
    for key, address in value.items():
        if not (key.isascii() and key.isdigit()) or not MASTER_ID < int(key) <= _BROKER_ID_MAX:
            raise WrongValue(f"{allowed} with ids from 1 on,")
        addresses[int(key)] = _address(address)
    if len(set(addresses.values())) < len(addresses):
        raise WrongValue("a table in which each broker id has an address of its own")
    return SlaveAddresses(addresses)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise WrongValue("true or false")
    return value


_READERS: Final[Mapping[str, PropertyReader]] = {
    "set": PropertyReader("set_name", _set),
    "networks": PropertyReader("networks", _networks),
    "master": PropertyReader("master", _address),
    "slaves": PropertyReader("slaves", _slaves),
    "controllerMode": PropertyReader("controller_mode", _flag),
    "hold": PropertyReader("hold_ms", duration(HOLD_MS_MIN, HOLD_MS_MAX)),
    "verify": PropertyReader("is_verified", _flag),
}
_KIND: Final = TableKind("roleAddress", "role addresses", RULES_MAX, _READERS)
