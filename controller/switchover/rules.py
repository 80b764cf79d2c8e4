"""Whether a switchover may begin, and what it does next. Pure.

Invariants: nobody is elected who lacks a message that the old master has, unless that message is acknowledged only with
all in sync, or the operator accepts its loss; clients are not sent to a broker before it serves; each phase has a limit
after which clients are released. Every stored state is that of a set with an ordinary election behind it, so nothing is
left half done, wherever a switchover ends.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from controller.failure_detection.heartbeats import LastHeartbeat
from controller.failure_detection.log_ends import LogEnd
from controller.sets.broker_set import BrokerSet
from controller.switchover.record import Switchover, SwitchoverPhase

#: A hold lasts at least so long before logs are compared: two proxies of one host look like one.
HOLD_SETTLES_MS: Final = 150
#: How long an elected broker may take until it serves; then the old master is elected again.
CONFIRM_MS_MAX: Final = 2_000
#: How long the old master may take to become a slave, without consequence.
VERIFY_MS_MAX: Final = 10_000


class SwitchoverNeeds(NamedTuple):
    broker_set: BrokerSet
    #: The living that are not suspect, by broker id.
    trusted: Mapping[int, LastHeartbeat]
    wanted: int | None
    is_held: bool
    #: None: the master has not answered.
    is_all_ack: bool | None
    accepts_loss: bool


class Found(NamedTuple):
    broker_id: int | None
    problem: str = ""


def find_next_master(needs: SwitchoverNeeds) -> Found:
    """Return who is to lead; the problem is a sentence with what to do."""
    broker_set, trusted = needs.broker_set, needs.trusted
    name, master = broker_set.broker_name, broker_set.master
    if master is None:
        return Found(None, f"{name} has no master, which an election must find first: see /v1/elections")
    if master not in trusted:
        return Found(None, f"master {master} of {name} is suspect or silent: a failover may be under way")
    if needs.wanted is not None:
        problem = _problem_of(broker_set, trusted, needs.wanted)
        return Found(None, problem) if problem else Found(needs.wanted)
    others = [i for i in broker_set.sync_state_set & trusted.keys() if i != master]
    if not others:
        in_sync = sorted(broker_set.sync_state_set)
        nobody = f"no other broker of {name} is alive and in the SyncStateSet {in_sync}"
        return Found(None, f"{nobody}: start one, and wait until it is in sync")
    return Found(min(others, key=lambda i: _rank(i, trusted[i])))


def _rank(broker_id: int, heartbeat: LastHeartbeat) -> tuple[int, int, int, int]:
    """Return what the smaller of is better: all of them get all messages before one leads."""
    return heartbeat.priority, -heartbeat.epoch, -heartbeat.max_offset, broker_id


def _problem_of(broker_set: BrokerSet, trusted: Collection[int], wanted: int) -> str:
    name = broker_set.broker_name
    if wanted not in broker_set.replicas:
        return f"{name} has no broker {wanted}; it has {sorted(broker_set.replicas)}"
    if wanted == broker_set.master:
        return f"broker {wanted} is the master of {name} already"
    if wanted not in trusted:
        return f"broker {wanted} of {name} is not alive, or suspect: start it, and wait until it is in sync"
    if wanted not in broker_set.sync_state_set:
        in_sync = sorted(broker_set.sync_state_set)
        return f"broker {wanted} of {name} is not in the SyncStateSet {in_sync}: wait until it is"
    return ""


def problem_of_loss(needs: SwitchoverNeeds) -> str:
    """Return why messages could be lost, blank if none can, or that is accepted.

    A master that acknowledges a message alone may do so until it knows that another leads.
    """
    if needs.is_held or needs.is_all_ack or needs.accepts_loss:
        return ""
    master = needs.broker_set.master
    why = (
        f"master {master} did not answer whether it waits for its slaves (allAckInSyncStateSet)"
        if needs.is_all_ack is None
        else f"master {master} acknowledges messages before its slaves have them"
    )
    return (
        f"{why}, and no role checks hold its clients: messages could be lost. Set allAckInSyncStateSet=true on the "
        "brokers, or give the set a role address with role checks, or request it with acceptLoss"
    )


def warnings_of(needs: SwitchoverNeeds) -> tuple[str, ...]:
    if needs.is_held:
        return ()
    found = ["clients without a role address keep the old master's address until their next route poll (30 s)"]
    if not needs.is_all_ack:
        found.append("messages that the old master acknowledges at the moment of the election are lost")
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchoverFacts:
    """What is known at one moment."""

    now_ms: int
    #: This controller leads, and did without a break since the switchover began.
    leads: bool
    #: As stored; None if it was removed.
    broker_set: BrokerSet | None
    #: Brokers that are known to have failed.
    failed: Collection[int] = ()
    #: Hosts that check roles, and may still have sessions to the old master.
    unheld: Collection[str] = ()
    #: What brokers have answered now, where the phase needs it.
    ends: Mapping[int, LogEnd] = field(default_factory=dict)
    #: The stored master is known to serve.
    is_confirmed: bool = False
    #: What shows that the new master has begun its epoch; blank if nothing does.
    began: str = ""


class Turn(NamedTuple):
    """The phase from now on; the same one waits."""

    phase: SwitchoverPhase
    evidence: str = ""
    #: Why it does not end as wanted.
    problem: str = ""


def next_turn(switchover: Switchover, facts: SwitchoverFacts) -> Turn:
    """Return what a switchover does next; in ELECT and ROLL_BACK the result of an election decides first."""
    if not facts.leads:
        return _ended(SwitchoverPhase.INTERRUPTED, "this controller leads no longer: what is stored decides")
    if facts.broker_set is None:
        return _ended(SwitchoverPhase.INTERRUPTED, f"{switchover.broker_name} was removed")
    rule = _RULES.get(switchover.phase)
    return rule(switchover, facts, facts.broker_set) if rule is not None else Turn(switchover.phase)


def _ended(phase: SwitchoverPhase, problem: str) -> Turn:
    return Turn(phase, problem, problem)


def _before_election(switchover: Switchover, facts: SwitchoverFacts, broker_set: BrokerSet) -> Turn:
    if (broker_set.master, broker_set.master_epoch) != (switchover.old_master, switchover.old_epoch):
        now = "nobody" if broker_set.master is None else f"broker {broker_set.master}"
        problem = f"{now} leads since an election meanwhile, at master epoch {broker_set.master_epoch}"
        return _ended(SwitchoverPhase.INTERRUPTED, problem)
    new = switchover.new_master
    if new in facts.failed or new not in broker_set.sync_state_set:
        return _ended(SwitchoverPhase.FAILED, f"broker {new} has failed or left the SyncStateSet; nothing was changed")
    if switchover.phase is SwitchoverPhase.CATCH_UP:
        return _catch_up(switchover, facts)
    return _hold(switchover, facts) if switchover.phase is SwitchoverPhase.HOLD else _drain(switchover, facts)


def _hold(switchover: Switchover, facts: SwitchoverFacts) -> Turn:
    if not switchover.is_held:
        return Turn(SwitchoverPhase.DRAIN, "no role checks arrive, so nothing holds clients")
    waited_ms = facts.now_ms - switchover.phase_since_ms
    if facts.unheld and waited_ms >= switchover.request.hold_ms_max:
        hosts = ", ".join(facts.unheld)
        problem = f"{hosts} check the role, but do not know after {waited_ms} ms that it is held; nothing was changed"
        return _ended(SwitchoverPhase.FAILED, problem)
    if facts.unheld or waited_ms < HOLD_SETTLES_MS:
        return Turn(SwitchoverPhase.HOLD)
    return Turn(SwitchoverPhase.DRAIN, f"after {waited_ms} ms all role checkers know that the role is held")


def _backlog(switchover: Switchover, facts: SwitchoverFacts) -> int | None:
    """Return how many bytes the next master lacks; None if one of both has not answered."""
    old, new = facts.ends.get(switchover.old_master), facts.ends.get(switchover.new_master)
    return None if old is None or new is None else max(old.max_offset - new.max_offset, 0)


def _sentence_of(switchover: Switchover, backlog: int | None) -> str:
    new = switchover.new_master
    if backlog is None:
        return f"broker {switchover.old_master} or {new} does not report the end of its log"
    return f"broker {new} lacks {backlog} bytes of the log"


def _catch_up(switchover: Switchover, facts: SwitchoverFacts) -> Turn:
    backlog = _backlog(switchover, facts)
    seen = _sentence_of(switchover, backlog)
    if backlog is not None and backlog <= switchover.request.backlog_bytes_max:
        return Turn(SwitchoverPhase.HOLD, seen)
    waited_ms = facts.now_ms - switchover.phase_since_ms
    if waited_ms >= switchover.request.catch_up_ms_max:
        limit = f"the limit is {switchover.request.backlog_bytes_max} (backlogBytesMax)"
        return _ended(SwitchoverPhase.FAILED, f"{seen} after {waited_ms} ms, {limit}; nothing was changed")
    return Turn(switchover.phase)


def _drain(switchover: Switchover, facts: SwitchoverFacts) -> Turn:
    backlog = _backlog(switchover, facts)
    seen = _sentence_of(switchover, backlog)
    if backlog == 0:
        return Turn(SwitchoverPhase.ELECT, f"broker {switchover.new_master} has every message")
    assert switchover.held_since_ms is not None, "it was held before"
    waited_ms = facts.now_ms - switchover.held_since_ms
    if waited_ms < switchover.request.hold_ms_max:
        return Turn(SwitchoverPhase.DRAIN)
    if backlog is not None and (switchover.is_all_ack or switchover.request.accept_loss):
        why = "no client was told that those are stored" if switchover.is_all_ack else "their loss is accepted"
        return Turn(SwitchoverPhase.ELECT, f"{seen} after {waited_ms} ms; {why}")
    why = "" if backlog is None else ", although clients are held: do clients bypass the role address?"
    return _ended(SwitchoverPhase.FAILED, f"{seen} after {waited_ms} ms{why}; nothing was changed")


def _is_of(switchover: Switchover, broker_set: BrokerSet, broker_id: int) -> bool:
    """Return whether nobody but `broker_id` was elected since the switchover's election."""
    leads = broker_set.master == broker_id or broker_set.master is None
    return leads and broker_set.sync_state_set >= {broker_id} and broker_set.master_epoch > switchover.old_epoch


class Elected(NamedTuple):
    """Who leads after an election, None if it was refused or is not known to be stored, and why."""

    broker_id: int | None
    reason: str


def after_election(switchover: Switchover, elected: Elected) -> Turn:
    if elected.broker_id == switchover.new_master:
        return Turn(SwitchoverPhase.CONFIRM, elected.reason)
    return _ended(SwitchoverPhase.FAILED, f"broker {switchover.new_master} was not elected: {elected.reason}")


def _confirm(switchover: Switchover, facts: SwitchoverFacts, broker_set: BrokerSet) -> Turn:
    new = switchover.new_master
    if not _is_of(switchover, broker_set, new):
        problem = f"broker {broker_set.master} was elected meanwhile, at master epoch {broker_set.master_epoch}"
        return _ended(SwitchoverPhase.INTERRUPTED, problem)
    if broker_set.master == new and facts.is_confirmed:
        return Turn(SwitchoverPhase.VERIFY, f"broker {new} serves at master epoch {broker_set.master_epoch}")
    if new in facts.failed:
        return Turn(SwitchoverPhase.ROLL_BACK, f"broker {new} has failed before it was known to serve")
    if facts.now_ms - switchover.phase_since_ms >= CONFIRM_MS_MAX:
        return Turn(SwitchoverPhase.ROLL_BACK, f"broker {new} does not serve after {CONFIRM_MS_MAX} ms")
    return Turn(SwitchoverPhase.CONFIRM)


def problem_of_roll_back(switchover: Switchover, facts: SwitchoverFacts) -> str:
    """Return why the old master must not be elected again, blank if it may.

    The new one may have acknowledged messages alone from the beginning of its epoch on. What it answers shows whether
    it has; if it does not answer, and has begun its epoch, an ordinary failover judges.
    """
    old, new = facts.ends.get(switchover.old_master), facts.ends.get(switchover.new_master)
    if old is None:
        return f"broker {switchover.old_master} does not report the end of its log"
    if new is None:
        begun = f"broker {switchover.new_master} does not answer, and has begun its master epoch"
        return f"{begun}: {facts.began}" if facts.began else ""
    if new.max_offset > old.max_offset:
        more = new.max_offset - old.max_offset
        return f"broker {switchover.new_master} has {more} bytes that broker {switchover.old_master} lacks"
    return f"broker {switchover.new_master} is master by now" if new.is_master else ""


def after_roll_back(switchover: Switchover, elected: Elected) -> Turn:
    """Return what follows the election of the old master: it has to serve, or nothing more can be done."""
    if elected.broker_id == switchover.old_master:
        return Turn(SwitchoverPhase.ROLL_BACK)
    problem = f"{_why(switchover)}, and broker {switchover.old_master} was not elected again: {elected.reason}"
    return _ended(SwitchoverPhase.FAILED, problem)


def _why(switchover: Switchover) -> str:
    return switchover.steps[-1].evidence if switchover.steps else ""


def _rolled_back(switchover: Switchover, facts: SwitchoverFacts, broker_set: BrokerSet) -> Turn:
    old = switchover.old_master
    if not _is_of(switchover, broker_set, old):
        problem = f"broker {broker_set.master} was elected meanwhile, at master epoch {broker_set.master_epoch}"
        return _ended(SwitchoverPhase.INTERRUPTED, problem)
    if broker_set.master == old and facts.is_confirmed:
        serves = f"broker {old} serves again at master epoch {broker_set.master_epoch}"
        return Turn(SwitchoverPhase.ROLLED_BACK, serves, _why(switchover))
    if old in facts.failed or facts.now_ms - switchover.phase_since_ms >= CONFIRM_MS_MAX:
        return _ended(SwitchoverPhase.FAILED, f"{_why(switchover)}, and broker {old} does not serve again either")
    return Turn(SwitchoverPhase.ROLL_BACK)


def _verify(switchover: Switchover, facts: SwitchoverFacts, broker_set: BrokerSet) -> Turn:
    old, new = switchover.old_master, switchover.new_master
    if broker_set.master != new:
        # The switchover is over by then: what has happened since is a failover.
        return Turn(SwitchoverPhase.DONE, f"broker {new} has led, and lost the role since")
    end = facts.ends.get(old)
    if end is not None and not end.is_master:
        return Turn(SwitchoverPhase.DONE, f"broker {old} is a slave")
    if old in facts.failed or facts.now_ms - switchover.phase_since_ms >= VERIFY_MS_MAX:
        return Turn(SwitchoverPhase.DONE, f"broker {old} has not confirmed that it is a slave: check it")
    return Turn(SwitchoverPhase.VERIFY)


_Rule = Callable[[Switchover, SwitchoverFacts, BrokerSet], Turn]
_RULES: Final[Mapping[SwitchoverPhase, _Rule]] = {
    SwitchoverPhase.CATCH_UP: _before_election,
    SwitchoverPhase.HOLD: _before_election,
    SwitchoverPhase.DRAIN: _before_election,
    SwitchoverPhase.CONFIRM: _confirm,
    SwitchoverPhase.VERIFY: _verify,
    SwitchoverPhase.ROLL_BACK: _rolled_back,
}
