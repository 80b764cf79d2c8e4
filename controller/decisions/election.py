"""Who becomes master, and why nobody else (docs/protocol/controller.md 2.3, 2.4).

A master must hold every message that was acknowledged, so only members of the SyncStateSet may lead; outside of it only
if an operator has allowed unclean elections. Membership is no proof of a log, though: disks are lost and put back, and
a power failure takes the end of a log. A member must also have as much as it was known to have; where nobody has, the
longest log leads once nobody who is away can have more.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from controller.decisions.cluster_view import ClusterView
from controller.decisions.known_log_ends import known_at_election, known_log_ends
from controller.failure_detection.heartbeats import UNKNOWN, LastHeartbeat
from controller.refusals import EpochsUsedUp, SetUnknown
from controller.sets.broker_set import (
    MASTER_EPOCH_MAX,
    BrokerSet,
    EpochStarted,
    MasterElected,
    MasterEpochRaised,
    MasterLost,
)
from controller.sets.stored_set import SetDecision, StoredSet

#: While a master may add to the logs of the others, no heartbeat tells where they end.
NEVER_MS: Final = 2**63 - 1


class Verdict(StrEnum):
    """What an election makes of one broker; the values are shown to operators."""

    ELECTED = "elected"
    KEPT = "is master and stays it"
    NOT_ALIVE = "not alive"
    SUSPECT = "suspect: it is being probed"
    NO_CONTACT_YET = "no heartbeat since this controller started"
    OVERDUE = "it has not reported how far its log is now"
    OUT_OF_SYNC = "not in the SyncStateSet"
    BEHIND = "its log ends before that of the elected"
    LOWER_PRIORITY = "its log is as long, its priority lower"
    HIGHER_ID = "its log and priority are the same, its id higher"
    NOT_WANTED = "another was designated"
    NOT_NEEDED = "the master stays"
    WAITS = "the master may live and is being probed"
    NOT_FIRST = "another requested first"
    AWAITS_LONGER = "another may have more messages, and has not reported how far its log is now"
    AWAITS_ANSWERS = "acknowledged messages may be on replicas that have not answered only"
    OUTSIDER_AHEAD = "one out of sync that has more, of another epoch, may be the only one with acknowledged messages"
    NOT_BEFORE_NON_MEMBER = "a broker of this name that is not known here has messages"
    LOG_SHRANK = "its log is shorter than it was, and another one may still have the rest"


_CHOSEN: Final = frozenset({Verdict.ELECTED, Verdict.KEPT})


class Candidate(NamedTuple):
    broker_id: int
    heartbeat: LastHeartbeat | None
    in_sync: bool
    verdict: Verdict
    #: How many bytes of the log it has lost: it was known to have had more than it reports now.
    lost_bytes: int = 0


class ElectionResult(StrEnum):
    """How an election ended; the values are labels of the metric."""

    NEW_MASTER = "new_master_elected"
    KEPT = "keep_current_master"
    NOBODY = "no_master_elected"


class Election(Struct, frozen=True, kw_only=True):
    result: ElectionResult
    #: What happens; None if nothing does.
    event: MasterElected | MasterLost | None
    candidates: tuple[Candidate, ...]
    #: The elected is outside the SyncStateSet, or has lost a part of its log: acknowledged messages may be lost.
    is_unclean: bool = False


class ElectionRequest(Struct, frozen=True, kw_only=True):
    """Why there is an election, and what is wanted of it."""

    #: The broker that requests it for itself, or that an operator wants; None if the controller lost the master.
    broker_id: int | None = None
    #: An operator wants this broker, and no other.
    is_designated: bool = False
    #: A broker out of sync may lead: the one that an operator wants, else only where nobody in sync may live.
    allows_unclean: bool = False
    #: The designated one had all that was confirmed when another one of the set was elected, which never served.
    holds_all: bool = False
    #: Log ends count if reported since then: before, the lost master may have added to the logs (monotonic ms).
    fresh_from_ms: int = 0
    #: Since when no master adds to the logs, so that heartbeats since then report their ends exactly (monotonic ms).
    static_from_ms: int = NEVER_MS


def decide_election(
    broker_name: str, entry: StoredSet, view: ClusterView, request: ElectionRequest
) -> SetDecision[Election]:
    """Decide who leads a set; raises SetUnknown or EpochsUsedUp.

    No master gets an epoch that a log of the set has seen: brokers ignore it, or write it without preparing their log
    (docs/protocol/controller.md 6.3). Such an epoch is known after the store was lost or restored from a backup.
    """
    broker_set = entry.broker_set
    if broker_set is None:
        raise SetUnknown(broker_name)
    election = elect(broker_set, view, request)
    if election.event is None:
        return SetDecision(reply=election)
    if not isinstance(election.event, MasterElected):
        # The loss of a master raises nothing: a higher claim has to be seen until somebody leads above it.
        return SetDecision(reply=election, events=(*known_log_ends(broker_set, view.last), election.event))
    epoch = view.raised_epoch(broker_set, request.broker_id if request.is_designated else None)
    if max(epoch, broker_set.master_epoch) >= MASTER_EPOCH_MAX:
        raise EpochsUsedUp(broker_name, broker_set.master_epoch)
    raised = (MasterEpochRaised(epoch),) if epoch > broker_set.master_epoch else ()
    elected = view.trusted[election.event.broker_id]
    known = known_at_election(broker_set, view.last, election.event.broker_id, elected)
    started = EpochStarted(elected.epoch, elected.max_offset)
    return SetDecision(reply=election, events=(*known, *raised, election.event, started))


def elect(broker_set: BrokerSet, view: ClusterView, request: ElectionRequest) -> Election:
    alive = {i: heartbeat for i, heartbeat in view.trusted.items() if i in broker_set.replicas}
    contest = _Contest(broker_set, view, alive, _shortened(broker_set, alive, view, request))
    if not (broker_set.is_elected or request.is_designated) and view.has_non_member_logs(broker_set):
        # New brokers with empty logs must not lead where an old one lives: it would not follow, or lose everything.
        return _nobody(contest, request, Verdict.NOT_BEFORE_NON_MEMBER)
    if (view.is_ahead_of(broker_set) or broker_set.is_rebuilding) and not request.is_designated:
        return _longest(contest, request)
    if not broker_set.is_elected:
        return _first(contest, request)
    if not request.is_designated and _is_undecided(contest):
        return _nobody(contest, request)
    return _most_complete(contest, request)


def _most_complete(contest: "_Contest", request: ElectionRequest) -> Election:
    """Let the longest log lead of those that have all that was confirmed; of all where that is allowed."""
    complete = _complete(contest)
    if request.is_designated and request.holds_all:
        complete |= {i: contest.alive[i] for i in contest.with_whole_log if i == request.broker_id}
    designated = contest.shortened.get(request.broker_id or 0) if request.is_designated else None
    if designated is not None and designated.is_outdated and not request.allows_unclean:
        return _nobody(contest, request, Verdict.AWAITS_LONGER)
    if contest.shortened and not complete:
        after_loss = _longest_left(contest, request)
        if after_loss.event is not None or not request.is_designated:
            return after_loss
    for eligible in (complete, contest.alive) if _opens_to_all(contest, request) else (complete,):
        chosen = _choose(contest.broker_set, eligible, request)
        if chosen is not None:
            doubt = _doubt(contest, eligible, chosen, request)
            if doubt is not None:
                return _nobody(contest, request, doubt)
            return _elected(contest, eligible, chosen, request, is_unclean=chosen not in complete)
    return _nobody(contest, request)


def _doubt(
    contest: "_Contest", eligible: Mapping[int, LastHeartbeat], chosen: int, request: ElectionRequest
) -> Verdict | None:
    """Return why it is not certain yet that the chosen has all that was confirmed; an operator decides without.

    A broker chosen by an old heartbeat, while others have reported their log ends since, may be failing, and nobody
    else could lead after it: soon it answers, sends a heartbeat, or has failed.
    """
    if request.is_designated or chosen == contest.broker_set.master:
        return None
    if _is_overdue(eligible[chosen], request) and not all(_is_overdue(each, request) for each in eligible.values()):
        return Verdict.AWAITS_LONGER
    view = contest.view
    if request.allows_unclean or not view.log_ends.is_on_fixed_number:
        return None
    if view.lacks_answers(contest.broker_set, request.fresh_from_ms):
        return Verdict.AWAITS_ANSWERS
    longest = max((end.progress for end in view.log_ends.by_id.values()), default=eligible[chosen].progress)
    return Verdict.OUTSIDER_AHEAD if longest > eligible[chosen].progress else None


def _complete(contest: "_Contest") -> dict[int, LastHeartbeat]:
    """Return the living that have all that was confirmed, as far as is known: those in sync.

    Where brokers confirm what is on a fixed number of replicas, one out of sync may hold more than all of those. In the
    same epoch logs do not differ before they end, so the longer one has all that the others have.
    """
    broker_set, log_ends = contest.broker_set, contest.view.log_ends
    in_sync = {i: contest.alive[i] for i in contest.with_whole_log if i in broker_set.sync_state_set}
    longest = max((log_ends.by_id[i].progress for i in in_sync if i in log_ends.by_id), default=None)
    if not log_ends.is_on_fixed_number or longest is None:
        return in_sync
    epoch = longest[0]
    longer = {i for i, end in log_ends.by_id.items() if end.epoch == epoch and end.progress > longest}
    return in_sync | {i: heartbeat for i, heartbeat in contest.alive.items() if i in longer}


def _is_undecided(contest: "_Contest") -> bool:
    """Return whether the master is suspect, or without contact yet: what it acknowledges meanwhile must not be lost."""
    master = contest.broker_set.master
    return master is not None and master not in contest.alive and contest.may_be_led


def _opens_to_all(contest: "_Contest", request: ElectionRequest) -> bool:
    in_sync = contest.broker_set.sync_state_set - contest.shortened.keys()
    return request.allows_unclean and (request.is_designated or not contest.may_live & in_sync)


class _Contest(NamedTuple):
    broker_set: BrokerSet
    view: ClusterView
    alive: Mapping[int, LastHeartbeat]
    #: The living that report less of the log than they were known to have.
    shortened: Mapping[int, "_Shortened"] = {}

    @property
    def with_whole_log(self) -> list[int]:
        return [i for i in self.alive if i not in self.shortened]

    @property
    def may_live(self) -> frozenset[int]:
        """Also suspects, and those without contact that are not certainly lost."""
        return frozenset(self.view.heartbeats).union(self.view.may_live)

    @property
    def may_be_led(self) -> bool:
        return self.broker_set.master in self.may_live


class _Shortened(NamedTuple):
    """A log that is reported as shorter than it was known to be."""

    bytes: int
    #: The report is as old as that knowledge, or older: soon it answers, or sends another heartbeat.
    is_outdated: bool


def _shortened(
    broker_set: BrokerSet, alive: Mapping[int, LastHeartbeat], view: ClusterView, request: ElectionRequest
) -> dict[int, _Shortened]:
    """Return whose logs are shorter than they were known to be, by what is reported of them.

    A log is lost, or loses its end, where a process ends. That of the stored master has not ended: there is none while
    it starts again.
    """
    found = {}
    for broker_id, heartbeat in alive.items():
        if broker_id != broker_set.master and is_shortened(broker_set, broker_id, heartbeat):
            lacking = broker_set.replicas[broker_id].log_end - _length(broker_set, heartbeat)
            is_exact = broker_id in view.log_ends.by_id or heartbeat.last_heartbeat_ms >= request.static_from_ms
            found[broker_id] = _Shortened(lacking, not is_exact or heartbeat.awaits_heartbeat)
    return found


def is_shortened(broker_set: BrokerSet, broker_id: int, heartbeat: LastHeartbeat) -> bool:
    return _length(broker_set, heartbeat) < broker_set.replicas[broker_id].log_end


def _length(broker_set: BrokerSet, heartbeat: LastHeartbeat) -> int:
    return max(broker_set.length_of(heartbeat.epoch, heartbeat.max_offset), 0)


def _longest_left(contest: _Contest, request: ElectionRequest) -> Election:
    """Let the longest log lead where nobody in sync reports all that it had, once nobody who is away can have more.

    Who was in sync may have what they lost, however much is known of it; others have more if they were known to. A
    set must not stand still for ever after a power failure of all its hosts: what no log has any more is lost. An
    operator who removes a broker from the set gives up what only that one may have.
    """
    broker_set = contest.broker_set
    if any(each.is_outdated for each in contest.shortened.values()):
        return _nobody(contest, request, Verdict.AWAITS_LONGER)
    reported = {i: each for i, each in contest.alive.items() if not each.awaits_heartbeat}
    # The list of epochs outlives a log that is lost, so epochs count only where nothing else is known.
    is_known = broker_set.epoch_start.epoch > 0
    lengths = {i: _length(broker_set, each) if is_known else 0 for i, each in reported.items()}
    chosen = min(reported, key=lambda i: (-lengths[i], _rank(i, reported[i], request)))
    length = _length(broker_set, reported[chosen])
    may_have_more = {
        i
        for i, each in broker_set.replicas.items()
        if i not in reported and (i in broker_set.sync_state_set or each.log_end > length)
    }
    if may_have_more and not _opens_to_all(contest, request):
        return _nobody(contest, request, Verdict.LOG_SHRANK)
    if request.is_designated and chosen != request.broker_id:
        return _nobody(contest, request)
    return _elected(contest, reported, chosen, request, is_unclean=True)


def _first(contest: _Contest, request: ElectionRequest) -> Election:
    """Let the broker that requests first lead a set that never had a master, if nobody has messages."""
    chosen = request.broker_id if request.broker_id in contest.alive else None
    candidates = _candidates(contest, lambda i: Verdict.ELECTED if i == chosen else Verdict.NOT_FIRST)
    if chosen is None:
        return Election(result=ElectionResult.NOBODY, event=None, candidates=candidates)
    return Election(result=ElectionResult.NEW_MASTER, event=MasterElected(chosen), candidates=candidates)


def _longest(contest: _Contest, request: ElectionRequest) -> Election:
    """Let the longest log lead where the store is older than the logs: its SyncStateSet proves nothing any more.

    So all brokers in contact must have reported their log ends, and none may be suspect. The master is elected anew if
    it has the longest: brokers follow none at an epoch that they have seen already.
    """
    heartbeat = {i: each for i, each in contest.view.heartbeats.items() if i in contest.broker_set.replicas}
    is_known = heartbeat.keys() <= contest.alive.keys() and not any(
        each.awaits_heartbeat for each in heartbeat.values()
    )
    by_log = ElectionRequest()
    chosen = _choose(replace(contest.broker_set, master=None), _serving(contest), by_log) if is_known else None
    if chosen is None:
        # A loss would move the stored epoch, and with it what shows that the store is behind.
        return replace(_nobody(contest, request), event=None)
    candidates = _candidates(contest, lambda i: _verdict(i, contest.alive, chosen, is_kept=False, request=by_log))
    is_known = contest.broker_set.is_elected and not contest.broker_set.is_rebuilding
    is_unclean = is_known and chosen not in contest.broker_set.sync_state_set
    return Election(
        result=ElectionResult.NEW_MASTER, event=MasterElected(chosen), candidates=candidates, is_unclean=is_unclean
    )


def _serving(contest: _Contest) -> Mapping[int, LastHeartbeat]:
    """Return who serves as master at the highest epoch, as all others follow it and its log grows; else all.

    While only some have answered, offsets of different moments are compared: only those whose old heartbeats are no
    shorter than any answer, as their logs can only be longer by now. Some may never answer: they cannot be reached.
    """
    highest = max((heartbeat.epoch for heartbeat in contest.alive.values()), default=0)
    view = contest.view
    masters, known = view.log_ends.masters, view.known_log_ends
    serving = {i: heartbeat for i, heartbeat in contest.alive.items() if i in masters and heartbeat.epoch == highest}
    master = contest.broker_set.master
    if master in contest.alive and master not in known:
        # It may be alive and well, with others that claim its role.
        serving = {i: heartbeat for i, heartbeat in serving.items() if i in contest.broker_set.sync_state_set}
    if serving:
        return serving
    if not view.log_ends.by_id or contest.alive.keys() <= known:
        return contest.alive
    answered = max(
        (heartbeat.progress for i, heartbeat in contest.alive.items() if i in known), default=(UNKNOWN, UNKNOWN)
    )
    return {i: heartbeat for i, heartbeat in contest.alive.items() if i not in known and heartbeat.progress >= answered}


def _choose(broker_set: BrokerSet, eligible: Mapping[int, LastHeartbeat], request: ElectionRequest) -> int | None:
    wanted = request.broker_id if request.is_designated else None
    if wanted is not None:
        return wanted if wanted in eligible else None
    if broker_set.master in eligible:
        return broker_set.master
    return min(eligible, key=lambda i: _rank(i, eligible[i], request), default=None)


def _rank(broker_id: int, heartbeat: LastHeartbeat, request: ElectionRequest) -> tuple[int, int, bool, int, int]:
    """Return what the smaller of is better: the longer log, a known end of it, the preferred broker, the smaller id.

    Not all that is acknowledged is on all that are in sync: brokers may be configured to wait for some only.
    """
    return -heartbeat.epoch, -heartbeat.max_offset, _is_overdue(heartbeat, request), heartbeat.priority, broker_id


def _is_overdue(heartbeat: LastHeartbeat, request: ElectionRequest) -> bool:
    return heartbeat.last_contact_ms < request.fresh_from_ms


def _elected(
    contest: _Contest, eligible: Mapping[int, LastHeartbeat], chosen: int, request: ElectionRequest, *, is_unclean: bool
) -> Election:
    is_kept = chosen == contest.broker_set.master
    candidates = _candidates(contest, lambda i: _verdict(i, eligible, chosen, is_kept=is_kept, request=request))
    return Election(
        result=ElectionResult.KEPT if is_kept else ElectionResult.NEW_MASTER,
        event=None if is_kept else MasterElected(chosen),
        candidates=candidates,
        is_unclean=is_unclean,
    )


def _verdict(
    broker_id: int, eligible: Mapping[int, LastHeartbeat], chosen: int, *, is_kept: bool, request: ElectionRequest
) -> Verdict:
    if broker_id == chosen:
        return Verdict.KEPT if is_kept else Verdict.ELECTED
    if broker_id not in eligible:
        return Verdict.OUT_OF_SYNC
    if request.is_designated or is_kept:
        return Verdict.NOT_WANTED if request.is_designated else Verdict.NOT_NEEDED
    mine, best = eligible[broker_id], eligible[chosen]
    if mine.progress < best.progress:
        return Verdict.BEHIND
    if _is_overdue(mine, request) and not _is_overdue(best, request):
        return Verdict.OVERDUE
    return Verdict.LOWER_PRIORITY if mine.priority > best.priority else Verdict.HIGHER_ID


def _nobody(contest: _Contest, request: ElectionRequest, waits: Verdict = Verdict.WAITS) -> Election:
    """Return that nobody leads; `waits` is the verdict on those that could."""
    broker_set = contest.broker_set
    is_open = _opens_to_all(contest, request) or not broker_set.is_elected
    eligible = broker_set.replicas if is_open else broker_set.sync_state_set
    passed_over = Verdict.NOT_WANTED if request.is_designated and waits is Verdict.WAITS else waits
    candidates = _candidates(contest, lambda i: passed_over if i in eligible else Verdict.OUT_OF_SYNC)
    # Only the loss of a recorded master is an event; a failed request of a broker changes nothing, and neither does
    # what is over in a moment.
    is_lost = request.broker_id is None and broker_set.master is not None and not contest.may_be_led
    is_lost = is_lost and waits is not Verdict.AWAITS_LONGER
    return Election(result=ElectionResult.NOBODY, event=MasterLost() if is_lost else None, candidates=candidates)


def _candidates(contest: _Contest, verdict: Callable[[int], Verdict]) -> tuple[Candidate, ...]:
    """Return all brokers of the set with what the election makes of each; `verdict` decides on the trusted."""

    def of(broker_id: int) -> Verdict:
        if broker_id in contest.alive:
            found = verdict(broker_id)
            is_passed_over = found not in _CHOSEN and broker_id in contest.broker_set.sync_state_set
            shortened = contest.shortened.get(broker_id)
            return Verdict.LOG_SHRANK if is_passed_over and shortened and not shortened.is_outdated else found
        if broker_id in contest.view.heartbeats:
            return Verdict.SUSPECT
        if broker_id in contest.view.failed or broker_id not in contest.may_live:
            return Verdict.NOT_ALIVE
        # One that had failed may be probed anew.
        return Verdict.SUSPECT if broker_id in contest.view.last else Verdict.NO_CONTACT_YET

    shrunk = {i: each.bytes for i, each in contest.shortened.items() if not each.is_outdated}
    in_sync = contest.broker_set.sync_state_set
    return tuple(
        Candidate(i, contest.alive.get(i), i in in_sync, of(i), shrunk.get(i, 0))
        for i in sorted(contest.broker_set.replicas)
    )
