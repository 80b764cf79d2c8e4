"""Where groups begin in new queues: stored before the queues can be read, so that no default skips messages.

A client without a stored offset begins at the end of the queue as it is when it gets the queue: what was written before
is skipped (docs/protocol/queue-scaling.md 3).
"""

from collections.abc import Iterator

from controller.scaling.resize.decision import StoreGroupOffset
from controller.scaling.resize.observation import GroupKind, ResizeObservation, SetView
from controller.scaling.resize.operation import QueueOffset, ResizeOperation
from controller.scaling.rules.path import new_queues


def seeds_of(operation: ResizeOperation, observation: ResizeObservation) -> tuple[QueueOffset, ...]:
    """Return where each new queue begins: at its end, which is 0 unless an earlier resize has used it.

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
    return tuple(
        action
        for seed in operation.seeds
        for action in _unseeded(seed, observation.sets[seed.broker_name], _seeded_groups(observation))
    )


def _seeded_groups(observation: ResizeObservation) -> list[str]:
    """Return the groups whose offsets brokers store; broadcasting clients keep their own."""
    return [each.name for each in observation.groups or () if each.kind is not GroupKind.BROADCAST]


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
