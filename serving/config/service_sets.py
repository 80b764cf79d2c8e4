"""The file of broker sets that are Services of Kubernetes: what stands in it, and what of it is refused.

The Helm chart writes it, for the controllers that publish where brokers are, and for the HAProxy that looks them up
(docs/role-addresses-kubernetes.md). Answers to no class of Java's.
"""

import re
from collections import Counter
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from remoting.protocol.addresses import NAME_CHARS_MAX, is_name

#: Sets in a file.
SETS_MAX: Final = 500
#: What clients connect to; HAProxy does not run as root.
_FrontendPort = Annotated[int, Meta(ge=1024, le=65_535)]
_Port = Annotated[int, Meta(ge=1, le=65_535)]
#: Controllers give ids from 1 on.
_BrokerId = Annotated[int, Meta(ge=1, lt=10**18)]
#: Any broker name that a role check takes; a line end would end a line of HAProxy's configuration.
_SetName = Annotated[str, Meta(min_length=1)]
#: A value of a label of Kubernetes.
_Release = Annotated[str, Meta(max_length=63, pattern=r"\A([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?\Z")]
_LABEL: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_SERVICE_NAME: Final = re.compile(rf"(?=.{{1,253}}$)(?P<service>{_LABEL})\.(?P<namespace>{_LABEL})(\.{_LABEL})*")


class ServiceSetsRefused(Exception):
    """The file cannot be used; the text says why."""


class ServiceSet(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    name: _SetName
    #: Where clients connect.
    port: _FrontendPort
    #: Full DNS name of the headless Service below which its brokers are: SERVICE.NAMESPACE.svc.DOMAIN.
    service: str
    #: `listenPort` of all its brokers.
    broker_port: _Port
    #: Ids that its brokers have, or may get.
    broker_ids: Annotated[list[_BrokerId], Meta(min_length=1, max_length=100)]
    #: Release of the chart, with which its slices are labelled; blank for none.
    release: _Release = ""

    @property
    def service_name(self) -> str:
        return self.service.split(".")[0]

    @property
    def namespace(self) -> str:
        return self.service.split(".")[1]

    def broker_host(self, broker_id: int) -> str:
        return f"{host_label(broker_id)}.{self.service}"


def host_label(broker_id: int) -> str:
    """Return the first label of the DNS name of a broker, which is the `hostname` of its endpoint."""
    return f"b{broker_id}"


def service_sets(text: bytes) -> list[ServiceSet]:
    """Return the sets of a file, a JSON list; raises ServiceSetsRefused."""
    try:
        found = msgspec.json.decode(text, type=list[ServiceSet])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ServiceSetsRefused(str(error)) from None
    if not 0 < len(found) <= SETS_MAX:
        raise ServiceSetsRefused(f"it must have 1 to {SETS_MAX} sets, and has {len(found)}")
    for each in found:
        if not is_name(each.name):
            raise ServiceSetsRefused(f"{each.name[:NAME_CHARS_MAX]!r} is not a valid name of a broker set")
        if not _SERVICE_NAME.fullmatch(each.service):
            raise ServiceSetsRefused(f"{each.name}: {each.service!r} is not of the form SERVICE.NAMESPACE.svc.DOMAIN")
    _check_different("name", Counter(each.name for each in found))
    _check_different("service", Counter(each.service for each in found))
    _check_different("port", Counter(str(each.port) for each in found))
    return found


def _check_different(what: str, found: Counter[str]) -> None:
    if twice := sorted(each for each, number in found.items() if number > 1):
        raise ServiceSetsRefused(f"two sets have the {what} {', '.join(twice)}")
