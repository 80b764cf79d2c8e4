"""EndpointSlices as the API server of Kubernetes has them: `discovery.k8s.io/v1`, the fields that are used here.

What others put into the metadata of a slice is sent back as it was. Answers to no class of Java's.
"""

from typing import Any, Final

import msgspec

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
    """Of a slice."""

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
    """One broker."""

    addresses: list[str]
    conditions: Conditions = Conditions()
    hostname: str | None = None


class Port(_Shape, frozen=True, kw_only=True):
    """Of all endpoints of a slice."""

    port: int | None = None
    name: str = ""
    protocol: str = "TCP"


class EndpointSlice(_Shape, frozen=True, kw_only=True):
    """Some brokers of one set, with addresses of one family."""

    api_version: str
    kind: str
    metadata: Metadata
    address_type: str
    endpoints: list[SliceEndpoint] | None
    ports: list[Port] | None
