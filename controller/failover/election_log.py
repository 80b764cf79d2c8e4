"""The last elections with their reasons, for operators: candidates, why each was or was not elected, how long it took.

Nothing is decided here; `stored_elections.py` keeps them beyond this process. An election that ends as the one before
is counted there, so that a set without a candidate, with an election every few seconds, does not push the others out.
"""

import shlex
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from controller.decisions.election import Candidate, Election, ElectionResult, Verdict
from controller.failure_detection.heartbeats import UNKNOWN, LastHeartbeat
from controller.sets.broker_set import BrokerSet

#: How many elections are kept.
ELECTIONS_MAX: Final = 1_000

#: What the command that forces a master needs: no request allows it, unless it was opened.
_WHILE_ALLOWED: Final = (
    "while controllers run with enableElectUncleanMaster=true in their files, and false again at once"
)
#: Verdicts on brokers that are not there.
_ABSENT: Final = frozenset({Verdict.NOT_ALIVE, Verdict.NO_CONTACT_YET})


class Trigger(StrEnum):
    """What an election is held for; the values are shown to operators and label metrics."""

    MASTER_FAILED = "master_dead"
    NO_MASTER_HEARTBEAT = "master_not_heard"
    NO_MASTER = "no_master"
    STORE_BEHIND = "store_behind"
    BROKER = "broker"
    OPERATOR = "operator"
    SWITCHOVER = "switchover"


#: The controller has found that a set has no master.
LOSSES: Final = frozenset({Trigger.MASTER_FAILED, Trigger.NO_MASTER_HEARTBEAT, Trigger.NO_MASTER})
#: Somebody has requested an election.
REQUESTED: Final = frozenset({Trigger.BROKER, Trigger.OPERATOR, Trigger.SWITCHOVER})
#: Elections that may give up messages, where that is allowed; none that is planned does.
MAY_BE_UNCLEAN: Final = REQUESTED - {Trigger.SWITCHOVER}


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    trigger: Trigger
    #: One sentence.
    why: str
    #: The broker that requested it, or that an operator designated.
    broker_id: int | None = None
    #: When the master was last in contact, suspected, judged failed; monotonic ms, None where that is not the cause.
    last_contact_ms: int | None = None
    suspected_ms: int | None = None
    judged_ms: int | None = None
    #: Until when the election waited for hosts that check the master's role; None if it did not wait.
    fenced_ms: int | None = None
    #: How its end showed: a label of the metrics.
    evidence: str = ""

    @property
    def lost_ms(self) -> int | None:
        """Since when the master could be replaced; None where its loss is not the cause."""
        return self.judged_ms if self.fenced_ms is None else self.fenced_ms


class CandidateReport(msgspec.Struct, frozen=True, kw_only=True):
    broker_id: int
    address: str
    in_sync: bool
    verdict: Verdict
    #: From its answer for this election, else from its last heartbeat; None if there is none.
    epoch: int | None
    max_offset: int | None
    priority: int | None
    #: How many bytes its log has lost: it was known to have more.
    lost_bytes: int = 0


class Phases(msgspec.Struct, frozen=True, kw_only=True):
    """How long each part took, in ms; None for what there was not."""

    #: From the last sign of life until the suspicion of the master, and from then until it was judged failed.
    suspect_ms: int | None = None
    judge_ms: int | None = None
    #: From then until hosts that check its role led nobody to it any more.
    fence_ms: int | None = None
    #: From then, the judgement or the request until the result was stored.
    commit_ms: int

    @property
    def total_ms(self) -> int:
        return (self.suspect_ms or 0) + (self.judge_ms or 0) + (self.fence_ms or 0) + self.commit_ms


class NotificationResult(NamedTuple):
    result: str
    #: From the stored result until then.
    after_ms: int
    tries: int


class ElectionRecord(msgspec.Struct, kw_only=True):
    """One election, or several that ended the same."""

    number: int
    broker_name: str
    cluster: str
    unix_ms: int
    #: The address of the controller that held it.
    held_by: str
    cause: Cause
    result: ElectionResult
    #: What became of the set, as reported to operators: where nobody else could lead, its living master goes on.
    reported_result: ElectionResult
    #: Why it ended so, in words.
    reason: str
    reports: tuple[CandidateReport, ...]
    old_master: int | None
    #: Who leads now; None where nobody is known to, whoever is recorded.
    new_master: int | None
    master_epoch: int
    sync_state_set_epoch: int
    is_unclean: bool
    #: Bytes of the log that are lost, or would be if the best of the others was forced; None if nobody knows.
    bytes_at_stake: int | None
    #: What gives the set a master without a loss, in words; blank where there is one, or nobody has to act.
    advice: str
    #: What makes a broker the master where nobody was electable, as a command with a comment; blank otherwise.
    force: str
    phases: Phases
    #: By broker id, as answers come.
    notified: dict[int, NotificationResult] = {}
    #: How often it ended like this in a row, and when last.
    times: int = 1
    last_unix_ms: int = 0

    def add_repeat(self, other: "ElectionRecord") -> None:
        """Take an election that ended as this one: logs have grown meanwhile, and with them what would be lost."""
        self.times += 1
        self.last_unix_ms = other.unix_ms
        self.reason, self.reports = other.reason, other.reports
        self.bytes_at_stake, self.advice, self.force = other.bytes_at_stake, other.advice, other.force


class HeldElection(NamedTuple):
    before: BrokerSet
    after: BrokerSet
    cause: Cause
    election: Election
    #: The last heartbeat of each broker, failed ones too.
    last: dict[int, LastHeartbeat]
    commit_ms: int


class ElectionLog:
    """The last elections, the newest last."""

    def __init__(self, controller_address: str) -> None:
        #: Where this controller is, for commands that operators copy; known once it listens.
        self.controller_address = controller_address
        self._records: deque[ElectionRecord] = deque(maxlen=ELECTIONS_MAX)
        self._last: dict[str, ElectionRecord] = {}
        #: By set, the last election that began an epoch.
        self._began: dict[str, ElectionRecord] = {}
        self._held = 0
        #: The highest number of those that were restored: what ends as one of them is a record of its own.
        self._restored = 0
        #: Sets with elections that are not stored as they are known here.
        self.unstored: set[str] = set()
        #: Moves with every change of a record.
        self.changes = 0

    def __iter__(self) -> Iterator[ElectionRecord]:
        return iter(self._records)

    def __reversed__(self) -> Iterator[ElectionRecord]:
        return reversed(self._records)

    def of_set(self, broker_name: str) -> ElectionRecord | None:
        return self._last.get(broker_name)

    def why(self, broker_name: str, master_epoch: int) -> str:
        """Return why a set has had its master since an epoch; blank if no election known here began it."""
        record = self.beginning(broker_name, master_epoch)
        return record.cause.why if record is not None else ""

    def beginning(self, broker_name: str, master_epoch: int) -> ElectionRecord | None:
        """Return the last election of a set that elected a master, if an epoch began with it."""
        record = self._began.get(broker_name)
        return record if record is not None and record.master_epoch == master_epoch else None

    def notified(
        self, broker_name: str, number: int, broker_id: int, notified: NotificationResult
    ) -> ElectionRecord | None:
        """Record the result of a notification; returns the election if it began the present epoch of its set."""
        record = self._began.get(broker_name)
        if record is None or record.number != number:
            return None
        record.notified = {**record.notified, broker_id: notified}
        self.changes += 1
        self.unstored.add(broker_name)
        return record

    def add(self, held: HeldElection, unix_ms: int) -> tuple[ElectionRecord, bool]:
        """Keep an election; returns it, and whether it is another one than the last of its set."""
        record = self._recorded(held, unix_ms)
        self.changes += 1
        before = self._last.get(record.broker_name)
        if before is not None and before.number > self._restored and _is_same(before, record):
            before.add_repeat(record)
            if before.times.bit_count() == 1:
                # A set without candidates may repeat it for days: twice as many are worth a write.
                self.unstored.add(record.broker_name)
            return before, False
        self.unstored.add(record.broker_name)
        self._held += 1
        record.number = self._held
        if len(self._records) == ELECTIONS_MAX:
            oldest = self._records[0]
            for by_set in (self._last, self._began):
                if by_set.get(oldest.broker_name) is oldest:
                    del by_set[oldest.broker_name]
        self._records.append(record)
        self._last[record.broker_name] = record
        if record.result is ElectionResult.NEW_MASTER:
            self._began[record.broker_name] = record
        return record, True

    def restore(self, stored: Iterable[ElectionRecord]) -> None:
        """Know also what is stored: elections of other controllers, and of earlier processes."""
        known = {(each.broker_name, each.unix_ms, each.number): each for each in (*self._records, *stored)}
        records = sorted(known.values(), key=lambda each: each.unix_ms)[-ELECTIONS_MAX:]
        if records == list(self._records):
            return
        self._records = deque(records, maxlen=ELECTIONS_MAX)
        self._last = {each.broker_name: each for each in self._records}
        # Clocks of controllers differ, epochs are in order.
        began = sorted(self._records, key=lambda each: each.master_epoch)
        self._began = {each.broker_name: each for each in began if each.result is ElectionResult.NEW_MASTER}
        self._restored = self._held = max((each.number for each in self._records), default=0)
        self.changes += 1

    def _recorded(self, held: HeldElection, unix_ms: int) -> ElectionRecord:
        before, election, cause = held.before, held.election, held.cause
        reports = tuple(_report_of(before, each, held) for each in election.candidates)
        reported_result = ElectionResult.KEPT if _is_without_effect(held, reports) else election.result
        is_stuck = reported_result is ElectionResult.NOBODY
        new_master = None if is_stuck else held.after.master
        best = _best_to_force(held, reports) if is_stuck else None
        return ElectionRecord(
            number=0,
            broker_name=before.broker_name,
            cluster=before.cluster,
            unix_ms=unix_ms,
            last_unix_ms=unix_ms,
            held_by=self.controller_address,
            cause=cause,
            result=election.result,
            reported_result=reported_result,
            reason=_reason(held, reports),
            reports=reports,
            old_master=before.master,
            new_master=new_master,
            master_epoch=held.after.master_epoch,
            sync_state_set_epoch=held.after.sync_state_set_epoch,
            is_unclean=election.is_unclean and election.result is ElectionResult.NEW_MASTER,
            bytes_at_stake=_stake(held, reports, best.broker_id if best else new_master),
            advice=_advice(reports) if is_stuck and before.is_elected else "",
            force=self._force(before, best) if best else "",
            phases=Phases(
                suspect_ms=_between(cause.last_contact_ms, cause.suspected_ms),
                judge_ms=_between(cause.suspected_ms, cause.judged_ms),
                fence_ms=_between(cause.judged_ms, cause.fenced_ms),
                commit_ms=held.commit_ms,
            ),
        )

    def _force(self, broker_set: BrokerSet, best: CandidateReport) -> str:
        name, broker_id = shlex.quote(broker_set.broker_name), best.broker_id
        needs = [f"once broker {broker_id} runs again"] if best.verdict in _ABSENT else []
        needs.append("unless it leads by then" if best.in_sync and needs else _WHILE_ALLOWED)
        # As a comment of the shell. No character is special to one that takes no comments there, as zsh: the words are
        # arguments too many then.
        command = f"rmq controller elect {name} {broker_id} --controller {self.controller_address}"
        return f"{command} # {', '.join(needs)}"


def _report_of(broker_set: BrokerSet, candidate: Candidate, held: HeldElection) -> CandidateReport:
    last = candidate.heartbeat or held.last.get(candidate.broker_id)
    reported = last if last is not None and last.max_offset != UNKNOWN else None
    return CandidateReport(
        broker_id=candidate.broker_id,
        address=broker_set.replicas[candidate.broker_id].address,
        in_sync=candidate.in_sync,
        verdict=candidate.verdict,
        epoch=reported.epoch if reported else None,
        max_offset=reported.max_offset if reported else None,
        priority=reported.priority if reported else None,
        lost_bytes=candidate.lost_bytes,
    )


def _best_to_force(held: HeldElection, reports: Sequence[CandidateReport]) -> CandidateReport | None:
    """Return the living broker with the longest log, where all that are in sync have failed, or lost messages.

    Where nobody lives, the one that had the longest log, before all others one in sync.
    """
    in_sync = [each for each in reports if each.in_sync]
    if not in_sync or any(each.verdict not in (Verdict.NOT_ALIVE, Verdict.LOG_SHRANK) for each in in_sync):
        return None
    if all(each.verdict is Verdict.NOT_ALIVE for each in reports):
        return max(reports, key=lambda each: (each.in_sync, each.epoch or 0, each.max_offset or 0))
    living = [each for each in reports if each.verdict in (Verdict.OUT_OF_SYNC, Verdict.LOG_SHRANK)]
    if any(each.lost_bytes for each in reports):
        return max(living, key=lambda each: _length(held, each), default=None)
    return max(living, key=lambda each: (each.epoch or 0, each.max_offset or 0), default=None)


def _length(held: HeldElection, report: CandidateReport) -> int:
    return held.before.length_of(report.epoch or 0, report.max_offset or 0)


def _stake(held: HeldElection, reports: Sequence[CandidateReport], broker_id: int | None) -> int | None:
    """Return how many bytes a broker lacks of what others are known to have, or to have had.

    None if nobody knows: logs of different epochs have parted somewhere, and their ends cannot be compared.
    """
    report = next((each for each in reports if each.broker_id == broker_id), None)
    if report is not None and any(each.lost_bytes for each in reports if each.in_sync or each is report):
        known = max(each.log_end for each in held.before.replicas.values())
        return max(known - _length(held, report), 0)
    if broker_id in held.before.sync_state_set:
        return 0
    mine = held.last.get(broker_id) if broker_id is not None else None
    in_sync = [heartbeat for i, heartbeat in held.last.items() if i in held.before.sync_state_set]
    longest = max(in_sync, key=lambda heartbeat: heartbeat.progress, default=None)
    if mine is None or longest is None or mine.epoch != longest.epoch:
        return None
    if UNKNOWN in (mine.epoch, mine.max_offset, longest.max_offset):
        return None
    return max(0, longest.max_offset - mine.max_offset)


def _reason(held: HeldElection, reports: tuple[CandidateReport, ...]) -> str:
    broker_set, election = held.before, held.election
    others = [
        f"broker {each.broker_id}{' is ' if each.verdict.value.startswith('not ') else ': '}{each.verdict.value}"
        for each in reports
        if each.verdict not in (Verdict.ELECTED, Verdict.KEPT)
    ]
    chosen = next((each.broker_id for each in reports if each.verdict in (Verdict.ELECTED, Verdict.KEPT)), None)
    if _is_without_effect(held, reports):
        what = f"broker {held.after.master} stays master"
    elif election.result is ElectionResult.NOBODY:
        in_sync = sorted(broker_set.sync_state_set)
        what = (
            f"no broker of the SyncStateSet {in_sync} can lead" if broker_set.is_elected else "no broker may lead yet"
        )
        if held.after.master is not None:
            what += f", and broker {held.after.master} stays recorded as master"
    elif election.result is ElectionResult.KEPT:
        what = f"broker {chosen} leads already"
    elif election.is_unclean and broker_set.is_elected and chosen in broker_set.sync_state_set:
        what = f"broker {chosen} was elected although its log is shorter than it was: no other has more"
    elif election.is_unclean and broker_set.is_elected:
        what = f"broker {chosen} was elected although it is not in the SyncStateSet"
    else:
        what = f"broker {chosen} was elected"
    return "; ".join([what, *others])


def _advice(reports: Sequence[CandidateReport]) -> str:
    """Return which brokers to start; blank while one in sync that is there may lead soon."""
    in_sync = [each for each in reports if each.in_sync]
    absent = [f"broker {each.broker_id} at {each.address}" for each in in_sync if each.verdict in _ABSENT]
    if not absent or any(each.verdict not in _ABSENT | {Verdict.LOG_SHRANK} for each in in_sync):
        return ""
    return f"start {' or '.join(absent)}: {'the first that is back' if absent[1:] else 'once it is back, it'} can lead"


def _is_without_effect(held: HeldElection, reports: Sequence[CandidateReport]) -> bool:
    """Return whether an election was requested where nobody but the present master could lead: it goes on."""
    if held.cause.trigger not in REQUESTED or held.election.result is not ElectionResult.NOBODY:
        return False
    return any(each.broker_id == held.after.master and each.verdict is not Verdict.NOT_ALIVE for each in reports)


def _is_same(one: ElectionRecord, other: ElectionRecord) -> bool:
    """Return whether two elections left all as it was and ended alike; an operator's choice counts."""

    def outcome(record: ElectionRecord) -> object:
        verdicts = tuple((each.broker_id, each.verdict) for each in record.reports)
        is_chosen = record.cause.trigger in (Trigger.OPERATOR, Trigger.SWITCHOVER)
        wanted = (record.cause.trigger, record.cause.broker_id) if is_chosen else None
        return record.result, wanted, record.master_epoch, verdicts

    return other.result is not ElectionResult.NEW_MASTER and outcome(one) == outcome(other)


def _between(earlier_ms: int | None, later_ms: int | None) -> int | None:
    return None if earlier_ms is None or later_ms is None else later_ms - earlier_ms
