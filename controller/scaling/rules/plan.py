"""Whether a resize can be done, and what it would do; made before it runs, and again when it starts."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from controller.scaling.resize.decision import PhaseProgress
from controller.scaling.resize.observation import (
    SPECIAL_TYPES,
    GroupKind,
    GroupView,
    NameServerView,
    ResizeObservation,
    TopicTraits,
)
from controller.scaling.resize.operation import AUTOSCALER, READ_PERM, WRITE_PERM, ResizeOperation, SetResize
from controller.scaling.rules.drained import check_drained, is_behind_in
from controller.scaling.rules.grow import HEARTBEAT_MS
from controller.scaling.rules.path import all_queues, dropped_queues, new_queues
from controller.scaling.rules.quiet import transaction_wait_ms
from remoting.protocol.topic_kinds import TopicKind, kind_of
from serving.shapes.scaling import (
    PlannedGroup,
    PlannedSet,
    PlannedStep,
    ResizeKind,
    ResizePhase,
    ResizePlan,
    ResizeRequest,
    ResizeWaits,
)


def order_conf_problems(topic: str, observation: ResizeObservation) -> Iterator[str]:
    """Yield that NameServers hold different entries: each producer uses that of the one it queries."""
    answered = _answered(observation)
    if len({each.order_conf for each in answered}) > 1:
        yield (
            f"NameServers have different orderTopicConf of {topic}: {_held(answered)}. Make them equal first "
            "(mqadmin updateOrderConf)"
        )


def changed_order_conf(operation: ResizeOperation, observation: ResizeObservation) -> Iterator[str]:
    """Yield which NameServers have another entry than when the resize was requested."""
    if others := [each for each in _answered(observation) if each.order_conf != operation.order_conf]:
        yield (
            f"orderTopicConf of {operation.topic} was {_text(operation.order_conf)} when the resize was requested, and "
            f"now: {_held(others)}. Request it again"
        )


def _answered(observation: ResizeObservation) -> list[NameServerView]:
    return [each for each in observation.name_servers if each.counts is not None]


def _held(views: list[NameServerView]) -> str:
    return ", ".join(f"{each.address} has {_text(each.order_conf)}" for each in views)


def _text(order_conf: str | None) -> str:
    return "none" if order_conf is None else order_conf


def uncovered_stored_sets(topic: str, traits: TopicTraits) -> Iterator[str]:
    """Yield broker sets that are away, and those of which something is stored that are in no route now.

    Sets with static roles leave all routes with their last broker: only what is stored elsewhere has them.
    """
    for name in traits.away_sets:
        yield f"{name} is away: if it has {topic}, it returns with its former queue numbers (rmq broker list)"
    conf = {part.partition(":")[0] for part in (traits.order_conf or "").split(";") if part}
    covered = traits.counts.keys() | set(traits.away_sets)
    for name in sorted(conf - covered):
        yield f"orderTopicConf names {name}, which is in no route of the topic: it is not resized"
    for name in sorted(set(traits.former_sets) - covered - conf):
        yield f"{name} had the topic at an earlier resize, but is no longer in its route: it is not resized"


def planned_steps(kind: ResizeKind, waits: ResizeWaits, assign_ms: int, *, shrinks: bool) -> list[PlannedStep]:
    """Return the steps in their order; `assign_ms`: until masters know the members of all groups."""
    seed = _step(ResizePhase.SEED, "store where each group begins in the new queues")
    verify = _step(ResizePhase.VERIFY, "watch lag on the new queues", waits.grown_watch_ms)
    quiet_ms = max(waits.producers_ms, waits.stable_ms)
    quiet = [
        _step(ResizePhase.QUIESCE, "wait until no producer has the old route, and no message comes", quiet_ms),
        _step(ResizePhase.LATE, "wait for delayed, timed and transactional messages"),
        _step(ResizePhase.DRAIN, "wait until every group has consumed the queues"),
        _step(ResizePhase.CONFIRM, "check a second time", waits.confirm_ms),
    ]
    closed = "lower readQueueNums: brokers refuse the dropped queues; check twice that none has grown"
    closing = [
        _step(ResizePhase.READ_DOWN, closed, waits.confirm_ms),
        _step(ResizePhase.WATCH, "watch for late messages", waits.watch_ms),
    ]
    match kind:
        case ResizeKind.GROW:
            assigned = "wait until every online group consumes the new queues"
            return [
                seed,
                _step(ResizePhase.READ_UP, "raise readQueueNums on every broker"),
                _step(ResizePhase.ASSIGN, assigned, max(waits.confirm_ms, assign_ms)),
                _step(ResizePhase.WRITE_UP, "raise writeQueueNums on every broker"),
                verify,
            ]
        case ResizeKind.GATED:
            released = "unlock each new queue for a group once it has consumed the old queue of the same keys"
            return [
                _step(ResizePhase.GATE, "lock the new queues for every group"),
                seed,
                _step(ResizePhase.READ_UP, "raise readQueueNums"),
                _step(ResizePhase.WRITE_UP, "raise writeQueueNums"),
                _step(ResizePhase.RELEASE, released, waits.producers_ms),
                verify,
            ]
        case ResizeKind.SHRINK:
            return [_step(ResizePhase.WRITE_DOWN, "lower writeQueueNums on every broker"), *quiet, *closing]
        case ResizeKind.ORDERED:
            return [
                _step(ResizePhase.PAUSE, "set perm 4, and no queues in orderTopicConf: producers stop"),
                *quiet,
                *(() if shrinks else (seed,)),
                _step(ResizePhase.RESIZE, "change the numbers and orderTopicConf"),
                _step(ResizePhase.UNPAUSE, "set perm 6: producers continue"),
                *((*quiet, *closing) if shrinks else (verify,)),
            ]


def _step(phase: ResizePhase, text: str, at_least_ms: int = 0) -> PlannedStep:
    return PlannedStep(phase=phase, text=text, at_least_ms=at_least_ms)


#: What the offsets and marks of all broker sets may take of a document, in bytes of JSON. Finished phases, the problem,
#: waived groups and the request take the rest.
SETS_BYTES_MAX: Final = 140 * 1024
#: The shortest limit of a phase that is to be undone or blocked after it: a round has to be in it.
LIMIT_MS_MIN: Final = 1_000

#: Bytes of JSON beside the broker name: one queue with its offset, one delay level, one broker set with its master.
_QUEUE_BYTES: Final = 30
_LEVEL_BYTES: Final = 28
_SET_BYTES: Final = 420
#: Delay levels of a broker.
_LEVELS: Final = 18
#: Where the name of a broker set stands beside its queues and levels: numbers, master, order configuration.
_NAMES: Final = 3
#: One queue that a group may consume again, beside the names of the group and of the broker set.
_RELEASED_BYTES: Final = 14

#: Waits that decide whether messages get lost or stay behind, with what a shorter one than the default risks.
_SAFETY: Final[Mapping[str, str]] = {
    "producers_ms": "producers that poll their routes more slowly may send to queues that are about to be closed",
    "stable_ms": "a producer that pauses for longer may send to queues that are about to be closed",
    "confirm_ms": "messages that brokers still file are noticed later, and dropped queues are opened again",
    "watch_ms": "messages that arrive after the end stay in queues without readers",
    "pop_ms": "messages that pop consumers have not acknowledged may be lost to them",
    "process_ms": "messages that clients have pulled and not processed may be lost to them",
    "transaction_ms": "transactional messages that are committed later stay in queues without readers",
}
_LIMITS: Final = ("verify_ms", "seed_ms", "quiesce_ms", "drain_ms", "pause_ms")


def topic_problems(topic: str, traits: TopicTraits) -> Iterator[str]:
    """Yield why the number of queues of a topic is not the operator's."""
    match kind_of(topic, {*traits.clusters.values(), *traits.counts}):
        case TopicKind.SYSTEM:
            yield f"{topic} is a system topic: brokers rely on its number of queues"
        case TopicKind.RETRY:
            yield f"{topic} is a retry topic: its queues follow retryQueueNums of its group; change that"
        case TopicKind.DLQ:
            yield f"{topic} holds dead letters, which brokers write into one queue: more of them do not help"


def wait_problems(waits: ResizeWaits) -> Iterator[str]:
    """Yield which limits of phases are too short for any broker to answer."""
    for name in _LIMITS:
        if (wait_ms := getattr(waits, name)) < LIMIT_MS_MIN:
            yield f"{_in_json(name)} of {wait_ms} is shorter than {LIMIT_MS_MIN}: no broker could answer in time"


def wait_warnings(waits: ResizeWaits) -> Iterator[str]:
    """Yield which waits are shorter than is safe, and what that risks."""
    default = ResizeWaits()
    for name, risk in _SAFETY.items():
        wait_ms, safe_ms = getattr(waits, name), getattr(default, name)
        if wait_ms < safe_ms:
            yield f"{_in_json(name)} of {wait_ms} is shorter than the default of {safe_ms}: {risk}"


def size_problems(kind: ResizeKind, sets: Sequence[SetResize], orderly: Collection[str]) -> Iterator[str]:
    """Yield that what a resize has to store is too much for one document; `orderly` are the groups that it locks."""
    needed = sum(_set_bytes(kind, each, orderly) for each in sets)
    if needed <= SETS_BYTES_MAX:
        return
    queues = sum(_stored_queues(kind, each) for each in sets)
    yield (
        f"{len(sets)} broker sets with {queues} queues to follow need {needed} bytes of state, and one resize can "
        f"store {SETS_BYTES_MAX}: change fewer queues at a time, in several resizes"
    )


def _set_bytes(kind: ResizeKind, resize: SetResize, orderly: Collection[str]) -> int:
    name = len(resize.broker_name)
    followed = _stored_queues(kind, resize) * (name + _QUEUE_BYTES)
    levels = _LEVELS * (name + _LEVEL_BYTES)
    locked = len(new_queues(resize)) if kind is ResizeKind.GATED else 0
    released = locked * sum(len(group) + name + _RELEASED_BYTES for group in orderly)
    return _SET_BYTES + _NAMES * name + len(resize.cluster) + followed + levels + released


def _stored_queues(kind: ResizeKind, resize: SetResize) -> int:
    if kind in {ResizeKind.ORDERED, ResizeKind.GATED}:
        return len(new_queues(resize)) + len(all_queues(resize))
    return len(new_queues(resize)) + len(dropped_queues(resize))


def _in_json(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.title() for each in others)


#: Queues of a topic on one broker set; each costs files on the broker, and a pull of every group.
QUEUES_MAX: Final = 1024
#: Queues of one broker set whose ends are requested for a plan.
SET_QUEUES_MAX: Final = 4 * QUEUES_MAX
#: Kinds that change nothing on brokers in their first phase.
_RAISING: Final = frozenset({ResizeKind.GROW, ResizeKind.GATED})
#: Option of `rmq topic scale`, and of the HTTP API, as all that plans name.
_PAUSE: Final = "--ordered pause (ordered: pause)"
#: Groups that a plan lists.
GROUPS_SHOWN: Final = 200


def plan_resize(request: ResizeRequest, traits: TopicTraits, observation: ResizeObservation) -> ResizePlan:
    kind = _kind(request, traits)
    problems = list(_problems(request, traits, observation, kind))
    sets = tuple(_sets(request, traits, observation)) if kind is not None else ()
    if kind is None or not all(each in traits.counts for each in observation.sets):
        return ResizePlan(topic=request.topic, kind=kind, sets=sets, problems=tuple(problems))
    groups = tuple(_groups(request, traits, observation, kind))
    problems += [each.note for each in groups if each.note and each.kind == GroupKind.OFFLINE.value]
    assign_ms = HEARTBEAT_MS if _has_new_master(observation, observation.unix_ms) else 0
    steps = tuple(planned_steps(kind, request.waits, assign_ms, shrinks=_shrinks(request, traits)))
    return ResizePlan(
        topic=request.topic,
        kind=kind,
        sets=sets,
        steps=steps,
        groups=groups[:GROUPS_SHOWN],
        at_least_ms=sum(each.at_least_ms for each in steps),
        problems=tuple(problems),
        warnings=tuple(_warnings(request, traits, observation, kind)),
    )


def planned_operation(
    operation_id: str, request: ResizeRequest, traits: TopicTraits, observation: ResizeObservation
) -> ResizeOperation:
    """Return the operation of a plan without problems; it starts with PRECHECK."""
    kind = _kind(request, traits)
    assert kind is not None, "a plan without problems has a kind"
    return ResizeOperation(
        id=operation_id,
        topic=request.topic,
        kind=kind,
        sets=_resizes(request, traits),
        phase=ResizePhase.PLANNED,
        phase_since_unix_ms=observation.unix_ms,
        created_unix_ms=observation.unix_ms,
        requested_by=request.requested_by,
        reason=request.reason,
        waits=request.waits,
        options=request.options,
        order_conf=traits.order_conf,
    )


_FIRST: Final = {
    ResizeKind.GROW: ResizePhase.SEED,
    ResizeKind.SHRINK: ResizePhase.WRITE_DOWN,
    ResizeKind.ORDERED: ResizePhase.PAUSE,
    ResizeKind.GATED: ResizePhase.GATE,
}


def checked(operation: ResizeOperation, plan: ResizePlan, observation: ResizeObservation) -> ResizeOperation:
    """Return the operation after PRECHECK: on its way, or REJECTED."""
    problems = plan.problems
    now = {(each.broker_name, each.read, each.write) for each in plan.sets}
    if not problems and now != {(each.broker_name, each.before.read, each.before.write) for each in operation.sets}:
        problems = (
            f"{operation.topic} has other broker sets or queues than when the resize was requested: request it again",
        )
    if problems := problems or tuple(changed_order_conf(operation, observation)):
        return operation.entered(ResizePhase.REJECTED, observation.unix_ms, problems, problem="; ".join(problems))
    started = operation.entered(_FIRST[operation.kind], observation.unix_ms, ("nothing is in the way",))
    masters = {name: view.master for name, view in observation.sets.items() if view.master is not None}
    return replace(
        started,
        masters=masters,
        has_new_master=_has_new_master(observation, operation.created_unix_ms),
        reached=0 if operation.kind in _RAISING else 1,
    )


def _has_new_master(observation: ResizeObservation, unix_ms: int) -> bool:
    masters = [each.master for each in observation.sets.values() if each.master is not None]
    return any(each.boot_unix_ms > unix_ms - HEARTBEAT_MS for each in masters)


def _resizes(request: ResizeRequest, traits: TopicTraits) -> tuple[SetResize, ...]:
    return tuple(
        SetResize(broker_name=name, cluster=traits.clusters.get(name, ""), before=counts, target=request.queues)
        for name, counts in sorted(traits.counts.items())
    )


def _sets(request: ResizeRequest, traits: TopicTraits, observation: ResizeObservation) -> Iterator[PlannedSet]:
    for each in _resizes(request, traits):
        view = observation.sets.get(each.broker_name)
        yield PlannedSet(
            broker_name=each.broker_name,
            cluster=each.cluster,
            master=view.master.address if view is not None and view.master is not None else "",
            read=each.before.read,
            write=each.before.write,
            target=each.target,
        )


def _shrinks(request: ResizeRequest, traits: TopicTraits) -> bool:
    return any(request.queues < max(each.read, each.write) for each in traits.counts.values())


def _kind(request: ResizeRequest, traits: TopicTraits) -> ResizeKind | None:
    if not traits.counts:
        return None
    if request.ordered:
        return ResizeKind.ORDERED if request.ordered == "pause" else ResizeKind.GATED
    return ResizeKind.SHRINK if _shrinks(request, traits) else ResizeKind.GROW


def _problems(
    request: ResizeRequest, traits: TopicTraits, observation: ResizeObservation, kind: ResizeKind | None
) -> Iterator[str]:
    yield from _target_problems(request)
    yield from topic_problems(request.topic, traits)
    if traits.special_type and not request.options.ignore_message_type:
        yield (
            f"{request.topic} has message.type {traits.special_type}: {SPECIAL_TYPES[traits.special_type]}. If you "
            "want another number, add --ignore-message-type (options.ignoreMessageType)"
        )
    yield from wait_problems(request.waits)
    if kind is None:
        if not observation.missing:
            yield f"no NameServer knows the topic {request.topic}: create it, or start the brokers that have it"
        yield from (f"{each}: try again" for each in observation.missing)
        return
    yield from (f"{each}: bring it back first" for each in observation.missing)
    yield from (
        f"{name} belongs to the cluster, but no NameServer knows it, so it may have {request.topic}. "
        "Start it, or remove it with cleanBrokerMetadata"
        for name in traits.absent_sets
    )
    if traits.is_static:
        yield f"{request.topic} is a static topic: its queues are moved with remappingStaticTopic, and never removed"
    yield from (
        f"{name} has {queues} queues of {request.topic}, and no topic with more than {SET_QUEUES_MAX} on a broker set "
        "is resized: use a new topic with fewer"
        for name, queues in sorted(traits.too_many_queues.items())
    )
    yield from _counts_problems(request, traits, kind)
    yield from order_conf_problems(request.topic, observation)
    yield from _order_problems(request, traits, observation)
    yield from _pause_problems(request, observation, kind)
    if not request.options.ignore_unassigned:
        yield from _choosing_problems(request, traits, observation, kind)
    if request.requested_by == AUTOSCALER:
        yield from _may_be_orderly(request, observation)
    orderly = [each.name for each in observation.groups or () if each.is_orderly]
    yield from size_problems(kind, _resizes(request, traits), orderly)
    if kind is ResizeKind.GATED:
        yield from _gate_problems(request, traits, observation)


def _gate_problems(request: ResizeRequest, traits: TopicTraits, observation: ResizeObservation) -> Iterator[str]:
    """Yield why keys could go elsewhere than from a queue to a locked one."""
    instead = f"use {_PAUSE} instead"
    if len(traits.counts) > 1:
        yield f"{len(traits.counts)} broker sets have {request.topic}: keys would move between their queues; {instead}"
    for name, counts in sorted(traits.counts.items()):
        if request.queues <= counts.write or request.queues % max(counts.write, 1):
            yield f"{request.queues} is not a multiple of the {counts.write} queues of {name}; {instead}"
    if traits.order_conf is not None:
        yield f"orderTopicConf says {traits.order_conf}, which producers use; {instead}"
    others = sorted(each.name for each in observation.groups or () if each.kind is not GroupKind.ORDERLY)
    if others:
        yield f"groups that do not consume in order now, or are offline: {', '.join(others)}; {instead}"


def _choosing_problems(
    request: ResizeRequest, traits: TopicTraits, observation: ResizeObservation, kind: ResizeKind
) -> Iterator[str]:
    """Yield which groups choose their queues without that a grow could wait until they have chosen the new ones."""
    for group in _choosing(request, traits, observation):
        if not group.is_online:
            yield (
                f"group {group.name} chose its queues itself, and is offline: start a consumer of it first, or delete "
                "it with its offsets if it never returns (mqadmin deleteSubGroup -r true)"
            )
        # Nobody waits for new queues of an ordered resize to be consumed.
        elif kind is ResizeKind.ORDERED or not any(each.queues for each in group.clients):
            yield (
                f"group {group.name} chooses its queues itself, and does not show when it reads new ones: make sure "
                "that it will, and add --ignore-unassigned (options.ignoreUnassigned)"
            )


def _choosing(request: ResizeRequest, traits: TopicTraits, observation: ResizeObservation) -> list[GroupView]:
    grows = any(request.queues > each.read for each in traits.counts.values())
    return [each for each in observation.groups or () if grows and each.chooses_queues]


def _target_problems(request: ResizeRequest) -> Iterator[str]:
    if request.queues < 1:
        yield f"{request.queues} queues are too few: a topic needs at least 1 on each broker set"
    if request.queues > QUEUES_MAX:
        yield f"{request.queues} queues are above the limit of {QUEUES_MAX} on each broker set"


def _counts_problems(request: ResizeRequest, traits: TopicTraits, kind: ResizeKind) -> Iterator[str]:
    counts = traits.counts
    shown, both = ", ".join(f"{name} ({each})" for name, each in sorted(counts.items())), READ_PERM | WRITE_PERM
    if len({each.perm for each in counts.values()}) > 1 or any(each.perm & both != both for each in counts.values()):
        yield f"{request.topic} must be readable and writable (perm 6) on every broker: {shown}"
    is_equal = len(set(counts.values())) == 1 and all(each.read == each.write for each in counts.values())
    largest = max(max(each.read, each.write) for each in counts.values())
    if is_equal and largest == request.queues:
        yield f"{request.topic} has {request.queues} queues on every broker set already"
    if is_equal:
        return
    if not request.equalise:
        yield (
            f"brokers have different numbers of queues: {shown}. Equalise them first: the same with --equalise "
            f"(equalise) and {largest} queues"
        )
    elif kind not in _RAISING:
        yield f"equalising never removes queues: it needs at least {largest} queues, not {request.queues}"


def _order_problems(request: ResizeRequest, traits: TopicTraits, observation: ResizeObservation) -> Iterator[str]:
    if request.ordered:
        return
    if traits.order_conf is not None:
        yield (
            f"orderTopicConf says {traits.order_conf}: producers use it and no other number; use {_PAUSE}, "
            "which changes it too"
        )
    orderly = sorted(
        each.name if each.is_online else f"{each.name} (offline; delete it with its offsets if it never returns)"
        for each in observation.groups or ()
        if each.is_orderly
    )
    if traits.is_ordered or orderly:
        why = (
            f"groups that consume in order: {', '.join(orderly)}" if orderly else "order flag, message type, compaction"
        )
        yield (
            f"{request.topic} is an ordered topic ({why}): another number of queues moves keys before their "
            f"older messages are consumed. Use {_PAUSE}, which stops writes meanwhile"
        )


def _pause_problems(request: ResizeRequest, observation: ResizeObservation, kind: ResizeKind) -> Iterator[str]:
    """Yield that a pause of writes would end before transactions are certainly decided."""
    waits = request.waits
    if kind is not ResizeKind.ORDERED or request.options.accept_late:
        return
    for name, view in sorted(observation.sets.items()):
        if view.late is None or not view.late.rocksdb_half_messages:
            continue
        needed_ms = max(waits.producers_ms, waits.stable_ms) + transaction_wait_ms(waits, view.late) + waits.confirm_ms
        if needed_ms >= waits.pause_ms:
            yield (
                f"{name} keeps transactional messages in RocksDB, and does not show which are decided: writes would "
                f"pause for {needed_ms} ms. Choose a longer waits.pauseMs, or options.acceptLate"
            )


def _may_be_orderly(request: ResizeRequest, observation: ResizeObservation) -> Iterator[str]:
    """Yield offline groups that nobody has seen online and that have messages in queues that stay."""
    for group in observation.groups or () if not (request.ordered or observation.missing) else ():
        if group.is_online or group.last_kind is not None:
            continue
        views = [view for view in observation.sets.values() if group.name in (view.offsets or {})]
        if any(is_behind_in(group.name, view, each) for view in views for each in view.ends if each < request.queues):
            yield (
                f"group {group.name} is offline with messages in queues that stay, and this controller has not seen "
                "how it consumes: if it is in order, keys get mixed. Start a consumer of it first, or delete it with "
                "its offsets if it never returns"
            )


def _warnings(
    request: ResizeRequest, traits: TopicTraits, observation: ResizeObservation, kind: ResizeKind
) -> Iterator[str]:
    yield from wait_warnings(request.waits)
    yield from uncovered_stored_sets(request.topic, traits)
    yield "each change of read queues moves queues between clients: messages that they have cached are consumed again"
    yield from _may_be_orderly(request, observation)
    yield from _group_warnings(observation, kind)
    for each in _choosing(request, traits, observation):
        yield f"group {each.name} chooses its queues itself (assign(), Flink), and must choose the new ones"
    if kind is ResizeKind.ORDERED:
        yield 'producers fail with "no route info of this topic" until the counts are changed'
        if len(traits.counts) > 1:
            yield (
                f"{len(traits.counts)} broker sets pause one after the other: a producer that polls its route then "
                "sends keys to other queues for as long as the others need"
            )
    known = {each.name for each in observation.groups or ()}
    for name in sorted(set(request.options.waived_groups) - known) if observation.groups is not None else ():
        yield f"{name} is waived, but is not a group of {request.topic} now"
    if request.options.accept_late:
        yield "delayed messages may arrive after the queues are closed: these are opened again then"


def _group_warnings(observation: ResizeObservation, kind: ResizeKind) -> Iterator[str]:
    for each in observation.groups or ():
        if each.kind is GroupKind.UNKNOWN:
            yield f"group {each.name}: members do not report how they consume; if it is in order, keys may get mixed"
        if each.kind is GroupKind.BROADCAST and kind not in _RAISING:
            yield f"broadcasting group {each.name}: members that are not connected are unknown, and may miss messages"


def _groups(
    request: ResizeRequest, traits: TopicTraits, observation: ResizeObservation, kind: ResizeKind
) -> Iterator[PlannedGroup]:
    lags = _lags(request, traits, observation) if kind not in _RAISING else {}
    for group in observation.groups or ():
        lag = lags.get(group.name, 0)
        yield PlannedGroup(
            group=group.name,
            kind=group.kind.value,
            clients=len(group.clients),
            lag=lag,
            note=_note(group, lag, request),
        )


def _note(group: GroupView, lag: int | None, request: ResizeRequest) -> str:
    if group.kind is not GroupKind.OFFLINE or lag == 0 or group.name in request.options.waived_groups:
        return ""
    many = "an unknown number of" if lag is None else str(lag)
    return (
        f"group {group.name} is offline and has {many} messages to consume from the queues: start a consumer, or give "
        f"them up with --waive {group.name} (options.waivedGroups)"
    )


def _lags(request: ResizeRequest, traits: TopicTraits, observation: ResizeObservation) -> dict[str, int | None]:
    if observation.missing or observation.groups is None:
        return {}
    operation = planned_operation("", request, traits, observation)
    lags: dict[str, int | None] = {}
    for each in check_drained(operation, observation, PhaseProgress()).lags:
        known = lags.get(each.group, 0)
        lags[each.group] = None if known is None or each.messages is None else known + each.messages
    return lags
