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

Topics do not depend on each other: one that the broker refuses, or that somebody has set back, keeps no other one. Nor
do members: those that do not follow the broker are reported, and the others are sent back.

Without a controller brokers may exchange addresses while members are awaited, so the broker's name is looked at in each
round before anything is written.

Source: docs/protocol/broker-admin.md 18 and 34, docs/protocol/offsets.md 8.2.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, Protocol

from controller.offsets.guard.awaited_members import (
    TIMES,
    AwaitedMembers,
    AwaitedTopic,
    awaited_members,
    needed_ms,
)
from controller.offsets.guard.boundaries import CLOCK_MARGIN_MS, BootBoundary, Boundary, EpochBoundary
from controller.offsets.guard.group_kinds import PULL, pulls
from controller.offsets.guard.master_queries import MasterQueries, NoMaster, NotServing
from controller.offsets.guard.unreset import UnresetGroup, UnresetGroups
from remoting.admin.clients import RunningConsumer, running_consumer
from remoting.admin.groups import GroupConnections, connections_of_group
from remoting.admin.offsets import OffsetCommit, commit_offset, committed_offset, reset_members
from remoting.background_tasks import all_results
from remoting.clock import Clock
from remoting.protocol.codes import ResponseCode
from remoting.protocol.errors import BodyError, InvokeError, NotSent, Refused

#: Between two rounds, at least; of many groups so many are looked at in a second, and each within PAUSE_MAX_S.
LOOK_S: Final = 2.0
GROUPS_PER_S: Final = 200
PAUSE_MAX_S: Final = 15.0
#: Members that have just come have no queues yet, which show that they pull.
UNKNOWN_MS: Final = 5_000
#: Members of a group that are requested what they do (307), each of which costs the member some time.
REQUESTED_MAX: Final = 20
#: Errors of topics that are reported together.
_ERRORS_MAX: Final = 3
#: Clients that do not follow what Java brokers send them in the form for Java.
_OTHER_FORM: Final = "CPP"
_WHY_PULL: Final = (
    "only push consumers follow what this broker sends them: reset it where useServerSideResetOffset=true"
)


class MemberResetObserver(Protocol):
    """Follows what becomes of such groups."""

    def is_reset_since(self, group: str, topic: str, queue_ids: Collection[int]) -> bool:
        """Return whether an operator has set one of these queues by this service since the run began."""

    def sets_back(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Take that queues are about to be set to these offsets or more, by queue id."""

    def members_reset(self, group: UnresetGroup, members: int) -> None:
        """Take that so many members were sent back at these topics."""

    def members_not_reset(self, group: UnresetGroup, error: str) -> None:
        """Take that members may go on from positions in the lost tail.

        Called once for each topic of a group, and once more for clients that do not follow what the broker sends them.
        """


class _LeftAlone(Exception):  # not an error: somebody else has decided where the group goes on
    """Nobody is sent back at a topic; the text says why."""


class MemberResets:
    """Those of one run, at one broker."""

    def __init__(
        self,
        queries: MasterQueries,
        clock: Clock,
        observer: MemberResetObserver,
        may_write: Callable[[], bool],
        requests_max: int,
        *,
        checks_name: bool,
    ) -> None:
        """Send as long as `may_write`, `requests_max` requests at a time.

        With `checks_name` only to a broker of the name that it should have: no epochs show who has the address.
        """
        self._queries = queries
        self._clock = clock
        self._observer = observer
        self._may_write = may_write
        self._requests_max = requests_max
        self._checks_name = checks_name
        self._naming = asyncio.Lock()
        #: The broker has shown its name in this round.
        self._is_named = False
        #: Why all is over: another broker has the address.
        self._why_other = ""

    async def run(self, unreset: UnresetGroups, is_over: Callable[[], bool]) -> None:
        """Send members back as they come, for WITHIN_MS, or until another broker is master (`is_over`).

        Longer where members of a group need that to go back, up to WITHIN_MAX_MS. Reports whoever was not sent back.
        """
        begun_ms = self._clock.now_ms()
        groups = [awaited_members(each, begun_ms) for each in unreset.groups]
        pause_s = min(max(LOOK_S, len(groups) / GROUPS_PER_S), PAUSE_MAX_S)
        first_ms: int | None = None
        while groups and not is_over():
            if first_ms is None and not unreset.can_reset:
                first_ms = await self._first_new(unreset.boundary)
            if first_ms is not None or unreset.can_reset:
                groups = await self._round(groups, first_ms)
            else:
                _take_unseen(groups, "no message was found that was stored after the promotion")
            if self._why_other:
                break
            groups = self._awaited(groups)
            await asyncio.sleep(pause_s)
        for members in groups:
            if self._why_other:
                self._report(members, members.not_sent, self._why_other)
            else:
                # Those that were sent back once are on their way.
                self._report_coming(members, times=1)

    def _awaited(self, groups: Sequence[AwaitedMembers]) -> list[AwaitedMembers]:
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

    async def _round(self, groups: Sequence[AwaitedMembers], first_ms: int | None) -> list[AwaitedMembers]:
        """Look at each group; return those that are to be looked at again. Without `first_ms` the broker resets."""
        waiting, left = iter(groups), list[AwaitedMembers]()
        self._is_named = False

        async def worker() -> None:
            for members in waiting:
                if not self._is_due(members) or await self._attempt(members, first_ms):
                    left.append(members)

        await all_results(worker() for _ in range(min(self._requests_max, len(groups))))
        return left

    def _is_due(self, members: AwaitedMembers) -> bool:
        """Return whether a group is to be looked at in this round."""
        if not self._may_write():
            members.unseen("it was not known whether this broker is the master")
            return False
        return not self._why_other and members.not_before_ms <= self._clock.now_ms() < members.end_ms

    async def _attempt(self, members: AwaitedMembers, first_ms: int | None) -> bool:
        """Return whether a group is to be looked at again."""
        try:
            return await self._look_at(members, first_ms)
        except Refused as refused:
            members.unseen(str(refused))
            if refused.code != ResponseCode.SYSTEM_BUSY:
                self._report(members, members.topics, str(refused))
        except (InvokeError, BodyError, NotServing) as error:
            # It is requested again.
            members.unseen(str(error))
        except NoMaster as error:
            self._why_other = str(error)
        return True

    async def _look_at(self, members: AwaitedMembers, first_ms: int | None) -> bool:
        """Send the members of a group back if some have come; return whether more may come."""
        group, found = members.group, await self._queries.call(connections_of_group(members.group.group))
        members.why_unseen = ""
        if found is None or found.is_broadcasting:
            members.present = set()
            return True
        # What the broker resets by itself, it answers to the pulls of all clients.
        others = [] if first_ms is None else _in_other_form(found)
        client_ids = {each.client_id for each in found.clients}.difference(others)
        is_other_new = bool(others) and not members.is_other_form_reported
        if not is_other_new and not members.coming(client_ids):
            members.present = client_ids
            return True
        if not group.is_pulling and not await pulls(self._queries, group.group, found):
            members.not_before_ms = self._clock.now_ms() + UNKNOWN_MS
            return True
        members.present = client_ids
        if is_other_new:
            self._report_other_form(members, others)
        await self._pass_over_started(members, client_ids)
        topics = members.coming(client_ids)
        if topics and first_ms is not None and found.consume_type == PULL:
            self._report(members, topics, _WHY_PULL)
            return False
        if topics:
            await self._send_back(members, topics, first_ms)
        return not all(each.is_over for each in members.topics.values())

    async def _pass_over_started(self, members: AwaitedMembers, client_ids: set[str]) -> None:
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

    async def _send_back(
        self, members: AwaitedMembers, topics: Mapping[str, AwaitedTopic], first_ms: int | None
    ) -> None:
        """Send all members of a group that are there back, at these topics one after another."""
        await self._confirm_name()
        takes_ms = needed_ms(topics)
        gone_back_ms = self._clock.now_ms() + takes_ms
        sent, errors = list[str](), dict[str, str]()
        try:
            for name, topic in topics.items():
                try:
                    places = await self._places(members.group.group, name, topic)
                    # Also where an answer does not come: what was sent may be under way.
                    members.wait_until(gone_back_ms)
                    topic.settled_unix_ms = None
                    if await self._send(members.group.group, name, places, first_ms):
                        sent.append(name)
                        self._take_sent(topic, members.present, takes_ms, is_reset=first_ms is None)
                except _LeftAlone as why:
                    topic.is_over, errors[name] = True, str(why)
                except Refused as refused:
                    if refused.code == ResponseCode.SYSTEM_BUSY:
                        raise
                    errors[name] = f"{name}: {refused}"
        finally:
            if sent:
                self._observer.members_reset(members.group.at(sent), len(members.present))
            self._report(members, errors, "; ".join(islice(errors.values(), _ERRORS_MAX)))

    async def _confirm_name(self) -> None:
        """Raise NoMaster for a broker of another name, and NotServing without an answer; requested once in a round."""
        if not self._checks_name:
            return
        async with self._naming:
            if not self._is_named:
                await self._queries.check_name()
                self._is_named = True

    def _take_sent(self, topic: AwaitedTopic, client_ids: set[str], takes_ms: int, *, is_reset: bool) -> None:
        """Take that members were sent back at a topic, or that the broker has reset it."""
        topic.is_over = is_reset
        topic.times.update(client_ids)
        if not topic.coming(client_ids):
            topic.settled_unix_ms = self._clock.unix_ms() + takes_ms

    async def _places(self, group: str, name: str, topic: AwaitedTopic) -> dict[int, int]:
        """Return where members are sent, by queue id; raises _LeftAlone where none is to be sent at this topic."""
        if self._observer.is_reset_since(group, name, topic.queues):
            raise _LeftAlone(f"{name} was reset by this manager meanwhile")
        places = {}
        for queue_id, queue in topic.queues.items():
            committed = await self._queries.call(committed_offset(group, name, queue_id))
            # A broker of 4.9 sends to the last message of a queue that has no new one.
            if committed is not None and committed < queue.floor - 1:
                raise _LeftAlone(f"queue {queue_id} of {name} was set back to {committed} by somebody else")
            places[queue_id] = queue.place_after(committed, is_sent_back=bool(topic.times))
        return places

    async def _send(self, group: str, topic: str, places: Mapping[int, int], first_ms: int | None) -> bool:
        """Send the members of a group back at one topic; return False if all have left."""
        self._observer.sets_back(group, topic, {queue_id: max(each - 1, 0) for queue_id, each in places.items()})
        if first_ms is not None:
            return await self._send_members(group, topic, places, first_ms)
        await self._reset(group, topic, places)
        return True

    async def _reset(self, group: str, topic: str, places: Mapping[int, int]) -> None:
        """Reset a group at the broker: all members go there at their next pull. A reset of somebody else is left."""
        for queue_id, offset in places.items():
            of_queue = group, topic, queue_id, offset
            if await self._queries.call(commit_offset(*of_queue), self._before_send) is OffsetCommit.STORED:
                await self._queries.reset(*of_queue, self._before_send)

    async def _send_members(self, group: str, topic: str, places: Mapping[int, int], first_ms: int) -> bool:
        """Send the members of a group that are online back; return False if all have left.

        Each queue is sent to what is committed, or to the first new message if that is before it. A broker of 4.9 takes
        any of the messages of the very moment, so the one before it is given.
        """
        for queue_id, offset in places.items():
            await self._queries.call(commit_offset(group, topic, queue_id, offset), self._before_send)
        sent_to = await self._queries.call(reset_members(group, topic, first_ms - 1, is_force=False), self._before_send)
        if sent_to is None:
            return False
        self._observer.sets_back(group, topic, {queue.queue_id: offset for queue, offset in sent_to.items()})
        return True

    def _before_send(self) -> None:
        if not self._may_write():
            raise NotSent(self._queries.address, "it is not known to be the master")

    def _report_coming(self, members: AwaitedMembers, *, times: int) -> None:
        """Report the topics at which members that are there were sent back fewer times, or all if nobody was seen."""
        if members.why_unseen:
            self._report(members, members.left, f"it is not known which members there are: {members.why_unseen}")
            return
        why = (
            f"members were not sent back {TIMES} times: the broker did not answer in time, it was not known who is "
            "master, or they came too late"
        )
        self._report(members, members.coming(members.present, times), why)

    def _report_other_form(self, members: AwaitedMembers, client_ids: Sequence[str]) -> None:
        members.is_other_form_reported = True
        if topics := members.left:
            why = f"clients in {_OTHER_FORM} do not follow what this broker sends them: {client_ids[0]}"
            self._observer.members_not_reset(members.group.at(topics), why)

    def _report(self, members: AwaitedMembers, topics: Iterable[str], error: str) -> None:
        """Report topics of a group, each of them once."""
        if new := [name for name in topics if not members.topics[name].is_reported]:
            for name in new:
                members.topics[name].is_reported = True
            self._observer.members_not_reset(members.group.at(new), error)


def _take_unseen(groups: Iterable[AwaitedMembers], why: str) -> None:
    for members in groups:
        members.unseen(why)


def _in_other_form(found: GroupConnections) -> list[str]:
    """Return the client ids of push consumers that do not go where the broker sends them."""
    if found.consume_type == PULL:
        return []
    return [each.client_id for each in found.clients if each.language == _OTHER_FORM]


def _has_started_since(running: RunningConsumer, unix_ms: int, now_unix_ms: int) -> bool:
    """Return whether a member has started after a moment for certain: its last pull shows how late its clock is."""
    pulled = [each.last_pull_unix_ms for each in running.queues.values() if each.last_pull_unix_ms is not None]
    if running.started_unix_ms is None or not pulled or max(pulled) > now_unix_ms + CLOCK_MARGIN_MS:
        return False
    return running.started_unix_ms > unix_ms + CLOCK_MARGIN_MS
