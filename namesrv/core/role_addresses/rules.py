"""Rules of role addresses, and which of them holds for a broker set and a peer. Values only.

Of several rules that match a broker set and hold for a peer's network, one counts: that with the exact name, else that
with the longest pattern, counted without `*` and `?`; of equally long ones the first. Peers for which the same rules
count are an audience. Each has a number, by which answers are cached; audience 0 gets what the tables say.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

import msgspec

from remoting.protocol.addresses import ip_of, split_address
from serving.config.name_patterns import NamePattern, is_pattern, literal_length

#: So many characters of a digest tell rules apart.
_DIGEST_CHARS: Final = 12

Network = IPv4Network | IPv6Network


class SlaveAddresses(msgspec.Struct, frozen=True):
    """What stands for the slaves of a set; without anything here, their own addresses."""

    #: Broker id -> address; ids that are not there keep their own.
    by_id: Mapping[int, str] = msgspec.field(default_factory=dict)
    are_omitted: bool = False


class RoleAddressRule(msgspec.Struct, frozen=True, kw_only=True):
    """Which addresses some peers get instead of those that the brokers of a set advertise."""

    #: The name of a broker set, or a pattern of names: `*` stands for any characters, `?` for one.
    set_name: str
    #: Peers of these networks get them; nothing for everybody.
    networks: tuple[Network, ...] = ()
    #: What stands for broker id 0; None for the master's own address.
    master: str | None = None
    slaves: SlaveAddresses = SlaveAddresses()
    #: The set is failed over by a controller; a NameServer cannot know it by itself.
    controller_mode: bool = False
    #: For so long after the master left, id 0 keeps its role address, in ms.
    hold_ms: int = 0
    #: Its addresses are given to peers only once they led to the brokers for which they stand.
    is_verified: bool = True
    #: Line of the file, from 1, if it is known.
    line: int | None = None

    @property
    def addresses(self) -> tuple[str, ...]:
        return (*(() if self.master is None else (self.master,)), *self.slaves.by_id.values())

    def canonical(self) -> dict[str, object]:
        """Return what the rule says, whatever it looks like in the file."""
        return {
            "set": self.set_name,
            "networks": sorted(map(str, self.networks)),
            "master": self.master,
            "slaves": [[broker_id, self.slaves.by_id[broker_id]] for broker_id in sorted(self.slaves.by_id)],
            "slavesOmitted": self.slaves.are_omitted,
            "controllerMode": self.controller_mode,
            "holdMs": self.hold_ms,
            "verify": self.is_verified,
        }


class RoleAddressRules:
    """All rules of a file; another file makes other rules."""

    def __init__(self, rules: Sequence[RoleAddressRule] = ()) -> None:
        self.rules = tuple(rules)
        self._exact: dict[str, list[RoleAddressRule]] = {}
        patterns: list[RoleAddressRule] = []
        for rule in rules:
            if is_pattern(rule.set_name):
                patterns.append(rule)
            else:
                self._exact.setdefault(rule.set_name, []).append(rule)
        patterns.sort(key=lambda rule: -literal_length(rule.set_name))
        self._patterns = [(NamePattern(rule.set_name), rule) for rule in patterns]

    def __bool__(self) -> bool:
        return bool(self.rules)

    @property
    def digest(self) -> str:
        """The same for rules that say the same, in whatever form; the order counts, as it does for patterns."""
        text = msgspec.json.encode([rule.canonical() for rule in self.rules])
        return hashlib.sha256(text).hexdigest()[:_DIGEST_CHARS]

    @property
    def networks(self) -> tuple[Network, ...]:
        return tuple(dict.fromkeys(network for rule in self.rules for network in rule.networks))

    @property
    def is_for_everybody(self) -> bool:
        return any(not rule.networks for rule in self.rules)

    def rule_of(self, broker_name: str, networks: frozenset[Network]) -> RoleAddressRule | None:
        """Return the rule that counts for a set and a peer in these networks; None if there is none."""
        exact = self._exact.get(broker_name, ())
        matching = (rule for pattern, rule in self._patterns if pattern.matches(broker_name))
        for rules in (exact, matching):
            for rule in rules:
                if not rule.networks or not networks.isdisjoint(rule.networks):
                    return rule
        return None


PLAIN = 0

#: IP version and length of a prefix.
_Length = tuple[int, int]


class Audiences:
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
