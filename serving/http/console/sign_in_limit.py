"""How often an address may fail to sign in: values and rules; the time comes from outside."""

from ipaddress import IPv6Address, ip_network
from typing import Final

from remoting.protocol.addresses import ip_of

#: Sign-ins with a wrong token that one address may send within WINDOW_MS.
FAILURES_MAX: Final = 5
WINDOW_MS: Final = 60_000

#: Addresses that are remembered, those that failed last. A token has 16 characters or more: a peer with more addresses
#: than these still has no chance to guess one.
ADDRESSES_MAX: Final = 1024

#: Whoever has one IPv6 address has its network of this size.
_IPV6_PREFIX: Final = 64


class SignInLimit:
    """The times of failed sign-ins by the address that they came from."""

    def __init__(self) -> None:
        #: The address that failed last stands last.
        self._failures_ms: dict[str, list[int]] = {}

    def wait_ms(self, address: str, now_ms: int) -> int:
        """Return how long an address has to wait for its next try; 0 if it may try now."""
        failures_ms = self._recent(_source(address), now_ms)
        return failures_ms[0] + WINDOW_MS - now_ms if len(failures_ms) >= FAILURES_MAX else 0

    def failed(self, address: str, now_ms: int) -> None:
        """Count a wrong token."""
        source = _source(address)
        failures_ms = self._recent(source, now_ms)
        self._failures_ms.pop(source, None)
        if len(self._failures_ms) >= ADDRESSES_MAX:
            del self._failures_ms[next(iter(self._failures_ms))]
        self._failures_ms[source] = [*failures_ms, now_ms]

    def _recent(self, source: str, now_ms: int) -> list[int]:
        return [each for each in self._failures_ms.get(source, ()) if each + WINDOW_MS > now_ms]


def _source(address: str) -> str:
    ip = ip_of(address)
    return str(ip_network((ip, _IPV6_PREFIX), strict=False)) if isinstance(ip, IPv6Address) else address
