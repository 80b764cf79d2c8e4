"""What can be a name, or the address of a broker, which is `host:port` as every peer writes it."""

import ipaddress
import re
from functools import lru_cache
from typing import Final

#: Longest name or address that is kept; RocketMQ's own names stay far below, and names of hosts end at 253.
NAME_CHARS_MAX: Final = 255

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_ADDRESS: Final = re.compile(r"[A-Za-z0-9._:%\[\]-]{1,249}:([0-9]{1,5})")
_PORT_MAX: Final = 65_535
#: Addresses whose numbers are remembered.
_NUMBERS_MAX: Final = 20_000


def is_address(text: str) -> bool:
    """Tell whether a text can be called: the name or number of a host, and a port."""
    parts = _ADDRESS.fullmatch(text)
    return parts is not None and 0 < int(parts[1]) <= _PORT_MAX


def is_name(text: str) -> bool:
    """Tell whether a text can be the name of a cluster, a broker or a zone: no operator types control characters."""
    return len(text) <= NAME_CHARS_MAX and _CONTROL.search(text) is None


@lru_cache(maxsize=_NUMBERS_MAX)
def host_number(address: str) -> str:
    """Return the number of the host in "host:port", spelled in one way; blank if that is a name."""
    try:
        number = ipaddress.ip_address(address.rpartition(":")[0].strip("[]"))
    except ValueError:
        return ""
    return str(getattr(number, "ipv4_mapped", None) or number)
