"""Phases of a grow: seed, read up, assign, write up, verify (docs/protocol/queue-scaling.md 4)."""

from collections.abc import Iterator
from typing import Final

from controller.scaling.resize.decision import ResizeDecision, StoreGroupOffset
from controller.scaling.resize.observation import ClientView, GroupKind, GroupView, ResizeObservation, SetView
from controller.scaling.resize.operation import QueueId, QueueOffset, ResizeOperation
from controller.scaling.rules.path import PAUSED_END, new_queues
from controller.scaling.rules.round import ResizeRound
from serving.shapes.scaling import ResizeKind, ResizePhase


def seeds_of(operation: ResizeOperation, observation: ResizeObservation) -> tuple[QueueOffset, ...]:
    """Return where each new queue begins: at its end, which is 0 unless an earlier resize has used it.

    Stored before the queues can be read: a client without a stored offset begins at the end of a queue as it is when it
    gets the queue, and skips what was written before (docs/protocol/queue-scaling.md 3).
    A queue that could be written and not read begins with what is in it.
    """
    seeds = []
    for resize in operation.sets:
        ends = observation.sets[resize.broker_name].ends
        for queue_id in new_queues(resize):
            is_unreadable = resize.before.read <= queue_id < resize.before.write
            end = ends[queue_id]
            offset = max(end.min_offset, 0) if is_unreadable else end.max_offset
            seeds.append(QueueOffset(resize.broker_name, queue_id, offset))
    return tuple(seeds)


def unseeded(operation: ResizeOperation, observation: ResizeObservation) -> tuple[StoreGroupOffset, ...]:
    """Return the offsets that are still to be stored, for every group that is known now.

    A stored offset behind the end of its queue is of a queue that was emptied: messages would be skipped. It goes back
    to the end. Needs `groups`, `ends` and `offsets`.
    """
    # Broadcasting clients keep their offsets themselves.
    groups = [each.name for each in observation.groups or () if each.kind is not GroupKind.BROADCAST]
    return tuple(
        action for seed in operation.seeds for action in _unseeded(seed, observation.sets[seed.broker_name], groups)
    )


def _unseeded(seed: QueueOffset, view: SetView, groups: list[str]) -> Iterator[StoreGroupOffset]:
    assert view.master is not None, "a round with missing answers stores nothing"
    assert view.offsets is not None, "as above"
    end = view.ends[seed.queue_id].max_offset
    for group in groups:
        if group in view.unknown_groups:
            continue
        stored = view.offsets.get(group, {}).get(seed.queue_id)
        if stored is None or stored > end:
            yield StoreGroupOffset(
                broker_name=seed.broker_name,
                address=view.master.address,
                group=group,
                queue_id=seed.queue_id,
                before=stored,
                offset=end if stored is not None else min(seed.offset, end),
            )


#: Positions of the path of a grow.
READ_UP: Final = 1
WRITE_UP: Final = 2
#: Within so long clients send a heartbeat to a master that was started, or leads since: it takes groups for offline
#: before, and broadcasting ones for none.
HEARTBEAT_MS: Final = 35_000
#: What is said of groups whose members do not consume all new queues together.
_WITHOUT: Final = {
    GroupKind.CONCURRENT: "group {group} does not consume {queues} yet",
    GroupKind.ORDERLY: "group {group} does not consume {queues} yet",
    # It may have them, and it may consume in order, which is to be known before a message is there.
    GroupKind.UNKNOWN: "no member of group {group} that answers consumes {queues} yet",
    GroupKind.ASSIGNED: "no member of group {group}, which chooses its queues itself, consumes {queues} yet",
}
_AWAY: Final = (
    "group {group}, which chose its queues itself, is offline: start a consumer of it, or delete it with its offsets "
    "if it never returns (mqadmin deleteSubGroup -r true)"
)


def seed(this: ResizeRound) -> ResizeDecision:
    """Store where groups begin in new queues."""
    operation, observation = this.operation, this.observation
    if observation.missing:
        return this.stay(observation.missing)
    if not operation.seeds:
        seeds = seeds_of(operation, observation)
        if seeds:
            return this.record(seeds=seeds)
    actions = unseeded(operation, observation)
    if not actions:
        return _seeded(this)
    this = this.with_progress(agreed_at_ms=None)
    waits = [f"offset {each.offset} of group {each.group} in {each.broker_name}/{each.queue_id}" for each in actions]
    if not this.is_over(operation.waits.seed_ms) or _must_go_on(operation):
        return this.stay(waits[:10], actions)
    return this.undo(f"{len(actions)} offsets of new queues could not be stored within {operation.waits.seed_ms} ms")


def _seeded(this: ResizeRound) -> ResizeDecision:
    operation = this.operation
    if operation.kind is not ResizeKind.GROW and operation.seeds and not _must_go_on(operation):
        # Messages may be in new queues soon; a grow has ASSIGN before.
        this, agreed_ms = this.agreed()
        if agreed_ms < operation.waits.confirm_ms:
            return this.stay([_not_kept(operation)])
    evidence = [f"queue {each.queue} begins at {each.offset}" for each in operation.seeds]
    evidence += _without_configuration(this)
    if operation.kind is ResizeKind.ORDERED and _must_go_on(operation):
        return this.go(ResizePhase.UNPAUSE, evidence)
    if operation.kind is ResizeKind.ORDERED:
        return this.go(ResizePhase.RESIZE, evidence, reached=PAUSED_END)
    return this.go(ResizePhase.READ_UP, evidence, reached=max(operation.reached, READ_UP))


def _not_kept(operation: ResizeOperation) -> str:
    # A broker stores offsets each 5 s, and slaves copy them each 10 s.
    return f"brokers write the offsets of the new queues to disk first ({operation.waits.confirm_ms / 1000:.0f} s)"


def _must_go_on(operation: ResizeOperation) -> bool:
    """Return whether keys may be in new queues already: going back would mix their order."""
    match operation.kind:
        case ResizeKind.ORDERED:
            return operation.reached > PAUSED_END
        case ResizeKind.GATED:
            return operation.reached > READ_UP
        case _:
            return False


def _without_configuration(this: ResizeRound) -> list[str]:
    return [
        f"group {group} has no configuration on {name}: nothing is stored for it there"
        for name, view in sorted(this.observation.sets.items())
        for group in sorted(view.unknown_groups)
    ]


def read_up(this: ResizeRound) -> ResizeDecision:
    """Let consumers see the new queues."""

    def following() -> ResizeDecision:
        if this.operation.kind is ResizeKind.GATED:
            # Consumers get no queue that is locked.
            return this.go(ResizePhase.WRITE_UP, ["the new queues are read, and locked"], reached=WRITE_UP)
        return this.go(ResizePhase.ASSIGN, ["every master, slave and NameServer shows the new read queues"])

    undo = "" if _must_go_on(this.operation) else "not every broker and NameServer showed the new read queues"
    return this.advance(READ_UP, following, furthest=this.operation.reached, undo=undo)


def assign(this: ResizeRound) -> ResizeDecision:
    """Wait until consumers have the new queues; groups that came meanwhile are seeded before any message is there."""
    operation, observation = this.operation, this.observation
    if (left := this.left(READ_UP, furthest=operation.reached, numbers="read queues")) is not None:
        return left
    if unseeded(operation, observation):
        is_new = operation.has_new_master and not this.is_over(HEARTBEAT_MS)
        return this.go(ResizePhase.SEED, ["a group has no offset in a new queue yet"], has_new_master=is_new)
    if operation.has_new_master and not this.is_over(HEARTBEAT_MS):
        return this.stay(["a master that is new does not know all members of groups yet"])
    return _assigned(this)


def _assigned(this: ResizeRound) -> ResizeDecision:
    operation = this.operation
    orderly = [each.name for each in this.observation.groups or () if each.is_orderly]
    if orderly and operation.reached < WRITE_UP:
        return this.undo(f"groups consume in order, and more queues would mix it: {', '.join(orderly)}")
    waits, unprotected = unassigned(operation, this.observation)
    if not waits and not this.is_over(operation.waits.confirm_ms):
        return this.stay([_not_kept(operation)])
    if not waits:
        return this.go(ResizePhase.WRITE_UP, ["every online group has the new queues"], reached=WRITE_UP)
    if not this.is_over(operation.waits.assign_ms):
        if unprotected and not operation.options.ignore_unassigned:
            left_s = (operation.waits.assign_ms - this.waited_ms) / 1000
            waits.append(f"the resize is undone in {left_s:.0f} s unless they do")
        return this.stay(waits)
    if unprotected and not operation.options.ignore_unassigned:
        return this.undo(f"messages of new queues would not be read: {'; '.join(unprotected)}")
    accepted = dict.fromkeys(unprotected, "accepted by the operator")
    evidence = [f"{each}; {accepted.get(each, 'its stored offset protects it')}" for each in waits]
    return this.go(ResizePhase.WRITE_UP, evidence, reached=WRITE_UP)


def unassigned(operation: ResizeOperation, observation: ResizeObservation) -> tuple[list[str], list[str]]:
    """Return sentences about groups without new queues, and of those the ones that may never read them."""
    new = {QueueId(each.broker_name, queue_id) for each in operation.sets for queue_id in new_queues(each)}
    waits: list[str] = []
    unprotected: list[str] = []
    for group in observation.groups or ():
        if group.kind is GroupKind.BROADCAST:
            unprotected += _broadcast_waits(group, new)
            continue
        if group.chooses_queues and not group.is_online:
            unprotected.append(_AWAY.format(group=group.name))
            continue
        if group.kind in _WITHOUT and (left := new.difference(*map(_queues, group.clients))):
            sentence = _WITHOUT[group.kind].format(group=group.name, queues=_named(left))
            (unprotected if group.chooses_queues else waits).append(sentence)
    return [*waits, *unprotected], unprotected


def _broadcast_waits(group: GroupView, new: set[QueueId]) -> Iterator[str]:
    for client in group.clients:
        if left := new - _queues(client):
            yield f"client {client.client_id} of the broadcasting group {group.name} does not consume {_named(left)}"


def _queues(client: ClientView) -> set[QueueId]:
    return set(client.queues or ())


def _named(queues: set[QueueId]) -> str:
    shown = ", ".join(map(str, sorted(queues)[:4]))
    return f"{shown} and {len(queues) - 4} more" if len(queues) > 4 else shown  # noqa: PLR2004


def write_up(this: ResizeRound) -> ResizeDecision:
    """Let producers use the new queues."""
    is_gated = this.operation.kind is ResizeKind.GATED
    following = ResizePhase.RELEASE if is_gated else ResizePhase.VERIFY
    return this.advance(
        WRITE_UP,
        lambda: this.go(following, ["every master, slave and NameServer shows the new write queues"]),
        undo="" if is_gated else "not everybody showed the new write queues",
    )


def verify(this: ResizeRound, position: int) -> ResizeDecision:
    """Report how groups get on with the new queues."""
    check = this.path(position)
    if check.conflicts or check.actions:
        return this.conflict(check.conflicts or ["the queue numbers are not the ones of this resize any more"])
    uncovered = this.uncovered_sets()
    if not this.is_over(this.operation.waits.grown_watch_ms):
        left_s = (this.operation.waits.grown_watch_ms - this.waited_ms) / 1000
        watches = f"watches lag on the new queues for {left_s:.0f} s more"
        return this.stay((*this.observation.missing, watches, *uncovered))
    if not this.observation.missing and any(each.offsets is None for each in this.observation.sets.values()):
        # The round before was so long that nobody has looked at them.
        return this.stay(["lag on the new queues", *uncovered])
    lapse = [this.operation.lapse] if this.operation.lapse else []
    return this.go(this.operation.ends_as, [*lapse, *uncovered, *_lag_of_new_queues(this)])


def _lag_of_new_queues(this: ResizeRound) -> list[str]:
    lines = []
    for resize in this.operation.sets:
        view = this.observation.sets.get(resize.broker_name)
        if view is None or view.offsets is None:
            continue
        for group, offsets in sorted(view.offsets.items()):
            both = [each for each in new_queues(resize) if each in view.ends and each in offsets]
            lag = sum(max(view.ends[each].max_offset - offsets[each], 0) for each in both)
            lines.append(f"group {group} is {lag} messages behind in the new queues of {resize.broker_name}")
    return lines
