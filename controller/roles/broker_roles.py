"""The roles of brokers as this controller knows them at the moment: gathers the facts for `verdict.py`.

All of it is in the memory of the controller that leads, and bounded, as anybody can check a role.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, NamedTuple

from controller.failover.group import Group
from controller.failover.requests import BrokerRequests
from controller.failure_detection.heartbeats import BrokerKey
from controller.roles.changes import RoleChange, RoleHolder
from controller.roles.verdict import DOWN, RoleAnswer, RoleFacts, RoleVerdict, verdict_of
from controller.sets.broker_set import BrokerSet
from remoting.clock import Clock

#: Who has not checked for so long, or for twice its interval, checks no more; of hundreds of proxies each checks less
#: often than each 100 ms.
CHECKS_WITHIN_MS: Final = 800
#: No longer interval is believed.
INTERVAL_MS_MAX: Final = 1_500
#: Somebody who has checked within so long may check a little late.
CHECKED_WITHIN_MS: Final = 3_000
#: So long after it was answered a proxy has ended its sessions, and the broker has taken what had arrived.
ANSWER_SETTLES_MS: Final = 50
#: Hosts of one broker that are remembered.
HOSTS_MAX: Final = 200


class _LastCheck(NamedTuple):
    """When a host has checked last, how long after the check before, and since when it leads nobody to the broker."""

    at_ms: int
    interval_ms: int
    #: Since it was answered `down` first; None once it was answered `up`, or while it was answered neither.
    down_since_ms: int | None


class RoleCheckers:
    """The hosts of proxies and agents that check each master, and which of them were answered `down`; monotonic ms.

    A switchover, and an election after the silence of a master, wait until every one was answered so: only then have
    all sessions to the master ended.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._checks: dict[BrokerKey, dict[str, _LastCheck]] = {}

    def record(self, key: BrokerKey, host: str, answer: RoleAnswer) -> None:
        """Record a check, and what it was answered; of brokers that were never stored nothing is recorded."""
        if answer.verdict is RoleVerdict.UNKNOWN and not answer.master_epoch:
            return
        if not answer.is_member and key not in self._checks:
            return
        now_ms, hosts = self._clock.now_ms(), self._checks.setdefault(key, {})
        before = hosts.pop(host, None)
        if len(hosts) >= HOSTS_MAX:
            del hosts[next(iter(hosts))]
        since_ms = before.down_since_ms if before is not None else None
        if answer.verdict is RoleVerdict.SERVES:
            since_ms = None
        elif answer.verdict in DOWN and since_ms is None:
            since_ms = now_ms
        interval_ms = min(now_ms - before.at_ms, INTERVAL_MS_MAX) if before is not None else 0
        hosts[host] = _LastCheck(now_ms, interval_ms, since_ms)

    def is_checked(self, key: BrokerKey) -> bool:
        """Return whether anybody checks a broker, so that a hold holds clients."""
        from_ms = self._clock.now_ms() - CHECKED_WITHIN_MS
        return any(each.at_ms >= from_ms for each in self._checks.get(key, {}).values())

    def hosts(self, key: BrokerKey) -> list[str]:
        now_ms = self._clock.now_ms()
        return sorted(host for host, each in self._checks.get(key, {}).items() if _checks(each, now_ms))

    def not_down(self, key: BrokerKey) -> list[str]:
        """Return who checks a broker, and may still have sessions to it although checks of it are answered `down`."""
        now_ms, checks = self._clock.now_ms(), self._checks.get(key, {})
        return [host for host in self.hosts(key) if not _is_down(checks[host], now_ms)]

    def clear(self) -> None:
        self._checks.clear()


def _checks(check: _LastCheck, now_ms: int) -> bool:
    return now_ms - check.at_ms <= max(CHECKS_WITHIN_MS, 2 * check.interval_ms)


def _is_down(check: _LastCheck, now_ms: int) -> bool:
    return check.down_since_ms is not None and now_ms - check.down_since_ms >= ANSWER_SETTLES_MS


#: No set is held for longer: a switchover that hangs must not keep clients out.
HOLD_MS_MAX: Final = 10_000


class _Hold(NamedTuple):
    since_ms: int
    until_ms: int


class RoleHolds:
    """Sets that a switchover holds, so that nobody is sent to any of their brokers, and until when; monotonic ms."""

    def __init__(self, clock: Clock, report: Callable[[str, int], None]) -> None:
        """`report` takes each set that is not held any more, once that is noticed, and for how many ms it was."""
        self._clock, self._report = clock, report
        self._held: dict[str, _Hold] = {}

    def hold(self, broker_name: str, until_ms: int) -> int:
        """Hold a set until then, HOLD_MS_MAX from now at most; returns until when."""
        now_ms = self._clock.now_ms()
        until_ms = min(until_ms, now_ms + HOLD_MS_MAX)
        before = self._held.get(broker_name)
        self._held[broker_name] = _Hold(now_ms if before is None else before.since_ms, until_ms)
        return until_ms

    def release(self, broker_name: str) -> None:
        if (held := self._held.pop(broker_name, None)) is not None:
            # It may have ended by itself before.
            self._report(broker_name, min(held.until_ms, self._clock.now_ms()) - held.since_ms)

    def clear(self) -> None:
        for broker_name in list(self._held):
            self.release(broker_name)

    def held_until_ms(self, broker_name: str, now_ms: int) -> int | None:
        held = self._held.get(broker_name)
        return held.until_ms if held is not None and now_ms < held.until_ms else None


#: How soon a broker that is not master yet is queried again: after a tenth of the time that it has taken so far, within
#: these limits. After the restart of a rack thousands are queried, and some need minutes, or never answer.
_AGAIN_MS: Final = 25
_AGAIN_MS_MAX: Final = 10_000
#: How many masters are queried at a time after elections; and the same number of those that a new leader found.
QUERIES_MAX: Final = 200


class ServingConfirmations:
    """Which masters are confirmed to serve, by their master epochs.

    A broker takes some hundred ms from its notification until it accepts messages. A client whose send is refused by a
    slave tries again at once, three times within some ms, so nobody is sent to it before.
    """

    def __init__(
        self,
        group: Group,
        clock: Clock,
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[bool]],
        query_is_master: Callable[[str], Awaitable[bool]],
        report: Callable[[RoleChange, int], None],
    ) -> None:
        """`query_is_master` is false without an answer; `report` takes a change, and after how many ms it serves."""
        self._group, self._clock, self._start = group, clock, start
        self._query_is_master, self._report = query_is_master, report
        #: Broker id and master epoch, by broker name.
        self._confirmed: dict[str, tuple[int, int]] = {}
        #: What confirms the last change of a set, by broker name.
        self._under_way: dict[str, asyncio.Task[bool]] = {}
        self._elected_turns = asyncio.Semaphore(QUERIES_MAX)
        # Thousands that a new leader queries do not hold up the few that were elected.
        self._found_turns = asyncio.Semaphore(QUERIES_MAX)

    def is_confirmed(self, broker_set: BrokerSet) -> bool:
        return self._confirmed.get(broker_set.broker_name) == (broker_set.master, broker_set.master_epoch)

    def role_changed(self, change: RoleChange) -> None:
        name = change.broker_name
        self._confirmed.pop(name, None)
        if (earlier := self._under_way.pop(name, None)) is not None:
            earlier.cancel()
        if change.new is not None:
            task = self._start(self._confirm_master(change, change.new, self._group.term))
            self._under_way[name] = task
            task.add_done_callback(partial(self._done, name))

    def clear(self) -> None:
        self._confirmed.clear()
        for task in self._under_way.values():
            task.cancel()
        self._under_way.clear()

    def _done(self, name: str, done: asyncio.Task[bool]) -> None:
        if self._under_way.get(name) is done:
            del self._under_way[name]

    async def _confirm_master(self, change: RoleChange, master: RoleHolder, term: int) -> None:
        began_ms = self._clock.now_ms()
        turns = self._found_turns if change.is_repeated else self._elected_turns
        while self._group.leads_in(term):
            async with turns:
                is_master = await self._query_is_master(master.address)
            after_ms = self._clock.now_ms() - began_ms
            if is_master and self._group.leads_in(term):
                self._confirmed[change.broker_name] = (master.broker_id, change.master_epoch)
                self._report(change, after_ms)
                return
            await asyncio.sleep(again_ms(after_ms) / 1000)


def again_ms(after_ms: int) -> int:
    """Return how soon a broker that was not master `after_ms` after its election is queried again."""
    return max(_AGAIN_MS, min(after_ms // 10, _AGAIN_MS_MAX))


class SetRoles(NamedTuple):
    broker_set: BrokerSet
    #: Its master has changed to master and has not failed since, and this controller knows it.
    is_confirmed: bool
    #: Until when a switchover holds it, monotonic ms; None if none does.
    held_until_ms: int | None
    #: By broker id.
    answers: dict[int, RoleAnswer]


class BrokerRoles:
    """Answers who serves, on this controller's knowledge; in doubt it answers UNKNOWN."""

    def __init__(
        self,
        control: BrokerRequests,
        serving: ServingConfirmations,
        holds: RoleHolds,
        checkers: RoleCheckers,
        clock: Clock,
    ) -> None:
        self._control, self._clock = control, clock
        self.serving, self.holds, self.checkers = serving, holds, checkers

    def answer(self, key: BrokerKey) -> RoleAnswer:
        control, now_ms = self._control, self._clock.now_ms()
        # What this process knew before a pause may be over.
        control.monitor.check_process_pause(now_ms)
        name, detector = key.broker_name, control.detector
        broker_set = control.store.get(name)
        facts = RoleFacts(
            broker_set=broker_set,
            leads=control.group.is_leader,
            is_held=self.holds.held_until_ms(name, now_ms) is not None,
            judges=detector.judges(now_ms),
            is_behind=broker_set is not None and control.is_behind(broker_set),
            has_failed=detector.failed_broker(key) is not None,
            is_trusted=key.broker_id in detector.trusted(name, now_ms),
            is_confirmed=broker_set is not None and self.serving.is_confirmed(broker_set),
        )
        return verdict_of(key.broker_id, facts)

    def of_set(self, broker_set: BrokerSet) -> SetRoles:
        name, master = broker_set.broker_name, broker_set.master
        has_failed = master is not None and self._control.detector.failed_broker(BrokerKey(name, master)) is not None
        return SetRoles(
            broker_set=broker_set,
            is_confirmed=self.serving.is_confirmed(broker_set) and not has_failed,
            held_until_ms=self.holds.held_until_ms(name, self._clock.now_ms()),
            answers={broker_id: self.answer(BrokerKey(name, broker_id)) for broker_id in broker_set.replicas},
        )

    def clear(self) -> None:
        self.serving.clear()
        self.holds.clear()
        self.checkers.clear()
