"""Gives up locks at masters (42): replayed ones whose clients lost the queue, and those of clients that are lost.

A client may get a queue again, or come back, at any moment, and a master gives up its fresh lock as any other. So each
42 follows an answer that shows right before that the client still lacks the queue (307), or is still lost (203).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from controller.offsets.locks.holder_poller import HolderMirror, HolderPoller
from controller.offsets.locks.holders import GroupMember
from controller.offsets.locks.replay import PresentMasters
from controller.offsets.locks.replay_rules import (
    CHECKED_MS,
    ReplayedLocks,
    Unlock,
    locks_given_back,
    locks_of_lost,
    lost_queues,
)
from remoting.admin.client import AdminClient
from remoting.admin.locks import unlock_queues
from remoting.admin.message_queues import MessageQueue
from remoting.background_tasks import all_results
from remoting.clock import Clock
from remoting.protocol.errors import BodyError, InvokeError, NotSent, Refused

#: How often locks are looked for that are to be given up.
PERIOD_MS: Final = 1000


class MasterSource(PresentMasters, Protocol):
    """Where the masters are."""

    def master_addresses(self) -> Mapping[str, str]:
        """Return by broker name the "host:port" of each master at which locks may change."""


class LockRelease:
    """Gives up locks for clients."""

    def __init__(
        self,
        mirror: HolderMirror,
        poller: HolderPoller,
        replayed: ReplayedLocks,
        brokers: AdminClient,
        clock: Clock,
        masters: MasterSource,
    ) -> None:
        self._mirror = mirror
        self._poller = poller
        self._replayed = replayed
        self._brokers = brokers
        self._clock = clock
        self._masters = masters

    async def keep_releasing(self) -> None:
        """Give up for ever what is to be given up, each PERIOD_MS."""
        while True:
            await self.release()
            await asyncio.sleep(PERIOD_MS / 1000)

    async def release(self) -> None:
        """Give up once what is to be given up; what a master does not confirm stays to be given up.

        Clients that are lost are forgotten once nothing of theirs is left, those that nobody lists in any case.
        """
        masters, now_ms = self._masters.master_addresses(), self._clock.now_ms()
        self._replayed.forget_ended(now_ms)
        lost = self._mirror.members.lost(now_ms)
        back = locks_given_back(self._mirror.table, self._replayed, now_ms)
        left = locks_of_lost(self._mirror.table, self._replayed, lost)
        await all_results(self._give_back(each, masters) for each in back)
        parts: dict[tuple[str, str], list[Unlock]] = {}
        for each in left:
            parts.setdefault((each.broker_name, each.member.group), []).append(each)
        kept = set().union(*await all_results(self._give_up_of_lost(part, masters) for part in parts.values()))
        now_ms = self._clock.now_ms()
        members = self._mirror.members
        self._mirror.forget([each for each in lost if each not in kept and members.is_lost(each, now_ms)])
        self._mirror.forget(members.unlisted(now_ms))

    async def _give_back(self, unlock: Unlock, masters: Mapping[str, str]) -> None:
        """Give up the queues that the client lacks by one more answer."""
        if (address := masters.get(unlock.broker_name)) is None:
            return
        member, checked_ms = unlock.member, self._clock.now_ms()

        def lost() -> frozenset[MessageQueue]:
            return lost_queues(self._mirror.table, self._replayed, member, checked_ms).intersection(unlock.queues)

        is_confirmed = await self._poller.confirm(member, {*self._mirror.members.brokers_of(member), address})
        if is_confirmed and (queues := lost()):
            checked = unlock._replace(queues=tuple(sorted(queues)))
            await self._unlock(address, checked, checked_ms, lambda: queues <= lost())

    async def _give_up_of_lost(self, unlocks: Sequence[Unlock], masters: Mapping[str, str]) -> set[GroupMember]:
        """Give up the locks of clients of one group that its master does not list; return those with locks left."""
        members = {each.member for each in unlocks}
        if (address := masters.get(unlocks[0].broker_name)) is None:
            return members
        checked_ms = self._clock.now_ms()
        try:
            # Whoever has locks there is connected to it.
            await self._poller.list_group(address, unlocks[0].member.group)
        except (InvokeError, Refused, BodyError):
            return members

        def is_lost(member: GroupMember) -> bool:
            return self._mirror.members.is_lost(member, self._clock.now_ms())

        given_up = await all_results(
            self._unlock(address, each, checked_ms, partial(is_lost, each.member)) for each in unlocks
        )
        return {each.member for each, is_given_up in zip(unlocks, given_up, strict=True) if not is_given_up}

    async def _unlock(self, address: str, unlock: Unlock, checked_ms: int, is_wanted: Callable[[], bool]) -> bool:
        """Give up locks, and return whether the master has confirmed it; not if the check is too old at the sending."""
        member = unlock.member

        def before_send() -> None:
            if not self._masters.is_master(unlock.broker_name, address):
                raise NotSent(address, f"it is not known to be the master of {unlock.broker_name} any more")
            if self._clock.now_ms() - checked_ms > CHECKED_MS or not is_wanted():
                raise NotSent(address, f"{member.client_id} was not checked within {CHECKED_MS} ms, or has its queues")

        try:
            await self._brokers.call(address, unlock_queues(member.client_id, member.group, unlock.queues), before_send)
        except (InvokeError, Refused, BodyError):
            return False
        self._replayed.forget(unlock.member, unlock.queues)
        self._mirror.released(unlock)
        return True
