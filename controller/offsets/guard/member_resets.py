"""Sends members of groups back that are online, where they may be in a lost tail. The edge.

A member goes on from the position that it has in memory. Where that lies in a lost tail, it skips messages at its first
pull from the new master, and hides it by its commits. A broker that resets offsets by itself sends it back at its next
pull. Any other one is requested to send its members back (222 for all queues of a topic), to where the offsets were
set: they read again what they have read since the promotion, and skip nothing. Members come within their poll of
routes, 30 s, so a group is sent back again where others have come, unless these have started since.

No queue is sent beyond the first message that was stored after the promotion, whatever a member has committed
meanwhile. As long as there is none, nobody can have skipped one, and nothing is sent.

Each member is sent back twice. It leaves its queues, waits 10 s for each topic and begins at its offset; until then it
commits its former position. So a queue that it has left by itself, as the broker had nothing for it, or that another
member has got, may begin there once more. A group with many topics is awaited until that is done.

Topics do not depend on each other: one that the broker refuses, or that somebody has set back, keeps no other one.

Source: docs/protocol/broker-admin.md 18 and 34, docs/protocol/offsets.md 8.2.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Protocol

from controller.offsets.guard.boundaries import CLOCK_MARGIN_MS, BootBoundary, Boundary, EpochBoundary
from controller.offsets.guard.group_kinds import PULL, pulls
from controller.offsets.guard.master_queries import MasterQueries
from controller.offsets.guard.unreset import UnresetGroup, UnresetGroups, UnresetQueue
from remoting.admin.clients import RunningConsumer, running_consumer
from remoting.admin.groups import GroupConnections, connections_of_group
from remoting.admin.offsets import OffsetCommit, commit_offset, committed_offset, reset_members, reset_offset
from remoting.background_tasks import all_results
from remoting.clock import Clock
from remoting.protocol.codes import ResponseCode
from remoting.protocol.errors import BodyError, InvokeError, NotSent, Refused

#: By then members have come: they poll routes each 30 s, and send their next heartbeat up to 30 s after that.
WITHIN_MS: Final = 120_000
#: A group is looked at for so long after its members have gone back: others may have come meanwhile.
LAST_LOOK_MS: Final = 30_000
#: No group is awaited for longer, however many topics it has.
WITHIN_MAX_MS: Final = 900_000
#: Between two rounds, at least; of many groups so many are looked at in a second, and each within PAUSE_MAX_S.
LOOK_S: Final = 2.0
GROUPS_PER_S: Final = 200
PAUSE_MAX_S: Final = 15.0
#: How often each member is sent back.
TIMES: Final = 2
#: A member waits so long before it goes to where it is sent, for one topic after another.
GOES_BACK_MS: Final = 10_000
#: And so much longer until its offset is committed.
SETTLES_MS: Final = 5_000
#: Members that have just come have no queues yet, which show that they pull.
UNKNOWN_MS: Final = 5_000
#: Members of a group that are requested what they do (307), each of which costs the member some time.
REQUESTED_MAX: Final = 20
#: Errors of topics that are reported together.
_ERRORS_MAX: Final = 3
#: Clients that do not follow what Java brokers send them in the form for Java.
_OTHER_FORM: Final = "CPP"


class MemberResetObserver(Protocol):
    """Follows what becomes of such groups."""

    def is_reset_since(self, group: str, topic: str, queue_ids: Collection[int]) -> bool:
        """Return whether an operator has set one of these queues by this service since the run began."""

    def sets_back(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Take that queues are about to be set to these offsets or more, by queue id."""

    def members_reset(self, group: UnresetGroup, members: int) -> None:
        """Take that so many members were sent back at these topics."""

    def members_not_reset(self, group: UnresetGroup, error: str) -> None:
        """Take that members may go on from positions in the lost tail; called once for each topic of a group."""


@dataclass(slots=True)
class _Topic:
    """One topic of a group, and what became of the group's members there."""

    queues: Mapping[int, UnresetQueue]
    #: How often each was sent back, by client id; TIMES for those that need not be.
    times: Counter[str] = field(default_factory=Counter)
    #: Whoever has started later began at what others had read after they were sent back; Unix ms. None: not yet.
    settled_unix_ms: int | None = None
    #: Nobody has to be sent any more: the broker resets it by itself, or somebody else has set it back.
    is_over: bool = False
    is_reported: bool = False

    def coming(self, client_ids: set[str], times: int = TIMES) -> set[str]:
        """Return those that were sent back fewer times, and have to be."""
        return set() if self.is_over else {each for each in client_ids if self.times[each] < times}


@dataclass(slots=True)
class _Members:
    """The members of one group."""

    group: UnresetGroup
    topics: Mapping[str, _Topic]
    #: Nobody is awaited any longer, monotonic ms; `end_max_ms` however often members are sent back.
    end_ms: int
    end_max_ms: int
    #: Nothing is sent before, monotonic ms.
    not_before_ms: int = 0
    #: Client ids of those that were there at the last look, if they pull.
    present: set[str] = field(default_factory=set)

    def coming(self, client_ids: set[str], times: int = TIMES) -> dict[str, _Topic]:
        """Return the topics at which some of them have to be sent back."""
        return {name: each for name, each in self.topics.items() if each.coming(client_ids, times)}

    def wait_until(self, now_ms: int) -> None:
        """Send nothing before that, and look who has come once more then."""
        self.not_before_ms = now_ms
        self.end_ms = min(max(self.end_ms, now_ms + LAST_LOOK_MS), self.end_max_ms)


def _members_of(group: UnresetGroup, now_ms: int) -> _Members:
    most_ms = WITHIN_MS + TIMES * _needed_ms(group.topics) + LAST_LOOK_MS
    return _Members(
        group,
        {name: _Topic(queues) for name, queues in group.topics.items()},
        end_ms=now_ms + WITHIN_MS,
        end_max_ms=now_ms + min(most_ms, WITHIN_MAX_MS),
    )


def _needed_ms(topics: Collection[str]) -> int:
    """Return how long members need that are sent back at so many topics."""
    return GOES_BACK_MS * len(topics) + SETTLES_MS


class MemberResets:
    """Those of one run, at one broker."""

    def __init__(
        self,
        queries: MasterQueries,
        clock: Clock,
        observer: MemberResetObserver,
        may_write: Callable[[], bool],
        requests_max: int,
    ) -> None:
        """Send as long as `may_write`, `requests_max` requests at a time."""
        self._queries = queries
        self._clock = clock
        self._observer = observer
        self._may_write = may_write
        self._requests_max = requests_max

    async def run(self, unreset: UnresetGroups, is_over: Callable[[], bool]) -> None:
        """Send members back as they come, for WITHIN_MS, or until another broker is master (`is_over`).

        Longer where members of a group need that to go back, up to WITHIN_MAX_MS.
        """
        begun_ms = self._clock.now_ms()
        groups = [_members_of(each, begun_ms) for each in unreset.groups]
        pause_s = min(max(LOOK_S, len(groups) / GROUPS_PER_S), PAUSE_MAX_S)
        first_ms: int | None = None
        while groups and not is_over():
            if first_ms is None and not unreset.can_reset:
                first_ms = await self._first_new(unreset.boundary)
            if first_ms is not None or unreset.can_reset:
                groups = await self._round(groups, first_ms)
            groups = self._awaited(groups)
            await asyncio.sleep(pause_s)
        for members in groups:
            # Those that were sent back once are on their way.
            self._report_coming(members, times=1)

    def _awaited(self, groups: Sequence[_Members]) -> list[_Members]:
        """Return the groups whose time is not over; report whoever was not sent back of the others."""
        now_ms = self._clock.now_ms()
        for members in groups:
            if now_ms >= members.end_ms:
                self._report_coming(members, times=TIMES)
        return [each for each in groups if now_ms < each.end_ms]

    async def _first_new(self, boundary: Boundary) -> int | None:
        """Return when the first new message was stored, Unix ms by the broker's clock; None: none is known."""
        if isinstance(boundary, BootBoundary):
            return boundary.boot_unix_ms
        if not isinstance(boundary, EpochBoundary) or boundary.new_from is None:
            return None
        try:
            found = await self._queries.message_at(boundary.new_from)
        except InvokeError:
            return None
        return None if found is None else found.store_unix_ms

    async def _round(self, groups: Sequence[_Members], first_ms: int | None) -> list[_Members]:
        """Look at each group; return those that are to be looked at again. Without `first_ms` the broker resets."""
        waiting, left = iter(groups), list[_Members]()

        async def worker() -> None:
            for members in waiting:
                is_due = members.not_before_ms <= self._clock.now_ms() < members.end_ms
                if not (is_due and self._may_write()) or await self._attempt(members, first_ms):
                    left.append(members)

        await all_results(worker() for _ in range(min(self._requests_max, len(groups))))
        return left

    async def _attempt(self, members: _Members, first_ms: int | None) -> bool:
        """Return whether a group is to be looked at again."""
        try:
            return await self._look_at(members, first_ms)
        except Refused as refused:
            if refused.code != ResponseCode.SYSTEM_BUSY:
                self._report(members, members.topics, str(refused))
        except (InvokeError, BodyError):
            # It is requested again.
            pass
        return True

    async def _look_at(self, members: _Members, first_ms: int | None) -> bool:
        """Send the members of a group back if some have come; return whether more may come."""
        group, found = members.group, await self._queries.call(connections_of_group(members.group.group))
        if found is None or found.is_broadcasting:
            members.present = set()
            return True
        client_ids = {each.client_id for each in found.clients}
        if not members.coming(client_ids):
            members.present = client_ids
            return True
        if not group.is_pulling and not await pulls(self._queries, group.group, found, REQUESTED_MAX):
            members.not_before_ms = self._clock.now_ms() + UNKNOWN_MS
            return True
        members.present = client_ids
        await self._pass_over_started(members, client_ids)
        topics = members.coming(client_ids)
        if topics and first_ms is not None and (why := _why_not_followed(found)):
            self._report(members, topics, why)
            return False
        if topics:
            await self._send_back(members, topics, first_ms)
        return not all(each.is_over for each in members.topics.values())

    async def _pass_over_started(self, members: _Members, client_ids: set[str]) -> None:
        """Take members for sent back that have no position from before, at topics where all others were."""
        settled = [each for each in members.coming(client_ids).values() if each.settled_unix_ms is not None]
        coming = set[str]().union(*(each.coming(client_ids) for each in settled))
        since = max((each.settled_unix_ms or 0 for each in settled), default=0)
        if settled and await self._have_started_since(members.group.group, coming, since):
            for each in settled:
                each.times.update(dict.fromkeys(each.coming(client_ids), TIMES))

    async def _have_started_since(self, group: str, client_ids: set[str], unix_ms: int) -> bool:
        """Return whether members that come have no position from before: each tells when it has started."""
        if len(client_ids) > REQUESTED_MAX:
            return False
        for client_id in client_ids:
            try:
                running = await self._queries.call(running_consumer(group, client_id))
            except (Refused, InvokeError, BodyError):
                return False
            if not _has_started_since(running, unix_ms, self._clock.unix_ms()):
                return False
        return True

    async def _send_back(self, members: _Members, topics: Mapping[str, _Topic], first_ms: int | None) -> None:
        """Send all members of a group that are there back, at these topics one after another."""
        needed_ms = _needed_ms(topics)
        gone_back_ms = self._clock.now_ms() + needed_ms
        sent, errors = list[str](), dict[str, str]()
        try:
            for name, topic in topics.items():
                try:
                    if why := await self._why_left(members.group.group, name, topic.queues):
                        topic.is_over, errors[name] = True, why
                        continue
                    # Also where an answer does not come: what was sent may be under way.
                    members.wait_until(gone_back_ms)
                    topic.settled_unix_ms = None
                    if await self._send(members.group.group, name, topic.queues, first_ms):
                        sent.append(name)
                        self._take_sent(topic, members.present, needed_ms, is_reset=first_ms is None)
                except Refused as refused:
                    if refused.code == ResponseCode.SYSTEM_BUSY:
                        raise
                    errors[name] = f"{name}: {refused}"
        finally:
            if sent:
                self._observer.members_reset(members.group.at(sent), len(members.present))
            self._report(members, errors, "; ".join(islice(errors.values(), _ERRORS_MAX)))

    def _take_sent(self, topic: _Topic, client_ids: set[str], needed_ms: int, *, is_reset: bool) -> None:
        """Take that members were sent back at a topic, or that the broker has reset it."""
        topic.is_over = is_reset
        topic.times.update(client_ids)
        if not topic.coming(client_ids):
            topic.settled_unix_ms = self._clock.unix_ms() + needed_ms

    async def _why_left(self, group: str, topic: str, queues: Mapping[int, UnresetQueue]) -> str | None:
        """Return why nobody is to be sent back at a topic; None if all are."""
        if self._observer.is_reset_since(group, topic, queues):
            return f"{topic} was reset by this manager meanwhile"
        for queue_id, queue in queues.items():
            committed = await self._queries.call(committed_offset(group, topic, queue_id))
            # A broker of 4.9 sends to the last message of a queue that has no new one.
            if committed is not None and committed < queue.floor - 1:
                return f"queue {queue_id} of {topic} was set back to {committed} by somebody else"
        return None

    async def _send(self, group: str, topic: str, queues: Mapping[int, UnresetQueue], first_ms: int | None) -> bool:
        """Send the members of a group back at one topic; return False if all have left."""
        self._observer.sets_back(group, topic, {i: max(each.offset - 1, 0) for i, each in queues.items()})
        if first_ms is not None:
            return await self._send_members(group, topic, queues, first_ms)
        await self._reset(group, topic, queues)
        return True

    async def _reset(self, group: str, topic: str, queues: Mapping[int, UnresetQueue]) -> None:
        """Reset a group at the broker: all members go there at their next pull. A reset of somebody else is left."""
        for queue_id, queue in queues.items():
            of_queue = group, topic, queue_id, queue.offset
            if await self._queries.call(commit_offset(*of_queue), self._before_send) is OffsetCommit.STORED:
                await self._queries.call(reset_offset(*of_queue), self._before_send)

    async def _send_members(self, group: str, topic: str, queues: Mapping[int, UnresetQueue], first_ms: int) -> bool:
        """Send the members of a group that are online back; return False if all have left.

        Each queue is sent to what is committed, or to the first new message if that is before it. A broker of 4.9 takes
        any of the messages of the very moment, so the one before it is given.
        """
        for queue_id, queue in queues.items():
            await self._queries.call(commit_offset(group, topic, queue_id, queue.offset), self._before_send)
        sent_to = await self._queries.call(reset_members(group, topic, first_ms - 1, is_force=False), self._before_send)
        if sent_to is None:
            return False
        self._observer.sets_back(group, topic, {queue.queue_id: offset for queue, offset in sent_to.items()})
        return True

    def _before_send(self) -> None:
        if not self._may_write():
            raise NotSent(self._queries.address, "it is not known to be the master")

    def _report_coming(self, members: _Members, *, times: int) -> None:
        """Report the topics at which members that are there were sent back fewer times."""
        why = (
            f"members were not sent back {TIMES} times: the broker did not answer in time, it was not known who is "
            "master, or they came too late"
        )
        self._report(members, members.coming(members.present, times), why)

    def _report(self, members: _Members, topics: Iterable[str], error: str) -> None:
        """Report topics of a group, each of them once."""
        if new := [name for name in topics if not members.topics[name].is_reported]:
            for name in new:
                members.topics[name].is_reported = True
            self._observer.members_not_reset(members.group.at(new), error)


def _why_not_followed(found: GroupConnections) -> str | None:
    """Return why members do not go where the broker sends them; None if they do."""
    if found.consume_type == PULL:
        return "only push consumers follow what this broker sends them: reset it where useServerSideResetOffset=true"
    others = [each.client_id for each in found.clients if each.language == _OTHER_FORM]
    return f"clients in {_OTHER_FORM} do not follow what this broker sends them: {others[0]}" if others else None


def _has_started_since(running: RunningConsumer, unix_ms: int, now_unix_ms: int) -> bool:
    """Return whether a member has started after a moment for certain: its last pull shows how late its clock is."""
    pulled = [each.last_pull_unix_ms for each in running.queues.values() if each.last_pull_unix_ms is not None]
    if running.started_unix_ms is None or not pulled or max(pulled) > now_unix_ms + CLOCK_MARGIN_MS:
        return False
    return running.started_unix_ms > unix_ms + CLOCK_MARGIN_MS
