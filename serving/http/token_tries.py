"""How often an address may show a wrong token, at whatever door: values and rules; the time comes from outside."""

from typing import Final

from remoting.server.connection_limit import network_of

#: Wrong tokens that one network may show within WINDOW_MS.
FAILURES_MAX: Final = 5
WINDOW_MS: Final = 60_000

#: Networks that are remembered, those that tried last. A token has 16 characters or more: a peer with more networks
#: than these still has no chance to guess one.
NETWORKS_MAX: Final = 1024


class TokenTries:
    """The tries of each network that have not succeeded, those under way included."""

    def __init__(self) -> None:
        #: The network that tried last stands last.
        self._began_ms: dict[str, list[int]] = {}

    def begin(self, host: str, now_ms: int) -> int:
        """Count a try of a host that begins now; return 0, or how many ms it has to wait for it."""
        network = network_of(host)
        began_ms = [each for each in self._began_ms.pop(network, ()) if each + WINDOW_MS > now_ms]
        is_allowed = len(began_ms) < FAILURES_MAX
        self._began_ms[network] = [*began_ms, now_ms] if is_allowed else began_ms
        if len(self._began_ms) > NETWORKS_MAX:
            del self._began_ms[next(iter(self._began_ms))]
        return 0 if is_allowed else began_ms[0] + WINDOW_MS - now_ms

    def succeeded(self, host: str) -> None:
        """Take back the last try of a host: it showed the right token."""
        if began_ms := self._began_ms.get(network_of(host)):
            began_ms.pop()
