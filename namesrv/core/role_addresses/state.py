"""The rules in force, whom they concern, and what a route becomes for them. Time is an argument.

Only the living master of a set has a role address, or for a short time the one that just left. As soon as a slave acts
for it, or no broker does, peers get the ids of the tables: whether clients read from slaves depends on that. Slaves
keep the addresses of their rule, also under id 0.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from namesrv.core.role_addresses.checks import BrokerIdentity, CheckOutcome, RoleAddressChecks, RoleAddressUse
from namesrv.core.role_addresses.rules import PLAIN, Audiences, RoleAddressRule, RoleAddressRules
from namesrv.core.route_cache import RouteCache
from namesrv.core.tables.broker_table import RegisteredSet
from namesrv.core.tables.change import RouteTables
from remoting.protocol.shapes.route import MASTER_ID, TopicRouteData

#: Own address of a broker -> what stands for it; None where it is left out.
Replaced = Mapping[str, str | None]

NOTHING_LEARNED: Final[Mapping[str, RegisteredSet]] = {}


def with_role_addresses(
    route: TopicRouteData,
    set_of: Callable[[str], RegisteredSet | None],
    rule_of: Callable[[RegisteredSet], RoleAddressRule | None],
    is_held: Callable[[str, RoleAddressRule], bool],
) -> TopicRouteData:
    """Return a route with the addresses of the rule that `rule_of` returns for each set.

    `is_held` is whether a set whose master left keeps its role address. A client looks filter servers up under the
    address of the broker that it knows, so they move with it, and go with a slave that is left out.
    """
    datas = []
    replaced: dict[str, str | None] = {}
    for data in route.broker_datas:
        broker_set = set_of(data.broker_name)
        rule = None if broker_set is None else rule_of(broker_set)
        if broker_set is None or rule is None or looping_address(rule, broker_set) is not None:
            datas.append(data)
            continue
        own = data.broker_addrs
        has_master = MASTER_ID in broker_set.members
        if has_master or (MASTER_ID not in own and is_held(data.broker_name, rule)):
            addresses = _addresses(own, rule)
        else:
            # Of a slave that acts: it has id 0 in the route.
            ids = {member.address: broker_id for broker_id, member in broker_set.members.items()}
            addresses = {broker_id: rule.slaves.by_id.get(ids[address], address) for broker_id, address in own.items()}
        replaced.update({own[broker_id]: addresses.get(broker_id) for broker_id in own})
        datas.append(replace(data, broker_addrs=addresses))
    return replace(route, broker_datas=datas, filter_server_table=_moved(route.filter_server_table, replaced))


def looping_address(rule: RoleAddressRule, broker_set: RegisteredSet) -> str | None:
    """Return a role address that is the own one of a broker of the set, so that it would not move; None without one.

    The own address of a slave may stand for that slave.
    """
    own = {member.address: broker_id for broker_id, member in broker_set.members.items()}
    if rule.master in own:
        return rule.master
    return next((address for each, address in rule.slaves.by_id.items() if own.get(address, each) != each), None)


def _addresses(own: Mapping[int, str], rule: RoleAddressRule) -> dict[int, str]:
    """Return broker id -> address, ids ascending."""
    addresses = dict(own)
    if rule.slaves.are_omitted:
        addresses = {broker_id: address for broker_id, address in own.items() if broker_id == MASTER_ID}
    addresses |= {broker_id: address for broker_id, address in rule.slaves.by_id.items() if broker_id in own}
    if rule.master is not None:
        addresses[MASTER_ID] = rule.master
    return dict(sorted(addresses.items()))


def _moved(filter_servers: Mapping[str, list[str]], replaced: Replaced) -> dict[str, list[str]]:
    """Return the filter servers under the addresses that the peer knows."""
    found = {replaced.get(own, own): servers for own, servers in filter_servers.items()}
    return {address: servers for address, servers in found.items() if address is not None}


#: A lapsed hold is noticed so late at most, in ms, so it is counted as that much shorter.
TICK_MS: Final = 250


class RoleAddressLoop(msgspec.Struct, frozen=True):
    """A rule that is not applied: its address is that of a broker, so it would not move with the role."""

    broker_name: str
    address: str
    #: The set of the broker that registers with it.
    owner: str
    line: int | None

    def __str__(self) -> str:
        where = "" if self.line is None else f"line {self.line}: "
        return (
            f"{where}{self.address} of {self.broker_name} is the address with which a broker of {self.owner} "
            "registers; it would stay there when the master changes. Give the address of a proxy, or one that moves"
        )


class RoleAddresses:
    """Which role addresses the peers of each audience get; cached routes that change are dropped in the same step."""

    def __init__(self, tables: RouteTables, route_cache: RouteCache) -> None:
        self._tables = tables
        self._route_cache = route_cache
        self.rules = RoleAddressRules()
        self._audiences = Audiences(self.rules)
        #: The path of their file; blank where there is none.
        self.source = ""
        #: What is wrong with the newest text of the file; blank if its rules are in force.
        self.problem = ""
        #: Rules that are not applied, by their set.
        self.loops: Mapping[str, RoleAddressLoop] = {}
        #: Sets with a hold that lost their master -> until when id 0 keeps its role address; None before the next tick.
        self._held: dict[str, int | None] = {}
        self._holds: dict[str, int] = {}
        self.checks = RoleAddressChecks(tables.brokers)

    def replace(self, rules: RoleAddressRules, now_ms: int) -> None:
        """Put other rules in force; every cached route is dropped, and peers may be of other audiences."""
        self.rules = rules
        self.checks.replace(rules, now_ms)
        self._audiences = Audiences(rules)
        self._holds = {rule.set_name: rule.hold_ms for rule in rules.rules if rule.hold_ms}
        self._held = {name: until_ms for name, until_ms in self._held.items() if name in self._holds}
        self.loops = self._found_loops()
        self._route_cache.clear()

    # Queries

    def audience_of(self, peer: str) -> int:
        return self._audiences.of_peer(peer) if self.rules else PLAIN

    def for_audience(
        self, route: TopicRouteData, audience: int, learned: Mapping[str, RegisteredSet] = NOTHING_LEARNED
    ) -> TopicRouteData:
        """Return a route as an audience gets it; `learned` are sets of it with brokers that are not in the tables."""
        if audience == PLAIN:
            return route
        networks = self._audiences.networks_of(audience)

        def rule_of(broker_set: RegisteredSet) -> RoleAddressRule | None:
            name = broker_set.broker_name
            rule = None if name in self.loops else self.rules.rule_of(name, networks)
            return None if rule is None else self.checks.applicable(rule)

        def is_held(name: str, rule: RoleAddressRule) -> bool:
            return bool(rule.hold_ms) and name in self._held

        def set_of(name: str) -> RegisteredSet | None:
            return learned.get(name) or self._tables.brokers.get(name)

        return with_role_addresses(route, set_of, rule_of, is_held)

    def why_not_applied(self, rule: RoleAddressRule) -> str:
        """Return why peers do not get addresses of a rule that is in force; blank if they get all."""
        if (loop := self.loops.get(rule.set_name)) is not None:
            return str(loop)
        return "; ".join(reason for check in self.checks.of_rule(rule) if (reason := check.why_not_given))

    def given_of_masters(self) -> Iterator[RoleAddressRule]:
        """Yield the rules whose address of the master peers get, while their set has one."""
        for rule in self.rules.rules:
            is_given = rule.master is not None and rule.set_name not in self.loops
            if is_given and self.checks.applicable(rule) is not None:
                yield rule

    # What changes

    def set_changed(self, before: RegisteredSet | None, after: RegisteredSet) -> None:
        """Follow a broker set: its master left, or a new one came."""
        name = after.broker_name
        self.checks.set_changed(name)
        if name not in self._holds:
            return
        if MASTER_ID in after.members or not after.members:
            self._held.pop(name, None)
        elif before is not None and MASTER_ID in before.members:
            self._held[name] = None

    def answered(self, use: RoleAddressUse, answer: BrokerIdentity | str, now_ms: int, unix_ms: int) -> CheckOutcome:
        """Take who answered at an address, or why nobody did; return what changed of it."""
        outcome = self.checks.answered(use, answer, now_ms, unix_ms)
        change = outcome.change
        if change is not None and change.check.state.is_given != change.before.is_given:
            self._drop_routes((use.set_name,))
        return outcome

    def tick(self, now_ms: int) -> None:
        """Let holds lapse, and follow brokers that register with a role address. To be called each `TICK_MS`."""
        changed = []
        for name, until_ms in list(self._held.items()):
            if until_ms is None:
                self._held[name] = now_ms + self._holds[name] - 2 * TICK_MS
            elif now_ms >= until_ms:
                del self._held[name]
                changed.append(name)
        loops = self._found_loops()
        if loops != self.loops:
            changed += loops.keys() ^ self.loops.keys()
            self.loops = loops
        self._drop_routes(changed)

    def _drop_routes(self, broker_names: Iterable[str]) -> None:
        """Drop the cached routes of sets of which peers get other addresses, though no table changed."""
        for name in broker_names:
            self._route_cache.drop(self._tables.topics.of_broker(name).keys())

    def _found_loops(self) -> dict[str, RoleAddressLoop]:
        found: dict[str, RoleAddressLoop] = {}
        for rule in self.rules.rules:
            own_set = self._tables.brokers.get(rule.set_name)
            if own_set is not None and (address := looping_address(rule, own_set)) is not None:
                found[rule.set_name] = RoleAddressLoop(rule.set_name, address, rule.set_name, rule.line)
                continue
            for address in rule.addresses:
                owner = self._owner_of(address)
                if owner not in {None, rule.set_name}:
                    found[rule.set_name] = RoleAddressLoop(rule.set_name, address, str(owner), rule.line)
        return found

    def _owner_of(self, address: str) -> str | None:
        """Return the set of a broker that registers with an address; None if nobody does."""
        clusters = self._tables.brokers.clusters()
        keys = (self._tables.live.at_address(cluster, address) for cluster in clusters)
        return next((key.broker_name for key in keys if key is not None), None)
