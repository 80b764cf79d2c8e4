"""The last heartbeat of each broker, with the end of its log: each controller has its own, never stored.

Answers to `BrokerHeartbeatManager` (docs/protocol/controller.md 3.1). Times are monotonic ms of this controller.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple

import msgspec

from remoting.protocol.addresses import host_number

#: What counts where a heartbeat lacks the field.
HEARTBEAT_TIMEOUT_MS_DEFAULT: Final = 10_000
PRIORITY_LOWEST: Final = 2**31 - 1
UNKNOWN: Final = -1
#: A heartbeat each second is the default of brokerHeartbeatInterval; no request has it.
PERIOD_MS_DEFAULT: Final = 1_000
#: Heartbeats that are further apart are those of tries to start, or of a broker with a longer interval.
PERIODIC_MS: Final = 2_500
#: Limit of the heartbeat timeout where it alone decides how long a broker may be silent: one forged heartbeat must not
#: keep a failed broker alive for a day.
TIMEOUT_BELIEVED_MS_MAX: Final = 60_000
#: A heartbeat is late so long after it was due.
LATE_MS: Final = 1_000
#: A broker with a longer interval is probed so long after a heartbeat that did not come.
_PATIENCE_MS: Final = 2_000
#: It has sent requests, but no heartbeat.
_NEVER: Final = -1
#: No time at all, not even of one and the same millisecond.
_AT_ONCE: Final = -1
#: So long, or one and a half intervals, a heartbeat over the broker's own connection outweighs those over others:
#: anybody can send heartbeats.
OWN_CONNECTION_MS: Final = 1_500
#: A heartbeat from the host of the broker outweighs others for as long as no heartbeat of it can be on its way.
HOME_CONNECTION_MS: Final = 10_000


class BrokerKey(NamedTuple):
    """One broker of a set."""

    broker_name: str
    broker_id: int


class Source(NamedTuple):
    """Where a request comes from: a connection, and its other end as host:port, blank where nobody knows."""

    connection_id: int
    peer: str = ""


class Owner(NamedTuple):
    """The connection over which a broker reported the end of its log, and when its last heartbeat came there."""

    connection_id: int
    last_contact_ms: int
    #: Its other end.
    peer: str = ""


class LastHeartbeat(msgspec.Struct, frozen=True, gc=False):
    """What a broker reported last, and when."""

    last_contact_ms: int
    timeout_ms: int = HEARTBEAT_TIMEOUT_MS_DEFAULT
    #: The last epoch in its log, and the end of the log; over one connection they only move forward.
    epoch: int = UNKNOWN
    max_offset: int = UNKNOWN
    confirm_offset: int = UNKNOWN
    #: The lower is preferred.
    priority: int = PRIORITY_LOWEST
    #: The connection over which its last request came.
    connection_id: int = 0
    #: The address that it reports; blank before its first heartbeat.
    address: str = ""
    #: The other end of the connection that its last heartbeat came over, as host:port; blank where nobody knows.
    peer: str = ""
    #: It has started and not reported the end of its log since.
    awaits_heartbeat: bool = False
    #: It has started and does not serve yet: until then it sends one heartbeat for each try, some seconds apart.
    is_starting: bool = False
    #: How far apart its heartbeats come, as observed; 0 until it has sent two.
    period_ms: int = PERIOD_MS_DEFAULT
    #: When its last heartbeat came if another request came since; 0: at `last_contact_ms`.
    heartbeat_ms: int = 0
    #: The connection that epoch and offsets are from, if not `connection_id`.
    owner: Owner | None = None

    @property
    def made_contact(self) -> bool:
        """Whether anything came from it: one that fails without counts as silent since this controller started."""
        return not self.awaits_heartbeat or self.heartbeat_ms == _NEVER

    def is_alive(self, now_ms: int) -> bool:
        return self.last_contact_ms + self.timeout_ms >= now_ms

    def is_silent(self, now_ms: int, silence_ms: int) -> bool:
        return self.last_contact_ms + self.silence_allowed_ms(silence_ms) < now_ms

    def silence_allowed_ms(self, silence_ms: int) -> int:
        """Return how long it may be silent: `silence_ms`, longer if its heartbeats are further apart than others'.

        At most its own timeout; who starts, or has sent one heartbeat only, has all of it, or TIMEOUT_BELIEVED_MS_MAX.
        """
        if self.is_starting or not self.period_ms:
            return min(self.timeout_ms, TIMEOUT_BELIEVED_MS_MAX)
        if self.period_ms > PERIODIC_MS:
            silence_ms = max(silence_ms, self.period_ms + _PATIENCE_MS)
        return min(silence_ms, self.timeout_ms)

    @property
    def due_ms(self) -> int:
        """When its next heartbeat is due, as far as that is known."""
        return self.last_contact_ms + (self.period_ms or min(self.timeout_ms, TIMEOUT_BELIEVED_MS_MAX) - LATE_MS)

    @property
    def own(self) -> Owner:
        return self.owner or Owner(self.connection_id, self.last_heartbeat_ms, self.peer)

    @property
    def last_heartbeat_ms(self) -> int:
        return self.heartbeat_ms or self.last_contact_ms

    @property
    def has_messages(self) -> bool:
        """Whether there is anything in its log; an epoch is begun only where somebody led."""
        return self.epoch > 0 or self.max_offset > 0

    @property
    def progress(self) -> tuple[int, int]:
        """How far its log is: offsets of one epoch can be compared."""
        return self.epoch, self.max_offset


_replaced: Final = msgspec.structs.replace


@dataclass(slots=True)
class BrokersByConnection:
    """Connection -> some brokers. Nearly always it is one, which needs no set: there are many thousands."""

    _one: dict[int, BrokerKey] = field(default_factory=dict)
    #: All others of connections with several.
    _more: dict[int, set[BrokerKey]] = field(default_factory=dict)

    def of(self, connection_id: int) -> tuple[BrokerKey, ...]:
        one = self._one.get(connection_id)
        return () if one is None else (one, *self._more.get(connection_id, ()))

    def add(self, connection_id: int, key: BrokerKey) -> None:
        if self._one.setdefault(connection_id, key) != key:
            self._more.setdefault(connection_id, set()).add(key)

    def discard(self, connection_id: int, key: BrokerKey) -> None:
        more = self._more.get(connection_id, set())
        if self._one.get(connection_id) != key:
            more.discard(key)
        elif more:
            self._one[connection_id] = more.pop()
        else:
            del self._one[connection_id]
        if not more:
            self._more.pop(connection_id, None)

    def pop(self, connection_id: int) -> tuple[BrokerKey, ...]:
        brokers = self.of(connection_id)
        self._one.pop(connection_id, None)
        self._more.pop(connection_id, None)
        return brokers


class HeartbeatTable:
    def __init__(self) -> None:
        self._rows: dict[str, dict[int, LastHeartbeat]] = {}
        self._over = BrokersByConnection()
        #: Those whose last request came over another connection than their own, by their own.
        self._owned = BrokersByConnection()
        #: All brokers, the longest silent first.
        self._by_age: OrderedDict[BrokerKey, None] = OrderedDict()
        #: The `silence_ms` of the last call, and the brokers whose own timeout is shorter.
        self._silence_ms = 0
        self._impatient: set[BrokerKey] = set()

    @property
    def brokers(self) -> int:
        return len(self._by_age)

    def get(self, key: BrokerKey) -> LastHeartbeat | None:
        members = self._rows.get(key.broker_name)
        return None if members is None else members.get(key.broker_id)

    def of_set(self, broker_name: str) -> Mapping[int, LastHeartbeat]:
        return self._rows.get(broker_name, {})

    def rows(self) -> Iterable[tuple[BrokerKey, LastHeartbeat]]:
        return (
            (BrokerKey(name, i), heartbeat) for name, members in self._rows.items() for i, heartbeat in members.items()
        )

    def silent(self, now_ms: int, silence_ms: int) -> list[BrokerKey]:
        """Return the brokers that were silent for longer than `silence_ms`, or their own timeout if that is shorter."""
        if silence_ms != self._silence_ms:
            self._silence_ms = silence_ms
            self._impatient = {key for key, heartbeat in self.rows() if heartbeat.timeout_ms < silence_ms}
        silent = [key for key in self._impatient if self._row(key).is_silent(now_ms, silence_ms)]
        for key in self._by_age:
            heartbeat = self._row(key)
            if heartbeat.last_contact_ms + silence_ms >= now_ms:
                # Nearly always this is the first: thousands send heartbeats each second, and are not looked through.
                break
            if heartbeat.timeout_ms >= silence_ms and heartbeat.is_silent(now_ms, silence_ms):
                silent.append(key)
        return silent

    def alive(self, broker_name: str, now_ms: int) -> dict[int, LastHeartbeat]:
        return {i: heartbeat for i, heartbeat in self.of_set(broker_name).items() if heartbeat.is_alive(now_ms)}

    def over(self, connection_id: int) -> tuple[BrokerKey, ...]:
        return tuple(sorted(self._over.of(connection_id)))

    def connected_over(self, connection_id: int) -> Iterator[BrokerKey]:
        """Return the brokers whose last request came over this connection, or whose own it is."""
        return chain(self._over.of(connection_id), self._owned.of(connection_id))

    def record_heartbeat(self, key: BrokerKey, heartbeat: LastHeartbeat, home: str = "") -> LastHeartbeat:
        """Take a heartbeat, and return the row; epoch and offset only move forward, as an older one may come late.

        Over another connection they count once the broker's own was silent for OWN_CONNECTION_MS. What comes from
        `home`, the number of the broker's host, counts at once before all else, and then for HOME_CONNECTION_MS.
        """
        members = self._rows.get(key.broker_name)
        before = members.get(key.broker_id) if members is not None else None
        if members is None or before is None:
            heartbeat = _replaced(heartbeat, period_ms=0)
            self._put(key, heartbeat)
            return heartbeat
        if before.is_starting and (
            before.awaits_heartbeat or heartbeat.last_contact_ms - before.last_contact_ms > PERIODIC_MS
        ):
            heartbeat = _replaced(heartbeat, is_starting=True, period_ms=0)
        elif before.heartbeat_ms or before.period_ms != PERIOD_MS_DEFAULT:
            heartbeat = _replaced(heartbeat, period_ms=_period_ms(before, heartbeat))
        # Nearly always both are as before or higher.
        if before.connection_id != heartbeat.connection_id or before.owner is not None:
            heartbeat = _of_owner(before, heartbeat, home)
        elif (
            before.max_offset > heartbeat.max_offset or before.epoch > heartbeat.epoch
        ) and before.progress > heartbeat.progress:
            heartbeat = _replaced(heartbeat, epoch=before.epoch, max_offset=before.max_offset)
        if before.connection_id == heartbeat.connection_id and before.owner is heartbeat.owner:
            # Nearly all heartbeats end here.
            members[key.broker_id] = heartbeat
            self._by_age.move_to_end(key)
            if heartbeat.timeout_ms != before.timeout_ms:
                self._sort_by_patience(key, heartbeat)
        else:
            self._put(key, heartbeat)
        return heartbeat

    def record_contact(self, key: BrokerKey, now_ms: int, connection_id: int) -> None:
        """Count another request as a sign of life: heartbeats may go astray (docs/protocol/controller.md 4.1)."""
        before = self.get(key) or LastHeartbeat(now_ms, period_ms=0, heartbeat_ms=_NEVER, connection_id=connection_id)
        owner = before.owner if before.connection_id == connection_id else _owner_of(before)
        after = _replaced(before, last_contact_ms=now_ms, heartbeat_ms=before.heartbeat_ms or before.last_contact_ms)
        self._put(key, _replaced(after, connection_id=connection_id, owner=owner))

    def record_response(self, key: BrokerKey, now_ms: int) -> None:
        """Count the answer to a probe as a sign of life; of an unknown broker it is the first."""
        before = self.get(key)
        if before is not None:
            self.record_contact(key, now_ms, before.connection_id)
        else:
            self._put(key, LastHeartbeat(now_ms, awaits_heartbeat=True, heartbeat_ms=_NEVER))

    def record_restart(self, key: BrokerKey, now_ms: int, connection_id: int) -> None:
        """Forget how far a log was: a new process may have recovered less."""
        before = self.get(key) or LastHeartbeat(now_ms)
        after = _replaced(
            before, last_contact_ms=now_ms, connection_id=connection_id, awaits_heartbeat=True, is_starting=True
        )
        # Address, log end and heartbeat interval were those of another process.
        after = _replaced(after, address="", epoch=UNKNOWN, max_offset=UNKNOWN, confirm_offset=UNKNOWN, owner=None)
        self._put(key, _replaced(after, period_ms=0, heartbeat_ms=_NEVER))

    def remove(self, key: BrokerKey) -> None:
        members = self._rows.get(key.broker_name, {})
        before = members.pop(key.broker_id, None)
        if before is not None:
            del self._by_age[key]
            self._impatient.discard(key)
            self._over.discard(before.connection_id, key)
            if before.owner is not None:
                self._owned.discard(before.owner.connection_id, key)
        if not members:
            self._rows.pop(key.broker_name, None)

    def _put(self, key: BrokerKey, heartbeat: LastHeartbeat) -> None:
        members = self._rows.setdefault(key.broker_name, {})
        before = members.get(key.broker_id)
        members[key.broker_id] = heartbeat
        self._by_age[key] = None
        self._by_age.move_to_end(key)
        self._sort_by_patience(key, heartbeat)
        if before is None or before.connection_id != heartbeat.connection_id:
            if before is not None:
                self._over.discard(before.connection_id, key)
            self._over.add(heartbeat.connection_id, key)
        if before is not None and before.owner is not None:
            self._owned.discard(before.owner.connection_id, key)
        if heartbeat.owner is not None:
            self._owned.add(heartbeat.owner.connection_id, key)

    def _sort_by_patience(self, key: BrokerKey, heartbeat: LastHeartbeat) -> None:
        if heartbeat.timeout_ms < self._silence_ms:
            self._impatient.add(key)
        else:
            self._impatient.discard(key)

    def _row(self, key: BrokerKey) -> LastHeartbeat:
        return self._rows[key.broker_name][key.broker_id]


def _period_ms(before: LastHeartbeat, heartbeat: LastHeartbeat) -> int:
    """Return how far apart heartbeats come: the longest gap counts, and ever less if it does not come again."""
    if before.heartbeat_ms == _NEVER:
        return 0
    if before.period_ms == PERIOD_MS_DEFAULT:
        # One late heartbeat of a broker that sends one each second is no new interval: that takes a restart.
        return PERIOD_MS_DEFAULT
    gap_ms = heartbeat.last_contact_ms - (before.heartbeat_ms or before.last_contact_ms)
    period_ms = max(gap_ms, before.period_ms * 3 // 4)
    return PERIOD_MS_DEFAULT if period_ms <= PERIODIC_MS else min(period_ms, heartbeat.timeout_ms)


def _owner_of(before: LastHeartbeat) -> Owner | None:
    """Return the connection whose reports count for the log of a broker; None if there is none."""
    if before.awaits_heartbeat:
        return None
    return before.own


def _of_owner(before: LastHeartbeat, heartbeat: LastHeartbeat, home: str) -> LastHeartbeat:
    """Return a heartbeat with the epoch and offsets that count, of a broker that uses several connections."""
    owner = _owner_of(before)
    if owner is None or heartbeat.last_contact_ms - owner.last_contact_ms > _outweighs_ms(
        owner, before, heartbeat, home
    ):
        return _replaced(heartbeat, owner=None)
    if owner.connection_id != heartbeat.connection_id:
        # Anybody can send it: it counts as a sign of life only.
        log = {"epoch": before.epoch, "max_offset": before.max_offset, "confirm_offset": before.confirm_offset}
        way = {"address": before.address, "timeout_ms": before.timeout_ms, "period_ms": before.period_ms}
        return _replaced(heartbeat, owner=owner, priority=before.priority, **log, **way)
    if before.progress > heartbeat.progress:
        heartbeat = _replaced(heartbeat, epoch=before.epoch, max_offset=before.max_offset)
    return _replaced(heartbeat, owner=None)


def _outweighs_ms(owner: Owner, before: LastHeartbeat, heartbeat: LastHeartbeat, home: str) -> int:
    """Return for how long what a broker reported over its own connection outweighs a heartbeat over any."""
    own_ms = max(OWN_CONNECTION_MS, before.period_ms * 3 // 2)
    was_home = home != "" and host_number(owner.peer) == home
    is_home = home != "" and host_number(heartbeat.peer) == home
    if was_home == is_home:
        return own_ms
    return _AT_ONCE if is_home else max(own_ms, HOME_CONNECTION_MS)
