"""Follows the holders of all declared groups, and replays their locks at new masters where that is wanted.

Only the manager that leads begins to: it alone has the declared groups. One that ceases to lead goes on reading for as
long as brokers keep a lock, as it may lead again a moment later, and changes no locks meanwhile. What is known of
holders is at most a minute old, so nothing of it is stored.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from offsets.lead import Lead
from offsets.order.declared import Declared
from offsets.order.events import OrderlyGroupsUnreadable
from offsets.order.holders import BROKER_LOCK_MS, OrderlyGroup
from offsets.order.polling import TICK_MS, HolderPolling
from offsets.order.replay import LockReplay, Promotion
from offsets.sets.followed import MasterChange, SetMaster
from offsets.sets.following import Following
from remoting.background_tasks import BackgroundTasks, all_results
from remoting.client import Requester
from remoting.clock import Clock
from serving.telemetry.events import Event, Gauge, Measure
from store.store import StoreError

LOCKS_HELD: Final = Gauge("broker_locks_held", "Queues that clients have locked at brokers, by their last answers.")
LOCK_CLIENTS: Final = Gauge("broker_lock_clients", "Clients of orderly groups that are connected to brokers.")
OVERLAPS: Final = Gauge(
    "broker_lock_overlaps", "Queues that two clients hold at brokers at the same time: pairs of clients."
)
LEFT_OUT: Final = Gauge("holders_left_out", "Clients and answers that found no room since the start.")


class OrderService:
    def __init__(
        self,
        following: Following,
        lead: Lead,
        declared: Declared,
        client: Requester,
        tasks: BackgroundTasks,
        clock: Clock,
        emit: Callable[[Event], None],
        *,
        replays: bool,
    ) -> None:
        """Listen to changes of masters; `replays`: take locks at new masters."""
        self._following, self._lead, self._tasks, self._clock, self._emit = following, lead, tasks, clock, emit
        self._replays = replays
        self.declared: Final = declared
        self.polling: Final = HolderPolling(client, tasks, clock, emit)
        self.replay: Final = LockReplay(self.polling, client, clock, emit, self._may_write)
        #: When this manager was seen to lead, monotonic ms.
        self._led_ms: int | None = None
        self._release: asyncio.Task[bool] | None = None
        #: The lead in which the declared groups were loaded last, and why they cannot be.
        self._loaded_term = 0
        self._problem = ""
        following.listeners.append(self.master_changed)

    async def run(self) -> None:
        while True:
            if self._lead.is_leading() and self._loaded_term != self._lead.term:
                await self._load(self._lead.term)
            self.look()
            await asyncio.sleep(TICK_MS / 1000)

    async def _load(self, term: int) -> None:
        try:
            await self.declared.load()
        except StoreError as error:
            if self._problem != (problem := str(error)):
                self._problem = problem
                self._emit(OrderlyGroupsUnreadable(problem=problem))
        else:
            self._loaded_term, self._problem = term, ""

    def measures(self) -> Iterator[Measure]:
        holders = self.polling.holders
        yield Measure(LOCKS_HELD, holders.holdings)
        yield Measure(LOCK_CLIENTS, holders.clients)
        yield Measure(OVERLAPS, len(self.polling.overlaps))
        yield Measure(LEFT_OUT, holders.left_out)

    def look(self) -> None:
        """Ask clients and brokers where that is due, and give up locks; call it each TICK_MS."""
        polling, now_ms = self.polling, self._clock.now_ms()
        groups, holders = self._followed_groups(now_ms), polling.holders
        polling.forget([one for one in holders.members() if one.of not in groups or holders.is_gone(one, now_ms)])
        of_cluster: dict[str, list[OrderlyGroup]] = {}
        for group in sorted(groups):
            of_cluster.setdefault(group.cluster, []).append(group)
        masters = {master.address: of_cluster.get(master.set_name.cluster, []) for master in self._following.masters()}
        polling.list_groups({address: wanted for address, wanted in masters.items() if wanted})
        polling.poll()
        can_release = self._replays and self._lead.is_leading() and self._following.is_fresh()
        if can_release and (self._release is None or self._release.done()):
            known = {master.set_name: master for master in self._following.masters()}
            self._release = self._tasks.start(self.replay.release(known), "release_locks")

    def master_changed(self, change: MasterChange) -> None:
        """Prepare for the next master of a set that has lost its own, and replay locks at a new one."""
        before, after = change.before, change.after
        if before is not None and (after is None or after.address != before.address):
            self.polling.holders.drop_broker(before.address)
        if after is None:
            if self._replays and self._lead.is_leading():
                self._tasks.start(self._prepare(change), "prepare_replay")
        elif self._replays and self._lead.is_leading():
            # By this manager's clock: that of the controller may differ by more than a replay may take.
            self._tasks.start(self._replayed(Promotion(after, self._clock.now_ms())), "replay_locks")

    async def _prepare(self, change: MasterChange) -> None:
        """Confirm the holders of a set whose master has just failed, so that the promotion finds them confirmed.

        Clients are connected to its other brokers too.
        """
        known = self._following.sets.get(change.set_name.broker_name)
        replicas = set(known.members) if known is not None else set()
        if change.before is not None:
            replicas.discard(change.before.address)
        holders = self.polling.holders.members_at(change.set_name)
        await all_results(self.polling.confirm(member, *replicas) for member in holders)

    async def _replayed(self, promotion: Promotion) -> None:
        await self.replay.replay(promotion)

    def _may_write(self, master: SetMaster) -> bool:
        return self._lead.is_leading() and self._following.is_master(master)

    def _followed_groups(self, now_ms: int) -> frozenset[OrderlyGroup]:
        if self._lead.is_leading():
            self._led_ms = now_ms
        elif self._led_ms is None or now_ms - self._led_ms > BROKER_LOCK_MS:
            self.declared.groups, self._loaded_term = None, 0
        return self.declared.groups or frozenset()
