"""What is done with the offset of one group in one queue after a role change, a restart or a replacement. Pure.

The new master shows an offset that its last copy of the old master's table had, 10 to 60 s old, or weeks, or one that a
client has committed since. The mirror has saved what the old master had a few seconds before it failed. The newest of
the two is wanted, but **no message may be skipped for it**: a message that is read twice is a nuisance, one that is
never read is lost. So an offset is raised only where all messages below it are proved to be old (`boundaries.py`):
those the group had already read when it committed that offset. What is not proved is reported, and left as it is.

The queue's max at the promotion divides its messages: those below it are old, those from it on are new.

**saved <= max at the promotion.** The logs are the same up to there, so `saved` means the same on the new master. It is
pushed if the new master shows less. If it shows as much or more, it knows better. But where members are sent back as
well, as the tail is lost, they are sent to `saved`: seconds are read twice, and an older copy skips nothing.

**saved > max at the promotion.** The tail of the log is lost. The group has read all old messages, and none of the new
ones that have the queue offsets of the lost ones. The max at the promotion is set. `saved > max` alone would not show
it: the sign vanishes as new messages refill the queue, and a push of `saved` would skip them.

**shown > max at the promotion.** Either the group has read new messages on the new master, and has committed that. Or
one of its clients has kept its position in the lost tail, and has committed it here: then what lies between was never
read, and each commit of this client hides it more. Clients do not read their offset again when a master changes, so
nothing but the position itself was carried over. Can the two be told apart?

- `shown` lies beyond the end of the queue as it was *after* `shown` was read: nobody can have read so far. It is a
  position of the lost tail, or the copy of one. The max at the promotion is set, as everything below it was read.
- Nobody has pulled from the queue for this group since the broker runs, as it says itself (`pullOffsetTable`, 5.5.0),
  and the group pulls: nothing was read here. The max at the promotion is set, where that was seconds ago: later on an
  operator may have set the group forward. (A client that still pulls from a slave reads a little again.)
  Where somebody has pulled, the table has his last pull and not his first one, and proves nothing.
- No tail can be lost (the new master was in sync, and brokers serve only what all in sync have): no position beyond
  the max at the promotion can have been carried over, so the commit is genuine. It is left.
- Otherwise not. That a client has the same queue before and after proves nothing: one whose first pull comes while the
  queue is still short is sent to its end by the broker (21), which skips what was written until then, or nothing if
  nothing was. `saved <= max at the promotion` proves nothing either, as the mirror is some seconds older than the
  position that was carried over. It is reported, with the max at the promotion as the offset from which nothing would
  be skipped. Only where the tail is proved to be lost, and the promotion was seconds ago, that offset is set: then it
  is probable that messages were skipped, and little is read again if none was.

Where less than the max at the promotion was saved, that takes its place in all of these: what is shown may also be an
older copy from before somebody set the group back, and then only what is below `saved` was read.

**A lost tail, and clients that are online.** The positions of clients are some seconds newer than any offset that is
stored. A client whose position is in the lost tail skips new messages at its first pull, whatever the table shows:
recorded with 5.5.0, a client beyond the end went to the end 1.5 s after the promotion, and skipped 43 messages. So
where the tail is lost, what is right is not committed (15), which such a client would overwrite within 5 s, but reset
on the server (222), where the broker can: commits are refused until the group's next pull, and that is sent to the
offset. This is done for each group of the queue, at the price of reading again what it read since then. So it is not
done where the promotion was long ago, as after a start of this process.

Messages that are late, that is: stored about when the mirror read the offsets, or later, are on no side. Where the tail
is lost, such a group is sent to the first of them: what it had read of them it reads again, seconds of them, and what
it had not read it does not skip.

**What lies before the beginning of the queue.** No message shows what such an offset means. Where members have to be
sent back, it is set even so, or what is shown if that is less: nothing is raised by that, and the broker lets the group
begin with the first message that it has. To leave it would leave members at positions in the lost tail.

**A rewind that the mirror has seen** is not undone by the new master's older copy: a copy is not newer than the rewind
if it shows no more than the value before it. The saved value is the newest, not the highest. A copy may be weeks old,
so the rewind counts until the group goes past that value. What the group has read on the new master until then looks
the same: it reads those seconds twice. A deletion is a rewind without a new value, and slaves keep what was deleted.
Where the group is to begin then is not known: it is reported.

**A store that was emptied** has no old messages, and the max at the promotion is 0 in every queue. The saved offset is
archived and never pushed; 0 is set, so that a group without an offset does not begin at the end.

**A reset at the new master** looks like an older copy. Right after the promotion nobody has made one yet, and one that
is made during a run is seen before the write. Where the promotion was long ago, no offset that is there is raised: it
is reported. So is each queue that an operator has reset by this service where the mirror may not have read that yet:
neither the saved offset nor the one that is shown is known to be the newest.

**Pop.** The offset of a pop group is the broker's own: what lies below it was handed out, and a check-point message in
another topic, or a record in a store that no slave has (`popConsumerKVServiceEnable`), leads to what was not
acknowledged. Nothing here can show that these are there. So a group is taken for one unless all its members show now
that they push or pull, and no offset of such a group is raised, nor is one set where the new master has none.

**What every offset that is raised needs** beside all of this: the message before it lies before the end of the log that
was read (`runner.py`), as a topic may have been made anew since; and it was read within the last minute, or the members
of its group show now that they pull, as a group may have been deleted since.

**Left alone** are the shadow entries of broadcasting groups, whose offsets are with the clients, and light queues
(`%LMQ%`), whose ends 30, 31 and 321 do not show for sure. Retry topics are topics like others.

Source: docs/protocol/offsets.md 8.2.
"""

import enum
from dataclasses import dataclass, replace
from enum import Enum, auto

from controller.offsets.guard.queue_view import QueueView


class OffsetKeeping(Enum):
    """How the offsets of a group are kept, as far as the guard differs."""

    #: Push and pull consumers, for certain: clients have positions, and commit them.
    CLUSTERING = auto()
    #: The broker has the position, or may have it.
    POP = auto()
    #: Clients keep their offsets themselves; the broker has a copy.
    BROADCAST = auto()
    #: Light queues.
    LMQ = auto()


class Action(enum.StrEnum):
    """What is done."""

    #: The saved offset is committed (15).
    PUSH = "push"
    #: The max at the promotion is set, or less, on the server where the broker can (222).
    SET = "set"
    #: 0 is set, and the saved offset is archived.
    ARCHIVE = "archive"
    LEAVE = "leave"
    #: It is not certain what is right: nothing is written, an operator decides.
    REPORT = "report"


class Tail(Enum):
    """Whether consumers may have read messages on the old master that the new one does not have."""

    #: No: the new master was in sync, and brokers serve only what all in sync have.
    KEPT = auto()
    MAY_BE_LOST = auto()
    #: Proved, or to be taken for granted: a replica that was not in sync was promoted.
    LOST = auto()


class Reason(enum.StrEnum):
    """Why."""

    #: The new master has an older offset.
    BEHIND = "behind"
    #: The new master has no offset, and a client would begin by its policy.
    ABSENT = "absent"
    #: A rewind, or a deletion, is newer than the new master's copy.
    REWOUND = "rewound"
    TAIL_LOST = "tail_lost"
    #: Clients may have positions in the lost tail.
    POSITIONS_LOST = "positions_lost"
    #: The new master shows an offset beyond the end of its queue.
    BEYOND_END = "beyond_end"
    #: The new master shows an offset beyond the max at the promotion, and nobody has pulled from it.
    NEVER_PULLED = "never_pulled"
    STORE_EMPTIED = "store_emptied"
    #: The new master shows what was saved, or more.
    UP_TO_DATE = "up_to_date"
    #: What is right lies before the queue's beginning, or where its messages have expired: the broker corrects it.
    HEAD_EXPIRED = "head_expired"
    #: The mirror has no offset.
    NOT_SAVED = "not_saved"
    NOT_GUARDED = "not_guarded"
    #: Of a group that pops, or may pop, as its members do not show now that they pull: nothing is raised.
    POPS = "pops"
    #: The same where the new master has none: clients that begin by their policy may begin at the end.
    LEFT_ABSENT = "left_absent"
    #: An operator has reset the queue, and the mirror may not have read that yet. Or the new master has an older
    #: offset, and somebody may have reset the group there since the promotion.
    MAY_BE_RESET = "may_be_reset"
    #: The group has read new messages, or has skipped them if a tail was lost that nothing proves.
    MAY_HAVE_SKIPPED = "may_have_skipped"
    #: What the new master shows of the topic cannot be read.
    UNREADABLE = "unreadable"
    #: It is not proved which messages are old.
    NO_PROOF = "no_proof"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCandidate:
    """What is known of one group in one queue."""

    group: str
    topic: str
    queue_id: int
    #: Of the mirror: the newest value of the old epoch, not the highest. None: none was stored.
    saved: int | None
    #: Of the new master (43). None: it has none.
    shown: int | None
    keeping: OffsetKeeping = OffsetKeeping.CLUSTERING
    #: Where the group's last pull from the new master ended. None: it has not pulled, or the broker does not say.
    pulled: int | None = None
    #: The value before a rewind, or a deletion, that the group has not gone past yet: slaves may not have copied it.
    rewound_from: int | None = None
    #: Where an operator has set the queue by this service; the saved offset may be older than that.
    reset_to: int | None = None
    #: All that the new master shows of the topic could be read.
    is_readable: bool = True

    @property
    def queue(self) -> tuple[str, int]:
        """The topic and the queue id."""
        return self.topic, self.queue_id

    @property
    def is_rewound(self) -> bool:
        """Whether the new master shows a value from before a rewind."""
        return self.saved is not None and self._is_from_before and self.shown is not None and self.saved < self.shown

    @property
    def is_deleted(self) -> bool:
        """Whether the new master shows a value from before somebody has deleted the offset, as slaves keep it."""
        return self.saved is None and self._is_from_before

    @property
    def _is_from_before(self) -> bool:
        return self.shown is not None and self.rewound_from is not None and self.shown <= self.rewound_from


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """What is proved of the whole log of the new master."""

    tail: Tail = Tail.MAY_BE_LOST
    #: The promotion was seconds ago: so is all that was committed since.
    is_recent: bool = False
    #: The new master says which groups have pulled from it.
    has_pulls: bool = False
    #: All that the old master had when the mirror had read its table is in this log.
    has_saved_log: bool = False
    #: The store was empty at the promotion.
    is_emptied: bool = False
    #: What groups popped and did not acknowledge is known to the broker alone that handed it out.
    loses_popped: bool = False

    @property
    def sends_back(self) -> bool:
        """Whether members that pull are sent back, at the price of reading seconds again."""
        return self.tail is Tail.LOST and self.is_recent


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardDecision:
    """What is done with one offset."""

    action: Action
    reason: Reason
    #: What is stored; None: nothing is.
    offset: int | None = None
    #: Of a report: from here on nothing is skipped. None: unknown.
    safe_offset: int | None = None


def matters(candidate: OffsetCandidate, facts: LogFacts) -> int:
    """Return up to which offset it matters which messages of the queue are old; 0: nothing has to be proved."""
    is_guarded = candidate.keeping not in (OffsetKeeping.BROADCAST, OffsetKeeping.LMQ)
    if not is_guarded or not candidate.is_readable or candidate.is_deleted:
        return 0
    saved, shown = candidate.saved or 0, candidate.shown or 0
    if facts.tail is not Tail.KEPT or candidate.is_rewound:
        return max(saved, shown)
    return saved if saved > shown else 0


def decide(candidate: OffsetCandidate, view: QueueView | None, facts: LogFacts) -> GuardDecision:
    """Return what is done with one offset; `view` is None for a queue that was not looked at, or not readable."""
    decision = _of_pulling(candidate, view, facts)
    is_raise = raises(candidate, decision)
    is_lost = facts.loses_popped and decision.action is Action.LEAVE
    if candidate.keeping is OffsetKeeping.POP and (is_raise or is_lost):
        is_absent = is_raise and candidate.shown is None
        return GuardDecision(action=Action.REPORT, reason=Reason.LEFT_ABSENT if is_absent else Reason.POPS)
    return decision


def raises(candidate: OffsetCandidate, decision: GuardDecision) -> bool:
    """Return whether a decision raises an offset, or sets one where there is none: messages may be skipped by it."""
    return decision.offset is not None and decision.offset > (candidate.shown or 0)


def not_raised(candidate: OffsetCandidate, decision: GuardDecision) -> GuardDecision:
    """Return what is done without proof for a raise: members that have to be sent back go to what is shown, or to 0."""
    if decision.action is Action.SET:
        return replace(decision, offset=candidate.shown or 0)
    return GuardDecision(action=Action.REPORT, reason=Reason.NO_PROOF)


def _of_pulling(candidate: OffsetCandidate, view: QueueView | None, facts: LogFacts) -> GuardDecision:
    """Return what is done with one offset if its group pulls, and its messages are those that were there."""
    if (undecidable := _undecidable(candidate, view, facts)) is not None:
        return undecidable
    if candidate.reset_to is not None:
        return _reset(candidate.reset_to, view)
    if view is not None and not candidate.is_deleted and _is_beyond(candidate.shown, view):
        return _beyond(candidate, view, facts)
    if candidate.saved is None:
        return _not_saved(candidate)
    if facts.is_emptied and view is not None and view.end_of_old == 0:
        return _archived(candidate)
    return _wanted(candidate, candidate.saved, view, facts)


def _undecidable(candidate: OffsetCandidate, view: QueueView | None, facts: LogFacts) -> GuardDecision | None:
    """Return what is done with what is not guarded, or cannot be read."""
    if candidate.keeping in (OffsetKeeping.BROADCAST, OffsetKeeping.LMQ):
        return _left(Reason.NOT_GUARDED)
    if not candidate.is_readable:
        return GuardDecision(action=Action.REPORT, reason=Reason.UNREADABLE)
    if view is None and matters(candidate, facts):
        return GuardDecision(action=Action.REPORT, reason=Reason.NO_PROOF)
    return None


def _left(reason: Reason) -> GuardDecision:
    return GuardDecision(action=Action.LEAVE, reason=reason)


def _not_saved(candidate: OffsetCandidate) -> GuardDecision:
    if candidate.is_deleted:
        # Where the group is to begin only who has deleted its offset knows.
        return GuardDecision(action=Action.REPORT, reason=Reason.REWOUND)
    return _left(Reason.NOT_SAVED)


def _reset(offset: int, view: QueueView | None) -> GuardDecision:
    safe = offset if view is None else min(offset, view.old_until)
    return GuardDecision(action=Action.REPORT, reason=Reason.MAY_BE_RESET, safe_offset=safe)


def _is_beyond(shown: int | None, view: QueueView) -> bool:
    """Whether the shown offset is not proved to be below the max at the promotion."""
    return shown is not None and shown > view.old_until


def _beyond(candidate: OffsetCandidate, view: QueueView, facts: LogFacts) -> GuardDecision:
    """Decide where the new master shows an offset that is, or may be, beyond the max at the promotion."""
    end, shown = view.end_of_old, candidate.shown
    assert shown is not None, "an absent offset is beyond nothing"
    if facts.tail is Tail.KEPT and not candidate.is_rewound:
        # Also beyond the end, where it was before too: no role change has brought it there.
        return _left(Reason.UP_TO_DATE)
    # Neither a position nor an older copy shows that the group has read more than what was saved.
    safe = view.old_until if candidate.saved is None else min(candidate.saved, view.old_until)
    if end is None and not _is_sent_before_late(candidate, view, facts):
        return GuardDecision(action=Action.REPORT, reason=Reason.NO_PROOF, safe_offset=safe)
    reason = _not_read(candidate, shown, view, facts)
    doubt = Reason.POSITIONS_LOST if facts.tail is Tail.LOST else Reason.MAY_HAVE_SKIPPED
    if reason is None and not facts.sends_back:
        return GuardDecision(action=Action.REPORT, reason=doubt, safe_offset=safe)
    if facts.is_emptied and end == 0:
        return GuardDecision(action=Action.ARCHIVE, reason=Reason.STORE_EMPTIED, offset=0)
    return _set(candidate, safe, view, reason or doubt)


def _not_read(candidate: OffsetCandidate, shown: int, view: QueueView, facts: LogFacts) -> Reason | None:
    """Return why it is certain that the group has not read up to `shown`; None if it is not."""
    if shown > view.max_offset:
        return Reason.BEYOND_END
    has_pulled_nothing = facts.has_pulls and candidate.pulled is None
    is_certain = facts.is_recent and candidate.keeping is OffsetKeeping.CLUSTERING
    return Reason.NEVER_PULLED if has_pulled_nothing and is_certain else None


def _set(candidate: OffsetCandidate, offset: int, view: QueueView, reason: Reason) -> GuardDecision:
    if not _is_expired(offset, view):
        return GuardDecision(action=Action.SET, reason=reason, offset=offset)
    if candidate.shown is None and offset != candidate.saved:
        # Where the old messages end is not known that exactly, and the group may begin before it by its policy.
        return GuardDecision(action=Action.REPORT, reason=Reason.HEAD_EXPIRED, safe_offset=offset)
    # Nobody is sent to the beginning instead: with tiered storage the messages before it can still be read. What is
    # shown is not raised, so nothing is skipped: the broker lets the group begin with the first message that it has.
    # To leave it would leave members at positions in a lost tail.
    least = offset if candidate.shown is None else min(offset, candidate.shown)
    return GuardDecision(action=Action.SET, reason=reason, offset=least)


def _is_expired(offset: int, view: QueueView) -> bool:
    """Return whether no message shows what an offset at the beginning of the queue, or before it, means."""
    return offset < view.min_offset or 0 < offset == view.min_offset == view.old_until


def _archived(candidate: OffsetCandidate) -> GuardDecision:
    # Also where 0 is shown: a client may still have its position in the store that is gone.
    is_new = candidate.saved == 0 and candidate.shown == 0
    return GuardDecision(action=Action.ARCHIVE, reason=Reason.STORE_EMPTIED, offset=None if is_new else 0)


def _wanted(candidate: OffsetCandidate, saved: int, view: QueueView | None, facts: LogFacts) -> GuardDecision:
    """Decide where nothing shows an offset beyond the max at the promotion."""
    if view is None or saved <= view.old_until:
        return _raised(candidate, saved, view, facts)
    if candidate.keeping is OffsetKeeping.POP and candidate.shown is not None:
        return GuardDecision(action=Action.REPORT, reason=Reason.POPS)
    end = view.begin_of_late if _is_sent_before_late(candidate, view, facts) else view.end_of_old
    if end is None:
        return GuardDecision(action=Action.REPORT, reason=Reason.NO_PROOF, safe_offset=view.old_until)
    if _may_be_reset(candidate, end, facts):
        return GuardDecision(action=Action.REPORT, reason=Reason.MAY_BE_RESET, safe_offset=end)
    # Also where the end is shown: a client may still have its position in the lost tail.
    return _set(candidate, end, view, Reason.TAIL_LOST)


def _raised(candidate: OffsetCandidate, saved: int, view: QueueView | None, facts: LogFacts) -> GuardDecision:
    """Decide for a saved offset below which all messages are old."""
    shown = candidate.shown
    if view is not None and _are_positions_lost(candidate, facts):
        # Not to a greater one that is shown: it may be a copy from before a rewind that nobody here knows of.
        return _set(candidate, saved, view, Reason.POSITIONS_LOST)
    if candidate.is_rewound:
        return _rewound(saved, facts)
    if shown is not None and (left := _why_left(saved, shown, view)):
        return _left(left)
    if _may_be_reset(candidate, saved, facts):
        return GuardDecision(action=Action.REPORT, reason=Reason.MAY_BE_RESET, safe_offset=saved)
    reason = Reason.ABSENT if shown is None else Reason.BEHIND
    return GuardDecision(action=Action.PUSH, reason=reason, offset=saved)


def _rewound(saved: int, facts: LogFacts) -> GuardDecision:
    if facts.is_recent:
        return GuardDecision(action=Action.PUSH, reason=Reason.REWOUND, offset=saved)
    return GuardDecision(action=Action.REPORT, reason=Reason.REWOUND, safe_offset=saved)


def _may_be_reset(candidate: OffsetCandidate, offset: int, facts: LogFacts) -> bool:
    """Return whether to raise an offset may undo what somebody has done on purpose."""
    return not facts.is_recent and candidate.shown is not None and candidate.shown < offset


def _are_positions_lost(candidate: OffsetCandidate, facts: LogFacts) -> bool:
    """Return whether clients may be about to go on from positions in the lost tail."""
    return facts.sends_back and candidate.keeping is OffsetKeeping.CLUSTERING


def _is_sent_before_late(candidate: OffsetCandidate, view: QueueView, facts: LogFacts) -> bool:
    """Return whether the group is sent to where messages begin of which nobody knows whether they are old."""
    return view.begin_of_late is not None and _are_positions_lost(candidate, facts)


def _why_left(saved: int, shown: int, view: QueueView | None) -> Reason | None:
    """Return why an offset that the new master has is not raised to the saved one; None if it is."""
    if saved <= shown:
        return Reason.UP_TO_DATE
    return Reason.HEAD_EXPIRED if view is not None and saved <= view.min_offset else None
