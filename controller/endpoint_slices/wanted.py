"""Which EndpointSlices a set has, and what makes of a stored one the wanted one. Pure.

Two for a set at most, one for each family of addresses. Each endpoint is one broker, under the name `bID`, so that DNS
answers `b1.SERVICE.NAMESPACE.svc.DOMAIN`. All brokers of the set are in them that HAProxy knows, whatever their roles:
who is the master is not the business of DNS. Answers to no class of Java's.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from controller.sets.broker_set import BrokerSet
from remoting.protocol.addresses import split_address
from serving.config.service_sets import ServiceSet, host_label

API_VERSION: Final = "discovery.k8s.io/v1"
KIND: Final = "EndpointSlice"
#: Label that says to which Service a slice belongs.
SERVICE_LABEL: Final = "kubernetes.io/service-name"
#: Label that says who writes a slice; nobody else does.
MANAGED_BY_LABEL: Final = "endpointslice.kubernetes.io/managed-by"
MANAGED_BY: Final = "rocketmq-controller"
#: Label that says to which release of the chart a slice belongs.
INSTANCE_LABEL: Final = "app.kubernetes.io/instance"


class _Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A part of a slice."""


class Metadata(_Shape, frozen=True, kw_only=True):
    name: str
    namespace: str
    labels: dict[str, str] | None = None
    #: Of the slice that was read: the server refuses a change of another one.
    resource_version: str | None = None
    uid: str | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[dict[str, Any]] | None = None
    finalizers: list[str] | None = None


class Conditions(_Shape, frozen=True, kw_only=True):
    """Of an endpoint; DNS answers those that are ready."""

    ready: bool | None = None


class SliceEndpoint(_Shape, frozen=True, kw_only=True):
    addresses: list[str]
    conditions: Conditions = Conditions()
    hostname: str | None = None


class Port(_Shape, frozen=True, kw_only=True):
    port: int | None = None
    name: str = ""
    protocol: str = "TCP"


class EndpointSlice(_Shape, frozen=True, kw_only=True):
    """Some brokers of one set, with addresses of one family; its metadata goes back as others have made it."""

    api_version: str
    kind: str
    metadata: Metadata
    address_type: str
    endpoints: list[SliceEndpoint] | None
    ports: list[Port] | None


_FAMILIES: Final = ("IPv4", "IPv6")
_PORT_NAME: Final = "remoting"
_READY: Final = Conditions(ready=True)


class WantedSlices(NamedTuple):
    slices: tuple[EndpointSlice, ...]
    #: By broker id, why a broker is not published.
    left_out: Mapping[int, str]


class ForeignSlice(Exception):
    def __init__(self, name: str, managed_by: str) -> None:
        self.name, self.managed_by = name, managed_by
        super().__init__(f"EndpointSlice {name} is written by {managed_by or 'somebody else'}: remove it")


def wanted_slices(service: ServiceSet, broker_set: BrokerSet) -> WantedSlices:
    left_out: dict[int, str] = {}
    endpoints: dict[str, list[SliceEndpoint]] = {family: [] for family in _FAMILIES}
    for broker_id, replica in sorted(broker_set.replicas.items()):
        if broker_id not in service.broker_ids:
            left_out[broker_id] = f"{broker_id} is none of the brokerIds of its set, for which HAProxy has servers"
            continue
        found = _ip_of(replica.address, service.broker_port)
        if isinstance(found, str):
            left_out[broker_id] = found
        else:
            endpoints[f"IPv{found.version}"].append(
                SliceEndpoint(addresses=[str(found)], conditions=_READY, hostname=host_label(broker_id))
            )
    return WantedSlices(tuple(_slice(service, family, endpoints[family]) for family in _FAMILIES), left_out)


def next_slice(found: EndpointSlice | None, wanted: EndpointSlice) -> EndpointSlice | None:
    """Return what is to be stored; None if nothing is to be changed. Raises ForeignSlice.

    A slice without endpoints is not made, and one that there is becomes empty, unless somebody else writes it.
    """
    if found is None:
        return wanted if wanted.endpoints else None
    labels = found.metadata.labels or {}
    if labels.get(MANAGED_BY_LABEL) != MANAGED_BY:
        if not wanted.endpoints:
            return None
        raise ForeignSlice(found.metadata.name, labels.get(MANAGED_BY_LABEL, ""))
    wanted_labels = wanted.metadata.labels or {}
    if _content(found) == _content(wanted) and wanted_labels.items() <= labels.items():
        return None
    return replace(wanted, metadata=replace(found.metadata, labels=labels | wanted_labels))


def _ip_of(address: str, port: int) -> ipaddress.IPv4Address | ipaddress.IPv6Address | str:
    """Return the IP address of a broker, or why Kubernetes or HAProxy cannot take it."""
    found = split_address(address)
    try:
        ip = ipaddress.ip_address(found[0].strip("[]")) if found is not None else None
    except ValueError:
        ip = None
    if found is None or ip is None or getattr(ip, "scope_id", None):
        return f"{address} is no IP address with a port"
    # Kubernetes refuses the whole slice for an IPv4 address in the form of IPv6.
    ip = getattr(ip, "ipv4_mapped", None) or ip
    if found[1] != port:
        return f"{address} has another port than {port}, the brokerPort of its set"
    if ip.is_loopback or ip.is_unspecified or ip.is_link_local or ip.is_multicast:
        return f"{address} is no address that other hosts reach"
    return ip


def _slice(service: ServiceSet, family: str, endpoints: list[SliceEndpoint]) -> EndpointSlice:
    labels = {SERVICE_LABEL: service.service_name, MANAGED_BY_LABEL: MANAGED_BY}
    if service.release:
        labels[INSTANCE_LABEL] = service.release
    name = f"{service.service_name}-{family.lower()}"
    return EndpointSlice(
        api_version=API_VERSION,
        kind=KIND,
        metadata=Metadata(name=name, namespace=service.namespace, labels=labels),
        address_type=family,
        endpoints=endpoints,
        ports=[Port(name=_PORT_NAME, port=service.broker_port)],
    )


def _content(each: EndpointSlice) -> tuple[object, ...]:
    """Return what a slice publishes; two that publish the same have the same."""
    endpoints: Iterable[SliceEndpoint] = each.endpoints or ()
    return (
        each.address_type,
        # One without the condition counts as ready.
        sorted((one.hostname or "", one.addresses, one.conditions.ready is not False) for one in endpoints),
        [(one.name, one.port, one.protocol) for one in each.ports or ()],
    )
