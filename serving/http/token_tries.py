"""How many wrong tokens an address may show, at whatever door: values and rules; the time comes from outside."""

from typing import Final

from remoting.server.connection_limit import network_of

#: Wrong tokens that one network may show within WINDOW_MS.
FAILURES_MAX: Final = 5
WINDOW_MS: Final = 60_000

#: Networks that are remembered, those that tried last. A token has 16 characters or more: a peer with more networks
#: than these still has no chance to guess one.
NETWORKS_MAX: Final = 1024


class TokenTries:
    """The wrong tokens of each network, tries under way included.

    A token that comes again is no new try: a program with an old token guesses nothing, and must not keep others of its
    network out.
    """

    def __init__(self) -> None:
        #: When each try began, and the hash of what it showed, None while it is under way; the network that tried last
        #: stands last.
        self._tries: dict[str, list[tuple[int, int | None]]] = {}

    def begin(self, host: str, now_ms: int) -> int:
        """Count a try of a host that begins now; return 0, or how many ms it has to wait for it."""
        network = network_of(host)
        tries = [each for each in self._tries.pop(network, ()) if each[0] + WINDOW_MS > now_ms]
        is_allowed = len(tries) < FAILURES_MAX
        self._tries[network] = [*tries, (now_ms, None)] if is_allowed else tries
        if len(self._tries) > NETWORKS_MAX:
            del self._tries[next(iter(self._tries))]
        return 0 if is_allowed else tries[0][0] + WINDOW_MS - now_ms

    def end(self, host: str, wrong: str | None = None) -> None:
        """Take the last try of a host back, unless it showed a `wrong` token that it did not show before."""
        tries = self._tries.get(network_of(host), [])
        if under_way := [each for each in tries if each[1] is None]:
            began_ms, _ = under_way[-1]
            tries.remove(under_way[-1])
            if wrong is not None and all(shown != hash(wrong) for _, shown in tries):
                tries.append((began_ms, hash(wrong)))
