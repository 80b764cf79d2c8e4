"""Asks clients which queues they hold (307), and brokers for the clients of groups (203).

The edge of `holders.py`. A client that hangs has one request of limited time under way, and delays neither its group
nor the other clients of its broker.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from offsets.order.events import QUERY_FAILURES
from offsets.order.holders import UNCONFIRMED_MS, Confirmation, ConsumerKind, GroupQueue, Holders, Member, OrderlyGroup
from offsets.order.overlaps import Overlaps, suspects
from remoting.admin.client import AdminClient, AdminLimits
from remoting.admin.clients import running_consumer
from remoting.admin.groups import connections_of_group
from remoting.background_tasks import BackgroundTasks, start_task
from remoting.client import Requester
from remoting.clock import Clock
from remoting.protocol.errors import BodyError, InvokeError, InvokeTimeout, NotSent, Refused
from serving.telemetry.events import Count, Counted, Event

#: How often each client of an orderly group is asked.
PERIOD_MS: Final = 1000
#: Requests a second to all clients, apart from those about suspects and replays.
RATE_MAX: Final = 100
#: How long a broker waits for a client, and one of its threads with it.
RELAY_MS: Final = 10_000
#: Silent clients that one broker may wait for; other clients are asked through others. With as many requests under
#: way, less than twice as many of its threads are busy.
WAITED_FOR_MAX: Final = 4
#: How long a client that did not answer is left alone.
SILENT_MS: Final = 10_000


class PollPlan:
    """Which client is asked when, through which broker, and what brokers still wait for. Pure.

    A broker keeps one of its 16 threads for administration busy with each 307 until the client answers, 10 s at most.
    Reading an answer costs this process about 1 ms for 16 queues: 1000 clients a second would take a core. So:

    - each client of an orderly group is asked each PERIOD_MS, so that most holders are confirmed (FRESH_MS) when their
      master fails: clients that come by a role address are connected to no other broker through which they could be
      asked then. Where that were more than RATE_MAX a second, clients are asked more rarely;
    - of a group of which nobody knows yet how it consumes, one client is asked, and of one that is not orderly none.
    """

    def __init__(self, holders: Holders) -> None:
        self._holders = holders
        #: By the address of a broker, the queries that are under way through it.
        self._under_way: Counter[str] = Counter()
        #: And when those were sent that the client did not answer in time.
        self._waited_for_ms: dict[str, list[int]] = {}

    def due(self, now_ms: int, under_way: Collection[Member] = ()) -> list[Member]:
        """Return the clients that are due, those that wait longest first; `under_way` are those asked already."""
        waiting = []
        for member in self._candidates(now_ms, under_way):
            asked_ms = self._holders.client(member).asked_ms
            if asked_ms is None or now_ms - asked_ms >= PERIOD_MS:
                waiting.append((asked_ms or 0, member))
        return [member for _, member in sorted(waiting)]

    def route(self, brokers: Collection[str], now_ms: int) -> str | None:
        """Return the broker with the least under way; None if none of `brokers` may be used now."""
        usable = [address for address in brokers if not self.is_busy(address, now_ms)]
        return min(usable, key=lambda address: (self._under_way[address], address), default=None)

    def is_busy(self, address: str, now_ms: int) -> bool:
        """Return whether a broker waits for as many silent clients as it may."""
        waited_for = [sent_ms for sent_ms in self._waited_for_ms.pop(address, ()) if now_ms - sent_ms < RELAY_MS]
        if waited_for:
            self._waited_for_ms[address] = waited_for
        return len(waited_for) >= WAITED_FOR_MAX

    def is_silent(self, member: Member, now_ms: int) -> bool:
        """Return whether a client is left alone, as it did not answer."""
        return self._holders.client(member).silent_until_ms > now_ms

    def started(self, member: Member, address: str, now_ms: int) -> None:
        """Note that a client is asked through the broker at "host:port"."""
        self._holders.client(member).asked_ms = now_ms
        self._under_way[address] += 1

    def ended(self, address: str) -> None:
        """Note that a query through a broker is over, whatever came of it."""
        self._under_way[address] -= 1
        if not self._under_way[address]:
            del self._under_way[address]

    def silent(self, member: Member, address: str, sent_ms: int, now_ms: int) -> None:
        """Note that a client has not answered in time, or not readably; its broker may still wait for it."""
        self._holders.client(member).silent_until_ms = now_ms + SILENT_MS
        self._waited_for_ms.setdefault(address, []).append(sent_ms)

    def _candidates(self, now_ms: int, under_way: Collection[Member]) -> Iterator[Member]:
        for of in self._holders.groups():
            if (kind := self._holders.kind_of(of)) is ConsumerKind.CONCURRENT:
                continue
            candidates = (
                member
                for member in self._holders.members_of(of)
                if member not in under_way and not self.is_silent(member, now_ms)
            )
            if kind is ConsumerKind.ORDERLY:
                yield from candidates
            elif (first := next(candidates, None)) is not None:
                yield first


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
        self._tasks, self._clock, self._emit = tasks, clock, emit
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
        for member in members:
            self._compare(self.holders.forget(member))

    def _begun(self, member: Member, address: str) -> "asyncio.Task[bool]":
        """Begin a query; it is under way from now on, so that the next look does not find its client due again."""
        self.plan.started(member, address, self._clock.now_ms())
        task = self._under_way[member] = start_task(self._ask(member, address))
        task.add_done_callback(lambda _: self._under_way.pop(member, None))
        return task

    async def _ask(self, member: Member, address: str) -> bool:
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
