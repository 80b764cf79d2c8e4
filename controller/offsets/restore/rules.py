"""Decides which offset each queue of a group gets at its master. Pure.

**Nothing is skipped unseen.** An offset is written only where it is not beyond the end of its queue. One that goes
forward needs the store time of the message before it: after a lost tail, and where a topic was made anew, new messages
fill the queue, and nobody has read them. The store time alone is the word of one clock: the message's producer has to
agree, and where it is known where the log ended when the offset was read, the message lies before that. No group goes
forward whose members do not show now that they pull, nor one that somebody has set back since.

An offset before the beginning of a queue becomes its beginning, where consumers would go on anyway.
Source: docs/protocol/offsets.md 8.2.
"""

from typing import Final, NamedTuple

from controller.offsets.entry_keys import EntryKind
from controller.offsets.guard.boundaries import PlacedMessage
from controller.offsets.restore.values import PlannedOffset, RestoreOptions, RestoreStatus, WantedOffset

_KINDS: Final = {
    EntryKind.BROADCAST: "members of broadcasting groups keep their offsets themselves",
    EntryKind.LMQ: "the ends of light queues are not known for certain",
}
_WHY_POPS: Final = (
    "it pops, or may pop: not all members, if there are any, show now (307) that they pull. What it has not "
    "acknowledged would be skipped: start its members, and repeat, or say that it pulls (pulls)"
)


class QueueBounds(NamedTuple):
    """Where a queue begins and ends."""

    min_offset: int
    #: The next offset to be written.
    max_offset: int


class GroupState(NamedTuple):
    """How a group consumes at a broker now."""

    is_online: bool = False
    is_broadcasting: bool = False
    #: Its members show that they pull; also where the broker cannot pop.
    pulls: bool = False
    #: What it may have popped and not acknowledged is known to the broker alone that handed it out.
    loses_popped: bool = False


class ShownQueue(NamedTuple):
    """What a master shows of a queue of a group."""

    #: None: no offset is stored.
    offset: int | None
    #: None: the broker does not have the queue.
    ends: QueueBounds | None
    group: GroupState
    #: Why it cannot be determined; blank if it can.
    problem: str = ""


def decide_restored(
    wanted: WantedOffset, shown: ShownQueue, options: RestoreOptions, *, can_reset: bool
) -> PlannedOffset:
    """Return what is done with one queue, as far as no message has to be looked at (`needs_proof`).

    `can_reset`: the broker sends members that are online to an offset (222).
    """
    old = shown.offset
    refused = _refusal(wanted, shown)
    if refused is not None:
        return PlannedOffset(wanted.queue, old, wanted.offset, *refused)
    assert wanted.offset is not None, "refused above"
    assert shown.ends is not None, "refused above"
    new = max(wanted.offset, shown.ends.min_offset)
    reason = "" if new == wanted.offset else f"messages before {new} have expired"
    is_raise, set_back_to = new > (old or 0), wanted.set_back_to
    pulls = options.pulls or (shown.group.pulls and not wanted.shows_pop)
    if not pulls and (is_raise or (old == new and shown.group.loses_popped)):
        status, reason = RestoreStatus.POPS, _WHY_POPS
    elif old == new:
        status = RestoreStatus.UNCHANGED
    elif old is not None and new < old and not options.allow_back:
        status, reason = RestoreStatus.BACKWARD, "it would go back: allow that with allowBack"
    elif is_raise and set_back_to is not None and new > set_back_to:
        # 0 also stands for any queue where it is not known what an operation has set.
        unreadable = "" if set_back_to else ", or may have been: an operation cannot be read (earlier_resets_unknown)"
        status = RestoreStatus.MOVED_ON
        reason = (
            f"it was set back to {set_back_to} since (/v1/offsets/regressions){unreadable}. To restore it all the "
            "same, name its group and a time"
        )
    elif shown.group.is_online and not can_reset:
        status = RestoreStatus.ONLINE
        reason = "members are online and would overwrite it, and this broker resets nothing itself: stop them first"
    else:
        status = RestoreStatus.READY
    return PlannedOffset(wanted.queue, old, new, status, reason)


def needs_proof(wanted: WantedOffset, shown: ShownQueue, planned: PlannedOffset, options: RestoreOptions) -> bool:
    """Return whether the message before the new offset has to be looked at: there is one, and it may be skipped."""
    if planned.status is not RestoreStatus.READY or wanted.stored_before_unix_ms is None or options.allow_unproved:
        return False
    assert planned.new is not None, "it is ready"
    assert shown.ends is not None, "it is ready"
    return planned.new > max(planned.old or 0, shown.ends.min_offset)


def proved(wanted: WantedOffset, planned: PlannedOffset, message: PlacedMessage | None) -> PlannedOffset:
    """Return what is done once the message before the new offset was looked at; None: it is not readable."""
    assert wanted.stored_before_unix_ms is not None, "only where proof is needed"
    if message is None or message.store_unix_ms is None:
        why = "cannot be read"
    elif max(message.store_unix_ms, message.born_unix_ms or 0) >= wanted.stored_before_unix_ms:
        times = f"stored at {message.store_unix_ms} and sent at {message.born_unix_ms}"
        why = f"was {times}, not certainly before the offset"
    elif wanted.log_end is not None and message.physical_offset >= wanted.log_end:
        why = f"lies at {message.physical_offset} in the log, which ended at {wanted.log_end} then"
    else:
        return PlannedOffset(planned.queue, planned.old, planned.new, RestoreStatus.READY)
    reason = f"the message before it {why}: messages might be skipped that nobody has read"
    return PlannedOffset(planned.queue, planned.old, planned.new, RestoreStatus.NOT_PROVED, reason)


def is_still_right(planned: PlannedOffset, shown_now: int | None) -> bool:
    """Return whether an offset is still to be written, after the group may have committed another one meanwhile."""
    assert planned.new is not None, "only what is ready is written"
    if planned.old is None or shown_now is None:
        return shown_now == planned.old
    if planned.old > planned.new:
        return shown_now > planned.new
    # One that went back meanwhile was reset by somebody else.
    return planned.old <= shown_now < planned.new


def verified_restore(planned: PlannedOffset, shown_after: int | None, *, was_reset: bool) -> PlannedOffset:
    """Return what became of an offset that the broker has accepted, by what it shows afterwards."""
    assert planned.new is not None, "only what is ready is written"
    if shown_after == planned.new or (was_reset and shown_after is not None and shown_after > planned.new):
        return PlannedOffset(planned.queue, planned.old, planned.new, RestoreStatus.RESTORED)
    reason = f"the broker shows {'no offset' if shown_after is None else shown_after} now"
    return PlannedOffset(planned.queue, planned.old, planned.new, RestoreStatus.OVERWRITTEN, reason)


def _refusal(wanted: WantedOffset, shown: ShownQueue) -> tuple[RestoreStatus, str] | None:
    """Return why nothing can be written to a queue, whatever is allowed."""
    if why := _KINDS.get(wanted.queue.key.kind):
        return RestoreStatus.NOT_RESTORABLE, why
    if wanted.offset is None:
        return RestoreStatus.NOT_RESTORABLE, "there was no offset before, and no request removes that of one queue"
    if shown.problem:
        return RestoreStatus.UNAVAILABLE, shown.problem
    if shown.ends is None:
        return RestoreStatus.NO_QUEUE, "the broker does not have this queue"
    return _refusal_of_offset(wanted, wanted.offset, shown, shown.ends)


def _refusal_of_offset(
    wanted: WantedOffset, offset: int, shown: ShownQueue, ends: QueueBounds
) -> tuple[RestoreStatus, str] | None:
    if shown.group.is_broadcasting:
        return RestoreStatus.NOT_RESTORABLE, _KINDS[EntryKind.BROADCAST]
    if wanted.expected is not None and shown.offset != wanted.expected:
        found = "no offset" if shown.offset is None else shown.offset
        return RestoreStatus.MOVED_ON, f"the broker shows {found}, not {wanted.expected}: allow that with force"
    if offset > ends.max_offset:
        return RestoreStatus.BEYOND_END, f"the queue ends at {ends.max_offset}: the messages that were read are lost"
    return None
