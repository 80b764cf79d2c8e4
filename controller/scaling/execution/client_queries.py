"""Queries clients, through their brokers, about what they consume (307), for a limited time in each round.

Old clients and those behind a proxy never answer. Each request to one that hangs keeps a thread of its broker for 10 s.
So one that is silent is left alone for a time, which doubles each time, and few of them are tried again in one round.
"""

from collections import Counter
from typing import Final, NamedTuple

from remoting.admin.client import AdminClient
from remoting.admin.clients import RunningConsumer, running_consumer
from remoting.clock import Clock
from remoting.protocol.errors import BodyError, InvokeError, InvokeTimeout, NotSent, Refused

#: How long a client that did not answer is not queried again; twice as long after each further time, up to the second.
SILENT_MS: Final = 60_000
SILENT_MS_MAX: Final = 480_000
#: Silent clients that are remembered.
SILENT_MAX: Final = 10_000
#: Clients of one broker that are tried again in a round although they were silent: as many as have a turn at once.
AGAIN_MAX: Final = 4
#: No client is queried later in a round: who has had no turn by then is unknown.
ROUND_MS: Final = 30_000

#: Broker, group, client id.
_Client = tuple[str, str, str]


class _Silence(NamedTuple):
    """A client that did not answer."""

    #: When it is queried again, monotonic.
    until_ms: int
    lasts_ms: int


class ClientQueries:
    """Queries clients of all groups, with turns of their own: clients that hang hold up no other requests."""

    def __init__(self, admin: AdminClient, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock
        self._silent: dict[_Client, _Silence] = {}

    def begin_round(self) -> "ClientRound":
        """Return the queries of one topic in one round; its time begins now."""
        return ClientRound(self._admin, self._clock, self._silent)


class ClientRound:
    """The queries of one topic in one round: after ROUND_MS nothing more is sent, and answers are waited for."""

    def __init__(self, admin: AdminClient, clock: Clock, silent: dict[_Client, _Silence]) -> None:
        self._admin = admin
        self._clock = clock
        self._silent = silent
        self._ends_ms = clock.now_ms() + ROUND_MS
        #: By broker.
        self._tried_again: Counter[str] = Counter()

    async def running(self, master: str, group: str, client_id: str) -> RunningConsumer | None:
        """Return what a client consumes, by the broker at "host:port"; None is unknown."""
        client = (master, group, client_id)
        if not self._is_due(client):
            return None
        try:
            found = await self._admin.call(master, running_consumer(group, client_id), lambda: self._check(master))
        except InvokeTimeout:
            self._keep_silent(client)
            return None
        except (InvokeError, Refused, BodyError):
            # That says nothing about the client: a connection that breaks ends the requests to all clients of a broker.
            return None
        self._silent.pop(client, None)
        return found

    def _is_due(self, client: _Client) -> bool:
        if (silence := self._silent.get(client)) is None:
            return True
        master, _, _ = client
        if silence.until_ms > self._clock.now_ms() or self._tried_again[master] >= AGAIN_MAX:
            return False
        self._tried_again[master] += 1
        return True

    def _check(self, master: str) -> None:
        if self._clock.now_ms() >= self._ends_ms:
            raise NotSent(master, f"clients of this round are queried for {ROUND_MS // 1000} s")

    def _keep_silent(self, client: _Client) -> None:
        now_ms, former = self._clock.now_ms(), self._silent.get(client)
        if former is not None and former.until_ms > now_ms:
            # Rounds of other topics have queried it at the same time.
            return
        lasts_ms = SILENT_MS if former is None else min(2 * former.lasts_ms, SILENT_MS_MAX)
        if len(self._silent) >= SILENT_MAX:
            self._silent.clear()
        self._silent[client] = _Silence(now_ms + lasts_ms, lasts_ms)
