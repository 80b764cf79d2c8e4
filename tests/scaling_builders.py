"""Rounds of a resize with a valid default of every value; a test writes only what it is about."""

from dataclasses import replace

from msgspec import structs
from resize_builders import a_resize, went

from controller.scaling.resize.decision import PhaseProgress
from controller.scaling.resize.observation import (
    ClientView,
    ConsumedQueue,
    DelayProgress,
    GroupKind,
    GroupView,
    LateSources,
    LogPosition,
    NameServerView,
    QueueEnds,
    ResizeObservation,
    SetView,
)
from controller.scaling.resize.operation import MasterIdentity, QueueCounts, QueueId, SetResize
from controller.scaling.rules.path import path_of
from serving.shapes.scaling import ResizeKind, ResizePhase

BROKER, ADDRESS, NAME_SERVER = "broker-a", "10.0.0.1:10911", "10.0.0.9:9876"
MASTER = MasterIdentity(ADDRESS, 1)


def a_running(kind, before, target, phase, **values):
    """Return a resize of one broker set in a phase."""
    resize = SetResize(broker_name=BROKER, cluster="DefaultCluster", before=QueueCounts(before, before), target=target)
    started = went(a_resize(kind=kind, sets=(resize,), masters={BROKER: MASTER}), ResizePhase.PRECHECK, phase)
    return structs.replace(started, **values)


def a_grow(phase, **values):
    """Return a resize from 2 to 4 queues."""
    return a_running(ResizeKind.GROW, 2, 4, phase, **values)


def a_shrink(phase, **values):
    """Return a resize from 4 to 2 queues."""
    return a_running(ResizeKind.SHRINK, 4, 2, phase, **({"reached": 1} | values))


def an_ordered(phase, before=2, target=4, **values):
    """Return a resize of an ordered topic, with a pause of writes."""
    return a_running(ResizeKind.ORDERED, before, target, phase, **({"reached": 1} | values))


def a_gated(phase, **values):
    """Return a resize of an ordered topic from 2 to 4 queues, with locks."""
    return a_running(ResizeKind.GATED, 2, 4, phase, **values)


def observed(operation, position, *, ends=None, offsets=None, groups=(), order_conf=None, now_ms=0, **values):
    """Return a round in which everybody shows a position of the path; `ends` and `offsets` by queue id and group."""
    counts = path_of(operation.kind, operation.sets[0])[position]
    view = SetView(
        broker_name=BROKER,
        master=MASTER,
        counts=counts,
        ends={i: QueueEnds(min_offset=0, max_offset=(ends or {}).get(i, 0)) for i in range(8)},
        offsets=offsets or {},
        log=LogPosition(end=100, dispatched=100),
        late=LateSources(levels={}, timed=0, half_messages=0),
    )
    fields = {"sets": {BROKER: view}, "groups": tuple(groups)} | values
    return ResizeObservation(
        now_ms=now_ms,
        unix_ms=operation.phase_since_unix_ms + now_ms,
        name_servers=(NameServerView(address=NAME_SERVER, counts={BROKER: counts}, order_conf=order_conf),),
        **fields,
    )


def with_set(observation, **values):
    """Return an observation with other answers of the broker set."""
    return replace(observation, sets={BROKER: replace(observation.sets[BROKER], **values)})


def waited(waited_ms, **values):
    """Return the progress of a phase that has waited so long at time 0."""
    fields = {"waited_ms": waited_ms, "lasted_ms": waited_ms, "saved_ms": waited_ms}
    return PhaseProgress(round_ms=0, seen_ms=0, **(fields | values))


def a_group(name="billing", kind=GroupKind.CONCURRENT, queues=(), cached=0, commit_offset=0):
    """Return a group with one member that consumes these queue ids."""
    held = {QueueId(BROKER, i): ConsumedQueue(commit_offset=commit_offset, cached=cached) for i in queues}
    clients = () if kind is GroupKind.OFFLINE else (ClientView(client_id=f"{name}@1", queues=held),)
    return GroupView(name=name, kind=kind, clients=clients)


def delayed(level, delivered, end):
    """Return what a broker answers about one delay level."""
    return LateSources(levels={level: DelayProgress(delivered=delivered, end=end)}, timed=0, half_messages=0)
