"""Notifies listeners of changes of masters.

The base class follows no source: it serves a manager without `controllerHttpAddr` and `namesrvAddr`. Its children are
in `by_controllers.py` and `by_name_servers.py`.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Literal

from offsets.sets.followed import FollowedSet, MasterChange, MasterChangeKind, SetMaster
from remoting.clock import Clock
from serving.telemetry.events import Count, Counter, Event, Gauge, Measure

#: After so long without an answer it is not known who is master: a leader answers within a wait of 1 s and 1.5 s.
FRESH_MS: Final = 2_500
#: A peer that stays unusable is named so often at most.
_NAMED_AGAIN_MS: Final = 60_000

FOLLOWED_SETS: Final = Gauge(
    "followed_sets", "Broker sets that are followed, by whether they have a master (yes, no).", ("master",)
)
MASTERS_KNOWN: Final = Gauge(
    "masters_known", "1 while a controller or NameServer has answered lately, 0 while it is not known who is master."
)
MASTER_CHANGES: Final = Counter(
    "master_changes",
    "What happened to masters of broker sets.",
    ("kind",),
    known=tuple((kind.value,) for kind in MasterChangeKind),
)


class MasterChanged(Event, frozen=True, kw_only=True):
    """The master of a broker set changed.

    `found` the first time, `gained` after none, `moved` to another broker or epoch, `address_changed`, `restarted`,
    `lost`, or `removed` with its set.
    """

    keys = ("broker", "kind", "old_addr", "addr", "epoch", "since_unix_ms")
    change: MasterChange

    def line(self) -> dict[str, object]:
        (kind, set_name, before, after, since_unix_ms) = self.change
        values = {
            "broker": set_name.broker_name,
            "kind": kind.value,
            "old_addr": before and before.address,
            "addr": after and after.address,
            "epoch": after and after.master_epoch,
            "since_unix_ms": since_unix_ms,
        }
        return {name: value for name, value in values.items() if value is not None}

    def counted(self) -> tuple[Count, ...]:
        return (Count(MASTER_CHANGES, (self.change.kind.value,)),)


class Following:
    """The masters of all broker sets; this one follows no source and knows none."""

    #: Whom it follows, as `GET /v1/manager` names it: `controllers`, `name_servers` or `nobody`.
    source: Literal["controllers", "name_servers", "nobody"] = "nobody"

    def __init__(self, clock: Clock, emit: Callable[[Event], None]) -> None:
        self._clock = clock
        self._emit = emit
        #: All sets by broker name.
        self.sets: Mapping[str, FollowedSet] = {}
        #: Called with every change, in their order, in the event loop; they must neither wait nor raise.
        self.listeners: list[Callable[[MasterChange], None]] = []
        #: When somebody has answered last, monotonic ms; None before.
        self.answered_ms: int | None = None
        #: When each unusable peer was named last, monotonic ms.
        self._named_ms: dict[str, int] = {}

    async def run(self) -> None:
        await asyncio.Event().wait()

    def is_fresh(self) -> bool:
        """Return whether it is known who is master now."""
        return self.answered_ms is not None and self._clock.now_ms() - self.answered_ms <= FRESH_MS

    def is_master(self, master: SetMaster) -> bool:
        """Return whether a broker is still the master of its set, in the same epoch and at the same address.

        False while it is not known who is master.
        """
        known = self.sets.get(master.set_name.broker_name)
        return self.is_fresh() and known is not None and known.master == master

    def masters(self) -> Iterator[SetMaster]:
        return (followed.master for followed in self.sets.values() if followed.master is not None)

    def measures(self) -> Iterator[Measure]:
        led = sum(1 for _ in self.masters())
        yield Measure(FOLLOWED_SETS, led, ("yes",))
        yield Measure(FOLLOWED_SETS, len(self.sets) - led, ("no",))
        yield Measure(MASTERS_KNOWN, int(self.is_fresh()))

    def tell(self, changes: Iterable[MasterChange]) -> None:
        for change in changes:
            self._emit(MasterChanged(change=change))
            for listener in self.listeners:
                listener(change)

    def _warn(self, peer: str, event: Event) -> None:
        """Tell an event about an unusable peer, unless one was told within the last minute."""
        now_ms = self._clock.now_ms()
        named_ms = self._named_ms.get(peer)
        if named_ms is None or now_ms - named_ms >= _NAMED_AGAIN_MS:
            self._named_ms[peer] = now_ms
            self._emit(event)
