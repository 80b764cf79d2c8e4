"""Who is thought to be dead, why, and what has to be asked before it is believed (docs/protocol/controller.md 3, 6.1).

A closed connection or missed heartbeats only make a broker suspect. It is dead once its port refuses connections, or
once its time is over and it has not answered a question of ours either. A controller that stood still itself has heard
nobody, so it waits for a round of heartbeats before it judges. The edge asks; here is decided what follows.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from controller.failure_detection.heartbeats import (
    HEARTBEAT_TIMEOUT_MS_DEFAULT,
    LATE_MS,
    PERIOD_MS_DEFAULT,
    TIMEOUT_BELIEVED_MS_MAX,
    BrokerKey,
    HeartbeatTable,
    LastHeartbeat,
    Source,
)
from controller.failure_detection.hosts import HOST_UNKNOWN, BrokerHost, HostLiveness, Silence

#: Brokers beat each second; a beat that has not come for so long is overdue.
HEARTBEAT_OVERDUE_MS: Final = 2_000
#: No shorter heartbeat timeout is believed, and no shorter silence makes suspect.
SILENCE_MS_MIN: Final = 500
#: A broker whose connection closed has at least so long to come back over another one.
_RETURN_MS: Final = 1_000
#: How long a silent broker has for the answer to our probe. One that stood still for 2 s, and was heard a second
#: before that, goes on before it is asked, and answers within some ms. A slave takes over only between two waits of a
#: second for its frozen master: who is told within the third second leads at its end, who is told later at that of the
#: fourth.
ANSWER_MS: Final = 300
#: How much later than in its time what came of a probe is waited for; nobody told, so nothing was answered.
_REPORT_MS: Final = 1_000
#: How long after a standstill of ours nobody is judged: each broker beats within it.
HEARTBEAT_ROUND_MS: Final = 1_500
#: How long after a start, or a time without any sign of life, brokers may need to find this controller: they look for
#: controllers each 3 s, and send their first heartbeat within their interval after that.
_ARRIVAL_MS: Final = 3_000
#: How many brokers are asked at a time, and how many of them newly between two looks: thousands of questions at once
#: would hold up this process until their answers are too late.
PROBES_MAX: Final = 400
NEW_PROBES_MAX: Final = 64
#: How soon a broker is asked again that neither refused nor answered; doubled up to the longest.
_PROBE_AGAIN_MS: Final = 50
_PROBE_AGAIN_MS_MAX: Final = 400
#: How soon one is asked again that would be dead if not so many others were silent too.
_PROBE_SUSPENDED_MS: Final = 2_000
#: What a follower found out longer ago is asked again before it acts on it as the leader.
_FRESH_MS: Final = 1_000
#: Brokers that were never heard are not judged until so long after the longest heartbeat timeout
#: (docs/protocol/controller.md 5.3).
_PAUSE_MARGIN_MS: Final = 3_000
#: What comes in the name of a dead broker from one host is believed after so long without a longer pause: the broker
#: may have moved to another address of its machine. So many hosts are remembered, the latest.
CLAIMED_MS: Final = 10_000
_CLAIM_PAUSE_MS: Final = 6_000
_CLAIMS_MAX: Final = 4
#: How many brokers that have gone are remembered, the last ones.
_FAILED_MAX: Final = 20_000


class SuspicionReason(Enum):
    """Why a broker is suspect or dead; the values are labels of metrics."""

    CLOSED = "channel_closed"
    SILENT = "timeout"
    NEVER_HEARD_FROM = "unheard"


class ProbeOutcome(Enum):
    """What came of a question to a broker."""

    ANSWERED = "answered"
    #: Nobody listens at its port: its process is gone.
    REFUSED = "refused"
    NO_ANSWER = "no_answer"
    #: Another broker answers at its port.
    ANOTHER = "another_broker"
    #: This process could not ask, for want of files or memory: nothing follows for the broker.
    NOT_ASKED = "not_asked"


#: What is the end of a broker at once; nothing that a cut network could bring about.
PROOFS: Final = frozenset({ProbeOutcome.REFUSED, ProbeOutcome.ANOTHER})
_WHAT_SPEAKS: Final = {
    ProbeOutcome.REFUSED: "its port refuses connections",
    ProbeOutcome.ANOTHER: "another broker answers at its port",
    ProbeOutcome.NO_ANSWER: "it does not answer",
}


class Probe(NamedTuple):
    """A broker is to be asked whether it lives; `FailureDetector.probed` is told what came of it."""

    key: BrokerKey
    timeout_ms: int


class BrokerFailure(NamedTuple):
    """A broker is dead."""

    key: BrokerKey
    why: SuspicionReason
    #: What the last question to it came to.
    outcome: ProbeOutcome
    last: LastHeartbeat
    suspected_ms: int
    judged_ms: int
    #: So long a silence was waited for; None if it was not silence that made it suspect.
    timeout_ms: int | None = None

    @property
    def reason(self) -> str:
        """What speaks for it, for people."""
        began = {
            SuspicionReason.CLOSED: "its connection closed",
            SuspicionReason.SILENT: "its heartbeats stopped",
            SuspicionReason.NEVER_HEARD_FROM: "it was not heard since this controller runs",
        }[self.why]
        silent_ms = self.judged_ms - self.last.last_contact_ms
        return f"{began} and {_WHAT_SPEAKS[self.outcome]}; last heard {silent_ms} ms before"


class HostsChangeKind(Enum):
    """What is to be told of hosts that fell silent together."""

    SILENT = "silent"
    BACK = "back"
    GIVEN_UP = "given_up"


class HostsChange(NamedTuple):
    """What happened to most hosts, how many were silent then, and for how long."""

    event: HostsChangeKind
    silence: Silence
    silent_ms: int


class FailedBroker(NamedTuple):
    """A broker that was heard once and is dead."""

    judged_ms: int
    last: LastHeartbeat
    outcome: ProbeOutcome
    #: The hosts from which something came in its name that may be somebody else's, since when, and when last.
    claims: Mapping[str, tuple[int, int]] = {}


@dataclass(slots=True)
class _Suspicion:
    why: SuspicionReason
    since_ms: int
    #: Then it is dead, unless it is heard.
    deadline_ms: int
    probe_at_ms: int
    #: So long a silence is waited for in all, where silence is the reason.
    timeout_ms: int | None = None
    pause_ms: int = _PROBE_AGAIN_MS
    outcome: ProbeOutcome | None = None
    #: What was heard of it last, if it was thought to be dead before.
    last: LastHeartbeat | None = None

    def take(self, outcome: ProbeOutcome, now_ms: int) -> None:
        """Take what came of a probe."""
        self.outcome = None if outcome is ProbeOutcome.NOT_ASKED else outcome
        is_suspended = outcome is ProbeOutcome.NO_ANSWER and now_ms > self.deadline_ms + _PROBE_SUSPENDED_MS
        self.probe_at_ms = now_ms + (_PROBE_SUSPENDED_MS if is_suspended else self.pause_ms)
        self.pause_ms = min(2 * self.pause_ms, _PROBE_AGAIN_MS_MAX)

    def begin_again(self, from_ms: int, deadline_ms: int = 0) -> None:
        """Count nothing that was asked before: the broker has the time of a new suspect, or until a later deadline."""
        self.outcome = None
        self.probe_at_ms = from_ms
        self.deadline_ms = max(self.deadline_ms, from_ms + ANSWER_MS, deadline_ms)


class _OpenProbe(NamedTuple):
    """A broker is being asked; each has one question at a time."""

    #: What it is asked for: a broker that was heard meanwhile, and is suspect again, is another matter.
    suspicion: _Suspicion
    #: Then nobody will tell what came of it.
    until_ms: int


class FailureDetector:
    """Suspicions about the brokers of a live table; it takes out of the table who is dead."""

    def __init__(
        self, live: HeartbeatTable, hosts: HostLiveness, is_master: Callable[[BrokerKey], bool], started_ms: int
    ) -> None:
        """Take what tells whether a broker leads its set: masters are probed before all others."""
        self._live = live
        self._suspicions: dict[BrokerKey, _Suspicion] = {}
        self._open_probes: dict[BrokerKey, _OpenProbe] = {}
        self._failed: dict[BrokerKey, FailedBroker] = {}
        self._started_ms = started_ms
        self._judges_from_ms = started_ms
        self._timeout_ms_longest = HEARTBEAT_TIMEOUT_MS_DEFAULT
        self._new_probes = 0
        self.hosts = hosts
        self._is_master = is_master
        #: Whether anybody was heard, and since when this controller hears most of its hosts.
        self._had_contact = False
        self._contact_since_ms = started_ms
        #: What is still to be told of silent hosts.
        self._changes: list[HostsChange] = []

    # What is heard

    def heartbeat(
        self,
        key: BrokerKey,
        heartbeat: LastHeartbeat,
        address: str | None = None,
        broker_host: BrokerHost = HOST_UNKNOWN,
    ) -> None:
        """Take a heartbeat; `address` is where the store has the broker, None for one that is no member."""
        row = self._live.record_heartbeat(key, heartbeat, broker_host.host)
        # Thousands come each second.
        if address is not None:
            self.hosts.record_contact(key, address, row.due_ms, broker_host)
            if not self._had_contact:
                self._record_first_contact(heartbeat.last_contact_ms)
            if row.timeout_ms > self._timeout_ms_longest:
                # One broker must not hold up the judgement of all others.
                self._timeout_ms_longest = min(row.timeout_ms, TIMEOUT_BELIEVED_MS_MAX)
        if self._suspicions or self._failed:
            self._trust(key)

    def contact(
        self, key: BrokerKey, now_ms: int, connection_id: int, address: str, broker_host: BrokerHost = HOST_UNKNOWN
    ) -> None:
        """Take another request of a member that is stored at this address."""
        self._live.record_contact(key, now_ms, connection_id)
        self._record_contact(key, now_ms, address, broker_host)

    def restart(
        self, key: BrokerKey, now_ms: int, connection_id: int, address: str, broker_host: BrokerHost = HOST_UNKNOWN
    ) -> None:
        """Take the request that a member starts with."""
        self._live.record_restart(key, now_ms, connection_id)
        self._record_contact(key, now_ms, address, broker_host)

    def _record_contact(self, key: BrokerKey, now_ms: int, address: str, broker_host: BrokerHost) -> None:
        self.hosts.record_contact(key, address, now_ms + PERIOD_MS_DEFAULT, broker_host)
        if not self._had_contact:
            self._record_first_contact(now_ms)
        self._trust(key)

    def _record_first_contact(self, now_ms: int) -> None:
        """Take the first sign of life; brokers have as long to be heard from then on if it comes late."""
        self._had_contact = True
        if now_ms > self._started_ms + _ARRIVAL_MS + HEARTBEAT_OVERDUE_MS:
            self._contact_since_ms = now_ms

    def _look_at_hosts(self, now_ms: int) -> Silence:
        """Notice that most hosts are silent, or no longer."""
        hosts, silence = self.hosts, self.hosts.look(now_ms)
        if hosts.silent_from_ms is None:
            if silence.is_most:
                hosts.silent_from_ms = now_ms
                self._changes.append(HostsChange(HostsChangeKind.SILENT, silence, now_ms - hosts.silent_since_ms))
        elif not silence.is_most:
            self._hosts_returned(now_ms, silence)
        elif hosts.is_silent_for_good(now_ms):
            self._give_up_hosts(now_ms, silence)
        return silence

    def _hosts_returned(self, now_ms: int, silence: Silence) -> None:
        """Know nobody to be dead for want of an answer: this controller was cut off.

        Who did not answer meanwhile has as long to be heard as after a start (docs/protocol/controller.md 5.3).
        """
        since_ms, self.hosts.silent_from_ms = self.hosts.silent_since_ms, None
        self._failed = {
            key: failed
            for key, failed in self._failed.items()
            if failed.outcome in PROOFS or failed.judged_ms < since_ms
        }
        self._contact_since_ms = now_ms
        self._changes.append(HostsChange(HostsChangeKind.BACK, silence, now_ms - since_ms))
        self.suspend(now_ms)
        for suspicion in self._suspicions.values():
            suspicion.begin_again(self._judges_from_ms, self.pause_ends_ms)

    def _give_up_hosts(self, now_ms: int, silence: Silence) -> None:
        """Judge whoever is asked once more and does not answer: hosts were silent for too long to be waited for."""
        hosts = self.hosts
        hosts.silent_from_ms = None
        hosts.drop_silent(now_ms)
        self._changes.append(HostsChange(HostsChangeKind.GIVEN_UP, silence, now_ms - hosts.silent_since_ms))
        for suspicion in self._suspicions.values():
            suspicion.begin_again(now_ms)

    def _trust(self, key: BrokerKey) -> None:
        self._suspicions.pop(key, None)
        self._failed.pop(key, None)

    # What is noticed

    def connection_lost(self, connection_id: int, now_ms: int) -> list[BrokerKey]:
        """Suspect the brokers that were heard over a connection last, and return them."""
        suspects = [key for key in self._live.over(connection_id) if key not in self._suspicions]
        for key in suspects:
            heartbeat = self._live.get(key)
            assert heartbeat is not None, "the table has who was heard over a connection"
            deadline_ms = max(heartbeat.due_ms + LATE_MS, now_ms + _RETURN_MS)
            self._suspicions[key] = _Suspicion(SuspicionReason.CLOSED, now_ms, deadline_ms, now_ms)
        return suspects

    def expect(self, key: BrokerKey, now_ms: int) -> None:
        """Ask a broker that is not heard, because much depends on it: a port that refuses tells that it is gone.

        Whatever else comes of it, one that was not heard yet has until `pause_ends_ms` to be. One that was found dead
        longer ago is judged anew: meanwhile it may only have lost this controller.
        """
        failed = self._failed.get(key)
        if failed is not None and now_ms - failed.judged_ms > _FRESH_MS and key not in self._suspicions:
            del self._failed[key]
            self._suspicions[key] = _Suspicion(
                SuspicionReason.SILENT, now_ms, now_ms + ANSWER_MS, now_ms, last=failed.last
            )
        elif self._live.get(key) is None and key not in self._failed and key not in self._suspicions:
            deadline_ms = max(self.pause_ends_ms, now_ms)
            self._suspicions[key] = _Suspicion(SuspicionReason.NEVER_HEARD_FROM, now_ms, deadline_ms, now_ms)

    def take_claim(self, key: BrokerKey, source: Source, now_ms: int) -> bool:
        """Take note that something comes in the name of a dead broker; True once that is to be believed.

        That is when it has come from one host for CLAIMED_MS: what became of the set is decided by then.
        """
        failed = self._failed.get(key)
        if failed is None:
            return False
        host = source.peer.rpartition(":")[0]
        going_on = {name: times for name, times in failed.claims.items() if now_ms - times[1] <= _CLAIM_PAUSE_MS}
        since_ms, _ = going_on.pop(host, (now_ms, now_ms))
        latest = dict(list(going_on.items())[1 - _CLAIMS_MAX :])
        self._failed[key] = failed._replace(claims=latest | {host: (since_ms, now_ms)})
        return now_ms - since_ms > CLAIMED_MS

    def probe_failed(self, key: BrokerKey, now_ms: int) -> list[Probe]:
        """Ask a broker that is dead for all that is known: it is back if it answers."""
        if key in self._suspicions:
            return []
        self._suspicions[key] = _Suspicion(
            SuspicionReason.SILENT, now_ms, now_ms + ANSWER_MS, now_ms, last=self._failed[key].last
        )
        return self.probes_for([key], now_ms)

    def expect_host(self, key: BrokerKey, address: str, now_ms: int) -> None:
        """Wait until `pause_ends_ms` for the host of a member, so that it is known how many hosts there are."""
        if self._live.get(key) is None and key not in self._failed and now_ms < self.pause_ends_ms:
            self.hosts.expect(key, address, self.pause_ends_ms - 2 * LATE_MS)

    def after_pause(self, now_ms: int) -> None:
        """Take note that this process stood still until now: that it heard nobody meanwhile means nothing."""
        self.hosts.after_pause(now_ms)

    def suspend(self, now_ms: int) -> None:
        """Judge nobody for a round of heartbeats: this controller stood still, or was cut off.

        What came of questions until then says more of this controller than of the brokers; suspects are asked again.
        """
        self._judges_from_ms = now_ms + HEARTBEAT_ROUND_MS
        self._open_probes.clear()
        for suspicion in self._suspicions.values():
            suspicion.begin_again(self._judges_from_ms)

    def look(self, now_ms: int, suspect_timeout_ms: int) -> tuple[list[Probe], list[BrokerFailure]]:
        """Return whom to ask, and who is dead by now and not in the table any more."""
        self._new_probes = 0
        if now_ms < self._judges_from_ms:
            return [], []
        self._suspect_silent(now_ms, suspect_timeout_ms)
        due: list[BrokerKey] = []
        failures: list[BrokerFailure] = []
        is_suspended = self._is_suspended(now_ms)
        for key, suspicion in list(self._suspicions.items()):
            if self._is_being_probed(key, suspicion, now_ms):
                continue
            may_live = suspicion.outcome is ProbeOutcome.NO_ANSWER and is_suspended and self.hosts.waits_for(key)
            is_judged = suspicion.outcome is not None and not may_live
            if is_judged and now_ms >= suspicion.deadline_ms:
                failures += self._settled(key, suspicion, now_ms)
            elif now_ms >= suspicion.probe_at_ms:
                due.append(key)
        return self._probe_due(due, now_ms), failures

    def _is_suspended(self, now_ms: int) -> bool:
        """Tell whether a broker that does not answer may live, because most hosts are silent, or may be."""
        if not self._suspicions and self.hosts.silent_from_ms is None:
            return False
        return self.may_be_cut_off(now_ms)

    def probes_for(self, suspects: Iterable[BrokerKey], now_ms: int) -> list[Probe]:
        """Return whom of these to ask at once, without a look at all others."""
        if now_ms < self._judges_from_ms:
            return []
        return self._probe_due([key for key in suspects if key not in self._open_probes], now_ms)

    def _probe_due(self, due: list[BrokerKey], now_ms: int) -> list[Probe]:
        places = min(NEW_PROBES_MAX - self._new_probes, PROBES_MAX - len(self._open_probes))
        if places < len(due):
            due.sort(key=self._is_master, reverse=True)
            due = due[: max(places, 0)]
        self._new_probes += len(due)
        return [self._probe(key, self._suspicions[key], now_ms) for key in due]

    def _suspect_silent(self, now_ms: int, suspect_timeout_ms: int) -> None:
        for key in self._live.silent(now_ms, suspect_timeout_ms):
            heartbeat = self._live.get(key)
            if heartbeat is not None and key not in self._suspicions:
                timeout_ms = heartbeat.silence_allowed_ms(suspect_timeout_ms) + ANSWER_MS
                self._suspicions[key] = _Suspicion(
                    SuspicionReason.SILENT, now_ms, now_ms + ANSWER_MS, now_ms, timeout_ms
                )

    def _probe(self, key: BrokerKey, suspicion: _Suspicion, now_ms: int) -> Probe:
        timeout_ms = ANSWER_MS
        if suspicion.outcome is not None:
            timeout_ms = max(min(suspicion.deadline_ms - now_ms, ANSWER_MS), _PROBE_AGAIN_MS_MAX)
        self._open_probes[key] = _OpenProbe(suspicion, now_ms + timeout_ms + _REPORT_MS)
        return Probe(key, timeout_ms)

    def _is_being_probed(self, key: BrokerKey, suspicion: _Suspicion, now_ms: int) -> bool:
        """Tell whether what came of a probe is still to be told; a question that it never is has no answer."""
        open_probe = self._open_probes.get(key)
        if open_probe is None or now_ms < open_probe.until_ms:
            return open_probe is not None
        del self._open_probes[key]
        if open_probe.suspicion is suspicion:
            suspicion.take(ProbeOutcome.NO_ANSWER, now_ms)
        return False

    def probed(self, key: BrokerKey, outcome: ProbeOutcome, now_ms: int) -> list[BrokerFailure]:
        """Take what came of a question; returns the broker if it is dead now.

        Without an answer it is dead only at the next `look`: if all of this process stood still, that is known by then.
        """
        open_probe = self._open_probes.pop(key, None)
        suspicion = self._suspicions.get(key)
        if suspicion is None or open_probe is None or open_probe.suspicion is not suspicion:
            # It was heard meanwhile, or this controller doubts itself.
            return []
        suspicion.take(outcome, now_ms)
        if outcome is ProbeOutcome.ANSWERED:
            self.hosts.record_response(key, now_ms)
        if outcome in PROOFS or self._is_cleared(suspicion):
            return self._settled(key, suspicion, now_ms)
        return []

    @staticmethod
    def _is_cleared(suspicion: _Suspicion) -> bool:
        """Tell whether one answer is enough; who closed its connection may be about to leave and is asked again."""
        return suspicion.outcome is ProbeOutcome.ANSWERED and suspicion.why is not SuspicionReason.CLOSED

    def _settled(self, key: BrokerKey, suspicion: _Suspicion, now_ms: int) -> list[BrokerFailure]:
        del self._suspicions[key]
        last = self._live.get(key)
        if last is None:
            last = (
                LastHeartbeat(self._started_ms, awaits_heartbeat=True)
                if suspicion.why is SuspicionReason.NEVER_HEARD_FROM
                else suspicion.last
            )
        if last is None:
            return []
        if suspicion.outcome is ProbeOutcome.ANSWERED:
            self._failed.pop(key, None)
            self._live.record_response(key, now_ms)
            return []
        if key in self._failed:
            # It was only asked because something came in its name.
            return []
        if suspicion.why is SuspicionReason.NEVER_HEARD_FROM and suspicion.outcome not in PROOFS:
            # It is given up as everybody else who was never heard.
            return []
        return [self._fail(key, suspicion, last, now_ms)]

    def _fail(self, key: BrokerKey, suspicion: _Suspicion, last: LastHeartbeat, now_ms: int) -> BrokerFailure:
        assert suspicion.outcome is not None, "nobody is judged who was not asked"
        self._live.remove(key)
        if suspicion.outcome in PROOFS:
            self.hosts.remove(key)
        else:
            self.hosts.give_up(key, now_ms)
        while len(self._failed) >= _FAILED_MAX:
            del self._failed[next(iter(self._failed))]
        self._failed[key] = FailedBroker(now_ms, last, suspicion.outcome)
        return BrokerFailure(
            key, suspicion.why, suspicion.outcome, last, suspicion.since_ms, now_ms, suspicion.timeout_ms
        )

    # What is known

    @property
    def suspects(self) -> frozenset[BrokerKey]:
        """Who may be dead."""
        return frozenset(self._suspicions)

    def trusted(self, broker_name: str, now_ms: int) -> dict[int, LastHeartbeat]:
        """Return the living members of a set that nothing speaks against; none is too old after our standstill."""
        is_judging = now_ms >= self._judges_from_ms
        alive = self._live.alive(broker_name, now_ms) if is_judging else self._live.of_set(broker_name)
        return {i: heartbeat for i, heartbeat in alive.items() if BrokerKey(broker_name, i) not in self._suspicions}

    def electable(self, broker_name: str, now_ms: int) -> dict[int, LastHeartbeat]:
        """Return of the trusted those that have said how far their log is; who has just started has not."""
        return {
            i: heartbeat for i, heartbeat in self.trusted(broker_name, now_ms).items() if not heartbeat.awaits_heartbeat
        }

    def failed_broker(self, key: BrokerKey) -> FailedBroker | None:
        """Return what was heard last of a broker that is dead."""
        return self._failed.get(key)

    def last_of_failed(self, key: BrokerKey) -> LastHeartbeat | None:
        """Return the same of one that is dead, or was and is asked anew."""
        failed, suspicion = self._failed.get(key), self._suspicions.get(key)
        return failed.last if failed is not None else suspicion.last if suspicion is not None else None

    def is_never_heard_from(self, key: BrokerKey) -> bool:
        """Tell whether a broker is only suspect because it was not heard since this controller runs."""
        suspicion = self._suspicions.get(key)
        return suspicion is not None and suspicion.why is SuspicionReason.NEVER_HEARD_FROM

    def have_arrived(self, broker_name: str, now_ms: int) -> bool:
        """Tell whether all living brokers of a set had the time to be heard since the start.

        They have the same interval as those members that were heard, as far as that is known.
        """
        members = self._live.of_set(broker_name).values()
        periods_ms = [heartbeat.period_ms for heartbeat in members if not heartbeat.is_starting]
        longest_ms = max(periods_ms, default=PERIOD_MS_DEFAULT)
        return 0 not in periods_ms and now_ms >= self._contact_since_ms + _ARRIVAL_MS + longest_ms + LATE_MS

    def has_no_contact(self, now_ms: int) -> bool:
        """Tell whether no broker at all is heard, so that this controller knows nothing."""
        return not self._live.brokers or not self._look_at_hosts(now_ms).has_any_contact

    def may_be_cut_off(self, now_ms: int) -> bool:
        """Tell whether so few hosts are heard that brokers that were not heard may live."""
        silence = self._look_at_hosts(now_ms)
        return self.hosts.silent_from_ms is not None or silence.may_be_most

    def take_changes(self) -> list[HostsChange]:
        """Return once what is to be told of silent hosts."""
        news, self._changes = self._changes, []
        return news

    def is_lost(self, key: BrokerKey, now_ms: int) -> bool:
        """Tell whether a broker is certainly not there: seen dying, or not heard for longer than any heartbeat takes.

        After the start of this process, and after it heard nobody at all, brokers have the longest heartbeat timeout to
        be heard (docs/protocol/controller.md 5.3).
        """
        if self._live.get(key) is not None:
            return False
        if key in self._failed:
            return True
        suspicion = self._suspicions.get(key)
        is_asked_again = suspicion is not None and suspicion.why is not SuspicionReason.NEVER_HEARD_FROM
        return now_ms >= self.pause_ends_ms and not is_asked_again and not self.may_be_cut_off(now_ms)

    @property
    def pause_ends_ms(self) -> int:
        """Until when a broker that was never heard may still live."""
        return max(self._contact_since_ms + self._timeout_ms_longest + _PAUSE_MARGIN_MS, self._judges_from_ms)

    def remove(self, key: BrokerKey) -> None:
        """Forget a broker that belongs to no set any more."""
        self._live.remove(key)
        self.hosts.remove(key)
        self._open_probes.pop(key, None)
        self._trust(key)
