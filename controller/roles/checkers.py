"""Who checks the role of each master: the hosts of proxies and agents, and which of them were answered `down`.

A switchover, and an election after the silence of a master, wait until every one that checks has been answered so: only
then have all sessions to the master ended. In memory of the controller that answers; bounded, as anybody can check.
Answers to no class of Java's.
"""

from typing import Final, NamedTuple

from controller.failure_detection.heartbeats import BrokerKey
from controller.roles.verdict import DOWN, RoleAnswer, RoleVerdict
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
    """The hosts that check, by broker; monotonic ms."""

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
        """Return who checks a broker at present."""
        now_ms = self._clock.now_ms()
        return sorted(host for host, each in self._checks.get(key, {}).items() if _checks(each, now_ms))

    def not_down(self, key: BrokerKey) -> list[str]:
        """Return who checks a broker, and may still have sessions to it although checks of it are answered `down`."""
        now_ms, checks = self._clock.now_ms(), self._checks.get(key, {})
        return [host for host in self.hosts(key) if not _is_down(checks[host], now_ms)]

    def clear(self) -> None:
        """Forget all: another controller leads, and is checked."""
        self._checks.clear()


def _checks(check: _LastCheck, now_ms: int) -> bool:
    return now_ms - check.at_ms <= max(CHECKS_WITHIN_MS, 2 * check.interval_ms)


def _is_down(check: _LastCheck, now_ms: int) -> bool:
    return check.down_since_ms is not None and now_ms - check.down_since_ms >= ANSWER_SETTLES_MS
