"""Who becomes master, and why nobody else (controller.md sections 2.3, 2.4).

A master must hold every message that was acknowledged, so only members of the SyncStateSet may lead; outside of it only
if an operator has allowed unclean elections.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from controller.broker_set import BrokerSet
from controller.events import MasterElected, MasterLost
from controller.live_table import Heard


class Verdict(Enum):
    """What an election makes of one broker; the values are shown to operators."""

    ELECTED = "elected"
    KEPT = "is master and stays it"
    NOT_ALIVE = "not alive"
    OUT_OF_SYNC = "not in the SyncStateSet"
    BEHIND = "its log ends before that of the elected"
    LOWER_PRIORITY = "its log is as long, its priority lower"
    HIGHER_ID = "its log and priority are the same, its id higher"
    NOT_WANTED = "another was designated"
    NOT_FIRST = "another asked first"


class Candidate(NamedTuple):
    """One broker of the set, as the election saw it."""

    broker_id: int
    heard: Heard | None
    in_sync: bool
    verdict: Verdict


class Result(Enum):
    """How an election ended; the values are labels of the metric."""

    NEW_MASTER = "new_master_elected"
    KEPT = "keep_current_master"
    NOBODY = "no_master_elected"


class Election(Struct, frozen=True, kw_only=True):
    """An election and its reason."""

    result: Result
    #: What happens; None if nothing does.
    event: MasterElected | MasterLost | None
    candidates: tuple[Candidate, ...]
    #: The elected is outside the SyncStateSet: acknowledged messages may be lost.
    is_unclean: bool = False


class Call(Struct, frozen=True, kw_only=True):
    """Why there is an election, and what is wanted of it."""

    #: The broker that asks for itself, or that an operator wants; None if the controller lost the master.
    broker_id: int | None = None
    #: An operator wants this broker, and no other.
    is_designated: bool = False
    allows_unclean: bool = False


def elect(broker_set: BrokerSet, alive: Mapping[int, Heard], call: Call) -> Election:
    """Return who leads the set from now on."""
    alive = {i: heard for i, heard in alive.items() if i in broker_set.replicas}
    if not broker_set.is_elected:
        return _first(broker_set, alive, call)
    in_sync = {i: heard for i, heard in alive.items() if i in broker_set.sync_state_set}
    for electorate, is_unclean in ((in_sync, False), (alive, True)):
        if is_unclean and not call.allows_unclean:
            break
        chosen = _choose(broker_set, electorate, call)
        if chosen is not None:
            return _elected(broker_set, alive, electorate, chosen, call)
    return _nobody(broker_set, alive, call)


def _first(broker_set: BrokerSet, alive: Mapping[int, Heard], call: Call) -> Election:
    """Let whoever asks first lead a set that never had a master: nobody has messages."""
    chosen = call.broker_id if call.broker_id in alive else None
    candidates = _candidates(
        broker_set, alive, lambda broker_id: Verdict.ELECTED if broker_id == chosen else Verdict.NOT_FIRST
    )
    if chosen is None:
        return Election(result=Result.NOBODY, event=None, candidates=candidates)
    return Election(result=Result.NEW_MASTER, event=MasterElected(chosen), candidates=candidates)


def _choose(broker_set: BrokerSet, electorate: Mapping[int, Heard], call: Call) -> int | None:
    wanted = call.broker_id if call.is_designated else None
    if wanted is not None:
        return wanted if wanted in electorate else None
    if broker_set.master in electorate:
        return broker_set.master
    return min(electorate, key=lambda i: _rank(i, electorate[i]), default=None)


def _rank(broker_id: int, heard: Heard) -> tuple[int, int, int, int]:
    """Return what the smaller of is better: the longer log, the preferred broker, the smaller id."""
    return -heard.epoch, -heard.max_offset, heard.priority, broker_id


def _elected(
    broker_set: BrokerSet,
    alive: Mapping[int, Heard],
    electorate: Mapping[int, Heard],
    chosen: int,
    call: Call,
) -> Election:
    is_kept = chosen == broker_set.master
    candidates = _candidates(
        broker_set,
        alive,
        lambda broker_id: _verdict(broker_id, electorate, chosen, is_kept=is_kept, is_designated=call.is_designated),
    )
    return Election(
        result=Result.KEPT if is_kept else Result.NEW_MASTER,
        event=None if is_kept else MasterElected(chosen),
        candidates=candidates,
        is_unclean=chosen not in broker_set.sync_state_set,
    )


def _verdict(
    broker_id: int,
    electorate: Mapping[int, Heard],
    chosen: int,
    *,
    is_kept: bool,
    is_designated: bool,
) -> Verdict:
    if broker_id == chosen:
        return Verdict.KEPT if is_kept else Verdict.ELECTED
    if broker_id not in electorate:
        return Verdict.OUT_OF_SYNC
    if is_designated or is_kept:
        return Verdict.NOT_WANTED
    mine, best = electorate[broker_id], electorate[chosen]
    if mine.progress < best.progress:
        return Verdict.BEHIND
    return Verdict.LOWER_PRIORITY if mine.priority > best.priority else Verdict.HIGHER_ID


def _nobody(broker_set: BrokerSet, alive: Mapping[int, Heard], call: Call) -> Election:
    eligible = broker_set.replicas if call.allows_unclean else broker_set.sync_state_set
    candidates = _candidates(
        broker_set,
        alive,
        lambda broker_id: Verdict.NOT_WANTED if broker_id in eligible else Verdict.OUT_OF_SYNC,
    )
    # Only the loss of a master that is recorded is an event; who asks for himself in vain changes nothing.
    is_lost = call.broker_id is None and broker_set.master is not None
    return Election(result=Result.NOBODY, event=MasterLost() if is_lost else None, candidates=candidates)


def _candidates(
    broker_set: BrokerSet, alive: Mapping[int, Heard], verdict: Callable[[int], Verdict]
) -> tuple[Candidate, ...]:
    """Return all brokers of the set with what the election makes of each; `verdict` tells it of the living."""
    return tuple(
        Candidate(
            broker_id,
            alive.get(broker_id),
            broker_id in broker_set.sync_state_set,
            verdict(broker_id) if broker_id in alive else Verdict.NOT_ALIVE,
        )
        for broker_id in sorted(broker_set.replicas)
    )
