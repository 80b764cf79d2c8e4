"""Audiences: peers for which the same rules count, because they are in the same of the networks that rules name.

Each has a number, by which answers are cached. Audience 0 gets what the tables say: no rule counts for it.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address

from namesrv.core.role_addresses.rules import Network, RoleAddressRules
from remoting.protocol.addresses import ip_of, split_address

PLAIN = 0

#: IP version and length of a prefix.
_Length = tuple[int, int]


class Audiences:
    """The audiences of some rules."""

    def __init__(self, rules: RoleAddressRules) -> None:
        self._is_for_everybody = rules.is_for_everybody
        #: Length of a prefix -> the prefixes of that length, as numbers, with their networks.
        self._prefixes: dict[_Length, dict[int, Network]] = {}
        for network in rules.networks:
            length = network.version, network.max_prefixlen - network.prefixlen
            self._prefixes.setdefault(length, {})[int(network.network_address) >> length[1]] = network
        #: Networks of a peer -> its audience, and the other way round.
        self._numbers: dict[frozenset[Network], int] = {}
        self._networks: list[frozenset[Network]] = [frozenset()]

    def of_peer(self, peer: str) -> int:
        """Return the audience of a "host:port"; one without an IP address is in no network."""
        found = split_address(peer)
        networks = self._networks_of(ip_of(found[0]) if found else None)
        if not networks and not self._is_for_everybody:
            return PLAIN
        number = self._numbers.get(networks)
        if number is None:
            # Networks contain each other or have nothing in common: there is at most one audience more than networks.
            number = self._numbers[networks] = len(self._networks)
            self._networks.append(networks)
        return number

    def networks_of(self, audience: int) -> frozenset[Network]:
        """Return the networks of rules in which the peers of an audience are."""
        return self._networks[audience]

    def numbers(self) -> Iterable[int]:
        """Return the audiences of all peers that were there so far, but the plain one."""
        return range(1, len(self._networks))

    def _networks_of(self, ip: IPv4Address | IPv6Address | None) -> frozenset[Network]:
        if ip is None:
            return frozenset()
        number = int(ip)
        return frozenset(
            network
            for (version, bits), prefixes in self._prefixes.items()
            if version == ip.version and (network := prefixes.get(number >> bits)) is not None
        )
