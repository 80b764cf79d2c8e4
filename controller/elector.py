"""Holds elections: gives the rule what was heard, stores and explains how it ended, and tells the brokers.

Answers to `ReplicasInfoManager.electMaster` and to what `ControllerManager` does after it.
"""

from typing import NamedTuple

import msgspec

from controller.broker_set import BrokerSet
from controller.decisions.election import Call, Election, Electorate, Result, decide_election
from controller.detection import BEAT_OVERDUE_MS
from controller.effects import NotifyRoleChanged, Recipient
from controller.elections import Cause, ElectionRecord, Held
from controller.entry import Decision, Entry
from controller.live_table import BrokerKey, Heard
from controller.refusals import NobodyElectable
from controller.store import COMMIT_S, Changed
from controller.working import Working, present


class Elected(NamedTuple):
    """How an election ended."""

    broker_set: BrokerSet
    result: Result
    reason: str


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

    async def elect(self, broker_name: str, call: Call, cause: Cause, within_s: float = COMMIT_S) -> Elected:
        """Hold an election, store how it ended, explain and tell it.

        Raises NobodyElectable while a set that has lost its state waits for its brokers, and as `Working.change`.
        """
        began_ms = self._clock.now_ms()

        def decide(entry: Entry) -> Decision[Election]:
            now_ms = self._clock.now_ms()
            is_asked_by_broker = not call.is_designated
            if entry.broker_set is not None and is_asked_by_broker and self._recovery.waits(entry.broker_set, now_ms):
                raise NobodyElectable(f"{broker_name} waits some seconds for all of its brokers to come back")
            wanted = msgspec.structs.replace(
                call,
                allows_unclean=self._config().enable_elect_unclean_master,
                fresh_from_ms=now_ms - BEAT_OVERDUE_MS,
            )
            return decide_election(broker_name, entry, self._electorate(broker_name, entry, call, now_ms), wanted)

        changed = await self._working.change(broker_name, decide, within_s)
        record = self._explain(changed, cause, began_ms)
        return Elected(present(changed.after), record.result, record.reason)

    def _electorate(self, broker_name: str, entry: Entry, call: Call, now_ms: int) -> Electorate:
        trusted = self._detection.trusted(broker_name, now_ms)
        if call.broker_id is None:
            # Who has just started has not said how far its log is; it asks for a master itself.
            trusted = {i: heard for i, heard in trusted.items() if not heard.awaits_beat}
        master = entry.broker_set.master if entry.broker_set is not None else None
        # Who hears nobody at all may be cut off, with every broker alive and well.
        knows_nothing = self._detection.hears_nobody(now_ms)
        return Electorate(
            trusted=trusted,
            heard=self._live.of_set(broker_name),
            master_may_live=master is not None
            and (knows_nothing or not self._detection.is_lost(BrokerKey(broker_name, master), now_ms)),
            reported_epoch=None if entry.broker_set is None else self._recovery.reported_epoch(entry.broker_set),
        )

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
        self._recovery.elected(after.broker_name)
        if self._config().notify_broker_role_changed:
            self._perform(self._notification(after, record.number, now_ms))
        return record

    def _notification(self, broker_set: BrokerSet, election: int, now_ms: int) -> NotifyRoleChanged:
        assert broker_set.master is not None, "a master was elected"
        alive = self._live.alive(broker_set.broker_name, now_ms)
        return NotifyRoleChanged(
            broker_name=broker_set.broker_name,
            election=election,
            master=Recipient(broker_set.master, broker_set.replicas[broker_set.master].address),
            master_epoch=broker_set.master_epoch,
            sync_state_set=tuple(sorted(broker_set.sync_state_set)),
            sync_state_set_epoch=broker_set.sync_state_set_epoch,
            recipients=tuple(Recipient(i, replica.address) for i, replica in broker_set.replicas.items() if i in alive),
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
