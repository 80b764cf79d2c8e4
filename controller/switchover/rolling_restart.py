"""The restart of the brokers of a set, one by one: which one is to be restarted now, and what has to hold before. Pure.

Invariant: a broker is named for its restart only while all others are alive and in sync, and it is not the master; so
at any moment a failover finds somebody with all messages. The order follows from who leads now: a failover in between
changes it, and harms nothing. Of several sets none is restarted at the same time as another one with a broker on the
same host, nor as more of its cluster than its operator allows.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from controller.sets.broker_set import BrokerSet

#: How often in a row a switchover is tried.
SWITCHOVERS_MAX: Final = 3
#: Between two of them, ms; another leader waits anew.
SWITCHOVER_PAUSE_MS: Final = 10_000
#: The form in which restarts are stored, as `STORED_SET_FORMAT` is that of sets.
RESTART_FORMAT: Final = 1
#: Steps that are kept, the last ones: failovers in between add some.
STEPS_MAX: Final = 500


class RestartPhase(StrEnum):
    """Where a rolling restart is; the values are shown to operators, and those that end it label metrics."""

    #: Wait until all brokers are alive and in sync.
    IN_SYNC = "IN_SYNC"
    #: The operator is to restart the named broker now; wait until it is back, alive and in sync.
    RESTART = "RESTART"
    #: The master is the last one that is left: it hands over its role.
    SWITCHOVER = "SWITCHOVER"

    DONE = "DONE"
    FAILED = "FAILED"
    ABORTED = "ABORTED"


_COMPLETE: Final = "all brokers are alive and in sync"

RESTART_ENDED: Final = frozenset({RestartPhase.DONE, RestartPhase.FAILED, RestartPhase.ABORTED})


class RestartStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A phase that has ended."""

    phase: RestartPhase
    broker_id: int | None
    began_unix_ms: int
    ended_unix_ms: int
    evidence: str


class RollingRestart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rolling restart, as it is stored."""

    format: int = RESTART_FORMAT
    id: str
    broker_name: str
    cluster: str
    #: Brokers to restart, and those of them that have been.
    brokers: tuple[int, ...]
    restarted: tuple[int, ...] = ()
    #: It waits while so many of its cluster are under way that were begun before it.
    cluster_restarts_max: int = 1
    requested_by: str = ""
    reason: str = ""
    #: Later than that of all others that were under way.
    created_unix_ms: int
    phase: RestartPhase = RestartPhase.IN_SYNC
    phase_since_unix_ms: int
    #: The broker to restart now, and when its process that is to end had started, Unix ms.
    broker_id: int | None = None
    boot_unix_ms: int | None = None
    #: Switchovers that failed in a row.
    failed_switchovers: int = 0
    problem: str = ""
    steps: tuple[RestartStep, ...] = ()

    @property
    def has_ended(self) -> bool:
        return self.phase in RESTART_ENDED

    @property
    def left(self) -> tuple[int, ...]:
        return tuple(i for i in self.brokers if i not in self.restarted)

    def entered(
        self, phase: RestartPhase, evidence: str, unix_ms: int, broker_id: int | None = None
    ) -> "RollingRestart":
        """Return it in another phase; `evidence` is why the present one ends."""
        step = RestartStep(
            phase=self.phase,
            broker_id=self.broker_id,
            began_unix_ms=self.phase_since_unix_ms,
            ended_unix_ms=unix_ms,
            evidence=evidence,
        )
        return replace(
            self,
            phase=phase,
            phase_since_unix_ms=unix_ms,
            broker_id=broker_id,
            boot_unix_ms=None,
            steps=(*self.steps, step)[-STEPS_MAX:],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartFacts:
    """What is known of the set at one moment."""

    unix_ms: int
    #: As stored; None if it was removed.
    broker_set: BrokerSet | None
    #: The living that are not suspect.
    trusted: Collection[int]
    #: When the processes of brokers had started, Unix ms, of those that were asked and have answered.
    boots: Mapping[int, int]
    #: A switchover of the set is under way.
    is_switching: bool
    #: Why the last switchover of this restart did not end as wanted; None if none has ended since.
    failed_switchover: str | None = None
    #: Monotonic time since this controller has first seen that so many switchovers have failed.
    since_failed_ms: int = 0
    #: The restart of another set that is to end before, blank if it is the turn of this one.
    behind: str = ""


class RestartDecision(NamedTuple):
    """The restart from now on, whether to begin a switchover then, and what it waits for."""

    restart: RollingRestart
    begins_switchover: bool = False
    waits_for: str = ""


def waits_behind(
    restart: RollingRestart, under_way: Iterable[RollingRestart], hosts: Mapping[str, Collection[str]]
) -> str:
    """Return which restart has to end before one may name a broker, blank if none has; `hosts` are those of each set.

    Restarts take turns in the order in which they were begun, so that the first of all never waits.
    """
    before = [each for each in under_way if _order(each) < _order(restart)]
    own = set(hosts[restart.broker_name])
    for each in before:
        if shared := own.intersection(hosts[each.broker_name]):
            return f"the rolling restart of {each.broker_name}, which has a broker on {min(shared)} too"
    of_cluster = [each.broker_name for each in before if each.cluster == restart.cluster]
    if len(of_cluster) < restart.cluster_restarts_max:
        return ""
    limit = f"clusterRestartsMax is {restart.cluster_restarts_max}"
    return f"the rolling restart of {of_cluster[0]}, which was begun before in this cluster ({limit})"


def _order(restart: RollingRestart) -> tuple[int, str]:
    return restart.created_unix_ms, restart.broker_name


def next_decision(restart: RollingRestart, facts: RestartFacts) -> RestartDecision:
    broker_set = facts.broker_set
    if broker_set is None:
        return _failed(restart, facts, f"{restart.broker_name} was removed")
    if gone := sorted(set(restart.left) - broker_set.replicas.keys()):
        return _failed(restart, facts, f"{restart.broker_name} no longer has brokers {gone}")
    match restart.phase:
        case RestartPhase.RESTART:
            return _await_restart(restart, facts, broker_set)
        case RestartPhase.SWITCHOVER:
            return _await_switchover(restart, facts, broker_set)
        case _:
            return _await_sync(restart, facts, broker_set)


def _failed(restart: RollingRestart, facts: RestartFacts, problem: str) -> RestartDecision:
    return RestartDecision(replace(restart.entered(RestartPhase.FAILED, problem, facts.unix_ms), problem=problem))


def _missing(facts: RestartFacts, broker_set: BrokerSet) -> str:
    if silent := sorted(broker_set.replicas.keys() - set(facts.trusted)):
        return f"brokers {silent} to send heartbeats"
    if behind := sorted(broker_set.replicas.keys() - broker_set.sync_state_set):
        return f"brokers {behind} to be in the SyncStateSet"
    return "a master" if broker_set.master is None else ""


def _await_sync(restart: RollingRestart, facts: RestartFacts, broker_set: BrokerSet) -> RestartDecision:
    if facts.behind and restart.left:
        return RestartDecision(restart, waits_for=facts.behind)
    if missing := _missing(facts, broker_set):
        return RestartDecision(restart, waits_for=missing)
    if facts.is_switching:
        return RestartDecision(restart, waits_for="the end of a switchover")
    if not restart.left:
        return RestartDecision(restart.entered(RestartPhase.DONE, _COMPLETE, facts.unix_ms))
    slaves = [i for i in restart.left if i != broker_set.master]
    return _name_slave(restart, facts, slaves[0]) if slaves else _begin_switchover(restart, facts)


def _begin_switchover(restart: RollingRestart, facts: RestartFacts) -> RestartDecision:
    if restart.failed_switchovers and facts.since_failed_ms < SWITCHOVER_PAUSE_MS:
        return RestartDecision(restart, waits_for="the next try of a switchover")
    entered = restart.entered(RestartPhase.SWITCHOVER, _COMPLETE, facts.unix_ms)
    return RestartDecision(entered, begins_switchover=True)


def _name_slave(restart: RollingRestart, facts: RestartFacts, broker_id: int) -> RestartDecision:
    boot_unix_ms = facts.boots.get(broker_id)
    if boot_unix_ms is None:
        return RestartDecision(restart, waits_for=f"broker {broker_id} to answer when it has started")
    entered = restart.entered(RestartPhase.RESTART, _COMPLETE, facts.unix_ms, broker_id)
    return RestartDecision(replace(entered, boot_unix_ms=boot_unix_ms))


def _await_restart(restart: RollingRestart, facts: RestartFacts, broker_set: BrokerSet) -> RestartDecision:
    broker_id = restart.broker_id
    assert broker_id is not None, "this phase names a broker"
    boot_unix_ms = facts.boots.get(broker_id)
    if boot_unix_ms is None:
        return RestartDecision(restart, waits_for=f"broker {broker_id} to start")
    if boot_unix_ms == restart.boot_unix_ms:
        if broker_id == broker_set.master:
            problem = f"broker {broker_id} became master before it was restarted"
            return RestartDecision(restart.entered(RestartPhase.IN_SYNC, problem, facts.unix_ms))
        return RestartDecision(restart, waits_for=f"the operator to restart broker {broker_id}")
    if broker_id not in facts.trusted:
        return RestartDecision(restart, waits_for=f"heartbeats of broker {broker_id}, which has started")
    if broker_id not in broker_set.sync_state_set:
        return RestartDecision(restart, waits_for=f"broker {broker_id}, which has started, to be in the SyncStateSet")
    seen = f"broker {broker_id} has restarted and is in sync"
    entered = restart.entered(RestartPhase.IN_SYNC, seen, facts.unix_ms)
    return RestartDecision(replace(entered, restarted=(*restart.restarted, broker_id)))


def _await_switchover(restart: RollingRestart, facts: RestartFacts, broker_set: BrokerSet) -> RestartDecision:
    if facts.is_switching:
        return RestartDecision(restart, waits_for="the end of the switchover")
    if broker_set.master is not None and broker_set.master not in restart.left:
        led = f"broker {broker_set.master} leads"
        entered = restart.entered(RestartPhase.IN_SYNC, led, facts.unix_ms)
        return RestartDecision(replace(entered, failed_switchovers=0))
    if facts.failed_switchover is not None:
        failed = restart.failed_switchovers + 1
        restart = replace(restart, failed_switchovers=failed, problem=facts.failed_switchover)
        if failed >= SWITCHOVERS_MAX:
            problem = f"{failed} switchovers did not succeed, the last one because {facts.failed_switchover}"
            return _failed(restart, facts, problem)
        entered = restart.entered(RestartPhase.IN_SYNC, facts.failed_switchover, facts.unix_ms)
        return RestartDecision(entered)
    # The controller that began it has failed, and with it the switchover.
    return RestartDecision(restart, begins_switchover=True)


def aborted(restart: RollingRestart, reason: str, unix_ms: int) -> RollingRestart:
    """Return it aborted: nobody is named for a restart any more; a switchover under way goes on to its end."""
    why = f"aborted: {reason}" if reason else "aborted"
    return replace(restart.entered(RestartPhase.ABORTED, why, unix_ms), problem=why)


encode_restart: Final = msgspec.json.Encoder().encode


class _RestartFormat(msgspec.Struct):
    format: int = RESTART_FORMAT


def decode_restart(stored: bytes) -> RollingRestart:
    """Return a stored one; raises msgspec.DecodeError if it cannot be read, or is of a later release."""
    if (written := msgspec.json.decode(stored, type=_RestartFormat).format) > RESTART_FORMAT:
        reads = f"this release reads formats up to {RESTART_FORMAT}"
        raise msgspec.DecodeError(
            f"it has format {written}, and {reads}: run the release that wrote it, or a later one"
        )
    return msgspec.json.decode(stored, type=RollingRestart)
