"""Which sets have changed since an earlier moment, and the wait for the next change, for whoever follows the sets.

A revision is `run:number`. A run begins whenever all sets are loaded anew, so that a revision of another leader, or of
an earlier lead, is never taken for one of this run. In memory only. Answers to no class of Java's.
"""

import asyncio
import secrets
from collections import Counter
from itertools import takewhile
from typing import Final

#: Sets whose last change is remembered; a follower that was away for more of them gets all sets.
CHANGES_MAX: Final = 10_000
#: Who waits at one time; each holds a connection of the HTTP side, where health probes need some too.
WAITS_MAX: Final = 64
#: Of one client address: one that is odd, or a host with many programs, leaves places to others.
CLIENT_WAITS_MAX: Final = 8


class TooManyWaits(Exception):
    """As many wait already as may, in all or of one client; the text is a sentence for people."""

    def __init__(self, waits_max: int, whose: str = "") -> None:
        super().__init__(f"As many requests{whose} wait as may, {waits_max}: try again in a second, or with waitMs=0.")


class SetChanges:
    """The order in which sets have changed; a set stands at its last change only."""

    def __init__(self) -> None:
        #: How many wait at present, by client address.
        self._waits: Counter[str] = Counter()
        #: Nobody may wait any more.
        self.is_closed = False
        self._next = asyncio.Event()
        self._run, self._number, self._remembered_from = "", 0, 0
        #: The number of the last change, by broker name; the earliest first.
        self._changed: dict[str, int] = {}
        self.begin_anew()

    @property
    def waits(self) -> int:
        return self._waits.total()

    @property
    def revision(self) -> str:
        """The present revision: moves with every change of a set."""
        return f"{self._run}:{self._number}"

    def begin_anew(self) -> None:
        """Forget all changes: every set was loaded anew, and no earlier revision is known any more."""
        self._run, self._number, self._remembered_from = secrets.token_hex(8), 0, 0
        self._changed.clear()
        self.end_waits()

    def set_changed(self, broker_name: str) -> None:
        self._number += 1
        self._changed.pop(broker_name, None)
        self._changed[broker_name] = self._number
        if len(self._changed) > CHANGES_MAX:
            self._remembered_from = self._changed.pop(next(iter(self._changed)))
        self.end_waits()

    def since(self, revision: str) -> list[str] | None:
        """Return the names of the sets that have changed since then; None if that is not known."""
        run, _, digits = revision.rpartition(":")
        # The length first: turning a million digits into a number takes a while.
        if run != self._run or len(digits) > len(str(self._number)) or not (digits.isascii() and digits.isdigit()):
            return None
        number = int(digits)
        if not self._remembered_from <= number <= self._number:
            return None
        return list(takewhile(lambda name: self._changed[name] > number, reversed(self._changed)))

    async def wait(self, revision: str, within_ms: int, *, client: str) -> None:
        """Wait until something has changed since a revision, `end_waits` or the time; not at all for another revision.

        `client` is the address of whoever requests it. Raises TooManyWaits.
        """
        if self.is_closed or not within_ms or revision != self.revision:
            return
        if self.waits >= WAITS_MAX:
            raise TooManyWaits(WAITS_MAX)
        if self._waits[client] >= CLIENT_WAITS_MAX:
            raise TooManyWaits(CLIENT_WAITS_MAX, f" of {client}")
        self._waits[client] += 1
        try:
            async with asyncio.timeout(within_ms / 1000):
                await self._next.wait()
        except TimeoutError:
            pass
        finally:
            self._waits[client] -= 1
            # Addresses that are gone leave nothing behind.
            self._waits += Counter()

    def end_waits(self) -> None:
        ended, self._next = self._next, asyncio.Event()
        ended.set()

    def close(self) -> None:
        """Let everybody go on, and nobody wait again: this process ends."""
        self.is_closed = True
        self.end_waits()
