"""When a NameServer looks for silent brokers, and what changes when members of a broker set leave.

They leave by request, by silence, or with their connection. All members that leave together are decided together, so
that nobody is notified of a successor that leaves in the same moment. Answers to `RouteInfoManager.unRegisterBroker`
(docs/protocol/namesrv.md 3.4 to 3.6). Pure: time is an argument.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from namesrv.core.tables.broker_table import RegisteredSet
from namesrv.core.tables.change import RouteTables, SetChange, counted, without_write
from namesrv.core.tables.live_table import LiveKey, removal_event
from namesrv.core.tables.topic_table import QueueChanges, queue_changes
from namesrv.core.values.effects import BrokerRemoved, DepartureReason, NotifyMinBrokerIdChange, RouteChanges


class DepartureDecision(msgspec.Struct, frozen=True, kw_only=True):
    change: SetChange
    removed: tuple[BrokerRemoved, ...]
    notify: NotifyMinBrokerIdChange | None = None


def decide(tables: RouteTables, leaving: Sequence[LiveKey], reason: DepartureReason, now_ms: int) -> DepartureDecision:
    """Return what the departure of some living members of one set comes to."""
    broker_name = leaving[0].broker_name
    before = tables.brokers.get(broker_name)
    assert before is not None, "a live member belongs to a set"
    after = before.without(key.address for key in leaving)
    has = tables.topics.of_broker(broker_name)
    queues = QueueChanges()
    removed_topics: tuple[str, ...] = ()
    if not after.members:
        removed_topics = tuple(has)
    elif after.has_acting_master:
        queues = queue_changes(has, without_write(has))
    changes = counted(queues, removed_topics)
    return DepartureDecision(
        change=SetChange(
            broker_set=after,
            removed_members=tuple(leaving),
            queue_changes=queues,
            removed_topics=removed_topics,
            # Their topics are read only from now on, whatever an operator had set.
            lifted_overrides=tuple(tables.permission_overrides.of(broker_name))
            if queues.queues or not after.members
            else (),
        ),
        # The changes of routes are one event, with the last to leave.
        removed=tuple(
            _removed(tables, key, after, changes if key is leaving[-1] else RouteChanges(), reason, now_ms)
            for key in leaving
        ),
        notify=_notification(before, after, leaving),
    )


def _removed(
    tables: RouteTables, key: LiveKey, after: RegisteredSet, changes: RouteChanges, reason: DepartureReason, now_ms: int
) -> BrokerRemoved:
    row = tables.live.get(key)
    assert row is not None, "who leaves was there"
    if reason is DepartureReason.TIMEOUT and row.last_heartbeat_ms + row.timeout_ms >= now_ms:
        # It was waited for, over another connection than the one it lost.
        reason = DepartureReason.CHANNEL_CLOSED
    event = removal_event(key, row, reason, now_ms)
    return msgspec.structs.replace(event, set_removed=not after.members, changes=changes)


def _notification(
    before: RegisteredSet, after: RegisteredSet, leaving: Sequence[LiveKey]
) -> NotifyMinBrokerIdChange | None:
    """Return whom to notify that the smallest broker id left a set which lets a slave act as master."""
    if not after.members or not after.enable_acting_master or before.min_broker_id == after.min_broker_id:
        return None
    gone = before.members[before.min_broker_id].address
    assert any(key.address == gone for key in leaving), "the smallest id moves only when its holder leaves"
    return NotifyMinBrokerIdChange(
        broker_name=after.broker_name,
        min_broker_id=after.min_broker_id,
        min_broker_addr=after.members[after.min_broker_id].address,
        offline_broker_addr=gone,
        ha_broker_addr=None,
        recipients=tuple(member.address for member in after.members.values()),
    )


#: The shortest and the longest wait, in ms: brokers may ask for any timeout, and one that registers meanwhile may have
#: an earlier deadline than all others.
WAIT_MS_MIN: Final = 100
WAIT_MS_MAX: Final = 1_000
#: A wait that ends later than this was held up with everything else.
PAUSE_MS: Final = 1_000
#: After so many pauses in a row scans resume, or no broker would ever expire.
PAUSES_MAX: Final = 5


class ExpirySchedule:
    """The waits between two scans."""

    def __init__(self, now_ms: int) -> None:
        self._scanned_ms = now_ms
        #: When the present wait should end.
        self._wait_ends_ms = now_ms
        #: No scan before.
        self._suspended_until_ms = now_ms
        self._pauses = 0

    def wait_ms(self, now_ms: int, earliest_ms: int | None, interval_ms: int) -> int:
        """Return how long to wait; `earliest_ms` is a time before which no deadline lies, None without brokers."""
        due_ms = self._scanned_ms + interval_ms
        if earliest_ms is not None:
            due_ms = min(due_ms, earliest_ms + 1)
        wait_ms = max(WAIT_MS_MIN, min(WAIT_MS_MAX, max(due_ms, self._suspended_until_ms) - now_ms))
        self._wait_ends_ms = now_ms + wait_ms
        return wait_ms

    def pause_ms(self, now_ms: int, interval_ms: int) -> int | None:
        """Return by how much the wait was late if brokers only seem silent for an interval from now on."""
        late_ms = now_ms - self._wait_ends_ms
        if late_ms <= PAUSE_MS or self._pauses >= PAUSES_MAX:
            return None
        self._pauses += 1
        self._suspended_until_ms = now_ms + interval_ms
        return late_ms

    def is_due(self, now_ms: int, earliest_ms: int | None, interval_ms: int) -> bool:
        """Return whether to scan now; the caller scans if so."""
        is_late = earliest_ms is not None and earliest_ms < now_ms
        if now_ms < self._suspended_until_ms or not (is_late or now_ms >= self._scanned_ms + interval_ms):
            return False
        self._scanned_ms = now_ms
        self._pauses = 0
        return True
