"""Which brokers have failed, why, and which are probed before that is decided (docs/protocol/controller.md 3, 6.1).

A closed connection or missed heartbeats only make a broker suspect. It has failed once its port refuses connections, or
once its deadline has passed and it has not answered a probe either. A controller whose process paused has received no
heartbeats, so it suspends failure detection for one round of them. The edge probes; here is decided what follows.
"""

from collections.abc import Callable, Iterable
from typing import Final

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
from controller.failure_detection.suspicion import (
    ANSWER_MS,
    PROOFS,
    BrokerFailure,
    FailedBroker,
    FailedBrokers,
    HostsChange,
    HostsChangeKind,
    OpenProbes,
    Probe,
    ProbeOutcome,
    Suspicion,
    SuspicionReason,
)

#: Brokers send a heartbeat each second; one that has not come for so long is overdue.
HEARTBEAT_OVERDUE_MS: Final = 2_000
#: No shorter heartbeat timeout is believed, and no shorter silence makes suspect.
SILENCE_MS_MIN: Final = 500
#: A broker whose connection closed has at least so long to come back over another one.
_RETURN_MS: Final = 1_000
#: No broker counts as failed for so long after a process pause: each sends a heartbeat within it.
HEARTBEAT_ROUND_MS: Final = 1_500
#: How long after a start, or a time without any sign of life, brokers may need to find this controller: they look for
#: controllers each 3 s, and send their first heartbeat within their interval after that.
_ARRIVAL_MS: Final = 3_000
#: A new leader probes again what it found out longer ago as a follower, before it acts on that.
_FRESH_MS: Final = 1_000
#: Brokers that never sent anything are not judged until so long after the longest heartbeat timeout
#: (docs/protocol/controller.md 5.3).
_PAUSE_MARGIN_MS: Final = 3_000


class FailureDetector:
    """Suspicions about the brokers of a live table; it takes out of the table who has failed."""

    def __init__(
        self, live: HeartbeatTable, hosts: HostLiveness, is_master: Callable[[BrokerKey], bool], started_ms: int
    ) -> None:
        """`is_master` is true of a broker that leads its set: masters are probed before all others."""
        self._live = live
        self._suspicions: dict[BrokerKey, Suspicion] = {}
        self._probes = OpenProbes(is_master)
        self._failed = FailedBrokers()
        self._started_ms = self._judges_from_ms = started_ms
        self._timeout_ms_longest = HEARTBEAT_TIMEOUT_MS_DEFAULT
        self.hosts = hosts
        #: Whether any broker made contact, and since when most hosts are in contact.
        self._had_contact = False
        self._contact_since_ms = started_ms
        #: What is still to be reported of silent hosts.
        self._changes: list[HostsChange] = []

    # What arrives

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
        self._live.record_contact(key, now_ms, connection_id)
        self._record_contact(key, now_ms, address, broker_host)

    def restart(
        self, key: BrokerKey, now_ms: int, connection_id: int, address: str, broker_host: BrokerHost = HOST_UNKNOWN
    ) -> None:
        self._live.record_restart(key, now_ms, connection_id)
        self._record_contact(key, now_ms, address, broker_host)

    def _record_contact(self, key: BrokerKey, now_ms: int, address: str, broker_host: BrokerHost) -> None:
        self.hosts.record_contact(key, address, now_ms + PERIOD_MS_DEFAULT, broker_host)
        if not self._had_contact:
            self._record_first_contact(now_ms)
        self._trust(key)

    def _record_first_contact(self, now_ms: int) -> None:
        """Record the first sign of life; if it comes late, the time that brokers have to arrive begins with it."""
        self._had_contact = True
        if now_ms > self._started_ms + _ARRIVAL_MS + HEARTBEAT_OVERDUE_MS:
            self._contact_since_ms = now_ms

    def _look_at_hosts(self, now_ms: int) -> Silence:
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
        """Drop failures that rest on missing answers only: this controller was cut off.

        Brokers that did not answer meanwhile have as long to arrive as after a start (docs/protocol/controller.md 5.3).
        """
        since_ms, self.hosts.silent_from_ms = self.hosts.silent_since_ms, None
        self._failed.drop_unproven(since_ms)
        self._contact_since_ms = now_ms
        self._changes.append(HostsChange(HostsChangeKind.BACK, silence, now_ms - since_ms))
        self.suspend(now_ms)
        for suspicion in self._suspicions.values():
            suspicion.begin_again(self._judges_from_ms, self.pause_ends_ms)

    def _give_up_hosts(self, now_ms: int, silence: Silence) -> None:
        """Judge brokers that do not answer one more probe: hosts were silent for too long to be waited for."""
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
        suspects = [key for key in self._live.over(connection_id) if key not in self._suspicions]
        for key in suspects:
            heartbeat = self._live.get(key)
            assert heartbeat is not None, "the table has a row of each broker of a connection"
            deadline_ms = max(heartbeat.due_ms + LATE_MS, now_ms + _RETURN_MS)
            self._suspicions[key] = Suspicion(SuspicionReason.CLOSED, now_ms, deadline_ms, now_ms)
        return suspects

    def expect(self, key: BrokerKey, now_ms: int) -> None:
        """Suspect a silent broker, because much depends on it: a port that refuses proves that it failed.

        One that made no contact yet has until `pause_ends_ms` for it. One that was judged failed longer ago is judged
        anew: meanwhile it may only have lost this controller.
        """
        failed = self._failed.get(key)
        if failed is not None and now_ms - failed.judged_ms > _FRESH_MS and key not in self._suspicions:
            del self._failed[key]
            self._suspicions[key] = Suspicion(
                SuspicionReason.SILENT, now_ms, now_ms + ANSWER_MS, now_ms, last=failed.last
            )
        elif self._live.get(key) is None and key not in self._failed and key not in self._suspicions:
            deadline_ms = max(self.pause_ends_ms, now_ms)
            self._suspicions[key] = Suspicion(SuspicionReason.NO_CONTACT_YET, now_ms, deadline_ms, now_ms)

    def take_claim(self, key: BrokerKey, source: Source, now_ms: int) -> bool:
        """Record that something came in the name of a failed broker; return whether that is believed by now."""
        return self._failed.take_claim(key, source, now_ms)

    def probe_failed(self, key: BrokerKey, now_ms: int) -> list[Probe]:
        """Probe a broker that counts as failed: it is back if it answers."""
        if key in self._suspicions:
            return []
        self._suspicions[key] = Suspicion(
            SuspicionReason.SILENT, now_ms, now_ms + ANSWER_MS, now_ms, last=self._failed[key].last
        )
        return self.probes_for([key], now_ms)

    def expect_host(self, key: BrokerKey, address: str, now_ms: int) -> None:
        """Wait until `pause_ends_ms` for the host of a member, so that it is known how many hosts there are."""
        if self._live.get(key) is None and key not in self._failed and now_ms < self.pause_ends_ms:
            self.hosts.expect(key, address, self.pause_ends_ms - 2 * LATE_MS)

    def after_pause(self, now_ms: int) -> None:
        """Record that this process was paused until now: that nothing arrived meanwhile proves nothing."""
        self.hosts.after_pause(now_ms)

    def suspend(self, now_ms: int) -> None:
        """Judge nobody for a round of heartbeats: this controller was paused, or cut off.

        Results of probes until then show more of this controller than of the brokers; suspects are probed again.
        """
        self._judges_from_ms = now_ms + HEARTBEAT_ROUND_MS
        self._probes.clear()
        for suspicion in self._suspicions.values():
            suspicion.begin_again(self._judges_from_ms)

    def look(self, now_ms: int, suspect_timeout_ms: int) -> tuple[list[Probe], list[BrokerFailure]]:
        """Return the probes to make, and the brokers that have failed by now and left the table."""
        self._probes.begin_look()
        if now_ms < self._judges_from_ms:
            return [], []
        self._suspect_silent(now_ms, suspect_timeout_ms)
        due: list[BrokerKey] = []
        failures: list[BrokerFailure] = []
        is_suspended = self._is_suspended(now_ms)
        for key, suspicion in list(self._suspicions.items()):
            if self._probes.awaits_result(key, suspicion, now_ms):
                continue
            may_live = suspicion.outcome is ProbeOutcome.NO_ANSWER and is_suspended and self.hosts.waits_for(key)
            is_judged = suspicion.outcome is not None and not may_live
            if is_judged and now_ms >= suspicion.deadline_ms:
                failures += self._settled(key, suspicion, now_ms)
            elif now_ms >= suspicion.probe_at_ms:
                due.append(key)
        return self._probes.start(due, self._suspicions, now_ms), failures

    def _is_suspended(self, now_ms: int) -> bool:
        """Return whether a broker that does not answer may live, because most hosts are silent, or may be."""
        if not self._suspicions and self.hosts.silent_from_ms is None:
            return False
        return self.may_be_cut_off(now_ms)

    def probes_for(self, suspects: Iterable[BrokerKey], now_ms: int) -> list[Probe]:
        """Return the probes of these to make at once, without a look at all others."""
        if now_ms < self._judges_from_ms:
            return []
        return self._probes.start([key for key in suspects if not self._probes.is_open(key)], self._suspicions, now_ms)

    def _suspect_silent(self, now_ms: int, suspect_timeout_ms: int) -> None:
        for key in self._live.silent(now_ms, suspect_timeout_ms):
            heartbeat = self._live.get(key)
            if heartbeat is not None and key not in self._suspicions:
                timeout_ms = heartbeat.silence_allowed_ms(suspect_timeout_ms) + ANSWER_MS
                self._suspicions[key] = Suspicion(
                    SuspicionReason.SILENT, now_ms, now_ms + ANSWER_MS, now_ms, timeout_ms
                )

    def probed(self, key: BrokerKey, outcome: ProbeOutcome, now_ms: int) -> list[BrokerFailure]:
        """Take the result of a probe; returns who failed. Without an answer it fails at the next `look`."""
        suspicion = self._suspicions.get(key)
        if not self._probes.end(key, suspicion) or suspicion is None:
            return []
        suspicion.take(outcome, now_ms)
        if outcome is ProbeOutcome.ANSWERED:
            self.hosts.record_response(key, now_ms)
        # A broker that closed its connection may be about to stop: one answer does not clear it.
        is_cleared = outcome is ProbeOutcome.ANSWERED and suspicion.why is not SuspicionReason.CLOSED
        if outcome in PROOFS or is_cleared:
            return self._settled(key, suspicion, now_ms)
        return []

    def _settled(self, key: BrokerKey, suspicion: Suspicion, now_ms: int) -> list[BrokerFailure]:
        del self._suspicions[key]
        last = self._live.get(key)
        if last is None:
            is_new = suspicion.why is SuspicionReason.NO_CONTACT_YET
            last = LastHeartbeat(self._started_ms, awaits_heartbeat=True) if is_new else suspicion.last
        if last is None:
            return []
        if suspicion.outcome is ProbeOutcome.ANSWERED:
            self._failed.pop(key, None)
            self._live.record_response(key, now_ms)
            return []
        if key in self._failed:
            # It was only probed because something came in its name.
            return []
        if suspicion.why is SuspicionReason.NO_CONTACT_YET and suspicion.outcome not in PROOFS:
            # It is given up as all others that never made contact.
            return []
        return [self._fail(key, suspicion, last, now_ms)]

    def _fail(self, key: BrokerKey, suspicion: Suspicion, last: LastHeartbeat, now_ms: int) -> BrokerFailure:
        assert suspicion.outcome is not None, "a broker is judged only after a probe"
        self._live.remove(key)
        if suspicion.outcome in PROOFS:
            self.hosts.remove(key)
        else:
            self.hosts.give_up(key, now_ms)
        self._failed.add(key, FailedBroker(now_ms, last, suspicion.outcome))
        return BrokerFailure(
            key, suspicion.why, suspicion.outcome, last, suspicion.since_ms, now_ms, suspicion.timeout_ms
        )

    # What is known

    @property
    def suspects(self) -> frozenset[BrokerKey]:
        return frozenset(self._suspicions)

    def judges(self, now_ms: int) -> bool:
        """Return whether failures are judged: not for a round of heartbeats after this process was paused."""
        return now_ms >= self._judges_from_ms

    def trusted(self, broker_name: str, now_ms: int) -> dict[int, LastHeartbeat]:
        """Return the living members of a set that are not suspect; while detection is suspended, none is too old."""
        alive = self._live.alive(broker_name, now_ms) if self.judges(now_ms) else self._live.of_set(broker_name)
        return {i: heartbeat for i, heartbeat in alive.items() if BrokerKey(broker_name, i) not in self._suspicions}

    def electable(self, broker_name: str, now_ms: int) -> dict[int, LastHeartbeat]:
        """Return the trusted that have reported the end of their log; one that has just started has not."""
        return {
            i: heartbeat for i, heartbeat in self.trusted(broker_name, now_ms).items() if not heartbeat.awaits_heartbeat
        }

    def failed_broker(self, key: BrokerKey) -> FailedBroker | None:
        return self._failed.get(key)

    def last_of_failed(self, key: BrokerKey) -> LastHeartbeat | None:
        """Return the last heartbeat of one that has failed, or had and is probed anew."""
        failed, suspicion = self._failed.get(key), self._suspicions.get(key)
        return failed.last if failed is not None else suspicion.last if suspicion is not None else None

    def is_without_contact(self, key: BrokerKey) -> bool:
        """Return whether a broker is suspect only because it made no contact since this controller runs."""
        suspicion = self._suspicions.get(key)
        return suspicion is not None and suspicion.why is SuspicionReason.NO_CONTACT_YET

    def have_arrived(self, broker_name: str, now_ms: int) -> bool:
        """Return whether all living brokers of a set had time for a heartbeat, at the interval of those that did."""
        members = self._live.of_set(broker_name).values()
        periods_ms = [heartbeat.period_ms for heartbeat in members if not heartbeat.is_starting]
        longest_ms = max(periods_ms, default=PERIOD_MS_DEFAULT)
        return 0 not in periods_ms and now_ms >= self._contact_since_ms + _ARRIVAL_MS + longest_ms + LATE_MS

    def has_no_contact(self, now_ms: int) -> bool:
        """Return whether no broker is in contact at all, so that this controller knows nothing."""
        return not self._live.brokers or not self.hosts.has_any_contact(now_ms)

    def may_be_cut_off(self, now_ms: int) -> bool:
        """Return whether so few hosts are in contact that silent brokers may live."""
        silence = self._look_at_hosts(now_ms)
        return self.hosts.silent_from_ms is not None or silence.may_be_most

    def take_changes(self) -> list[HostsChange]:
        """Return once what is to be reported of silent hosts."""
        news, self._changes = self._changes, []
        return news

    def is_lost(self, key: BrokerKey, now_ms: int) -> bool:
        """Return whether a broker is certainly not there: it ended, or was silent for longer than any heartbeat takes.

        After the start of this process, and after a time without contact, brokers have the longest heartbeat timeout to
        make contact (docs/protocol/controller.md 5.3).
        """
        if self._live.get(key) is not None:
            return False
        if key in self._failed:
            return True
        suspicion = self._suspicions.get(key)
        is_probed_again = suspicion is not None and suspicion.why is not SuspicionReason.NO_CONTACT_YET
        return now_ms >= self.pause_ends_ms and not is_probed_again and not self.may_be_cut_off(now_ms)

    @property
    def pause_ends_ms(self) -> int:
        """Until when a broker that never made contact may still live."""
        return max(self._contact_since_ms + self._timeout_ms_longest + _PAUSE_MARGIN_MS, self._judges_from_ms)

    def remove(self, key: BrokerKey) -> None:
        self._live.remove(key)
        self.hosts.remove(key)
        self._probes.remove(key)
        self._trust(key)
