"""Phases of a shrink: write down, quiesce, late sources, drain, confirm, read down, watch, reopen.

docs/protocol/queue-scaling.md 5. The same phases make an ordered topic quiet before its counts change (section 8, O1).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from controller.scaling.resize.decision import ResizeDecision
from controller.scaling.resize.operation import QueueId, first_sentences
from controller.scaling.rules.drained import DrainCheck, UndrainedQueue, check_drained
from controller.scaling.rules.path import PAUSED_END, watched_queues
from controller.scaling.rules.quiet import (
    as_offsets,
    ends_of,
    grown,
    late_arrivals,
    late_marks_of,
    producers_wait,
    with_ends,
)
from controller.scaling.rules.round import ResizeRound
from serving.shapes.scaling import ResizeKind, ResizePhase

#: Lags that are shown to the operator.
LAGS_SHOWN: Final = 20


def lowered_position(this: ResizeRound) -> int:
    """Return the position of the path at which nobody may write to the dropped queues, and all can be read."""
    operation = this.operation
    if operation.kind is ResizeKind.ORDERED:
        return 1 if operation.reached < PAUSED_END else PAUSED_END + 1
    return 1


def write_down(this: ResizeRound) -> ResizeDecision:
    """Let producers leave the dropped queues."""
    return this.advance(
        lowered_position(this),
        lambda: this.go(ResizePhase.QUIESCE, ["every master, slave and NameServer shows fewer write queues"]),
        lowest=0,
        undo="not everybody showed the new write queues" if this.operation.ends_as is ResizePhase.DONE else "",
    )


def quiesce(this: ResizeRound) -> ResizeDecision:
    """Wait until producers have left, and the ends of the queues do not move."""
    if (stopped := this.left(lowered_position(this), limit_ms=this.operation.waits.quiesce_ms)) is not None:
        return stopped
    operation, observation = this.operation, this.observation
    ends = ends_of(operation, observation, watched_queues(operation))
    this = replace(this, progress=with_ends(this.progress, ends))
    wait_ms, stale = producers_wait(operation, observation)
    if this.waited_ms < wait_ms:
        return this.stay(
            (f"producers may have the old route for {(wait_ms - this.waited_ms) / 1000:.0f} s more", *stale)
        )
    this, undispatched = this.with_log_marks()
    still_ms = this.waited_ms - this.progress.moved_at_ms
    waits = []
    if still_ms < operation.waits.stable_ms:
        waits.append(f"no message may come for {(operation.waits.stable_ms - still_ms) / 1000:.0f} s more")
    waits += undispatched
    is_over = this.is_over(operation.waits.quiesce_ms)
    # Who has the old route and sends nothing does not hold up the resize for ever.
    if not waits and (is_over or not stale):
        evidence = [
            *stale,
            f"no message came for {still_ms / 1000:.0f} s, {this.waited_ms / 1000:.0f} s after the change",
        ]
        return this.go(ResizePhase.LATE, evidence, late_marks=late_marks_of(observation))
    if is_over:
        return this.block([f"producers still send to the queues: {'; '.join(waits)}"])
    return this.stay((*waits, *stale))


def late(this: ResizeRound) -> ResizeDecision:
    """Wait for delayed, timed and transactional messages that are on their way to the queues."""
    if (stopped := this.left(lowered_position(this))) is not None:
        return stopped
    waits = list(late_arrivals(this.operation, this.observation, this.waited_ms))
    if not waits:
        return this.go(ResizePhase.DRAIN, ["nothing is on its way to the queues any more"])
    if this.operation.options.accept_late:
        return this.go(ResizePhase.DRAIN, [f"accepted by the operator: {each}" for each in waits])
    return this.stay(waits)


def drain(this: ResizeRound) -> ResizeDecision:
    if (stopped := this.left(lowered_position(this), limit_ms=this.operation.waits.drain_ms)) is not None:
        return stopped
    operation, observation = this.operation, this.observation
    ends = ends_of(operation, observation, watched_queues(operation))
    if this.progress.ends and this.progress.ends != ends:
        return this.go(ResizePhase.QUIESCE, ["messages came while groups consumed the rest"])
    check = check_drained(operation, observation, with_ends(this.progress, ends))
    this = replace(this, progress=check.progress)
    if check.is_drained:
        waived = set(operation.options.waived_groups)
        groups = [each for each in observation.groups or () if each.name not in waived]
        waited = " that were waited for" if waived else ""
        evidence = [f"all {len(groups)} groups{waited} have consumed the queues", *check.waived]
        return this.go(ResizePhase.CONFIRM, evidence, confirmed=as_offsets(ends))
    waits = (*_shown(check.lags), *check.settling)
    if check.offline:
        return this.block([_offline(check)])
    if this.is_over(operation.waits.drain_ms):
        return this.block([f"groups do not consume the queues: {'; '.join(waits)}"])
    return this.stay(waits)


def _shown(lags: Sequence[UndrainedQueue]) -> tuple[str, ...]:
    return first_sentences(list(map(str, lags)), LAGS_SHOWN)


def _offline(check: DrainCheck) -> str:
    lags = _shown([each for each in check.lags if each.group in check.offline])
    return (
        f"nobody of {', '.join(check.offline)} is connected, and the queues are not consumed: start a consumer, waive "
        f"the group, or abort. {'; '.join(lags)}"
    )


def confirm(this: ResizeRound) -> ResizeDecision:
    """Check a second time that nothing came and everything is consumed."""
    if (stopped := this.left(lowered_position(this))) is not None:
        return stopped
    operation, observation = this.operation, this.observation
    ends = ends_of(operation, observation, watched_queues(operation))
    if grew := grown(operation.confirmed, ends):
        return this.go(ResizePhase.QUIESCE, grew)
    # Groups have settled in DRAIN; only what they have not consumed counts here.
    check = check_drained(operation, observation, with_ends(this.progress, ends))
    if check.lags:
        return this.go(ResizePhase.DRAIN, _shown(check.lags))
    this, undispatched = this.with_log_marks()
    waits = list(undispatched)
    if not this.is_over(operation.waits.confirm_ms):
        waits.append(f"a second check in {(operation.waits.confirm_ms - this.waited_ms) / 1000:.0f} s")
    return this.stay(waits) if waits else _confirmed(this)


def _confirmed(this: ResizeRound) -> ResizeDecision:
    operation = this.operation
    became = "consumed or given up" if operation.options.waived_groups else "consumed"
    evidence = [f"queue {each.queue} ends at {each.offset}, all of it {became}" for each in operation.confirmed]
    if operation.kind is not ResizeKind.ORDERED:
        return this.go(ResizePhase.READ_DOWN, evidence, reached=2)
    if operation.reached > PAUSED_END:
        return this.go(ResizePhase.READ_DOWN, evidence, reached=PAUSED_END + 2)
    grows = any(each.target > each.before.write for each in operation.sets)
    return this.go(ResizePhase.SEED, evidence) if grows else this.go(ResizePhase.RESIZE, evidence, reached=PAUSED_END)


def read_down(this: ResizeRound) -> ResizeDecision:
    """Close the dropped queues: from here on brokers refuse them. What came just before is found by two checks."""
    operation, observation = this.operation, this.observation
    wanted = lowered_position(this) + 1
    check = this.path(wanted)
    if check.conflicts:
        return this.conflict(check.conflicts)
    if grew := _grown(this):
        return reopen_queues(this, grew)
    if check.is_reached and not observation.missing:
        return _post_check(this)
    if this.is_over(operation.waits.verify_ms):
        return reopen_queues(this, [f"not everybody showed the new read queues: {'; '.join(check.waits_for)}"])
    return this.stay((*check.waits_for, *observation.missing), check.actions)


def _post_check(this: ResizeRound) -> ResizeDecision:
    this, waits = this.with_log_marks()
    this, agreed_ms = this.agreed()
    if not waits and agreed_ms >= this.operation.waits.confirm_ms:
        # A producer with an old route may have sent delayed messages since QUIESCE; from here on, brokers refuse them.
        marks = late_marks_of(this.observation)
        return this.go(
            ResizePhase.WATCH, ["every broker refuses the dropped queues, and none has grown"], late_marks=marks
        )
    return this.stay([*waits, "a second check that nothing came just before the queues were closed"])


def _grown(this: ResizeRound) -> tuple[str, ...]:
    answered = {
        QueueId(name, queue_id): end.max_offset
        for name, view in this.observation.sets.items()
        for queue_id, end in view.ends.items()
    }
    return grown(this.operation.confirmed, answered)


def watch(this: ResizeRound) -> ResizeDecision:
    """Look for messages that arrive late in the dropped queues, until none can come any more."""
    left = this.left(lowered_position(this) + 1)
    # Whoever does not answer: what came late is to be consumed.
    if (left is None or left.operation.phase is not ResizePhase.CONFLICT) and (grew := _grown(this)):
        return reopen_queues(this, grew)
    if left is not None:
        return left
    waits = list(late_arrivals(this.operation, this.observation, this.waited_ms))
    if not this.is_over(this.operation.waits.watch_ms):
        waits.append(f"watches for {(this.operation.waits.watch_ms - this.waited_ms) / 1000:.0f} s more")
    if waits:
        # What is delivered later is dispatched later.
        this = this.with_progress(agreed_at_ms=None, log_marks={})
        return this.stay([*waits, *this.uncovered_sets()])
    return _watched(this)


def _watched(this: ResizeRound) -> ResizeDecision:
    """End once all that was delivered before is dispatched: the ends of queues do not show it sooner."""
    # Marks are taken in the next round: one answer of a broker may be older in one part than in the other.
    if this.progress.agreed_at_ms is None:
        this, _ = this.agreed()
        return this.stay(["a second check that what came last is in its queue"])
    this, waits = this.with_log_marks()
    if waits:
        return this.stay(waits)
    evidence = ["no message came late", *this.uncovered_sets()]
    return this.go(this.operation.ends_as, evidence)


def reopen_queues(this: ResizeRound, reasons: Sequence[str]) -> ResizeDecision:
    """Make the dropped queues readable again, so that groups consume what is in them."""
    return this.go(ResizePhase.REOPEN, reasons, reopened=this.operation.reopened + 1)


def reopen(this: ResizeRound) -> ResizeDecision:
    """Wait until everybody shows the dropped queues again."""
    again = ["the dropped queues are read again"]
    return this.advance(lowered_position(this), lambda: this.go(ResizePhase.QUIESCE, again), lowest=0)
