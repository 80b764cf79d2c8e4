"""Fields of requests to a controller: each check returns the value, or raises RequestInvalid with the field's name."""

import re
from functools import lru_cache
from typing import Final

from controller.failure_detection.heartbeats import BrokerKey
from controller.refusals import CleaningRefused, RequestInvalid
from remoting.protocol.addresses import NAME_CHARS_MAX, is_address, is_name
from remoting.protocol.codes import RequestCode
from remoting.protocol.shapes.controller import BrokerHeartbeatHeader

#: So many brokers have their checked key and address cached.
_SENDERS_MAX: Final = 20_000

#: Most ids in one list; a set has some brokers.
IDS_MAX: Final = 1_000

_IDS: Final = re.compile(r"[0-9]{1,18}")


def listed_ids(text: str) -> frozenset[int]:
    """Return the broker ids of a list with a ';' between; raises CleaningRefused."""
    parts = [part.strip() for part in text.split(";") if part.strip()]
    if len(parts) > IDS_MAX:
        raise CleaningRefused(f"{len(parts)} ids; at most {IDS_MAX} are taken at a time")
    if bad := [part for part in parts if not _IDS.fullmatch(part)]:
        raise CleaningRefused(f"{bad[0][:40]!r} is no broker id; give numbers with a ';' between")
    return frozenset(map(int, parts))


def given(code: int, field: str, value: str | None) -> str:
    """Return a text that must be there; raises RequestInvalid."""
    if not value:
        raise RequestInvalid(f"{_request(code)} needs {field}")
    if len(value) > NAME_CHARS_MAX:
        raise RequestInvalid(f"{_request(code)}: {field} has {len(value)} characters, {NAME_CHARS_MAX} are allowed")
    if not is_name(value):
        raise RequestInvalid(f"{_request(code)}: {field} has characters that are not shown: {value!r}")
    return value


def address_field(code: int, field: str, value: str) -> str:
    """Return an address `host:port`; raises RequestInvalid."""
    if not is_address(value):
        raise RequestInvalid(f"{_request(code)}: {field} must have an address as host:port, not {value[:80]!r}")
    return value


def cluster_of(header: BrokerHeartbeatHeader) -> str:
    """Return the cluster of a heartbeat, blank if it has none; raises RequestInvalid."""
    cluster = header.cluster_name
    # It is kept as long as the broker sends heartbeats.
    return given(RequestCode.BROKER_HEARTBEAT, "clusterName", cluster) if cluster else ""


@lru_cache(maxsize=_SENDERS_MAX)
def heartbeat_sender(broker_name: str | None, address: str | None, broker_id: int | None) -> tuple[BrokerKey, str]:
    """Return the broker of a heartbeat and its address; cached, as the same brokers send one each second."""
    code = RequestCode.BROKER_HEARTBEAT
    name = given(code, "brokerName", broker_name)
    checked = address_field(code, "brokerAddr", given(code, "brokerAddr", address))
    return BrokerKey(name, broker_id_field(code, "brokerId", broker_id)), checked


def number(code: int, field: str, value: int | None) -> int:
    """Return a number that must be there; raises RequestInvalid."""
    if value is None:
        raise RequestInvalid(f"{_request(code)} needs {field}, a whole number")
    return value


def broker_id_field(code: int, field: str, value: int | None) -> int:
    """Return a broker id, which is not negative; raises RequestInvalid."""
    if number(code, field, value) < 0:
        raise RequestInvalid(f"{_request(code)}: {field} must not be negative, it is {value}")
    assert value is not None, "a number"
    return value


def _request(code: int) -> str:
    return f"{RequestCode(code).name} ({code})"
