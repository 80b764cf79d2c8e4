"""Which offset each queue of a group gets in a restore, an undo or an import, or why none. Pure.

**Nothing is skipped unseen.** What goes back costs messages that are read again, and needs the operator's word. What
goes forward is proved as in a repair: the group pulls, as its members say, and the message before the new offset lies
below the first end of the reading that had it, in a log that is the same up to there. So a topic that was made anew
since is not proved, whatever clocks say. What somebody has set since stays.

Each refusal that an operator can override names the field that does it.
"""

from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from offsets.proof import Proved, QueueEnds
from offsets.values import GroupKind, GroupMembers, GroupTopic, QueueKey, SetName, is_writable
from serving.shapes.offsets import Status

#: Queues of groups that one operation may change.
RESTORED_MAX: Final = 10_000


class Options(NamedTuple):
    #: Offsets may go back: messages are read again.
    allow_back: bool = False
    #: Offsets may go forward without proof that no message is skipped that nobody has read.
    allow_unproved: bool = False
    #: What somebody has set since may be overwritten.
    over_resets: bool = False
    #: The groups pull: their members need not say so.
    pulls: bool = False


class Wanted(NamedTuple):
    key: QueueKey
    #: None: there was none, which no request brings back.
    offset: int | None
    #: Only while the broker shows this; None: whatever it shows.
    expected: int | None = None
    #: Somebody has set or deleted it since.
    was_reset: bool = False


class QueueNow(NamedTuple):
    #: None: no offset.
    shown: int | None
    #: None: the broker does not have the queue, or does not show its ends.
    ends: QueueEnds | None
    members: GroupMembers
    #: It sends members to an offset by itself (222).
    resets_on_server: bool
    #: Why the broker does not show its ends; blank if it does, or does not have it.
    problem: str = ""


class RestoredQueue(msgspec.Struct, frozen=True, array_like=True):
    """Actual or, with dryRun, expected outcome for one queue of a group."""

    cluster: str
    broker_name: str
    group: str
    topic: str
    queue_id: int
    status: Status
    #: What the broker shows before; None for no offset, or if that is not known.
    old: int | None
    #: What it is to show; None for nothing.
    new: int | None
    why: str = ""
    #: Members that are online are sent there.
    sends_members: bool = False

    @property
    def key(self) -> QueueKey:
        return QueueKey(self.group, self.topic, self.queue_id)

    @property
    def set_name(self) -> SetName:
        return SetName(self.cluster, self.broker_name)

    @property
    def messages_again(self) -> int | None:
        """Messages that are read again, if all are still there; None where that is not known."""
        return None if self.old is None or self.new is None else max(self.old - self.new, 0)

    @property
    def messages_never(self) -> int | None:
        """Messages that are not read from where the broker shows the group; None where that is not known."""
        return None if self.old is None or self.new is None else max(self.new - self.old, 0)


class Planned(NamedTuple):
    status: Status
    new: int | None
    why: str = ""
    sends_members: bool = False


def needs_proof(wanted: Wanted, now: QueueNow, options: Options) -> bool:
    """Return whether the message before the offset has to be looked at: all else is right, and it goes forward."""
    planned = plan(wanted, now, Proved(wanted.offset), options)
    is_forward = planned.new is not None and planned.new > (now.shown or 0)
    return planned.status is Status.WOULD_CHANGE and is_forward and not options.allow_unproved


def plan(wanted: Wanted, now: QueueNow, proved: Proved | None, options: Options) -> Planned:
    """Return what is done with a queue; `proved` is None where no message was looked at."""
    if (why := _never(wanted, now)) or wanted.offset is None or now.ends is None:
        return Planned(Status.NOT_PROVED, wanted.offset, why)
    if wanted.expected is not None and now.shown != wanted.expected:
        return Planned(Status.NOT_PROVED, wanted.offset, "its group has moved since, or it was set (force)")
    new = max(wanted.offset, now.ends.min_offset)
    if now.shown == new:
        return Planned(Status.RIGHT, new)
    if refusal := _not_allowed(wanted, now, new, options):
        return Planned(Status.NOT_PROVED, new, refusal)
    why = "" if new == wanted.offset else f"messages before {new} have expired"
    if new > (now.shown or 0) and new > now.ends.min_offset and not options.allow_unproved:
        if proved is None or proved.until is None:
            reason = "the message before it was not looked at" if proved is None else proved.why
            return Planned(Status.NOT_PROVED, new, f"{reason} (allowUnproved)")
        if proved.until < new:
            new, why = proved.until, "later messages were stored while the reading was under way"
            if new <= (now.shown or 0):
                return Planned(Status.RIGHT, now.shown, why)
    return Planned(Status.WOULD_CHANGE, new, why, sends_members=now.members.is_online)


def verified(queue: RestoredQueue, shown: int | None) -> RestoredQueue:
    """Return what became of an offset that the broker has taken, by what it shows afterwards."""
    assert queue.new is not None, "it was written"
    if shown is not None and (shown >= queue.new if (queue.old or 0) <= queue.new else shown < (queue.old or 0)):
        return replace(queue, status=Status.DONE, why="")
    why = f"a member that is online has overwritten it: the broker shows {shown}"
    return replace(queue, status=Status.FAILED, why=why)


def _never(wanted: Wanted, now: QueueNow) -> str:
    """Return why an offset is written in no case; blank if it may be."""
    if not is_writable(GroupTopic(wanted.key.group, wanted.key.topic)):
        return "brokers do not store such offsets: members of broadcasting groups do, and light queues have no ends"
    if now.members.kind is GroupKind.BROADCAST:
        return "the group broadcasts: its members keep their offsets"
    if wanted.offset is None:
        return "there was no offset, and no request can restore that"
    if now.ends is None:
        return now.problem or "the broker does not have the queue"
    if wanted.offset > now.ends.max_offset:
        return f"it is beyond the end of the queue, {now.ends.max_offset}"
    if now.members.is_online and not now.resets_on_server:
        return "members are online and would overwrite it, as this broker cannot reset them: stop them first"
    return ""


def _not_allowed(wanted: Wanted, now: QueueNow, new: int, options: Options) -> str:
    """Return what the operator has to allow, and with which field; blank if nothing is missing."""
    if wanted.was_reset and not options.over_resets:
        return "it was set or deleted since: see /v1/offsets/jumps (overResets)"
    if now.shown is not None and new < now.shown:
        return "" if options.allow_back else f"{now.shown - new} messages would be read again (allowBack)"
    if options.pulls or now.members.kind is GroupKind.PULL:
        return ""
    if now.members.kind is GroupKind.POP:
        return "the group pops: messages that it has not acknowledged would be skipped (pulls, if it does not)"
    return "no member is online, or one does not show that it pulls: start them, or say that the group pulls (pulls)"
