"""Which addresses an HAProxy listens at, and to which brokers each leads: pure, from rules and broker sets."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from namesrv.core.role_addresses.rules import RoleAddressRule
from remoting.protocol.addresses import split_address
from serving.config.service_sets import ServiceSet

#: By the name of a broker set, the addresses of its brokers by their ids.
KnownSets = Mapping[str, Mapping[int, str]]


class MasterFrontend(NamedTuple):
    """The addresses of the master of a set, and the brokers that can be it, by id."""

    broker_name: str
    addresses: tuple[str, ...]
    brokers: Mapping[int, str]


class SlaveFrontend(NamedTuple):
    broker_name: str
    broker_id: int
    addresses: tuple[str, ...]
    broker: str


class Frontends(NamedTuple):
    """Everything that an HAProxy serves, in the order of broker names."""

    masters: tuple[MasterFrontend, ...]
    slaves: tuple[SlaveFrontend, ...]


class NotConfigurable(Exception):
    """Rules and broker sets do not fit; the text says what to do."""


def frontends_of(rules: Iterable[RoleAddressRule], known: KnownSets, hosts: Sequence[str] = ()) -> Frontends:
    """Return what serves the addresses of the rules at these hosts, at all of them without any.

    Raises NotConfigurable for a set that no controller knows, and if there is nothing to serve.
    """
    masters: dict[str, dict[str, None]] = {}
    slaves: dict[tuple[str, int], dict[str, None]] = {}
    for rule in rules:
        if rule.master is not None and _is_at(rule.master, hosts):
            masters.setdefault(rule.set_name, {})[rule.master] = None
        for broker_id, address in rule.slaves.by_id.items():
            if _is_at(address, hosts):
                slaves.setdefault((rule.set_name, broker_id), {})[address] = None
    _check_known({*masters, *(name for name, _ in slaves)}, known)
    if not masters and not slaves:
        at = f" at {', '.join(hosts)}" if hosts else ""
        raise NotConfigurable(f"no rule gives an address{at}: nothing to serve")
    return Frontends(
        masters=tuple(
            MasterFrontend(name, tuple(addresses), known[name]) for name, addresses in sorted(masters.items())
        ),
        slaves=tuple(
            SlaveFrontend(name, broker_id, tuple(addresses), _slave(known, name, broker_id))
            for (name, broker_id), addresses in sorted(slaves.items())
        ),
    )


def frontends_of_services(sets: Iterable[ServiceSet]) -> Frontends:
    """Return what serves the sets on all addresses of a pod; brokers are names."""
    masters = (
        MasterFrontend(
            each.name,
            (f"0.0.0.0:{each.port}",),
            {
                broker_id: f"{each.broker_host(broker_id)}:{each.broker_port}"
                for broker_id in sorted(set(each.broker_ids))
            },
        )
        for each in sorted(sets, key=lambda each: each.name)
    )
    return Frontends(masters=tuple(masters), slaves=())


def _is_at(address: str, hosts: Sequence[str]) -> bool:
    found = split_address(address)
    return not hosts or (found is not None and found[0] in hosts)


def _check_known(names: Iterable[str], known: KnownSets) -> None:
    missing = sorted(name for name in names if not known.get(name))
    if missing:
        raise NotConfigurable(
            f"the controllers know no broker of {', '.join(missing)}: start the brokers in controller mode first, or "
            "correct the names of the rules"
        )


def _slave(known: KnownSets, name: str, broker_id: int) -> str:
    brokers = known[name]
    if broker_id not in brokers:
        raise NotConfigurable(
            f"{name} has no broker {broker_id}, but a rule gives it an address; its ids are "
            f"{', '.join(map(str, brokers))}"
        )
    return brokers[broker_id]
