"""What a route becomes for peers for which rules count. Pure: reads the sets, returns another value.

Only the living master of a set has a role address, or for a short time the one that just left. As soon as a slave acts
for it, or no broker does, peers get the ids of the tables: whether clients read from slaves depends on that. Slaves
keep the addresses of their rule, also under id 0.
"""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from namesrv.core.role_addresses.rules import RoleAddressRule
from namesrv.core.tables.broker_table import BrokerTable, RegisteredSet
from remoting.protocol.shapes.route import MASTER_ID, TopicRouteData

#: Own address of a broker -> what stands for it; None where it is left out.
Replaced = Mapping[str, str | None]


def with_role_addresses(
    route: TopicRouteData,
    brokers: BrokerTable,
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
        broker_set = brokers.get(data.broker_name)
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
