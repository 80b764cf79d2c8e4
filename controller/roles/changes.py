"""Changes of masters, in the order in which they were stored, for those who act on them: addresses, callbacks, history.

The store reports each set that changes; `ControllerCore` publishes what is collected here, on the controller that
leads only. Whoever leads anew publishes the master of every set once, as nobody knows what the leader before has
published. The master epoch fences: a listener ignores a change of a lower one than it has seen.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from controller.sets.broker_set import BrokerSet
from remoting.clock import Clock


class RoleHolder(NamedTuple):
    """A broker that has, or had, the role of the master."""

    broker_id: int
    #: `host:port` by the store.
    address: str


class RoleChange(NamedTuple):
    """A set has another master, or none, or its master another address."""

    cluster: str
    broker_name: str
    master_epoch: int
    old: RoleHolder | None
    new: RoleHolder | None
    #: When it was stored, Unix ms; of one that is repeated, when it was.
    unix_ms: int
    #: A new leader repeats the last change of each set; `old` is None then.
    is_repeated: bool = False


class RoleChanges:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._collected: deque[RoleChange] = deque()
        self._has_some = asyncio.Event()

    def set_changed(self, before: BrokerSet | None, after: BrokerSet | None) -> None:
        """Collect the change of a master; a set that was removed has none."""
        known = after if after is not None else before
        if known is None or _role(before) == _role(after):
            return
        self._collect(
            RoleChange(*_names(known), known.master_epoch, _holder(before), _holder(after), self._clock.unix_ms())
        )

    def repeat(self, broker_sets: Iterable[BrokerSet]) -> None:
        """Collect the master of each set: this controller begins to lead."""
        unix_ms = self._clock.unix_ms()
        for each in broker_sets:
            if each.master is not None:
                change = RoleChange(*_names(each), each.master_epoch, None, _holder(each), unix_ms, is_repeated=True)
                self._collect(change)

    def take(self) -> list[RoleChange]:
        taken = list(self._collected)
        self._collected.clear()
        self._has_some.clear()
        return taken

    async def wait(self) -> None:
        await self._has_some.wait()

    def _collect(self, change: RoleChange) -> None:
        self._collected.append(change)
        self._has_some.set()


def _role(broker_set: BrokerSet | None) -> tuple[RoleHolder, int] | None:
    holder = _holder(broker_set)
    return None if broker_set is None or holder is None else (holder, broker_set.master_epoch)


def _names(broker_set: BrokerSet) -> tuple[str, str]:
    return broker_set.cluster, broker_set.broker_name


def _holder(broker_set: BrokerSet | None) -> RoleHolder | None:
    if broker_set is None or broker_set.master is None or broker_set.master_address is None:
        return None
    return RoleHolder(broker_set.master, broker_set.master_address)
