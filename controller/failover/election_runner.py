"""Holds elections: gives the rule what is known of brokers, stores and explains the result, and notifies brokers.

Answers to `ReplicasInfoManager.electMaster` and to what `ControllerManager` does after it.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from controller.decisions.cluster_view import ClusterView
from controller.decisions.election import (
    NEVER_MS,
    Election,
    ElectionRequest,
    ElectionResult,
    Verdict,
    decide_election,
    elect,
    is_shortened,
)
from controller.failover.election_log import MAY_BE_UNCLEAN, REQUESTED, Cause, ElectionLog, ElectionRecord, HeldElection
from controller.failover.events import NotifyRoleChanged, Recipient, RoleNotificationResent, election_held
from controller.failover.fences import CleanedMaster
from controller.failover.set_writer import ClusterState, SetWriter, present
from controller.failure_detection.detector import HEARTBEAT_OVERDUE_MS
from controller.failure_detection.heartbeats import BrokerKey, HeartbeatTable, LastHeartbeat
from controller.failure_detection.log_ends import NO_LOG_ENDS, LogEndQuery, LogEnds
from controller.failure_detection.suspicion import FailedBroker
from controller.refusals import MasterNotAvailable, NobodyElectable
from controller.sets.broker_set import BrokerSet
from controller.sets.stored_set import SetDecision, StoredSet
from remoting.clock import Clock
from store.store import COMMIT_S, Changed

#: How soon a master is queried again: operators may change its properties while it runs.
QUERY_AGAIN_MS: Final = 600_000
#: The same of one that does not answer.
QUERY_AGAIN_UNANSWERED_MS: Final = 60_000
#: How many masters are queried at a time: each answers with all of its properties, 30 KB.
QUERIES_MAX: Final = 10
#: In smaller sets the one that is left has whatever was confirmed by more than the master.
_REPLICAS_MIN: Final = 3


class _Queried(NamedTuple):
    master_epoch: int
    again_ms: int


class Confirmations:
    """What masters have answered, by broker name; kept in memory only."""

    def __init__(
        self,
        live: HeartbeatTable,
        clock: Clock,
        start: Callable[..., object],
        query_master: Callable[[str], Awaitable[int | None]],
    ) -> None:
        self._live, self._clock, self._start, self._query_master = live, clock, start, query_master
        self._confirmed_on: dict[str, int] = {}
        self._queried: dict[str, _Queried] = {}
        self._under_way = 0

    def query_if_due(self, broker_set: BrokerSet) -> None:
        """Query the master of a set, if it is time to; to be called now and then for each set."""
        name, master, now_ms = broker_set.broker_name, broker_set.master, self._clock.now_ms()
        if len(broker_set.replicas) < _REPLICAS_MIN or master is None or master not in self._live.of_set(name):
            return
        queried = self._queried.get(name)
        if queried is not None and queried.master_epoch == broker_set.master_epoch and now_ms < queried.again_ms:
            return
        if self._under_way < QUERIES_MAX:
            self._under_way += 1
            self._queried[name] = _Queried(broker_set.master_epoch, now_ms + QUERY_AGAIN_UNANSWERED_MS)
            self._start(self._query(name, broker_set.master_epoch, broker_set.replicas[master].address))

    async def _query(self, name: str, master_epoch: int, address: str) -> None:
        try:
            confirmed_on = await self._query_master(address)
        finally:
            self._under_way -= 1
        if confirmed_on is not None and name in self._queried:
            self._confirmed_on[name] = confirmed_on
            self._queried[name] = _Queried(master_epoch, self._clock.now_ms() + QUERY_AGAIN_MS)

    def applied_to(self, broker_name: str, answered: LogEnds) -> LogEnds:
        """Return what was answered, with what the master has confirmed_on: it is the one that has confirmed.

        Where the others answer differently, the smallest number above 1 counts, as among them.
        """
        confirmed_on = [
            each for each in (answered.confirmed_on, self._confirmed_on.get(broker_name)) if each is not None
        ]
        if not confirmed_on:
            return answered
        return replace(answered, confirmed_on=min((each for each in confirmed_on if each > 1), default=1))

    def remove(self, broker_name: str) -> None:
        self._confirmed_on.pop(broker_name, None)
        self._queried.pop(broker_name, None)


#: Brokers are not queried again within so long, however many of them want an election of the set.
RESPONSES_VALID_MS: Final = 200
#: Verdicts that an answer or a heartbeat ends.
_WAITING: Final = frozenset({Verdict.WAITS, Verdict.AWAITS_LONGER, Verdict.AWAITS_ANSWERS})


class _Attempt(NamedTuple):
    """An election that ended with another master, and is not known to be stored."""

    before: BrokerSet
    decision: SetDecision[Election]
    cause: Cause
    began_ms: int

    def is_of(self, broker_set: BrokerSet) -> bool:
        """Return whether this is how a set came to be as it is stored now."""
        after = self.decision.after(StoredSet(broker_set=self.before)).broker_set
        assert after is not None, "an election is held in a set"
        return (after.master, after.master_epoch) == (broker_set.master, broker_set.master_epoch)


class _Responses(NamedTuple):
    """What brokers have answered for an election of a set at this epoch, and when they were queried."""

    query: LogEndQuery
    master_epoch: int
    queried_ms: int
    log_ends: LogEnds


class ElectionOutcome(NamedTuple):
    broker_set: BrokerSet
    result: ElectionResult
    reason: str
    #: Nobody leads before a broker answers or sends a heartbeat.
    awaits_brokers: bool = False
    #: One of them did not answer for as long as answers are waited for.
    awaits_response: bool = False


class ElectionRunner:
    def __init__(
        self,
        state: ClusterState,
        writer: SetWriter,
        log: ElectionLog,
        confirmations: Confirmations,
        query_log_ends: Callable[[LogEndQuery], Awaitable[LogEnds]],
    ) -> None:
        self._state = state
        self._store, self._live, self._detector = state.store, state.live, state.detector
        self._recovery, self._fences = state.recovery, state.fences
        self._clock, self._config, self._emit = state.clock, state.config, state.emit
        self._perform = state.perform
        self._writer, self.log, self.confirmations = writer, log, confirmations
        self._query_log_ends = query_log_ends
        #: The master epoch of each set that brokers are known to have been notified of.
        self._notified_epochs: dict[str, int] = {}
        self._attempts: dict[str, _Attempt] = {}
        self._responses: dict[str, _Responses] = {}
        #: Since when a set is known here to have no master.
        self._without_master_ms: dict[str, int] = {}
        #: How many elections of a set are being decided and stored at the moment.
        self._under_way: Counter[str] = Counter()

    async def elect(
        self, broker_name: str, request: ElectionRequest, cause: Cause, within_s: float = COMMIT_S
    ) -> ElectionOutcome:
        """Hold an election, store and explain its result, and notify the brokers.

        Raises NobodyElectable or MasterNotAvailable while a set that has lost its state waits for its brokers, or while
        clients may be led to its failed master, and as `SetWriter.change`.
        """
        began_ms = self._clock.now_ms()
        # A broker out of sync may lead only upon a request: nobody's messages are given up without one.
        allows_unclean = cause.trigger in MAY_BE_UNCLEAN and self._config().enable_elect_unclean_master
        request = msgspec.structs.replace(request, allows_unclean=allows_unclean)
        with self._counted(broker_name):
            answered = None if self._waits(broker_name, cause) else await self._log_ends(broker_name, request)

            def decide(entry: StoredSet) -> SetDecision[Election]:
                decision = self._decided(broker_name, entry, request, cause, answered)
                if decision.reply.result is ElectionResult.NEW_MASTER:
                    self._attempts[broker_name] = _Attempt(present(entry.broker_set), decision, cause, began_ms)
                return decision

            spent_s = (self._clock.now_ms() - began_ms) / 1000
            changed = await self._writer.change(broker_name, decide, within_s - spent_s)
        record = self._explain(changed, cause, began_ms)
        awaits_brokers = _awaits_brokers(changed.decision.reply)
        awaits_response = awaits_brokers and answered is not None and answered.is_awaited
        return ElectionOutcome(present(changed.after), record.result, record.reason, awaits_brokers, awaits_response)

    @contextmanager
    def _counted(self, broker_name: str) -> Iterator[None]:
        self._under_way[broker_name] += 1
        try:
            yield
        finally:
            self._under_way[broker_name] -= 1
            if not self._under_way[broker_name]:
                del self._under_way[broker_name]

    def _waits(self, broker_name: str, cause: Cause) -> bool:
        """Return whether an election comes before its fence: those that nobody requested have waited before."""
        broker_set = self._store.get(broker_name)
        is_requested = cause.trigger in REQUESTED and broker_set is not None
        return is_requested and bool(self._fences.awaited(present(broker_set), self._clock.now_ms()))

    def _decided(
        self, broker_name: str, entry: StoredSet, request: ElectionRequest, cause: Cause, answered: LogEnds | None
    ) -> SetDecision[Election]:
        """Return what the rule decides on heartbeats and log ends; `answered` is None if no broker was queried.

        Raises NobodyElectable or MasterNotAvailable while brokers are waited for, or have to be queried first.
        """
        now_ms, broker_set = self._clock.now_ms(), entry.broker_set
        refusal = MasterNotAvailable if request.broker_id is None else NobodyElectable
        if broker_set is not None and not request.is_designated and self._recovery.waits(broker_set, now_ms):
            raise refusal(f"{broker_name} waits some seconds for all of its brokers to come back")
        log_ends = answered or NO_LOG_ENDS
        fresh_from_ms = self._fresh_from_ms(entry, cause, log_ends, now_ms)
        static_from_ms = NEVER_MS if broker_set is None else self._static_from_ms(broker_set, now_ms)
        wanted = msgspec.structs.replace(request, fresh_from_ms=fresh_from_ms, static_from_ms=static_from_ms)
        view = self._view(broker_name, entry, request, now_ms)
        needs_query = answered is None and self._query(entry, view, request) is not None
        decision = decide_election(broker_name, entry, view.answered(log_ends, now_ms), wanted)
        if decision.reply.result is not ElectionResult.NEW_MASTER:
            return decision
        if self._waits(broker_name, cause):
            raise refusal(
                f"{broker_name} has lost its master a moment ago; proxies and agents end their sessions first"
            )
        if needs_query:
            # Nobody could lead when it began, so that no broker was queried.
            raise refusal(f"{broker_name} has lost its master a moment ago; its brokers are queried first")
        return decision

    def _view(self, broker_name: str, entry: StoredSet, request: ElectionRequest, now_ms: int) -> ClusterView:
        # A broker that has just started requests an election itself.
        is_own = request.broker_id is None
        trusted = (self._detector.electable if is_own else self._detector.trusted)(broker_name, now_ms)
        members = entry.broker_set.replicas if entry.broker_set is not None else {}
        # A controller without any contact may be cut off, with every broker alive and well.
        knows_nothing = self._detector.has_no_contact(now_ms)
        return ClusterView(
            trusted=trusted,
            heartbeats=self._live.of_set(broker_name),
            last={} if entry.broker_set is None else self._state.last_reports(entry.broker_set),
            may_live=frozenset(
                i for i in members if knows_nothing or not self._detector.is_lost(BrokerKey(broker_name, i), now_ms)
            ),
            failed=frozenset(i for i in members if self._detector.failed_broker(BrokerKey(broker_name, i)) is not None),
            reported=self._recovery.reported_epochs(broker_name),
            epoch_seen=self._store.epoch_seen(broker_name),
        )

    async def _log_ends(self, broker_name: str, request: ElectionRequest) -> LogEnds | None:
        """Query the log ends of candidates, where they decide the election; None if no broker was queried."""
        entry = self._store.entry(broker_name)
        broker_set, now_ms = entry.broker_set, self._clock.now_ms()
        if broker_set is None or self._recovery.waits(broker_set, now_ms):
            return None
        view = self._view(broker_name, entry, request, now_ms)
        query = self._query(entry, view, request)
        if query is None or not _depends_on_answers(elect(broker_set, view, request)):
            return None
        answered = await self._answered(query, broker_set)
        if view.answered(answered, now_ms).is_ahead_of(broker_set) or broker_set.is_rebuilding:
            # The store knows less than the logs.
            return answered
        failed = self._failed_master(broker_set)
        believed = answered.believed(broker_set.master_epoch, failed.last if failed is not None else None)
        return self.confirmations.applied_to(broker_name, believed)

    @staticmethod
    def _query(entry: StoredSet, view: ClusterView, request: ElectionRequest) -> LogEndQuery | None:
        """Return the query before an election, None if no answer would decide it."""
        broker_set = entry.broker_set
        if broker_set is None or not (broker_set.is_elected or view.is_ahead_of(broker_set)):
            return None
        living = view.trusted.keys() & broker_set.replicas.keys()
        is_shorter = any(is_shortened(broker_set, i, view.trusted[i]) for i in living)
        if request.is_designated and not is_shorter:
            # Where its epoch begins in the log: the master adds to it until then.
            wanted = living & {request.broker_id}
            addresses = {i: broker_set.replicas[i].address for i in wanted}
            return LogEndQuery(broker_set.broker_name, addresses, in_sync=wanted, others=0) if wanted else None
        return LogEndQuery(
            broker_name=broker_set.broker_name,
            addresses={i: broker_set.replicas[i].address for i in sorted(living)},
            in_sync=broker_set.sync_state_set,
            others=len(broker_set.replicas) - 1,
        )

    async def _answered(self, query: LogEndQuery, broker_set: BrokerSet) -> LogEnds:
        """Query, or return answers of a moment ago: a set that waits may request elections all the time."""
        now_ms, failed = self._clock.now_ms(), self._failed_master(broker_set)
        lost_ms = failed.judged_ms if failed is not None else 0
        last = self._responses.get(broker_set.broker_name)
        if last is not None and (last.query, last.master_epoch) == (query, broker_set.master_epoch):
            is_after_the_loss = last.queried_ms >= lost_ms
            if is_after_the_loss and now_ms - last.queried_ms < RESPONSES_VALID_MS:
                # No answer was waited for now: an awaited one would cause the next try at once, for ever.
                return msgspec.structs.replace(last.log_ends, is_awaited=False)
        answered = await self._query_log_ends(query)
        self._responses[broker_set.broker_name] = _Responses(query, broker_set.master_epoch, now_ms, answered)
        return answered

    def _fresh_from_ms(self, entry: StoredSet, cause: Cause, log_ends: LogEnds, now_ms: int) -> int:
        """Return since when what a broker reported of its log still holds: nobody adds to it after the master's end.

        Where no broker can be queried, heartbeats are compared as they come, each second.
        """
        failed = self._failed_master(entry.broker_set) if entry.broker_set is not None else None
        if failed is None or not log_ends.by_id:
            return now_ms - HEARTBEAT_OVERDUE_MS
        # One that thawed before its sessions had ended may have added to it.
        return cause.fenced_ms or failed.judged_ms

    def _static_from_ms(self, broker_set: BrokerSet, now_ms: int) -> int:
        """Return since when no master adds to the logs of a set, as far as is known here."""
        name, failed = broker_set.broker_name, self._failed_master(broker_set)
        if failed is not None:
            return failed.judged_ms
        if broker_set.master is None or self._detector.is_lost(BrokerKey(name, broker_set.master), now_ms):
            return self._without_master_ms.setdefault(name, now_ms)
        self._without_master_ms.pop(name, None)
        return NEVER_MS

    def _failed_master(self, broker_set: BrokerSet) -> FailedBroker | None:
        return (
            None
            if broker_set.master is None
            else self._detector.failed_broker(BrokerKey(broker_set.broker_name, broker_set.master))
        )

    def is_running(self, broker_name: str) -> bool:
        return broker_name in self._under_way

    def resend_unconfirmed_role(self, broker_set: BrokerSet) -> None:
        """Notify brokers who leads a set if none may have been notified; to be called now and then for each set.

        An election can be stored after its outcome was given up, which is explained then, or by a controller that ended
        before it notified anybody. A notified master has begun the epoch in its log, and reports it in its heartbeats,
        unless nothing was written in the epoch before: of such a one another controller cannot know.
        """
        name = broker_set.broker_name
        if (
            self._notified_epochs.get(name) == broker_set.master_epoch
            or broker_set.master is None
            or name in self._under_way
        ):
            return
        attempt = self._attempts.get(name)
        if attempt is not None and attempt.is_of(broker_set):
            changed = Changed(attempt.decision, attempt.before, broker_set)
            self._explain(changed, attempt.cause, attempt.began_ms)
            return
        now_ms = self._clock.now_ms()
        heartbeat = self._detector.electable(name, now_ms).get(broker_set.master)
        if heartbeat is None or not heartbeat.address or not _sends_heartbeats(heartbeat, now_ms):
            # It has not reported the end of its log. Or it has started anew and not registered yet: a new process in an
            # old epoch writes another beginning of it into its log, and nobody can follow it.
            return
        self._notified_epochs[name] = broker_set.master_epoch
        if heartbeat.epoch < broker_set.master_epoch and self._config().notify_broker_role_changed:
            self._emit(
                RoleNotificationResent(
                    cluster=broker_set.cluster,
                    broker=name,
                    master=broker_set.master,
                    master_epoch=broker_set.master_epoch,
                    sync_state_set_epoch=broker_set.sync_state_set_epoch,
                )
            )
            self._perform(self._notification(broker_set, 0, now_ms, self._live.alive(name, now_ms)))

    def remove(self, broker_name: str) -> None:
        self._notified_epochs.pop(broker_name, None)
        self._fences.cleaned.pop(broker_name, None)
        self.confirmations.remove(broker_name)
        self._attempts.pop(broker_name, None)
        self._responses.pop(broker_name, None)
        self._without_master_ms.pop(broker_name, None)

    def deposed(self) -> None:
        self._attempts.clear()
        self._without_master_ms.clear()
        self._fences.cleaned.clear()

    def _explain(self, changed: Changed[Election], cause: Cause, began_ms: int) -> ElectionRecord:
        now_ms = self._clock.now_ms()
        before, after = present(changed.before), present(changed.after)
        held = HeldElection(
            before=before,
            after=after,
            cause=cause,
            election=changed.decision.reply,
            last=self._state.last_reports(before),
            commit_ms=now_ms - min(began_ms, cause.lost_ms or began_ms),
        )
        record, is_new = self.log.add(held, self._clock.unix_ms())
        for event in election_held(record, is_new=is_new, seconds=(now_ms - began_ms) / 1000):
            self._emit(event)
        if changed.decision.reply.result is not ElectionResult.NEW_MASTER:
            return record
        self._recovery.remove(after.broker_name)
        self._attempts.pop(after.broker_name, None)
        self._responses.pop(after.broker_name, None)
        self._without_master_ms.pop(after.broker_name, None)
        self._notified_epochs[after.broker_name] = after.master_epoch
        cleaned = self._fences.cleaned.pop(after.broker_name, None)
        if self._config().notify_broker_role_changed:
            recipients = set(self._live.alive(after.broker_name, now_ms))
            former = before.master if before.master != after.master and self._leads(before, now_ms) else None
            if before.master is not None and self._may_go_on(BrokerKey(before.broker_name, before.master)):
                recipients.add(before.master)
            notification = self._notification(after, record.number, now_ms, recipients, former)
            if cleaned is not None and cleaned.broker_id not in after.replicas:
                with_cleaned = (*notification.recipients, Recipient(cleaned.broker_id, cleaned.address))
                former = cleaned.broker_id if cleaned.leads else None
                notification = msgspec.structs.replace(notification, recipients=with_cleaned, former_master=former)
            self._perform(notification)
        return record

    def _may_go_on(self, key: BrokerKey) -> bool:
        """Return whether a failed broker may only be paused.

        A master of 5.5.0 that goes on acknowledges alone until it knows that another leads, so the notification is to
        wait at its port by then.
        """
        failed = self._detector.failed_broker(key)
        return failed is not None and failed.may_go_on

    def _leads(self, broker_set: BrokerSet, now_ms: int) -> bool:
        """Return whether the master is not even suspect, and has begun its epoch by its heartbeats."""
        trusted = self._detector.trusted(broker_set.broker_name, now_ms)
        heartbeat = None if broker_set.master is None else trusted.get(broker_set.master)
        return heartbeat is not None and heartbeat.epoch == broker_set.master_epoch

    def notify_returned(self, broker_set: BrokerSet, broker_id: int) -> None:
        """Notify a broker that had failed, and sends heartbeats again, who leads now; to be called by the leader.

        A master that was only paused leads on. One that has started anew would lead in its epoch again, from another
        beginning: it is to register first.
        """
        if broker_id == broker_set.master:
            self._notified_epochs.pop(broker_set.broker_name, None)
        elif broker_set.master is not None and self._config().notify_broker_role_changed:
            self._perform(self._notification(broker_set, 0, self._clock.now_ms(), {broker_id}))

    def brokers_cleaned(self, before: BrokerSet, after: BrokerSet) -> None:
        """Keep a removed master that may go on, to notify it of the next; to be called before it is forgotten."""
        name, master, now_ms = before.broker_name, before.master, self._clock.now_ms()
        if master is None or master in after.replicas:
            return
        if master in self._live.alive(name, now_ms) or self._may_go_on(BrokerKey(name, master)):
            address = before.replicas[master].address
            self._fences.cleaned[name] = CleanedMaster(master, address, now_ms, self._leads(before, now_ms))

    @staticmethod
    def _notification(
        broker_set: BrokerSet,
        election: int,
        now_ms: int,
        recipients: Collection[int],
        former_master: int | None = None,
    ) -> NotifyRoleChanged:
        """Return the notification who leads; `election` is 0 if that is not about an election."""
        assert broker_set.master is not None, "somebody leads"
        return NotifyRoleChanged(
            broker_name=broker_set.broker_name,
            election=election,
            master=Recipient(broker_set.master, broker_set.replicas[broker_set.master].address),
            master_epoch=broker_set.master_epoch,
            sync_state_set=tuple(sorted(broker_set.sync_state_set)),
            sync_state_set_epoch=broker_set.sync_state_set_epoch,
            recipients=tuple(
                Recipient(i, replica.address) for i, replica in broker_set.replicas.items() if i in recipients
            ),
            former_master=former_master,
            since_ms=now_ms,
        )


def _sends_heartbeats(heartbeat: LastHeartbeat, now_ms: int) -> bool:
    """Return whether the last known process may be there: a heartbeat came, and not only answers of its port."""
    silent_ms = now_ms - heartbeat.last_heartbeat_ms
    return not heartbeat.is_starting and silent_ms <= max(HEARTBEAT_OVERDUE_MS, heartbeat.period_ms * 3 // 2)


def _depends_on_answers(election: Election) -> bool:
    """Return whether answers may change who leads: somebody would, or may have a longer log than it has reported."""
    awaits_longer = any(each.verdict is Verdict.AWAITS_LONGER for each in election.candidates)
    return election.result is ElectionResult.NEW_MASTER or awaits_longer


def _awaits_brokers(election: Election) -> bool:
    return election.result is ElectionResult.NOBODY and any(each.verdict in _WAITING for each in election.candidates)
