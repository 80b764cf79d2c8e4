"""Asks clients which queues they hold (307), and brokers for the clients of groups (203).

The edge of `holders.py`: `poll_plan.py` says which client is due. A client that hangs has one request of limited time
under way, and delays neither its group nor the other clients of its broker.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from offsets.order.events import QUERY_FAILURES
from offsets.order.holders import UNCONFIRMED_MS, Confirmation, GroupQueue, Holders, Member, OrderlyGroup
from offsets.order.overlaps import Overlaps, suspects
from offsets.order.poll_plan import RATE_MAX, WAITED_FOR_MAX, PollPlan
from remoting.admin.client import AdminClient, AdminLimits
from remoting.admin.clients import running_consumer
from remoting.admin.groups import connections_of_group
from remoting.background_tasks import BackgroundTasks, start_task
from remoting.client import Requester
from remoting.clock import Clock
from remoting.protocol.errors import BodyError, InvokeError, InvokeTimeout, NotSent, Refused
from serving.telemetry.events import Count, Counted, Event

#: How often due clients are looked for.
TICK_MS: Final = 500
#: How often the clients of groups are listed: holders trust locks of a former master for 30 s, and a client that joins
#: meanwhile gets its lock at once. More rarely where that were more than LISTS_RATE_MAX a second at all brokers
#: together: some 5 % of a core.
LIST_PERIOD_MS: Final = 5000
LISTS_RATE_MAX: Final = 250
#: Brokers through which a client is asked that is not connected to the first of them.
TRIES_MAX: Final = 3
#: Groups of suspects that are asked at the same time.
CHECKS_MAX: Final = 64
#: Requests that clients answer: as many bodies are in memory, 4 MiB each at most.
CLIENT_LIMITS: Final = AdminLimits(timeout_ms=1000, requests_max=16, requests_per_peer_max=WAITED_FOR_MAX)
BROKER_LIMITS: Final = AdminLimits(timeout_ms=3000, requests_max=32)


class _Listing(NamedTuple):
    """The lists of all groups at one master, requested one after the other."""

    task: "asyncio.Task[bool]"
    began_ms: int


class HolderPolling:
    """Keeps up what is known of holders, and tells overlaps."""

    def __init__(self, client: Requester, tasks: BackgroundTasks, clock: Clock, emit: Callable[[Event], None]) -> None:
        self._clients = AdminClient(client, CLIENT_LIMITS)
        self.brokers: Final = AdminClient(client, BROKER_LIMITS)
        self._tasks = tasks
        self._clock = clock
        self._emit = emit
        self.holders: Final = Holders()
        self.overlaps: Final = Overlaps()
        self.plan: Final = PollPlan(self.holders)
        self._listings: dict[str, _Listing] = {}
        #: Queries that are under way; each returns whether the client has answered.
        self._under_way: dict[Member, asyncio.Task[bool]] = {}
        #: Clients that are suspected together and asked for it now.
        self._checked: set[tuple[Member, ...]] = set()

    def poll(self) -> None:
        """Ask the clients that are due, a task for each; call it each TICK_MS."""
        holders, now_ms = self.holders, self._clock.now_ms()
        for member in holders.members():
            confirmed = holders.client(member).confirmed
            if confirmed is not None and now_ms - confirmed.received_ms > UNCONFIRMED_MS:
                self._compare(holders.forget_answer(member))
        for member in self.plan.due(now_ms, self._under_way)[: RATE_MAX * TICK_MS // 1000]:
            if (address := self.plan.route(holders.brokers_of(member), now_ms)) is not None:
                self._tasks.start(_awaited(self._begun(member, address)), "query of a client")

    def list_groups(self, masters: Mapping[str, Sequence[OrderlyGroup]]) -> None:
        """Begin to list groups where that is due; `masters` has them by the address of each living master.

        Each master has a task of its own: one that answers slowly is listed more rarely, and delays no other. Nobody
        is asked any more through a broker that is not among them, until it is.
        """
        for left in self._listings.keys() - masters.keys():
            # An answer that came later would make it a way to clients again.
            self._listings.pop(left).task.cancel()
            self.holders.drop_broker(left)
        now_ms, pause_s = self._clock.now_ms(), len(masters) / LISTS_RATE_MAX
        for address, groups in masters.items():
            last = self._listings.get(address)
            if last is None or (last.task.done() and now_ms - last.began_ms >= LIST_PERIOD_MS):
                task = self._tasks.start(self._list_at(address, groups, pause_s), "list of clients")
                self._listings[address] = _Listing(task, now_ms)

    async def list_group(self, address: str, of: OrderlyGroup) -> None:
        """List the clients of a group at one broker, slaves included; raises InvokeError, Refused and BodyError."""
        queried_ms = self._clock.now_ms()
        listed = await self.brokers.call(address, connections_of_group(of.group))
        self.holders.record_list(address, of, listed, queried_ms)

    async def _list_at(self, address: str, groups: Sequence[OrderlyGroup], pause_s: float) -> None:
        for number, of in enumerate(groups):
            await asyncio.sleep(pause_s if number else 0)
            try:
                await self.list_group(address, of)
            except InvokeError:
                # What it listed may have changed, and each further group would wait for it too.
                self.holders.drop_broker(address)
                return
            except (Refused, BodyError):
                continue

    async def confirm(self, member: Member, *more: str) -> bool:
        """Ask a client now, through a broker that lists it or one of `more`; return whether it has answered.

        A query that is under way counts. A client that did not answer just now is not asked again.
        """
        left = {*self.holders.brokers_of(member), *more}
        for _ in range(TRIES_MAX):
            if (under_way := self._under_way.get(member)) is not None:
                return await asyncio.shield(under_way)
            now_ms = self._clock.now_ms()
            if self.plan.is_silent(member, now_ms) or (address := self.plan.route(left, now_ms)) is None:
                return False
            if await asyncio.shield(self._begun(member, address)):
                return True
            left.remove(address)
        return False

    def forget(self, members: Iterable[Member]) -> None:
        """Forget clients."""
        for member in members:
            self._compare(self.holders.forget(member))

    def _begun(self, member: Member, address: str) -> "asyncio.Task[bool]":
        """Begin a query; it is under way from now on, so that the next look does not find its client due again."""
        self.plan.started(member, address, self._clock.now_ms())
        task = self._under_way[member] = start_task(self._ask(member, address))
        task.add_done_callback(lambda _: self._under_way.pop(member, None))
        return task

    async def _ask(self, member: Member, address: str) -> bool:
        """Ask a client, and return whether it has answered."""
        sent_ms = self._clock.now_ms()

        def before_send() -> None:
            nonlocal sent_ms
            sent_ms = self._clock.now_ms()
            if self.plan.is_busy(address, sent_ms):
                raise NotSent(address, "it waits for clients that do not answer")

        try:
            request = running_consumer(member.of.group, member.client_id)
            consumer = await self._clients.call(address, request, before_send)
        except (InvokeTimeout, BodyError):
            self.plan.silent(member, address, sent_ms, self._clock.now_ms())
            self._emit(Counted(count=Count(QUERY_FAILURES)))
            return False
        except (Refused, NotSent):
            # Refused: not connected to this broker, or no longer.
            return False
        except InvokeError:
            self.holders.drop_broker(address)
            return False
        finally:
            self.plan.ended(address)
        changed = self.holders.record_answer(member, consumer, Confirmation(sent_ms, self._clock.now_ms()))
        self._compare(changed)
        for queue in changed:
            self._suspect(queue)
        return True

    def _compare(self, queues: Collection[GroupQueue]) -> None:
        for event in self.overlaps.update(self.holders, queues, self._clock.now_ms()):
            self._emit(event)

    def _suspect(self, queue: GroupQueue) -> None:
        members = suspects(self.holders, queue)
        # Clients that hold many queues together are asked once.
        is_new = members and members not in self._checked and not self.overlaps.has(queue)
        if is_new and len(self._checked) < CHECKS_MAX:
            self._checked.add(members)
            self._tasks.start(self._check(members), "check of holders")

    async def _check(self, members: tuple[Member, ...]) -> None:
        """Prove or refute an overlap: ask its suspects again, the longest holder first."""
        try:
            for member in members:
                await self.confirm(member)
        finally:
            self._checked.discard(members)


async def _awaited(task: "asyncio.Task[bool]") -> None:
    await task
