"""Follows the masters of all sets at the controllers that lead, for ever. The edge.

One request waits at the leader all the time, so that a change is here within milliseconds of its commit. A wait is
short: a leader that hangs is noticed when its answer is due, and then another one is looked for.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, NamedTuple, Protocol

from controller.offsets.topology.answers import MastersAnswer
from controller.offsets.topology.controller_http import ANSWER_S, ControllerFailed, NotLeading
from controller.offsets.topology.leader_search import LeaderSearch
from controller.offsets.topology.masters import Masters, OutdatedSet
from controller.offsets.topology.rare_reports import RareReports
from controller.offsets.topology.values import MasterChange, SetMaster
from remoting.clock import Clock

#: How long a request waits for a change, ms.
WAIT_MS: Final = 1_000
#: The least pause between two answers: a controller that answers without a wait is not requested in a busy loop.
PAUSE_S: Final = 0.02
#: The pause after an answer that came at once and without anything new.
EARLY_PAUSE_S: Final = 0.5


#: What was answered longer ago does not tell who is master now: a leader answers within a wait and its answer.
FRESH_MS: Final = WAIT_MS + int(ANSWER_S * 1000)


class MastersListener(Protocol):
    """Acts on changes; called in the event loop in their order, and must neither wait nor raise."""

    def masters_changed(self, changes: Sequence[MasterChange]) -> None:
        """Take what has changed."""


class WatchObserver(Protocol):
    """Learns how the controllers answer, to log and count it."""

    def leader_followed(self, url: str) -> None:
        """Report that another controller answers from now on."""

    def controller_unusable(self, url: str, problem: str) -> None:
        """Report that a controller does not answer as one that leads, and why; once a minute for each.

        That another one leads is reported only after a round of requests in which none did.
        """

    def sets_outdated(self, url: str, outdated: Sequence[OutdatedSet]) -> None:
        """Report what a controller answers of sets of which a later epoch is known; once a minute for each."""


class MastersSource(Protocol):
    """Requests the masters of a controller."""

    async def masters(self, url: str, after: str, wait_ms: int) -> MastersAnswer:
        """Return the masters, when something has changed since `after` or the time is over.

        Raises NotLeading and ControllerFailed.
        """


class WatchParts(NamedTuple):
    """What the controllers are followed with."""

    #: Opened for as long as they are followed.
    source: AbstractAsyncContextManager[MastersSource]
    masters: Masters
    listener: MastersListener
    observer: WatchObserver
    clock: Clock


def is_fresh(answered_ms: int | None, clock: Clock) -> bool:
    """Return whether an answer of that time still tells who is master."""
    return answered_ms is not None and clock.now_ms() - answered_ms <= FRESH_MS


class ControllerWatch:
    """The masters by the controllers at some URLs."""

    def __init__(self, urls: Sequence[str], parts: WatchParts, *, group: str = "") -> None:
        """Follow the controllers of a group (`controllerGroup`); blank for the one of the first answer.

        Answers of another group are not taken: a URL that leads elsewhere would remove all sets.
        """
        self._group = group
        self._source, self.masters, self._listener, self._observer, self._clock = parts
        self._search = LeaderSearch(urls)
        self._failures, self._outdated = RareReports(), RareReports()
        self._revision = ""
        #: The one that has answered last; blank before.
        self.leader_url = ""
        #: When a leader has answered last, monotonic ms; None before.
        self.answered_ms: int | None = None

    def is_fresh(self) -> bool:
        """Return whether a leader has answered within FRESH_MS."""
        return is_fresh(self.answered_ms, self._clock)

    def is_master(self, master: SetMaster) -> bool:
        """Return whether a broker is still the master of its set; false without an answer of the last FRESH_MS."""
        return self.is_fresh() and self.masters.is_master(master)

    async def run(self) -> None:
        """Follow for ever."""
        async with self._source as source:
            while True:
                pause_s = await self._look(source)
                await asyncio.sleep(pause_s)

    async def _look(self, source: MastersSource) -> float:
        """Request the masters once; returns after which pause the next request follows, in seconds."""
        url, began_ms = self._search.url, self._clock.now_ms()
        # While the leader is looked for nobody is waited for: whoever leads has something new, or answers at once.
        wait_ms = 0 if self._search.is_searching else WAIT_MS
        try:
            answer = await source.masters(url, self._revision, wait_ms)
            self._check_group(answer)
        except NotLeading as refusal:
            # The usual answer of a follower: the leader is the next one, or the one after it.
            if self._search.is_round_in_vain:
                self._report(url, refusal)
            return self._search.failed() / 1000
        except ControllerFailed as failure:
            self._report(url, failure)
            return self._search.failed() / 1000
        self._search.answered()
        self.answered_ms = self._clock.now_ms()
        is_early = answer.revision == self._revision and self.answered_ms - began_ms < WAIT_MS / 2
        self._take(url, answer)
        return EARLY_PAUSE_S if is_early else PAUSE_S

    def _check_group(self, answer: MastersAnswer) -> None:
        self._group = self._group or answer.controller_group
        if answer.controller_group != self._group:
            raise ControllerFailed(
                f"it belongs to the controllerGroup {answer.controller_group}, and {self._group} is followed: "
                "correct its URL"
            )

    def _report(self, url: str, problem: Exception) -> None:
        if self._failures.is_due(url, self._clock.now_ms()):
            self._observer.controller_unusable(url, str(problem))

    def _take(self, url: str, answer: MastersAnswer) -> None:
        self._revision = answer.revision
        if url != self.leader_url:
            self.leader_url = url
            self._observer.leader_followed(url)
        taken = self.masters.take(answer, now_ms=self._clock.now_ms(), unix_ms=self._clock.unix_ms())
        if taken.outdated and self._outdated.is_due(url, self._clock.now_ms()):
            self._observer.sets_outdated(url, taken.outdated)
        if taken.changes:
            self._listener.masters_changed(taken.changes)
