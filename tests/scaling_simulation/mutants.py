"""Rules of a resize with one thing wrong each, to see that a simulated history shows it."""

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import NamedTuple
from unittest import mock

from msgspec.structs import replace as replaced

from controller.scaling.execution import runner
from controller.scaling.resize.decision import ChangeCounts
from controller.scaling.resize.observation import GroupKind, GroupView, LateSources, LogPosition, QueueEnds
from controller.scaling.resize.operation import QueueCounts
from controller.scaling.rules import commands, drained, gated, grow, ordered, path, phases, shrink
from controller.scaling.rules import round as rounds
from controller.scaling.rules.phases import needs_of
from scaling_simulation.histories import Fault
from serving.shapes.scaling import ResizeKind, ResizePhase

_path_of = path.path_of


def write_goes_first(kind, resize):
    positions = _path_of(kind, resize)
    if kind is ResizeKind.GROW:
        return positions[0], QueueCounts(resize.before.read, resize.target, resize.before.perm), positions[2]
    return positions


def read_goes_down_first(kind, resize):
    positions = _path_of(kind, resize)
    if kind is ResizeKind.SHRINK:
        return positions[0], QueueCounts(resize.target, resize.before.write, resize.before.perm), positions[2]
    return positions


def nothing_is_seeded(operation, observation):
    return ()


def all_was_read(confirmed, ends):
    return ()


_decide_step = phases.decide_step


def missing_is_zero(operation, progress, observation):
    """Take what is not known for nothing."""
    needs = needs_of(operation, progress.waited_ms)
    sets = {}
    for resize in operation.sets:
        view = observation.sets[resize.broker_name]
        ends = dict.fromkeys(needs.ends(resize), QueueEnds(min_offset=0, max_offset=0)) if needs.ends else {}
        sets[resize.broker_name] = replace(
            view,
            ends=ends | dict(view.ends),
            offsets=view.offsets or {},
            log=view.log or LogPosition(end=0, dispatched=0),
            late=view.late or LateSources(levels={}, timed=0, half_messages=0),
        )
    # Without numbers of queues nothing can be decided by any rule.
    is_known = all(view.counts is not None for view in sets.values())
    missing = () if is_known else observation.missing
    filled = replace(observation, sets=sets, groups=observation.groups or (), missing=missing)
    return _decide_step(operation, progress, filled)


def producers_are_not_waited_for(this):
    if (stopped := this.left(shrink.lowered_position(this))) is not None:
        return stopped
    return this.go(ResizePhase.LATE, ["at once"], late_marks=shrink.late_marks_of(this.observation))


_confirmed = shrink._confirmed
_drain = shrink.drain


def one_check_is_enough(this):
    decision = _drain(this)
    if decision.operation.phase is not ResizePhase.CONFIRM:
        return decision
    return _confirmed(replace(this, operation=replaced(this.operation, confirmed=decision.operation.confirmed)))


_lags = drained._lags


def not_drained(*kinds):
    """Return a rule that takes everything for consumed by groups of these kinds."""

    def lags(group, operation, observation):
        return iter(()) if group.kind in kinds else _lags(group, operation, observation)

    return lags


def nothing_begins_anew(operation):
    return None


def grown_queues_just_go(self, problem):
    return self.go(ResizePhase.ROLLBACK, (problem,), problem=problem, ends_as=ResizePhase.ABORTED)


def grown_queues_just_go_by_command(operation, unix_ms, reason):
    aborted = _aborted(operation, unix_ms, reason)
    if operation.kind is ResizeKind.GROW and aborted.phase is ResizePhase.WRITE_DOWN:
        rolled_back = operation.entered(ResizePhase.ROLLBACK, unix_ms, (reason,), problem=reason)
        return replaced(rolled_back, ends_as=ResizePhase.ABORTED)
    return aborted


_aborted = commands.aborted
_check_path = path.check_path


def conflicts_are_overwritten(operation, observation, wanted, *, lowest=None, furthest=None):
    check = _check_path(operation, observation, wanted, lowest=lowest, furthest=furthest)
    if not check.conflicts:
        return check
    actions = tuple(
        ChangeCounts(
            broker_name=resize.broker_name,
            address=view.master.address,
            before=view.counts,
            after=path.path_of(operation.kind, resize)[wanted],
        )
        for resize in operation.sets
        if (view := observation.sets[resize.broker_name]).master is not None and view.counts is not None
    )
    return path.PathCheck(actions=actions, waits_for=check.waits_for)


def everything_is_released(this):
    """Unlock new queues without a look at the old ones."""
    at_once = [replaced(each, offset=0) for each in this.operation.confirmed]
    return _consumed(replace(this, operation=replaced(this.operation, confirmed=tuple(at_once))))


_consumed = gated._consumed


def late_levels_do_not_count(observation):
    return ()


def nothing_comes_late(operation, observation, waited_ms):
    return ()


def by_wall_clock(operation, progress, observation):
    """Take the time of day for the time that passes."""
    return _decide_step(operation, progress, replace(observation, now_ms=observation.unix_ms))


def nothing_of(_):
    return None


def in_rules(phase, instead):
    """Return the patches of a rule in the table of phases."""
    return (phases.PHASES, phase, replace(phases.PHASES[phase], rule=instead))


class RuleMutant(NamedTuple):
    """What is wrong, and how it is done: what stands where under which name."""

    patches: tuple[tuple[object, object, object], ...]
    #: Kind of resize in which it is looked for, and from which history on: those before do not show it.
    profile: str
    seed: int = 0
    #: What happens in each of these histories, as it is rare without.
    more: tuple[Fault, ...] = ()


def wrong(profile, *patches, seed=0, more=()):
    return RuleMutant(patches, profile, seed, more)


#: A producer that gets its route as late as is waited for.
SLOW_POLL = Fault("cut_producer", "", 0, 0, 8_500)

#: Kinds of groups that few histories have.
SEEDS_OF_KINDS = {GroupKind.BROADCAST: 60, GroupKind.POP: 50, GroupKind.PULL: 35}

MUTANTS = {
    "a grow raises write queues first": wrong("grow", (path, "path_of", write_goes_first)),
    "a shrink lowers read queues first": wrong("shrink", (path, "path_of", read_goes_down_first)),
    "new queues are not seeded": wrong("grow", (grow, "unseeded", nothing_is_seeded)),
    "what came just before queues closed is not looked for": wrong("shrink", (shrink, "grown", all_was_read), seed=190),
    "a missing answer counts as zero": wrong("shrink", (runner, "decide_step", missing_is_zero), seed=870),
    "producers are not waited for": wrong(
        "shrink",
        in_rules(ResizePhase.QUIESCE, producers_are_not_waited_for),
        more=(SLOW_POLL, Fault("kill_controller", "READ_DOWN", 0, 0, 20_000, 1)),
    ),
    "producers are not waited for in an ordered resize": wrong(
        "ordered",
        in_rules(ResizePhase.QUIESCE, producers_are_not_waited_for),
        seed=330,
        more=(SLOW_POLL, Fault("kill_controller", "RESIZE", 0, 0, 20_000, 1)),
    ),
    "one check is enough": wrong("shrink", in_rules(ResizePhase.DRAIN, one_check_is_enough)),
    "a failover does not matter": wrong("shrink", (phases, "_again", nothing_begins_anew)),
    "a failover does not matter in a grow": wrong("grow", (phases, "_again", nothing_begins_anew)),
    "a failover does not matter in an ordered resize": wrong(
        "ordered", (phases, "_again", nothing_begins_anew), seed=80
    ),
    "a grow is undone without draining": wrong(
        "grow",
        (rounds.ResizeRound, "undo", grown_queues_just_go),
        (commands, "aborted", grown_queues_just_go_by_command),
        seed=295,
    ),
    "numbers of somebody else are overwritten": wrong(
        "shrink",
        (rounds, "check_path", conflicts_are_overwritten),
        more=(Fault("set_counts", "READ_DOWN", 3_000, 0, 0, 4),),
    ),
    "delayed messages are not waited for": wrong(
        "shrink", (shrink, "late_marks_of", late_levels_do_not_count), seed=200
    ),
    "locked queues are released at once": wrong("gated", (gated, "_consumed", everything_is_released)),
    "new queues are not locked": wrong("gated", (gated, "_held", lambda _: iter(()))),
    "locked queues are not seeded": wrong("gated", (grow, "unseeded", nothing_is_seeded)),
    "nothing comes late": wrong("shrink", (shrink, "late_arrivals", nothing_comes_late), seed=200),
    "what is in the log only does not count": wrong(
        "shrink", (rounds, "undispatched", all_was_read), more=(Fault("stop_dispatch", "WRITE_DOWN", 0, 0, 150_000),)
    ),
    "what is in the log only does not count in an ordered resize": wrong(
        "ordered", (rounds, "undispatched", all_was_read), seed=150
    ),
    "waits are measured by the wall clock": wrong("ordered", (runner, "decide_step", by_wall_clock), seed=35),
    "an offline group is taken for concurrent": wrong(
        "grow", (GroupView, "is_orderly", property(lambda self: self.kind is GroupKind.ORDERLY)), seed=100
    ),
    "late groups get no locks": wrong(
        "gated", (gated, "gate_late_groups", nothing_of), more=(Fault("join_group", "SEED", 500, 0, 100_000, 1),)
    ),
    "locks are not renewed in a conflict": wrong(
        "gated", (gated, "_HELD", gated.LOCKED), more=(Fault("set_counts", "RELEASE", 5_000, 0, 0, 4),)
    ),
    "locks that have lapsed are not recorded": wrong(
        "gated", (gated, "lapse", lambda operation, _: operation.lapse), seed=35
    ),
    "sets beside a pause do not matter": wrong("ordered", (ordered, "stopped_by_open_set", nothing_of), seed=50),
    "a resize goes on without its topic": wrong("shrink", (phases, "_is_deleted", lambda *_: False)),
    "a new master knows all members at once": wrong(
        "grow", (grow, "HEARTBEAT_MS", 0), seed=30, more=(Fault("restart_master", "READ_UP", 0, 0, 10_000),)
    ),
    "groups that choose their queues are not waited for": wrong("grow", (grow, "_WITHOUT", {})),
} | {
    f"{kind.value} groups are not drained": wrong(
        "shrink", (drained, "_lags", not_drained(kind)), seed=SEEDS_OF_KINDS.get(kind, 0)
    )
    for kind in GroupKind
    # Members of a group that is behind are not queried: it is taken for concurrent.
    if kind not in {GroupKind.UNKNOWN, GroupKind.ORDERLY}
}


@contextmanager
def mutated(name):
    """Let one thing be wrong."""
    with ExitStack() as stack:
        for where, what, instead in MUTANTS[name].patches:
            is_table = isinstance(where, dict)
            stack.enter_context(
                mock.patch.dict(where, {what: instead}) if is_table else mock.patch.object(where, what, instead)
            )
        yield
