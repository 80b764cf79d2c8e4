"""What a run of the guard leaves to do once the members of groups come. Pure.

An offset that is set back by a plain commit is overwritten by members that are online. And of some groups nothing shows
whether they pull or pop before their members come: a broker that was started again has none for up to 30 s. Without an
offset members may begin at the end.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from controller.offsets.guard.boundaries import Boundary
from controller.offsets.guard.outcomes import is_reset
from controller.offsets.guard.rules import GuardDecision, OffsetCandidate, OffsetKeeping, Reason


class UnresetQueue(NamedTuple):
    """One queue."""

    #: Up to where the group has read everything.
    offset: int
    #: A smaller offset was committed by somebody who wants to go back. One in between may be, or be that of a member
    #: that began at the older copy of the new master.
    floor: int
    #: The guard has committed `offset`, or tried to: what is less now, somebody else has committed.
    is_sent: bool = False

    def place_after(self, committed: int | None, *, is_sent_back: bool) -> int:
        """Return where members are sent, given what is committed: the guard raises no offset that may be a rewind.

        `is_sent_back`: members were sent before, and `offset` was committed for it. Where the guard has not committed
        anything, what the new master has shown from the beginning is no rewind.
        """
        if committed is None:
            return self.offset
        if self.is_sent or is_sent_back or committed > self.floor:
            return min(committed, self.offset)
        return self.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class UnresetGroup:
    """Queues of a group in which members may go on from positions in the lost tail."""

    group: str
    #: By topic and queue id.
    topics: Mapping[str, Mapping[int, UnresetQueue]]
    #: It pulls for certain. If not, its members are to show it: the offsets of a group that pops are left.
    is_pulling: bool

    def at(self, topics: Collection[str]) -> "UnresetGroup":
        """Return the same group with these of its topics."""
        return replace(self, topics={name: self.topics[name] for name in topics})

    def with_former(self, former: "UnresetGroup") -> "UnresetGroup":
        """Return the same group with the queues that an earlier run has left, too."""
        names = {**former.topics, **self.topics}
        topics = {name: {**former.topics.get(name, {}), **self.topics.get(name, {})} for name in names}
        return replace(self, topics=topics, is_pulling=self.is_pulling or former.is_pulling)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnresetGroups:
    """All such groups of a run."""

    #: Which messages nobody can have read before it.
    boundary: Boundary
    groups: Sequence[UnresetGroup]
    #: The broker resets offsets by itself, so no member has to be sent anywhere.
    can_reset: bool

    def with_former(self, former: "UnresetGroups") -> "UnresetGroups":
        """Return these and what an earlier run at the same broker has left; of a queue in both, this one counts."""
        groups = {each.group: each for each in former.groups}
        for each in self.groups:
            groups[each.group] = each.with_former(groups[each.group]) if each.group in groups else each
        return replace(self, groups=list(groups.values()))


def awaits_members(decision: GuardDecision, if_pulling: GuardDecision) -> bool:
    """Return whether more is to be done once the members of a group that may pop show that it pulls."""
    return decision.reason is Reason.LEFT_ABSENT or (is_reset(if_pulling) and not is_reset(decision))


@dataclass(slots=True)
class UnresetQueues:
    """Collects them during a run."""

    #: By group, topic and queue id.
    _queues: dict[str, dict[str, dict[int, UnresetQueue]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(dict))
    )
    _pulling: set[str] = field(default_factory=set)
    #: Groups and topics with a queue that an operator may have set: all queues of a topic are sent back together.
    _left_alone: set[tuple[str, str]] = field(default_factory=set)

    def leave_alone(self, candidate: OffsetCandidate) -> None:
        """Take that an operator may have set an offset."""
        self._left_alone.add((candidate.group, candidate.topic))

    def decided(self, candidate: OffsetCandidate, if_pulling: GuardDecision) -> None:
        """Take what is done with an offset of a group whose members are awaited, once they show that it pulls."""
        if if_pulling.offset is None:
            return
        if is_reset(if_pulling):
            self._add(candidate, _queue_set_to(if_pulling.offset, candidate))
        else:
            # Members may begin at the end; what they have committed by then is not raised.
            self._add(candidate, UnresetQueue(if_pulling.offset, floor=-1))

    def sent_without_reset(self, candidate: OffsetCandidate, offset: int) -> None:
        """Take that an offset was sent by a plain commit, which the broker has answered or not."""
        self._add(candidate, _queue_set_to(offset, candidate)._replace(is_sent=True))
        if candidate.keeping is OffsetKeeping.CLUSTERING:
            self._pulling.add(candidate.group)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to do."""
        return not self._queues

    def groups(self, *, can_reset: bool) -> list[UnresetGroup]:
        """Return what is left, at a broker that resets offsets by itself or not."""
        found = []
        for group, queues in self._queues.items():
            topics = {
                topic: of_topic
                for topic, of_topic in queues.items()
                if can_reset or (group, topic) not in self._left_alone
            }
            if topics:
                found.append(UnresetGroup(group=group, topics=topics, is_pulling=group in self._pulling))
        return found

    def _add(self, candidate: OffsetCandidate, queue: UnresetQueue) -> None:
        self._queues[candidate.group][candidate.topic][candidate.queue_id] = queue


def _queue_set_to(offset: int, candidate: OffsetCandidate) -> UnresetQueue:
    # A member that began at what the new master showed commits less than what is set, until it has read so far.
    return UnresetQueue(offset, offset if candidate.shown is None else min(candidate.shown, offset))
