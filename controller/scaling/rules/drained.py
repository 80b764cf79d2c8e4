"""When every group has consumed all messages of a queue (docs/protocol/queue-scaling.md 6)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from controller.scaling.resize.decision import PhaseProgress
from controller.scaling.resize.observation import GroupKind, GroupView, ResizeObservation, SetView
from controller.scaling.resize.operation import QueueId, ResizeOperation
from controller.scaling.rules.path import watched_queues
from serving.shapes.scaling import ResizeWaits

#: Queues that a record of what was given up names, of each group and broker set.
RANGES_SHOWN: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class UndrainedQueue:
    group: str
    queue: QueueId
    #: None: it is not known how much.
    messages: int | None
    reason: str
    #: Where the queue ends; None: what is given up has no range, as clients have it already.
    end: int | None = None

    def __str__(self) -> str:
        return f"group {self.group}, queue {self.queue}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainCheck:
    lags: tuple[UndrainedQueue, ...]
    #: Groups that have consumed everything and have to wait, with the sentence why.
    settling: tuple[str, ...]
    #: Groups that are offline with lag: nobody will consume it, an operator has to decide.
    offline: tuple[str, ...]
    #: What was given up, as the operator wanted.
    waived: tuple[str, ...]
    progress: PhaseProgress

    @property
    def is_drained(self) -> bool:
        return not self.lags and not self.settling


def check_drained(operation: ResizeOperation, observation: ResizeObservation, progress: PhaseProgress) -> DrainCheck:
    """Return what groups have still to consume of the watched queues; needs `groups`, `ends` and `offsets`."""
    assert observation.groups is not None, "a round with missing answers decides nothing"
    lags: list[UndrainedQueue] = []
    settling: list[str] = []
    waived: list[str] = []
    settled_at: dict[str, int] = {}
    for group in observation.groups:
        lag = list(_lags(group, operation, observation))
        if group.name in operation.options.waived_groups:
            waived += given_up(lag)
            continue
        lags += lag
        if lag:
            continue
        settled_at[group.name] = since = progress.settled_at_ms.get(group.name, progress.waited_ms)
        if (left_ms := since + _settle_ms(group.kind, operation.waits) - progress.waited_ms) > 0:
            settling.append(
                f"group {group.name} ({group.kind.value}) has consumed everything; {left_ms / 1000:.0f} s for messages "
                "that its clients still process"
            )
    kinds = {group.name: group.kind for group in observation.groups}
    offline = sorted({each.group for each in lags if kinds[each.group] is GroupKind.OFFLINE})
    return DrainCheck(
        lags=tuple(lags),
        settling=tuple(settling),
        offline=tuple(offline),
        waived=tuple(waived),
        progress=replace(progress, settled_at_ms=settled_at),
    )


def is_behind(group: str, operation: ResizeOperation, observation: ResizeObservation) -> bool:
    """Return whether a group that does not broadcast is behind by its stored offsets: its members do not matter."""
    watched = watched_queues(operation)
    return any(
        is_behind_in(group, observation.sets[resize.broker_name], queue_id)
        for resize in operation.sets
        for queue_id in watched(resize)
    )


def is_behind_in(group: str, view: SetView, queue_id: int) -> bool:
    """Return whether a group has to consume something of one queue, by the stored offsets alone."""
    ends, stored = view.ends[queue_id], (view.offsets or {}).get(group, {}).get(queue_id, -1)
    return ends.min_offset < ends.max_offset and stored < ends.max_offset


def _settle_ms(kind: GroupKind, waits: ResizeWaits) -> int:
    match kind:
        case GroupKind.POP | GroupKind.UNKNOWN:
            return waits.pop_ms
        case GroupKind.PULL | GroupKind.ASSIGNED | GroupKind.BROADCAST:
            return waits.process_ms
        case _:
            return 0


def _lags(group: GroupView, operation: ResizeOperation, observation: ResizeObservation) -> Iterator[UndrainedQueue]:
    watched = watched_queues(operation)
    for resize in operation.sets:
        view = observation.sets[resize.broker_name]
        for queue_id in watched(resize):
            ends = view.ends[queue_id]
            # Empty, or everything has expired: drained for everybody.
            if ends.min_offset >= ends.max_offset:
                continue
            queue = QueueId(resize.broker_name, queue_id)
            if group.kind is GroupKind.BROADCAST:
                yield from _broadcast_lag(group, queue, ends.max_offset, view.broadcast_offsets or {})
            else:
                yield from _lag(group, queue, ends.max_offset, _offsets_of(group, view))


def _offsets_of(group: GroupView, view: SetView) -> Mapping[str, Mapping[int, int]]:
    """Return the stored offsets; of a group that is offline also those that brokers have stored while it broadcast."""
    offsets, broadcast = view.offsets or {}, view.broadcast_offsets or {}
    if group.is_online or group.name in offsets:
        return offsets
    return broadcast


def _lag(
    group: GroupView, queue: QueueId, end: int, offsets: Mapping[str, Mapping[int, int]]
) -> Iterator[UndrainedQueue]:
    stored = offsets.get(group.name, {}).get(queue.queue_id)
    if stored is None:
        yield UndrainedQueue(
            group=group.name, queue=queue, messages=None, reason="no offset is stored: it has not begun"
        )
    elif stored < end:
        reason = f"{end - stored} messages are not consumed ({stored} of {end})"
        yield UndrainedQueue(group=group.name, queue=queue, messages=end - stored, reason=reason, end=end)
    elif group.kind in {GroupKind.PULL, GroupKind.ASSIGNED} and (cached := _cached(group, queue)):
        reason = f"{cached} messages are pulled and not processed"
        yield UndrainedQueue(group=group.name, queue=queue, messages=cached, reason=reason)


def _cached(group: GroupView, queue: QueueId) -> int:
    return sum(held.cached for client in group.clients if (held := (client.queues or {}).get(queue)) is not None)


def _broadcast_lag(
    group: GroupView, queue: QueueId, end: int, offsets: Mapping[str, Mapping[int, int]]
) -> Iterator[UndrainedQueue]:
    """Yield what members have not consumed; those that are not connected cannot be known."""
    stored = offsets.get(group.name, {}).get(queue.queue_id)
    for client in group.clients:
        held = None if client.queues is None else client.queues.get(queue)
        if held is None and stored is not None and stored >= end:
            # Brokers from 5.1 store how far all members have pulled.
            continue
        messages: int | None = None
        if client.queues is None:
            reason = f"client {client.client_id} does not report how far it is"
        elif held is None:
            reason = f"client {client.client_id} does not show the queue"
        elif held.commit_offset < end or held.cached:
            messages = max(end - held.commit_offset, held.cached)
            reason = f"client {client.client_id} has {messages} messages to consume"
        else:
            continue
        yield UndrainedQueue(group=group.name, queue=queue, messages=messages, reason=reason)


def given_up(lags: Iterable[UndrainedQueue]) -> Iterator[str]:
    """Yield what a group gives up, one sentence for each broker set; of many queues the first ones are named."""
    by_set: dict[str, list[UndrainedQueue]] = {}
    for each in lags:
        by_set.setdefault(each.queue.broker_name, []).append(each)
    for broker_name, found in sorted(by_set.items()):
        known = sum(each.messages or 0 for each in found)
        is_known = all(each.messages is not None for each in found)
        many = str(known) if is_known else f"{known} or more" if known else "an unknown number of"
        shown = ", ".join(_range(each) for each in found[:RANGES_SHOWN])
        more = f" and {len(found) - RANGES_SHOWN} more" if len(found) > RANGES_SHOWN else ""
        yield (
            f"group {found[0].group} was not waited for: {many} messages in {len(found)} queues of {broker_name} are "
            f"given up: {shown}{more}"
        )


def _range(lag: UndrainedQueue) -> str:
    if lag.end is None or lag.messages is None:
        return str(lag.queue.queue_id)
    return f"{lag.queue.queue_id} ({lag.end - lag.messages} to {lag.end})"
