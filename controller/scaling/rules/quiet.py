"""When nobody can send to a queue any more, as far as that can be known (docs/protocol/queue-scaling.md 7).

No wait is proof: a producer that is cut off from all NameServers keeps its route. The proof is the check after read
numbers are lowered, because from then on brokers refuse.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from controller.scaling.resize.decision import PhaseProgress
from controller.scaling.resize.observation import LateSources, ResizeObservation, StaleProducers
from controller.scaling.resize.operation import LateMark, QueueId, QueueOffset, ResizeOperation
from controller.scaling.rules.path import QueueFilter
from remoting.admin.route_fetches import ClientFetch, ClientFetches
from serving.shapes.scaling import ResizeWaits

#: What is left of the wait for producers once all of them have fetched the present route: requests and sends under way.
FETCHED_SHARE: Final = 6


def ends_of(operation: ResizeOperation, observation: ResizeObservation, queues: QueueFilter) -> dict[QueueId, int]:
    return {
        QueueId(resize.broker_name, queue_id): observation.sets[resize.broker_name].ends[queue_id].max_offset
        for resize in operation.sets
        for queue_id in queues(resize)
    }


def with_ends(progress: PhaseProgress, ends: dict[QueueId, int]) -> PhaseProgress:
    """Return the progress with new ends, and when they last moved."""
    if progress.ends == ends:
        return progress
    return replace(progress, ends=ends, moved_at_ms=progress.waited_ms)


def as_offsets(ends: Mapping[QueueId, int]) -> tuple[QueueOffset, ...]:
    return tuple(QueueOffset(queue.broker_name, queue.queue_id, end) for queue, end in sorted(ends.items()))


def grown(confirmed: tuple[QueueOffset, ...], ends: dict[QueueId, int]) -> tuple[str, ...]:
    """Return sentences about queues whose end is not the confirmed one."""
    return tuple(
        f"queue {each.queue} ended at {each.offset} and ends at {end}"
        for each in confirmed
        if (end := ends.get(each.queue)) is not None and end != each.offset
    )


def producers_wait(operation: ResizeOperation, observation: ResizeObservation) -> tuple[int, tuple[str, ...]]:
    """Return how long to wait for producers in ms, and which of them still have the old route."""
    producers = observation.producers
    stale = tuple(f"producers at {each} have not fetched the new route" for each in producers.addresses)
    share = FETCHED_SHARE if producers.is_complete else 1
    return operation.waits.producers_ms // share, stale


def undispatched(observation: ResizeObservation, marks: Mapping[str, int]) -> tuple[str, ...]:
    """Return sentences about masters whose messages up to a mark are not in their queues yet."""
    return tuple(
        f"{name} has not dispatched its commit log up to {mark}"
        for name, mark in sorted(marks.items())
        if (log := observation.sets[name].log) is None or log.dispatched < mark
    )


def late_marks_of(observation: ResizeObservation) -> tuple[LateMark, ...]:
    """Return the ends of delay levels that have undelivered messages now."""
    return tuple(
        LateMark(name, level, each.end)
        for name, view in sorted(observation.sets.items())
        if view.late is not None
        for level, each in sorted(view.late.levels.items())
        if each.delivered < each.end
    )


def late_arrivals(operation: ResizeOperation, observation: ResizeObservation, waited_ms: int) -> Iterator[str]:
    """Yield sentences about messages that may still arrive in the watched queues, by what brokers show.

    Half messages are those of all topics; once the checks of transactions are over by time, they do not count.
    The same holds for timed messages after the longest delay: counts do not tell which queue they are for.
    """
    for mark in operation.late_marks:
        late = observation.sets[mark.broker_name].late
        level = None if late is None else late.levels.get(mark.level)
        if level is None or level.delivered < mark.offset:
            left = "some" if level is None else str(mark.offset - level.delivered)
            yield f"{mark.broker_name} has {left} delayed messages of level {mark.level} to deliver"
    for name, view in sorted(observation.sets.items()):
        if view.late is None:
            yield f"{name} does not answer which messages are delayed"
            continue
        if view.late.timed and waited_ms < operation.waits.timed_ms:
            yield f"{name} has {view.late.timed} timed messages of {operation.topic} to deliver"
        if (left_ms := transaction_wait_ms(operation.waits, view.late) - waited_ms) > 0:
            yield from (f"{name} has {each}" for each in _transactions(view.late, left_ms))


def _transactions(late: LateSources, left_ms: int) -> Iterator[str]:
    if late.half_messages:
        yield f"{late.half_messages} transactional messages that are not decided"
    if stored := late.rocksdb_half_messages:
        yield f"{stored} transactional messages in RocksDB, decided or not: {left_ms / 1000:.0f} s more"


def transaction_wait_ms(waits: ResizeWaits, late: LateSources) -> int:
    """Return for how long messages of transactions may come: as the operator says, or as the broker checks."""
    return max(waits.transaction_ms, late.transaction_ms)


#: Longest poll interval of clients that is usual.
POLL_MS: Final = 30_000


def stale_producers(
    operation: ResizeOperation, answers: Sequence[ClientFetches | None], hosts: Collection[str] | None
) -> StaleProducers:
    """Return who is waited for, and whether that is everybody.

    `answers` has one entry of each NameServer, None where it cannot tell; `hosts` are those of all producers that
    brokers know, None if a broker did not tell: hosts of others are not waited for. It is everybody only if the watch
    began a poll interval before the numbers were lowered, and no client comes through a proxy.
    Source: docs/protocol/namesrv.md 2.23.
    """
    known = [each for each in answers if each is not None]
    fetches = [fetch for each in known for fetch in each.fetches]
    stale = {each.host for each in fetches if _is_stale(each, operation.waits.producers_ms)}
    fresh = {each.host for each in fetches if each.is_present}
    is_complete = (
        hosts is not None
        and len(known) == len(answers)
        and all(_is_usable(each, operation) for each in known)
        and not any(each.has_proxy for each in fetches)
        and set(hosts) <= fresh
    )
    if hosts is not None:
        stale &= set(hosts)
    return StaleProducers(is_complete=is_complete, addresses=tuple(sorted(stale)))


def _is_stale(fetch: ClientFetch, fixed_wait_ms: int) -> bool:
    if fetch.is_present:
        return False
    # A client whose connection has closed may use the old route until it has connected to another NameServer.
    return fetch.closed_ms is None or fetch.closed_ms < fixed_wait_ms


def _is_usable(answer: ClientFetches, operation: ResizeOperation) -> bool:
    return (
        answer.is_complete
        and answer.watched_before_ms >= POLL_MS
        and all(answer.write_queue_nums.get(resize.broker_name) == resize.target for resize in operation.sets)
    )
