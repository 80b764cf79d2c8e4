"""Follows the masters of all sets at the controller that leads. The edge.

One request waits at the leader all the time, so that a change is here within milliseconds of its commit. A wait is
short: a leader that hangs is noticed when its answer is due, and then another one is looked for.
"""

import asyncio
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec

from offsets.sets.controller_rules import AnswerUnreadable, ControllerSets, MastersAnswer, decode_answer
from offsets.sets.followed import SetMaster
from offsets.sets.following import Following
from remoting.clock import Clock
from serving.logging.events import Level
from serving.telemetry.events import Event

if TYPE_CHECKING:
    import aiohttp

#: How long a request waits for a change, ms.
WAIT_MS: Final = 1_000
#: How long an answer may take beyond that wait. FRESH_MS covers both.
ANSWER_S: Final = 1.5
#: A host that is off answers no connection: the others are not to wait for it.
CONNECT_S: Final = 1.0
#: The least pause between two answers: a controller that answers without a wait is not requested in a busy loop.
PAUSE_S: Final = 0.02
#: The pause after an answer that came at once and without anything new.
EARLY_PAUSE_S: Final = 0.5
#: The pauses after all controllers were requested in vain; the last one from then on. An election takes a second.
SEARCH_PAUSES_S: Final = (0.1, 0.2, 0.4, 0.8)
#: The longest answer that is read, in bytes: some 330 for a set of three.
ANSWER_BYTES_MAX: Final = 32 * 1024 * 1024
#: Reading a longer answer would hold up everything else in the event loop for milliseconds.
THREAD_BYTES: Final = 256 * 1024
#: The beginning of a refusal; its reason stands there.
_REFUSAL_BYTES_MAX: Final = 4_096
_REASON_CHARACTERS_MAX: Final = 300


class ControllerFollowed(Event, frozen=True, kw_only=True):
    """From now on this controller, which leads, reports the masters of broker sets."""

    url: str


class ControllerUnusable(Event, frozen=True, kw_only=True):
    """A controller of controllerHttpAddr does not answer as the leader; logged once a minute for each.

    Nothing is read from brokers or written to them until one does.
    """

    level = Level.WARNING
    advice = "Check that controllerHttpAddr has the httpPort of every controller, and that one of them leads."
    url: str
    error: str


class MastersOutdated(Event, frozen=True, kw_only=True):
    """A controller answers an earlier master epoch than is known for `sets` broker sets, such as `first`.

    Its store was restored from a backup. It is not followed for these, and nothing is written to their brokers.
    """

    level = Level.WARNING
    advice = "If the store was restored on purpose, restart this offset manager."
    url: str
    sets: int
    first: str
    epoch: int
    known_epoch: int


class ControllerFailed(Exception):
    """A controller does not answer, or not as a controller; the text says why, for people."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason[:_REASON_CHARACTERS_MAX])


class AnotherLeads(ControllerFailed):
    """Another controller leads, or none does, or this one does not serve now: the usual answer of a follower."""


class ControllerFollowing(Following):
    source = "controllers"

    def __init__(self, addresses: Sequence[str], clock: Clock, emit: Callable[[Event], None]) -> None:
        """Take the HTTP addresses, `host:port`, of all controllers.

        The first answer says which controllerGroup is followed: an address of another one would remove all sets.
        """
        super().__init__(clock, emit)
        self._urls = tuple(f"http://{address}" for address in addresses)
        self._table = ControllerSets()
        self.sets = self._table.sets
        #: The controller to request next, and how many requests were in vain since the last answer.
        self._at = self._failures = 0
        self._group = self._revision = self._leader = ""

    def is_master(self, master: SetMaster) -> bool:
        """As `Following`; false as long as the last answer about the set was out of date."""
        return super().is_master(master) and master.set_name.broker_name not in self._table.contradicted

    async def run(self) -> None:
        async with _http_session() as session:
            while True:
                pause_s = await self._look(session)
                await asyncio.sleep(pause_s)

    async def _look(self, session: "aiohttp.ClientSession") -> float:
        """Request the masters once; returns after which pause the next request follows, in seconds."""
        url, began_ms = self._urls[self._at], self._clock.now_ms()
        # While the leader is searched for there is no wait: the leader has something new, or answers at once.
        wait_ms = 0 if self._failures else WAIT_MS
        try:
            answer = await request_masters(session, url, self._revision, wait_ms)
            self._check_group(answer)
        except ControllerFailed as failure:
            if not isinstance(failure, AnotherLeads) or self._failures >= len(self._urls):
                self._warn(url, ControllerUnusable(url=url, error=str(failure)))
            return self._next_controller()
        self._failures = 0
        self.answered_ms = self._clock.now_ms()
        is_early = answer.revision == self._revision and self.answered_ms - began_ms < WAIT_MS / 2
        self._take(url, answer)
        return EARLY_PAUSE_S if is_early else PAUSE_S

    def _check_group(self, answer: MastersAnswer) -> None:
        self._group = self._group or answer.controller_group
        if answer.controller_group != self._group:
            raise ControllerFailed(
                f"it belongs to the controllerGroup {answer.controller_group}, and {self._group} is followed: "
                "correct controllerHttpAddr"
            )

    def _next_controller(self) -> float:
        """Go on to the next controller; returns after which pause, in seconds."""
        self._at = (self._at + 1) % len(self._urls)
        self._failures += 1
        rounds, others = divmod(self._failures, len(self._urls))
        return 0 if others else SEARCH_PAUSES_S[min(rounds, len(SEARCH_PAUSES_S)) - 1]

    def _take(self, url: str, answer: MastersAnswer) -> None:
        self._revision = answer.revision
        if url != self._leader:
            self._leader = url
            self._emit(ControllerFollowed(url=url))
        taken = self._table.take(answer, now_ms=self._clock.now_ms(), unix_ms=self._clock.unix_ms())
        if taken.outdated:
            first = taken.outdated[0]
            self._warn(
                f"outdated {url}",
                MastersOutdated(
                    url=url,
                    sets=len(taken.outdated),
                    first=first.broker_name,
                    epoch=first.answered_epoch,
                    known_epoch=first.known_epoch,
                ),
            )
        self.tell(taken.changes)


# One request


def _http_session() -> "aiohttp.ClientSession":
    """Return a session with all controllers; it follows no proxies of the environment."""
    import aiohttp  # noqa: PLC0415  # slow to import: the start is over by then

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
        trust_env=False,
        # Few bytes may be many once they are decompressed.
        auto_decompress=False,
        headers={"Accept-Encoding": "identity"},
    )


async def request_masters(session: "aiohttp.ClientSession", url: str, after: str, wait_ms: int) -> MastersAnswer:
    """Return what the controller at a URL answers, at once or within `wait_ms` when something changes.

    `after` is the revision of an earlier answer, blank for all sets. Raises ControllerFailed.
    """
    import aiohttp  # noqa: PLC0415  # as above

    within_s = wait_ms / 1000 + ANSWER_S
    query = {"after": after, "waitMs": str(wait_ms)} if after else {}
    try:
        async with (
            asyncio.timeout(within_s),
            session.get(f"{url}/v1/masters", params=query, allow_redirects=False) as response,
        ):
            if response.status != HTTPStatus.OK:
                reason = _reason_in(await response.content.read(_REFUSAL_BYTES_MAX))
                is_away = response.status in {HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE}
                failure = AnotherLeads if is_away else ControllerFailed
                raise failure(f"it answers {response.status}{reason}")
            text = bytearray()
            async for part in response.content.iter_any():
                text += part
                if len(text) > ANSWER_BYTES_MAX:
                    raise ControllerFailed(f"its answer is longer than {ANSWER_BYTES_MAX} bytes")
    except TimeoutError:
        raise ControllerFailed(f"no whole answer came within {within_s:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise ControllerFailed(f"{type(error).__name__}: {error}") from None
    try:
        if len(text) < THREAD_BYTES:
            return decode_answer(bytes(text))
        return await asyncio.to_thread(decode_answer, bytes(text))
    except AnswerUnreadable as error:
        raise ControllerFailed(f"it answers something else: {error}") from None


def _reason_in(text: bytes) -> str:
    try:
        return f": {msgspec.json.decode(text)['error']['message']}"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError, TypeError):
        return ""
