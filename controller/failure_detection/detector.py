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
    Heard,
    LiveTable,
    Source,
)
from controller.failure_detection.hosts import NOWHERE, Hosts, Seat, Silence

#: Brokers beat each second; a beat that has not come for so long is overdue.
BEAT_OVERDUE_MS: Final = 2_000
#: No shorter heartbeat timeout is believed, and no shorter silence makes suspect.
SILENCE_MS_MIN: Final = 500
#: A broker whose connection closed has at least so long to come back over another one.
_RETURN_MS: Final = 1_000
#: How long a silent broker has for the answer to our question. One that stood still for 2 s, and was heard a second
#: before that, goes on before it is asked, and answers within some ms. A slave takes over only between two waits of a
#: second for its frozen master: who is told within the third second leads at its end, who is told later at that of the
#: fourth.
ANSWER_MS: Final = 300
#: How much later than in its time what came of a question is waited for; nobody told, so nothing was answered.
_REPORT_MS: Final = 1_000
#: How long after a standstill of ours nobody is judged: each broker beats within it.
BEAT_ROUND_MS: Final = 1_500
#: How long after a start, or a time without any sign of life, brokers may need to find this controller: they look for
#: controllers each 3 s, and send their first heartbeat within their interval after that.
_ARRIVAL_MS: Final = 3_000
#: How many brokers are asked at a time, and how many of them newly between two looks: thousands of questions at once
#: would hold up this process until their answers are too late.
QUESTIONS_MAX: Final = 400
NEW_QUESTIONS_MAX: Final = 64
#: How soon a broker is asked again that neither refused nor answered; doubled up to the longest.
_ASK_AGAIN_MS: Final = 50
_ASK_AGAIN_MS_MAX: Final = 400
#: How soon one is asked again that would be dead if not so many others were silent too.
_ASK_SUSPENDED_MS: Final = 2_000
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
_GONE_MAX: Final = 20_000


class Why(Enum):
    """Why a broker is suspect or dead; the values are labels of metrics."""

    CLOSED = "channel_closed"
    SILENT = "timeout"
    UNHEARD = "unheard"


class Outcome(Enum):
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
PROOFS: Final = frozenset({Outcome.REFUSED, Outcome.ANOTHER})
_WHAT_SPEAKS: Final = {
    Outcome.REFUSED: "its port refuses connections",
    Outcome.ANOTHER: "another broker answers at its port",
    Outcome.NO_ANSWER: "it does not answer",
}


class Probe(NamedTuple):
    """A broker is to be asked whether it lives; `Detection.probed` is told what came of it."""

    key: BrokerKey
    timeout_ms: int


class Dead(NamedTuple):
    """A broker is dead."""

    key: BrokerKey
    why: Why
    #: What the last question to it came to.
    outcome: Outcome
    last: Heard
    suspected_ms: int
    judged_ms: int
    #: So long a silence was waited for; None if it was not silence that made it suspect.
    timeout_ms: int | None = None

    @property
    def reason(self) -> str:
        """What speaks for it, for people."""
        began = {
            Why.CLOSED: "its connection closed",
            Why.SILENT: "its heartbeats stopped",
            Why.UNHEARD: "it was not heard since this controller runs",
        }[self.why]
        return f"{began} and {_WHAT_SPEAKS[self.outcome]}; last heard {self.judged_ms - self.last.heard_ms} ms before"


class HostsEvent(Enum):
    """What is to be told of hosts that fell silent together."""

    SILENT = "silent"
    BACK = "back"
    GIVEN_UP = "given_up"


class HostsNews(NamedTuple):
    """What happened to most hosts, how many were silent then, and for how long."""

    event: HostsEvent
    silence: Silence
    silent_ms: int


class Gone(NamedTuple):
    """A broker that was heard once and is dead."""

    judged_ms: int
    last: Heard
    outcome: Outcome
    #: The hosts from which something came in its name that may be somebody else's, since when, and when last.
    claims: Mapping[str, tuple[int, int]] = {}


@dataclass(slots=True)
class _Suspicion:
    why: Why
    since_ms: int
    #: Then it is dead, unless it is heard.
    deadline_ms: int
    ask_at_ms: int
    #: So long a silence is waited for in all, where silence is the reason.
    timeout_ms: int | None = None
    pause_ms: int = _ASK_AGAIN_MS
    outcome: Outcome | None = None
    #: What was heard of it last, if it was thought to be dead before.
    last: Heard | None = None

    def take(self, outcome: Outcome, now_ms: int) -> None:
        """Take what came of a question."""
        self.outcome = None if outcome is Outcome.NOT_ASKED else outcome
        is_suspended = outcome is Outcome.NO_ANSWER and now_ms > self.deadline_ms + _ASK_SUSPENDED_MS
        self.ask_at_ms = now_ms + (_ASK_SUSPENDED_MS if is_suspended else self.pause_ms)
        self.pause_ms = min(2 * self.pause_ms, _ASK_AGAIN_MS_MAX)

    def begin_again(self, from_ms: int, deadline_ms: int = 0) -> None:
        """Count nothing that was asked before: the broker has the time of a new suspect, or until a later deadline."""
        self.outcome = None
        self.ask_at_ms = from_ms
        self.deadline_ms = max(self.deadline_ms, from_ms + ANSWER_MS, deadline_ms)


class _Question(NamedTuple):
    """A broker is being asked; each has one question at a time."""

    #: What it is asked for: a broker that was heard meanwhile, and is suspect again, is another matter.
    suspicion: _Suspicion
    #: Then nobody will tell what came of it.
    until_ms: int


class Detection:
    """Suspicions about the brokers of a live table; it takes out of the table who is dead."""

    def __init__(self, live: LiveTable, started_ms: int) -> None:
        self._live = live
        self._suspicions: dict[BrokerKey, _Suspicion] = {}
        self._questions: dict[BrokerKey, _Question] = {}
        self._gone: dict[BrokerKey, Gone] = {}
        self._started_ms = started_ms
        self._judges_from_ms = started_ms
        self._timeout_ms_longest = HEARTBEAT_TIMEOUT_MS_DEFAULT
        self._new_questions = 0
        self.hosts = Hosts()
        #: Whether anybody was heard, and since when this controller hears most of its hosts.
        self._hears_any = False
        self._hears_since_ms = started_ms
        #: What is still to be told of silent hosts.
        self._news: list[HostsNews] = []
        #: Tells who leads a set: masters are asked before all others.
        self.is_master: Callable[[BrokerKey], bool] = lambda _key: False

    # What is heard

    def beat(self, key: BrokerKey, heard: Heard, address: str | None = None, seat: Seat = NOWHERE) -> None:
        """Take a heartbeat; `address` is where the store has the broker, None for one that is no member."""
        kept = self._live.beat(key, heard, seat.host)
        # Thousands come each second.
        if address is not None:
            self.hosts.heard(key, address, kept.due_ms, seat)
            if not self._hears_any:
                self._hear_first(heard.heard_ms)
            if kept.timeout_ms > self._timeout_ms_longest:
                # One broker must not hold up the judgement of all others.
                self._timeout_ms_longest = min(kept.timeout_ms, TIMEOUT_BELIEVED_MS_MAX)
        if self._suspicions or self._gone:
            self._trust(key)

    def seen(self, key: BrokerKey, now_ms: int, connection_id: int, address: str, seat: Seat = NOWHERE) -> None:
        """Take another request of a member that is stored at this address."""
        self._live.seen(key, now_ms, connection_id)
        self._hear_otherwise(key, now_ms, address, seat)

    def restarted(self, key: BrokerKey, now_ms: int, connection_id: int, address: str, seat: Seat = NOWHERE) -> None:
        """Take the request that a member starts with."""
        self._live.restarted(key, now_ms, connection_id)
        self._hear_otherwise(key, now_ms, address, seat)

    def _hear_otherwise(self, key: BrokerKey, now_ms: int, address: str, seat: Seat) -> None:
        self.hosts.heard(key, address, now_ms + PERIOD_MS_DEFAULT, seat)
        if not self._hears_any:
            self._hear_first(now_ms)
        self._trust(key)

    def _hear_first(self, now_ms: int) -> None:
        """Take the first sign of life; brokers have as long to be heard from then on if it comes late."""
        self._hears_any = True
        if now_ms > self._started_ms + _ARRIVAL_MS + BEAT_OVERDUE_MS:
            self._hears_since_ms = now_ms

    def _look_at_hosts(self, now_ms: int) -> Silence:
        """Notice that most hosts are silent, or no longer."""
        hosts, silence = self.hosts, self.hosts.look(now_ms)
        if hosts.silent_from_ms is None:
            if silence.is_most:
                hosts.silent_from_ms = now_ms
                self._news.append(HostsNews(HostsEvent.SILENT, silence, now_ms - hosts.unheard_since_ms))
        elif not silence.is_most:
            self._hosts_are_back(now_ms, silence)
        elif hosts.is_silent_for_good(now_ms):
            self._give_up_hosts(now_ms, silence)
        return silence

    def _hosts_are_back(self, now_ms: int, silence: Silence) -> None:
        """Know nobody to be dead for want of an answer: this controller was cut off.

        Who did not answer meanwhile has as long to be heard as after a start (docs/protocol/controller.md 5.3).
        """
        since_ms, self.hosts.silent_from_ms = self.hosts.unheard_since_ms, None
        self._gone = {
            key: gone for key, gone in self._gone.items() if gone.outcome in PROOFS or gone.judged_ms < since_ms
        }
        self._hears_since_ms = now_ms
        self._news.append(HostsNews(HostsEvent.BACK, silence, now_ms - since_ms))
        self.doubt_self(now_ms)
        for suspicion in self._suspicions.values():
            suspicion.begin_again(self._judges_from_ms, self.pause_ends_ms)

    def _give_up_hosts(self, now_ms: int, silence: Silence) -> None:
        """Judge whoever is asked once more and does not answer: hosts were silent for too long to be waited for."""
        hosts = self.hosts
        hosts.silent_from_ms = None
        hosts.drop_silent(now_ms)
        self._news.append(HostsNews(HostsEvent.GIVEN_UP, silence, now_ms - hosts.unheard_since_ms))
        for suspicion in self._suspicions.values():
            suspicion.begin_again(now_ms)

    def _trust(self, key: BrokerKey) -> None:
        self._suspicions.pop(key, None)
        self._gone.pop(key, None)

    # What is noticed

    def connection_lost(self, connection_id: int, now_ms: int) -> list[BrokerKey]:
        """Suspect the brokers that were heard over a connection last, and return them."""
        suspects = [key for key in self._live.over(connection_id) if key not in self._suspicions]
        for key in suspects:
            heard = self._live.get(key)
            assert heard is not None, "the table has who was heard over a connection"
            deadline_ms = max(heard.due_ms + LATE_MS, now_ms + _RETURN_MS)
            self._suspicions[key] = _Suspicion(Why.CLOSED, now_ms, deadline_ms, now_ms)
        return suspects

    def expect(self, key: BrokerKey, now_ms: int) -> None:
        """Ask a broker that is not heard, because much depends on it: a port that refuses tells that it is gone.

        Whatever else comes of it, one that was not heard yet has until `pause_ends_ms` to be. One that was found dead
        longer ago is judged anew: meanwhile it may only have lost this controller.
        """
        gone = self._gone.get(key)
        if gone is not None and now_ms - gone.judged_ms > _FRESH_MS and key not in self._suspicions:
            del self._gone[key]
            self._suspicions[key] = _Suspicion(Why.SILENT, now_ms, now_ms + ANSWER_MS, now_ms, last=gone.last)
        elif self._live.get(key) is None and key not in self._gone and key not in self._suspicions:
            deadline_ms = max(self.pause_ends_ms, now_ms)
            self._suspicions[key] = _Suspicion(Why.UNHEARD, now_ms, deadline_ms, now_ms)

    def claimed(self, key: BrokerKey, source: Source, now_ms: int) -> bool:
        """Take note that something comes in the name of a dead broker; True once that is to be believed.

        That is when it has come from one host for CLAIMED_MS: what became of the set is decided by then.
        """
        gone = self._gone.get(key)
        if gone is None:
            return False
        host = source.peer.rpartition(":")[0]
        going_on = {name: times for name, times in gone.claims.items() if now_ms - times[1] <= _CLAIM_PAUSE_MS}
        since_ms, _ = going_on.pop(host, (now_ms, now_ms))
        latest = dict(list(going_on.items())[1 - _CLAIMS_MAX :])
        self._gone[key] = gone._replace(claims=latest | {host: (since_ms, now_ms)})
        return now_ms - since_ms > CLAIMED_MS

    def ask_gone(self, key: BrokerKey, now_ms: int) -> list[Probe]:
        """Ask a broker that is dead for all that is known: it is back if it answers."""
        if key in self._suspicions:
            return []
        self._suspicions[key] = _Suspicion(Why.SILENT, now_ms, now_ms + ANSWER_MS, now_ms, last=self._gone[key].last)
        return self.ask([key], now_ms)

    def expect_host(self, key: BrokerKey, address: str, now_ms: int) -> None:
        """Wait until `pause_ends_ms` for the host of a member, so that it is known how many hosts there are."""
        if self._live.get(key) is None and key not in self._gone and now_ms < self.pause_ends_ms:
            self.hosts.expect(key, address, self.pause_ends_ms - 2 * LATE_MS)

    def resume(self, now_ms: int) -> None:
        """Take note that this process stood still until now: that it heard nobody meanwhile means nothing."""
        self.hosts.resume(now_ms)

    def doubt_self(self, now_ms: int) -> None:
        """Judge nobody for a round of heartbeats: this controller stood still, or was cut off.

        What came of questions until then says more of this controller than of the brokers; suspects are asked again.
        """
        self._judges_from_ms = now_ms + BEAT_ROUND_MS
        self._questions.clear()
        for suspicion in self._suspicions.values():
            suspicion.begin_again(self._judges_from_ms)

    def look(self, now_ms: int, suspect_timeout_ms: int) -> tuple[list[Probe], list[Dead]]:
        """Return whom to ask, and who is dead by now and not in the table any more."""
        self._new_questions = 0
        if now_ms < self._judges_from_ms:
            return [], []
        self._suspect_silent(now_ms, suspect_timeout_ms)
        due: list[BrokerKey] = []
        dead: list[Dead] = []
        is_suspended = self._is_suspended(now_ms)
        for key, suspicion in list(self._suspicions.items()):
            if self._is_being_asked(key, suspicion, now_ms):
                continue
            may_live = suspicion.outcome is Outcome.NO_ANSWER and is_suspended and self.hosts.waits_for(key)
            is_judged = suspicion.outcome is not None and not may_live
            if is_judged and now_ms >= suspicion.deadline_ms:
                dead += self._settled(key, suspicion, now_ms)
            elif now_ms >= suspicion.ask_at_ms:
                due.append(key)
        return self._ask(due, now_ms), dead

    def _is_suspended(self, now_ms: int) -> bool:
        """Tell whether a broker that does not answer may live, because most hosts are silent, or may be."""
        if not self._suspicions and self.hosts.silent_from_ms is None:
            return False
        return self.may_be_cut_off(now_ms)

    def ask(self, suspects: Iterable[BrokerKey], now_ms: int) -> list[Probe]:
        """Return whom of these to ask at once, without a look at all others."""
        if now_ms < self._judges_from_ms:
            return []
        return self._ask([key for key in suspects if key not in self._questions], now_ms)

    def _ask(self, due: list[BrokerKey], now_ms: int) -> list[Probe]:
        places = min(NEW_QUESTIONS_MAX - self._new_questions, QUESTIONS_MAX - len(self._questions))
        if places < len(due):
            due.sort(key=self.is_master, reverse=True)
            due = due[: max(places, 0)]
        self._new_questions += len(due)
        return [self._asked(key, self._suspicions[key], now_ms) for key in due]

    def _suspect_silent(self, now_ms: int, suspect_timeout_ms: int) -> None:
        for key in self._live.silent(now_ms, suspect_timeout_ms):
            heard = self._live.get(key)
            if heard is not None and key not in self._suspicions:
                timeout_ms = heard.silence_allowed_ms(suspect_timeout_ms) + ANSWER_MS
                self._suspicions[key] = _Suspicion(Why.SILENT, now_ms, now_ms + ANSWER_MS, now_ms, timeout_ms)

    def _asked(self, key: BrokerKey, suspicion: _Suspicion, now_ms: int) -> Probe:
        timeout_ms = ANSWER_MS
        if suspicion.outcome is not None:
            timeout_ms = max(min(suspicion.deadline_ms - now_ms, ANSWER_MS), _ASK_AGAIN_MS_MAX)
        self._questions[key] = _Question(suspicion, now_ms + timeout_ms + _REPORT_MS)
        return Probe(key, timeout_ms)

    def _is_being_asked(self, key: BrokerKey, suspicion: _Suspicion, now_ms: int) -> bool:
        """Tell whether what came of a question is still to be told; a question that it never is has no answer."""
        question = self._questions.get(key)
        if question is None or now_ms < question.until_ms:
            return question is not None
        del self._questions[key]
        if question.suspicion is suspicion:
            suspicion.take(Outcome.NO_ANSWER, now_ms)
        return False

    def probed(self, key: BrokerKey, outcome: Outcome, now_ms: int) -> list[Dead]:
        """Take what came of a question; returns the broker if it is dead now.

        Without an answer it is dead only at the next `look`: if all of this process stood still, that is known by then.
        """
        question = self._questions.pop(key, None)
        suspicion = self._suspicions.get(key)
        if suspicion is None or question is None or question.suspicion is not suspicion:
            # It was heard meanwhile, or this controller doubts itself.
            return []
        suspicion.take(outcome, now_ms)
        if outcome is Outcome.ANSWERED:
            self.hosts.answered(key, now_ms)
        if outcome in PROOFS or self._is_cleared(suspicion):
            return self._settled(key, suspicion, now_ms)
        return []

    @staticmethod
    def _is_cleared(suspicion: _Suspicion) -> bool:
        """Tell whether one answer is enough; who closed its connection may be about to leave and is asked again."""
        return suspicion.outcome is Outcome.ANSWERED and suspicion.why is not Why.CLOSED

    def _settled(self, key: BrokerKey, suspicion: _Suspicion, now_ms: int) -> list[Dead]:
        del self._suspicions[key]
        last = self._live.get(key)
        if last is None:
            last = Heard(self._started_ms, awaits_beat=True) if suspicion.why is Why.UNHEARD else suspicion.last
        if last is None:
            return []
        if suspicion.outcome is Outcome.ANSWERED:
            self._gone.pop(key, None)
            self._live.answered(key, now_ms)
            return []
        if key in self._gone:
            # It was only asked because something came in its name.
            return []
        if suspicion.why is Why.UNHEARD and suspicion.outcome not in PROOFS:
            # It is given up as everybody else who was never heard.
            return []
        return [self._dead(key, suspicion, last, now_ms)]

    def _dead(self, key: BrokerKey, suspicion: _Suspicion, last: Heard, now_ms: int) -> Dead:
        assert suspicion.outcome is not None, "nobody is judged who was not asked"
        self._live.forget(key)
        if suspicion.outcome in PROOFS:
            self.hosts.forget(key)
        else:
            self.hosts.give_up(key, now_ms)
        while len(self._gone) >= _GONE_MAX:
            del self._gone[next(iter(self._gone))]
        self._gone[key] = Gone(now_ms, last, suspicion.outcome)
        return Dead(key, suspicion.why, suspicion.outcome, last, suspicion.since_ms, now_ms, suspicion.timeout_ms)

    # What is known

    @property
    def suspects(self) -> frozenset[BrokerKey]:
        """Who may be dead."""
        return frozenset(self._suspicions)

    def trusted(self, broker_name: str, now_ms: int) -> dict[int, Heard]:
        """Return the living members of a set that nothing speaks against; none is too old after our standstill."""
        is_judging = now_ms >= self._judges_from_ms
        alive = self._live.alive(broker_name, now_ms) if is_judging else self._live.of_set(broker_name)
        return {i: heard for i, heard in alive.items() if BrokerKey(broker_name, i) not in self._suspicions}

    def electable(self, broker_name: str, now_ms: int) -> dict[int, Heard]:
        """Return of the trusted those that have said how far their log is; who has just started has not."""
        return {i: heard for i, heard in self.trusted(broker_name, now_ms).items() if not heard.awaits_beat}

    def gone(self, key: BrokerKey) -> Gone | None:
        """Return what was heard last of a broker that is dead."""
        return self._gone.get(key)

    def last_of_dead(self, key: BrokerKey) -> Heard | None:
        """Return the same of one that is dead, or was and is asked anew."""
        gone, suspicion = self._gone.get(key), self._suspicions.get(key)
        return gone.last if gone is not None else suspicion.last if suspicion is not None else None

    def is_unheard(self, key: BrokerKey) -> bool:
        """Tell whether a broker is only suspect because it was not heard since this controller runs."""
        suspicion = self._suspicions.get(key)
        return suspicion is not None and suspicion.why is Why.UNHEARD

    def have_arrived(self, broker_name: str, now_ms: int) -> bool:
        """Tell whether all living brokers of a set had the time to be heard since the start.

        They have the same interval as those members that were heard, as far as that is known.
        """
        members = self._live.of_set(broker_name).values()
        periods_ms = [heard.period_ms for heard in members if not heard.is_starting]
        longest_ms = max(periods_ms, default=PERIOD_MS_DEFAULT)
        return 0 not in periods_ms and now_ms >= self._hears_since_ms + _ARRIVAL_MS + longest_ms + LATE_MS

    def hears_nobody(self, now_ms: int) -> bool:
        """Tell whether no broker at all is heard, so that this controller knows nothing."""
        return not self._live.brokers or not self._look_at_hosts(now_ms).hears_any

    def may_be_cut_off(self, now_ms: int) -> bool:
        """Tell whether so few hosts are heard that brokers that were not heard may live."""
        silence = self._look_at_hosts(now_ms)
        return self.hosts.silent_from_ms is not None or silence.may_be_most

    def take_news(self) -> list[HostsNews]:
        """Return once what is to be told of silent hosts."""
        news, self._news = self._news, []
        return news

    def is_lost(self, key: BrokerKey, now_ms: int) -> bool:
        """Tell whether a broker is certainly not there: seen dying, or not heard for longer than any heartbeat takes.

        After the start of this process, and after it heard nobody at all, brokers have the longest heartbeat timeout to
        be heard (docs/protocol/controller.md 5.3).
        """
        if self._live.get(key) is not None:
            return False
        if key in self._gone:
            return True
        suspicion = self._suspicions.get(key)
        is_asked_again = suspicion is not None and suspicion.why is not Why.UNHEARD
        return now_ms >= self.pause_ends_ms and not is_asked_again and not self.may_be_cut_off(now_ms)

    @property
    def pause_ends_ms(self) -> int:
        """Until when a broker that was never heard may still live."""
        return max(self._hears_since_ms + self._timeout_ms_longest + _PAUSE_MARGIN_MS, self._judges_from_ms)

    def forget(self, key: BrokerKey) -> None:
        """Forget a broker that belongs to no set any more."""
        self._live.forget(key)
        self.hosts.forget(key)
        self._questions.pop(key, None)
        self._trust(key)
