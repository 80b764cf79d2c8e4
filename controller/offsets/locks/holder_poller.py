"""Queries clients about the queues that they hold (307), and brokers about the members of groups (203).

The edge of the mirror: which client is due, and what its answer means, is decided by the rules beside it. A client that
hangs has one request of limited time under way, and delays nobody: neither its group nor the clients of its broker.
"""

import asyncio
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, Protocol

from controller.offsets.locks.group_members import ListedMembers
from controller.offsets.locks.holders import ClientAnswer, Confirmation, GroupMember, HeldGroupQueue, QueueHolders
from controller.offsets.locks.overlaps import ClosedOverlap, OpenOverlap, OpenOverlaps, suspects
from controller.offsets.locks.poll_schedule import RATE_MAX, WATCH_PERIOD_MS, ClientQuery, PollSchedule
from controller.offsets.locks.replay_rules import Unlock
from remoting.admin.client import AdminClient
from remoting.admin.clients import running_consumer
from remoting.admin.groups import connections_of_group
from remoting.background_tasks import BackgroundTasks, all_results, start_task
from remoting.clock import Clock
from remoting.protocol.errors import BodyError, InvokeError, InvokeTimeout, NotSent, Refused

#: How often due clients are looked for.
TICK_MS: Final = 500
#: How often the members of groups are requested.
MEMBERS_PERIOD_MS: Final = 20_000
#: Brokers through which a client is queried that is not connected to the first of them.
TRIES_MAX: Final = 3
#: Requests for members a second, at all brokers together: some 5% of a core.
LISTINGS_RATE_MAX: Final = 250
#: Pairs of a master and a group of which members are requested: so many take one period.
LISTINGS_MAX: Final = LISTINGS_RATE_MAX * MEMBERS_PERIOD_MS // 1000
#: Groups of suspects that are queried at the same time.
CHECKS_MAX: Final = 64


class GroupSource(Protocol):
    """Where groups are."""

    def masters(self) -> Mapping[str, Collection[str]]:
        """Return by the address of each living master the groups whose members it may list; LISTINGS_MAX in all."""


class HolderObserver(Protocol):
    """Who logs, counts and records what was found."""

    def overlap_opened(self, overlap: OpenOverlap) -> None:
        """Note that two clients hold one queue."""

    def overlap_closed(self, overlap: ClosedOverlap) -> None:
        """Note that one of them does not hold it any more."""

    def locks_released(self, unlock: Unlock) -> None:
        """Note that a master has given up locks of a client that lost the queues or is lost."""

    def client_silent(self, query: ClientQuery, error: Exception) -> None:
        """Note that a client has not answered in time, or nothing that can be read."""


class HolderMirror:
    """All that is known of the holders of one cluster: one place that changes it.

    Each cluster has a mirror of its own, as names are unique in a cluster only.
    """

    def __init__(self, clock: Clock, observer: HolderObserver) -> None:
        self._clock = clock
        self._observer = observer
        self.table = QueueHolders()
        self.members = ListedMembers()
        self.schedule = PollSchedule()
        self.overlaps = OpenOverlaps()

    def record(self, answer: ClientAnswer) -> frozenset[HeldGroupQueue]:
        """Apply an answer; return the queues that two clients hold by their last answers, without proof so far."""
        changed = self.table.record(answer)
        self.schedule.answered(answer.member)
        self._compare(changed)
        return frozenset(each for each in changed if suspects(self.table, each) and not self.overlaps.has(each))

    def silent(self, query: ClientQuery, sent_ms: int, error: Exception) -> None:
        """Apply that a client did not answer."""
        self.schedule.silent(query, sent_ms, self._clock.now_ms())
        self._observer.client_silent(query, error)

    def drop_broker(self, address: str) -> None:
        """Forget a broker that failed or left, as a way to clients: nobody is queried through it."""
        self.members.drop_broker(address)
        self.schedule.forget_brokers([address])

    def promoted(self, broker_name: str, address: str, former: str | None) -> None:
        """Query the holders of a set often: it has a new master at "host:port"; nobody is queried through `former`."""
        if former is not None:
            self.drop_broker(former)
        self.schedule.watch(broker_name, address, self._clock.now_ms())

    def keep_groups(self, groups: Collection[str]) -> None:
        """Forget the clients of all other groups."""
        if outside := self.members.outside(groups):
            self.forget(outside)

    def released(self, unlock: Unlock) -> None:
        """Report that locks were given up; the table changes by answers of clients alone."""
        self._observer.locks_released(unlock)

    def forget(self, lost: Collection[GroupMember]) -> None:
        """Forget clients that are lost."""
        for member in lost:
            self._compare(self.table.forget(member))
        self.members.forget(lost)
        self.schedule.forget(lost)

    def forget_unconfirmed(self) -> None:
        """Forget what clients held that have not answered for long; they stay members, and are queried again."""
        now_ms = self._clock.now_ms()
        for member in self.table.unconfirmed(now_ms):
            self._compare(self.table.forget(member))
            # One that was forgotten, and answered a late query, is no member.
            if self.members.is_lost(member, now_ms):
                self.schedule.forget([member])

    def _compare(self, queues: Collection[HeldGroupQueue]) -> None:
        changes = self.overlaps.update(self.table, queues, self._clock.now_ms())
        for opened in changes.opened:
            self._observer.overlap_opened(opened)
        for closed in changes.closed:
            self._observer.overlap_closed(closed)


class _Listing(NamedTuple):
    """A look at the members of all groups at one master."""

    task: "asyncio.Task[bool]"
    began_ms: int

    def is_next_due(self, now_ms: int) -> bool:
        """Return whether the next one is to begin: this one has ended, and began long enough ago."""
        return self.task.done() and now_ms - self.began_ms >= MEMBERS_PERIOD_MS


class HolderPoller:
    """Keeps a mirror up to date.

    `clients` sends requests that clients answer: with a timeout of about a second, and WAITED_FOR_MAX turns for each
    broker, so that clients that hang keep few of its threads busy. `brokers` sends the others.
    """

    def __init__(
        self, mirror: HolderMirror, clients: AdminClient, brokers: AdminClient, tasks: BackgroundTasks, clock: Clock
    ) -> None:
        self._mirror = mirror
        self._clients = clients
        self._brokers = brokers
        self._tasks = tasks
        self._clock = clock
        #: By the address of each master, its last listing: at most one goes on there.
        self._listings: dict[str, _Listing] = {}
        #: Queries that are under way; each ends with whether the client has answered.
        self._under_way: dict[GroupMember, asyncio.Future[bool]] = {}
        #: Clients that are suspected together and queried for it now.
        self._checked: set[tuple[GroupMember, ...]] = set()

    async def poll(self) -> None:
        """Query due clients for ever; a task for each."""
        while True:
            self._mirror.forget_unconfirmed()
            mirror, now_ms = self._mirror, self._clock.now_ms()
            for query in mirror.schedule.due(mirror.table, mirror.members, now_ms, RATE_MAX * TICK_MS // 1000):
                self._tasks.start(self._finished(self._begun(query)), "query of a client")
            await asyncio.sleep(TICK_MS / 1000)

    async def keep_listing(self, source: GroupSource) -> None:
        """Request the members of all groups for ever, each MEMBERS_PERIOD_MS or as fast as LISTINGS_RATE_MAX allows.

        A master that answers slowly is listed more rarely, and delays no other one.
        """
        while True:
            self.begin_listings(source.masters())
            await asyncio.sleep(WATCH_PERIOD_MS / 1000)

    async def keep_listing_at_new_masters(self) -> None:
        """Request members at new masters for ever, each WATCH_PERIOD_MS."""
        while True:
            await asyncio.sleep(WATCH_PERIOD_MS / 1000)
            await self.list_at_new_masters()

    async def list_at_new_masters(self) -> None:
        """Request once, at each new master, the members of the groups that hold queues there."""
        watched = self._mirror.schedule.watched(self._clock.now_ms())
        table = self._mirror.table
        groups = {name: sorted({each.group for each in table.members_at(name)}) for name in watched}
        pause_s = len(watched) / LISTINGS_RATE_MAX
        await all_results(self._list_at(address, groups[name], pause_s) for name, address in watched.items())

    def begin_listings(self, masters: Mapping[str, Collection[str]]) -> None:
        """Begin to request the members of groups where that is due; a task for each master.

        `masters` has the groups by the address of each living master. The requests to one master go one after the
        other. Nobody is queried any more through a broker that is not among them, until it is.
        """
        for left in self._listings.keys() - masters.keys():
            # An answer that came later would make it a way to clients again.
            self._listings.pop(left).task.cancel()
            self._mirror.drop_broker(left)
        now_ms, pause_s = self._clock.now_ms(), len(masters) / LISTINGS_RATE_MAX
        for address, groups in masters.items():
            if (last := self._listings.get(address)) is None or last.is_next_due(now_ms):
                task = self._tasks.start(self._list_at(address, groups, pause_s), "listing of members")
                self._listings[address] = _Listing(task, now_ms)

    async def list_group(self, address: str, group: str) -> None:
        """Request the members of a group at one broker, slaves included; raises InvokeError, Refused and BodyError."""
        queried_ms = self._clock.now_ms()
        connections = await self._brokers.call(address, connections_of_group(group))
        self._mirror.members.record(address, group, connections, queried_ms)

    async def confirm(self, member: GroupMember, brokers: Collection[str]) -> bool:
        """Query a client now through one of `brokers`; return whether it has answered.

        If a query of it is under way, that one's answer is waited for. Returns False at once for a client that did not
        answer just now, or that none of these brokers may be used for.
        """
        left = list(brokers)
        for _ in range(TRIES_MAX):
            if (under_way := self._under_way.get(member)) is not None:
                return await asyncio.shield(under_way)
            now_ms = self._clock.now_ms()
            if not self._mirror.schedule.may_query(member, now_ms):
                return False
            if (address := self._mirror.schedule.route(left, now_ms)) is None:
                return False
            if await asyncio.shield(self._begun(ClientQuery(member, address))):
                return True
            left.remove(address)
        return False

    async def _list_at(self, address: str, groups: Collection[str], pause_s: float) -> None:
        """Request the members of groups at one broker, one after the other with a pause in between."""
        for number, group in enumerate(groups):
            await asyncio.sleep(pause_s if number else 0)
            try:
                await self.list_group(address, group)
            except InvokeError:
                # What it listed is not known to be so any more, and it would be waited for once for each group.
                self._mirror.members.drop_broker(address)
                return
            except (Refused, BodyError):
                continue

    def _begun(self, query: ClientQuery) -> "asyncio.Task[bool]":
        """Begin a query; from now on it is under way, so that the next look does not find its client due again."""
        self._mirror.schedule.started(query, self._clock.now_ms())
        task = start_task(self._query(query))
        self._under_way[query.member] = task
        task.add_done_callback(lambda _: self._under_way.pop(query.member, None))
        return task

    async def _finished(self, query: "asyncio.Task[bool]") -> None:
        await query

    async def _query(self, query: ClientQuery) -> bool:
        if (answer := await self._answer_to(query)) is None:
            return False
        for queue in self._mirror.record(answer):
            self._suspect(queue)
        return True

    def _suspect(self, queue: HeldGroupQueue) -> None:
        # Clients that hold many queues together are queried once.
        members = suspects(self._mirror.table, queue)
        if members and members not in self._checked and len(self._checked) < CHECKS_MAX:
            self._checked.add(members)
            self._tasks.start(self._check(members), "check of holders")

    async def _check(self, members: tuple[GroupMember, ...]) -> None:
        """Prove or refute an overlap: query its suspects, the longest holder first and last."""
        try:
            for member in (*members, *members[:1]):
                await self.confirm(member, self._mirror.members.brokers_of(member))
        finally:
            self._checked.discard(members)

    async def _answer_to(self, query: ClientQuery) -> ClientAnswer | None:
        """Return what a client answers, None without an answer; the query was noted as started."""
        sent_ms = self._clock.now_ms()

        def before_send() -> None:
            nonlocal sent_ms
            sent_ms = self._clock.now_ms()
            # Others that had a turn before may be silent.
            if self._mirror.schedule.is_busy(query.address, sent_ms):
                raise NotSent(query.address, "it waits for clients that do not answer")

        try:
            consumer = await self._clients.call(query.address, running_consumer(*query.member), before_send)
        except (InvokeTimeout, BodyError) as error:
            self._mirror.silent(query, sent_ms, error)
            return None
        except (Refused, NotSent):
            # Refused: not connected to this broker, or no longer.
            return None
        except InvokeError:
            self._mirror.schedule.unreachable(query.address, self._clock.now_ms())
            return None
        finally:
            self._mirror.schedule.ended(query)
        confirmed = Confirmation(sent_ms, self._clock.now_ms())
        return ClientAnswer(member=query.member, confirmed=confirmed, consumer=consumer)
