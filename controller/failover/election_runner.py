"""Holds elections: gives the rule what was heard, stores and explains how it ended, and tells the brokers.

Answers to `ReplicasInfoManager.electMaster` and to what `ControllerManager` does after it.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import msgspec

from controller.decisions.cluster_view import Electorate
from controller.decisions.election import (
    Call,
    Election,
    Result,
    Verdict,
    decide_election,
    elect,
)
from controller.failover.confirmations import Confirmations
from controller.failover.effects import NotifyRoleChanged, Recipient
from controller.failover.election_log import ASKED, Cause, ElectionRecord, Held
from controller.failover.set_writer import Working, present
from controller.failure_detection.detector import BEAT_OVERDUE_MS, Gone, Outcome
from controller.failure_detection.heartbeats import BrokerKey, Heard
from controller.failure_detection.log_ends import NO_ANSWERS, LogEnds, Query
from controller.refusals import MasterNotAvailable, NobodyElectable
from controller.sets.broker_set import BrokerSet
from controller.sets.stored_set import Decision, Entry
from controller.storage.store import COMMIT_S, Changed

#: Where the one that is left alone may lead, and has all that was confirmed by both.
_REPLICAS_OF_A_PAIR: Final = 2
#: Answers are not asked for again within so long, however many brokers want an election of the set.
ANSWERS_COUNT_MS: Final = 200
#: Verdicts that an answer or a heartbeat ends.
_WAITING: Final = frozenset({Verdict.WAITS, Verdict.AWAITS_LONGER, Verdict.AWAITS_ANSWERS})


class _Attempt(NamedTuple):
    """An election that ended with another master, and is not known to be stored."""

    before: BrokerSet
    decision: Decision[Election]
    cause: Cause
    began_ms: int

    def is_of(self, broker_set: BrokerSet) -> bool:
        """Tell whether this is how a set came to be as it is stored now."""
        after = self.decision.after(Entry(broker_set=self.before)).broker_set
        assert after is not None, "an election is held in a set"
        return (after.master, after.master_epoch) == (broker_set.master, broker_set.master_epoch)


class _Answers(NamedTuple):
    """What brokers have answered for an election of a set at this epoch, and when they were asked."""

    query: Query
    master_epoch: int
    asked_ms: int
    log_ends: LogEnds


class Elected(NamedTuple):
    """How an election ended."""

    broker_set: BrokerSet
    result: Result
    reason: str
    #: Nobody leads before a broker answers or beats.
    awaits_brokers: bool = False
    #: One of them was asked, and stood still for as long as answers are waited for.
    awaits_answer: bool = False


class Elector:
    """Finds masters."""

    def __init__(self, working: Working) -> None:
        parts = working.parts
        self._working = working
        self._store = parts.store
        self._live = parts.live
        self._detection = parts.detection
        self._elections = parts.elections
        self._recovery = parts.recovery
        self._clock = parts.clock
        self._config = parts.config
        self._perform = parts.perform
        self._observer = parts.observer
        self._ask = parts.log_ends
        self.confirmations = Confirmations(parts)
        #: The master epoch of each set that brokers are known to have been told of.
        self._told: dict[str, int] = {}
        self._attempts: dict[str, _Attempt] = {}
        self._answers: dict[str, _Answers] = {}
        #: How many elections of a set are being decided and stored at the moment.
        self._under_way: Counter[str] = Counter()

    async def elect(self, broker_name: str, call: Call, cause: Cause, within_s: float = COMMIT_S) -> Elected:
        """Hold an election, store how it ended, explain and tell it.

        Raises NobodyElectable or MasterNotAvailable while a set that has lost its state waits for its brokers, and as
        `Working.change`.
        """
        began_ms = self._clock.now_ms()
        # A broker out of sync may lead only if somebody asked: nobody's messages are given up unasked.
        allows_unclean = cause.trigger in ASKED and self._config().enable_elect_unclean_master
        call = msgspec.structs.replace(call, allows_unclean=allows_unclean)
        with self._counted(broker_name):
            answered = await self._log_ends(broker_name, call)

            def decide(entry: Entry) -> Decision[Election]:
                decision = self._decided(broker_name, entry, call, answered)
                if decision.reply.result is Result.NEW_MASTER:
                    self._attempts[broker_name] = _Attempt(present(entry.broker_set), decision, cause, began_ms)
                return decision

            spent_s = (self._clock.now_ms() - began_ms) / 1000
            changed = await self._working.change(broker_name, decide, within_s - spent_s)
        record = self._explain(changed, cause, began_ms)
        awaits_brokers = _awaits_brokers(changed.decision.reply)
        awaits_answer = awaits_brokers and answered is not None and answered.is_awaited
        return Elected(present(changed.after), record.result, record.reason, awaits_brokers, awaits_answer)

    @contextmanager
    def _counted(self, broker_name: str) -> Iterator[None]:
        """Let it be known that an election of a set is under way."""
        self._under_way[broker_name] += 1
        try:
            yield
        finally:
            self._under_way[broker_name] -= 1
            if not self._under_way[broker_name]:
                del self._under_way[broker_name]

    def _decided(self, broker_name: str, entry: Entry, call: Call, answered: LogEnds | None) -> Decision[Election]:
        """Return what the rule decides on what is heard now, and what was answered; None if nobody was asked.

        Raises NobodyElectable or MasterNotAvailable while brokers are waited for, or have to be asked first.
        """
        now_ms, broker_set = self._clock.now_ms(), entry.broker_set
        refusal = MasterNotAvailable if call.broker_id is None else NobodyElectable
        if broker_set is not None and not call.is_designated and self._recovery.waits(broker_set, now_ms):
            raise refusal(f"{broker_name} waits some seconds for all of its brokers to come back")
        log_ends = answered or NO_ANSWERS
        wanted = msgspec.structs.replace(call, fresh_from_ms=self._fresh_from_ms(entry, log_ends, now_ms))
        electorate = self._electorate(broker_name, entry, call, now_ms)
        is_unasked = answered is None and self._query(entry, electorate, call) is not None
        decision = decide_election(broker_name, entry, electorate.answered(log_ends, now_ms), wanted)
        if is_unasked and decision.reply.result is Result.NEW_MASTER:
            # Nobody could lead when it began, so that nobody was asked.
            raise refusal(f"{broker_name} has lost its master a moment ago; its brokers are asked first")
        return decision

    def _electorate(self, broker_name: str, entry: Entry, call: Call, now_ms: int) -> Electorate:
        # Who has just started asks for a master itself.
        is_unasked = call.broker_id is None
        trusted = (self._detection.electable if is_unasked else self._detection.trusted)(broker_name, now_ms)
        members = entry.broker_set.replicas if entry.broker_set is not None else {}
        # Who hears nobody at all may be cut off, with every broker alive and well.
        knows_nothing = self._detection.hears_nobody(now_ms)
        return Electorate(
            trusted=trusted,
            heard=self._live.of_set(broker_name),
            may_live=frozenset(
                i for i in members if knows_nothing or not self._detection.is_lost(BrokerKey(broker_name, i), now_ms)
            ),
            reported=self._recovery.reported_epochs(broker_name),
            epoch_seen=self._store.epoch_seen(broker_name),
        )

    async def _log_ends(self, broker_name: str, call: Call) -> LogEnds | None:
        """Ask those that may lead how far their logs are, where that decides who does; None if nobody was asked."""
        entry = self._store.entry(broker_name)
        broker_set, now_ms = entry.broker_set, self._clock.now_ms()
        if broker_set is None or call.is_designated or self._recovery.waits(broker_set, now_ms):
            return None
        electorate = self._electorate(broker_name, entry, call, now_ms)
        query = self._query(entry, electorate, call)
        if query is None or elect(broker_set, electorate, call).result is not Result.NEW_MASTER:
            return None
        answered = await self._answered(query, broker_set)
        if electorate.answered(answered, now_ms).is_ahead_of(broker_set) or broker_set.is_rebuilding:
            # The store knows less than the logs.
            return answered
        gone = self._gone(broker_set)
        believed = answered.believed(broker_set.master_epoch, gone.last if gone is not None else None)
        return self.confirmations.applied_to(broker_name, believed)

    @staticmethod
    def _query(entry: Entry, electorate: Electorate, call: Call) -> Query | None:
        """Return whom to ask before somebody is elected, None if no answer would decide who is."""
        broker_set = entry.broker_set
        if broker_set is None or call.is_designated:
            return None
        if not (broker_set.is_elected or electorate.is_ahead_of(broker_set)):
            return None
        living = electorate.trusted.keys() & broker_set.replicas.keys()
        if len(broker_set.replicas) <= _REPLICAS_OF_A_PAIR and len(living) == 1:
            # Nobody else could lead, or have what was confirmed.
            return None
        return Query(
            broker_name=broker_set.broker_name,
            addresses={i: broker_set.replicas[i].address for i in sorted(living)},
            in_sync=broker_set.sync_state_set,
            others=len(broker_set.replicas) - 1,
        )

    async def _answered(self, query: Query, broker_set: BrokerSet) -> LogEnds:
        """Ask, or return what was answered a moment ago: a set that waits may be asked for a master all the time."""
        now_ms, gone = self._clock.now_ms(), self._gone(broker_set)
        lost_ms = gone.judged_ms if gone is not None else 0
        last = self._answers.get(broker_set.broker_name)
        if last is not None and (last.query, last.master_epoch) == (query, broker_set.master_epoch):
            is_after_the_loss = last.asked_ms >= lost_ms
            if is_after_the_loss and now_ms - last.asked_ms < ANSWERS_COUNT_MS:
                # Nobody was waited for: whoever tries again at once because somebody was would do so for ever.
                return msgspec.structs.replace(last.log_ends, is_awaited=False)
        answered = await self._ask(query)
        self._answers[broker_set.broker_name] = _Answers(query, broker_set.master_epoch, now_ms, answered)
        return answered

    def _fresh_from_ms(self, entry: Entry, log_ends: LogEnds, now_ms: int) -> int:
        """Return since when what a broker told of its log still holds: nobody adds to it after the master's end.

        Where no broker can be asked, beats are compared as they come, each second.
        """
        gone = self._gone(entry.broker_set) if entry.broker_set is not None else None
        if gone is None or not log_ends.by_id:
            return now_ms - BEAT_OVERDUE_MS
        return gone.judged_ms

    def _gone(self, broker_set: BrokerSet) -> Gone | None:
        """Return what is known of the end of the master."""
        return (
            None
            if broker_set.master is None
            else self._detection.gone(BrokerKey(broker_set.broker_name, broker_set.master))
        )

    def holds_one(self, broker_name: str) -> bool:
        """Tell whether an election of a set is being decided and stored."""
        return broker_name in self._under_way

    def tell_if_untold(self, broker_set: BrokerSet) -> None:
        """Tell who leads a set if nobody may have been told; to be called now and then for each set.

        An election can be stored after its outcome was given up, which is explained then, or by a controller that ended
        before it told anybody. A master that was told has begun the epoch in its log, and says so in its heartbeats,
        unless nothing was written in the epoch before: of such a one another controller cannot know.
        """
        name = broker_set.broker_name
        if self._told.get(name) == broker_set.master_epoch or broker_set.master is None or name in self._under_way:
            return
        attempt = self._attempts.get(name)
        if attempt is not None and attempt.is_of(broker_set):
            changed = Changed(attempt.decision, attempt.before, broker_set)
            self._explain(changed, attempt.cause, attempt.began_ms)
            return
        now_ms = self._clock.now_ms()
        heard = self._detection.electable(name, now_ms).get(broker_set.master)
        if heard is None or not heard.address or not _is_beating(heard, now_ms):
            # It has not said how far its log is. Or it has started anew and not registered yet: who takes up an epoch
            # again in another process writes another beginning of it into its log, and nobody can follow it.
            return
        self._told[name] = broker_set.master_epoch
        if heard.epoch < broker_set.master_epoch and self._config().notify_broker_role_changed:
            self._observer.role_notification_resent(broker_set)
            self._perform(self._notification(broker_set, 0, now_ms, self._live.alive(name, now_ms)))

    def forget(self, broker_name: str) -> None:
        """Forget a set that is gone."""
        self._told.pop(broker_name, None)
        self.confirmations.forget(broker_name)
        self._attempts.pop(broker_name, None)
        self._answers.pop(broker_name, None)

    def deposed(self) -> None:
        """Expect nothing more of what could not be stored: another controller leads."""
        self._attempts.clear()

    def _explain(self, changed: Changed[Election], cause: Cause, began_ms: int) -> ElectionRecord:
        now_ms = self._clock.now_ms()
        before, after = present(changed.before), present(changed.after)
        held = Held(
            before=before,
            after=after,
            cause=cause,
            election=changed.decision.reply,
            last=self._last_heard(before),
            commit_ms=now_ms - (began_ms if cause.judged_ms is None else min(began_ms, cause.judged_ms)),
        )
        record, is_news = self._elections.add(held, self._clock.unix_ms())
        self._observer.election_held(record, is_news=is_news, seconds=(now_ms - began_ms) / 1000)
        if changed.decision.reply.result is not Result.NEW_MASTER:
            return record
        self._recovery.forget(after.broker_name)
        self._attempts.pop(after.broker_name, None)
        self._answers.pop(after.broker_name, None)
        self._told[after.broker_name] = after.master_epoch
        if self._config().notify_broker_role_changed:
            recipients = set(self._live.alive(after.broker_name, now_ms))
            if before.master is not None and self._may_go_on(BrokerKey(before.broker_name, before.master)):
                recipients.add(before.master)
            self._perform(self._notification(after, record.number, now_ms, recipients))
        return record

    def _may_go_on(self, key: BrokerKey) -> bool:
        """Tell whether a dead broker may only stand still.

        A master of 5.5.0 that goes on acknowledges alone until it knows that another leads, so that is to lie at its
        port by then.
        """
        gone = self._detection.gone(key)
        return gone is not None and gone.outcome is Outcome.NO_ANSWER

    def tell_returned(self, broker_set: BrokerSet, broker_id: int) -> None:
        """Tell a broker that was thought to be dead, and beats again, who leads now; to be called by who leads.

        A master that only stood still leads on. One that has started anew would lead in its epoch again, from another
        beginning: it is to register first.
        """
        if broker_id == broker_set.master:
            self._told.pop(broker_set.broker_name, None)
        elif broker_set.master is not None and self._config().notify_broker_role_changed:
            self._perform(self._notification(broker_set, 0, self._clock.now_ms(), {broker_id}))

    @staticmethod
    def _notification(
        broker_set: BrokerSet, election: int, now_ms: int, recipients: Collection[int]
    ) -> NotifyRoleChanged:
        """Return what tells these brokers who leads; `election` is 0 if that is not about an election."""
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
            since_ms=now_ms,
        )

    def _last_heard(self, broker_set: BrokerSet) -> dict[int, Heard]:
        found: dict[int, Heard] = {}
        for broker_id in broker_set.replicas:
            key = BrokerKey(broker_set.broker_name, broker_id)
            gone = self._detection.gone(key)
            heard = self._live.get(key) or (gone.last if gone is not None else None)
            if heard is not None:
                found[broker_id] = heard
        return found


def _is_beating(heard: Heard, now_ms: int) -> bool:
    """Tell whether the process that was heard last may be there: a heartbeat came, and not only answers of its port."""
    silent_ms = now_ms - heard.last_beat_ms
    return not heard.is_starting and silent_ms <= max(BEAT_OVERDUE_MS, heard.period_ms * 3 // 2)


def _awaits_brokers(election: Election) -> bool:
    return election.result is Result.NOBODY and any(each.verdict in _WAITING for each in election.candidates)
