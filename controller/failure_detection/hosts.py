"""How many hosts of brokers fell silent together: where it is most of them, this controller may be the one cut off.

Only members of sets count, each under the host that is stored for it. Heartbeats of a broker on the controller's own
host arrive whatever becomes of the network, so that host proves nothing about the others. Anybody can register brokers
at hosts that do not exist, so a host has to be proven: this controller has reached a broker there, or a connection came
from there. Pure: `detector.py` judges.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from sys import intern
from typing import Final, NamedTuple

from controller.failure_detection.heartbeats import LATE_MS, PERIOD_MS_DEFAULT, BrokerKey

#: A host whose brokers were all given up counts as silent for so long: what falls silent later is another event.
WINDOW_MS: Final = 10_000
#: After so long most hosts count as failed, if any other host is in contact.
SILENCE_MS_MAX: Final = 60_000


class BrokerHost(NamedTuple):
    #: The number of its host; blank where only a name is known.
    host: str
    #: It was reached there, or its requests come from there.
    is_proven: bool


HOST_UNKNOWN: Final = BrokerHost("", is_proven=False)


@dataclass(slots=True)
class _Host:
    name: str
    is_own: bool
    #: When the next heartbeat of one of its brokers is due.
    due_ms: int
    brokers: int = 0
    #: The number under which it is proven to be there; blank if it is not.
    proof: str = ""
    #: None of its brokers made contact since this controller runs: nobody can have proven anything.
    is_expected: bool = False
    #: Since when none of its brokers is waited for any more, for want of an answer.
    given_up_ms: int | None = None


class Silence(NamedTuple):
    #: Hosts that count: all others than the own, if there are any.
    hosts: int = 0
    silent: int = 0
    #: Hosts of which a heartbeat is due, and may still come.
    awaited: int = 0
    #: Both of a cluster of two: this host and one other.
    are_two: bool = False

    @property
    def is_most(self) -> bool:
        """Return whether so many are silent that this controller may be cut off.

        Of two hosts the other one is judged as any broker: else no failover would ever be possible there.
        """
        return not self.are_two and 2 * self.silent > self.hosts

    @property
    def may_be_most(self) -> bool:
        return not self.are_two and 2 * (self.silent + self.awaited) > self.hosts


class HostLiveness:
    """The hosts of members, when the next heartbeat of each is due, and since when most of them are silent."""

    def __init__(self, is_own: Callable[[str], bool]) -> None:
        self.is_own = is_own
        self._hosts: dict[str, _Host] = {}
        #: The address and the host of each broker that is waited for.
        self._places: dict[BrokerKey, tuple[str, _Host]] = {}
        self._looked_ms = -1
        self._silence = Silence()
        #: When most hosts were found silent; None while that is not so.
        self.silent_from_ms: int | None = None
        #: Since when they were silent.
        self.silent_since_ms = 0
        #: Since when another host than the own is in contact, be it one that does not count.
        self.others_in_contact_from_ms: int | None = None

    def record_contact(self, key: BrokerKey, address: str, due_ms: int, broker_host: BrokerHost = HOST_UNKNOWN) -> None:
        """Take a member's sign of life, and when the next is due; of a proven host only what comes from it counts."""
        place = self._places.get(key)
        if place is None or place[0] != address:
            place = self._put(key, address, due_ms)
        host = place[1]
        # Thousands come each second.
        if broker_host.is_proven:
            if host.proof != broker_host.host:
                self._prove(host, broker_host.host)
        elif host.proof:
            return
        host.due_ms = due_ms
        host.is_expected = False

    def _prove(self, host: _Host, number: str) -> None:
        # Nearly always its name.
        host.proof = intern(number)
        host.is_own = host.is_own or self.is_own(number)

    def record_response(self, key: BrokerKey, now_ms: int) -> None:
        if (place := self._places.get(key)) is not None:
            place[1].due_ms = max(place[1].due_ms, now_ms + PERIOD_MS_DEFAULT)

    def expect(self, key: BrokerKey, address: str, due_ms: int) -> None:
        """Wait for a member that made no contact yet."""
        if key not in self._places:
            host = self._put(key, address, due_ms)[1]
            host.is_expected = not host.proof

    def waits_for(self, key: BrokerKey) -> bool:
        return key in self._places

    def give_up(self, key: BrokerKey, now_ms: int) -> None:
        """Wait no longer for a broker that does not answer; its host counts as silent for a while."""
        host = self._take(key)
        if host is not None and not host.brokers:
            host.given_up_ms = now_ms

    def remove(self, key: BrokerKey) -> None:
        """Wait no longer for a broker that is gone, and nobody else is to blame."""
        host = self._take(key)
        if host is not None and not host.brokers:
            del self._hosts[host.name]

    def after_pause(self, now_ms: int) -> None:
        """Record that this process was paused until now, so that no heartbeat could arrive."""
        for host in self._hosts.values():
            host.due_ms = max(host.due_ms, now_ms + PERIOD_MS_DEFAULT)

    def look(self, now_ms: int) -> Silence:
        if now_ms != self._looked_ms:
            self._looked_ms = now_ms
            if self.silent_from_ms is None:
                self._drop(lambda host: host.given_up_ms is not None and now_ms - host.given_up_ms > WINDOW_MS)
            self._silence = self._counted(now_ms)
        return self._silence

    def has_any_contact(self, now_ms: int) -> bool:
        """Return whether some host is in contact, be it the own; one that is not proven counts where none is."""
        is_unproven_in_contact = False
        # Each election asks: where there are thousands of hosts, nearly always the first of them ends the search.
        for host in self._hosts.values():
            if now_ms <= host.due_ms + LATE_MS:
                if host.is_own or host.proof or host.is_expected:
                    return True
                is_unproven_in_contact = True
        return is_unproven_in_contact and not any(host.proof and not host.is_own for host in self._hosts.values())

    def is_silent_for_good(self, now_ms: int) -> bool:
        """Return whether most hosts were silent for so long, while others were not, that they are given up."""
        silent_ms, last_contact_ms = self.silent_from_ms, self.others_in_contact_from_ms
        return (
            silent_ms is not None
            and last_contact_ms is not None
            and now_ms - max(silent_ms, last_contact_ms) > SILENCE_MS_MAX
        )

    def drop_silent(self, now_ms: int) -> None:
        """Wait no longer for the hosts that are silent: the others are all there are."""
        self._drop(lambda host: now_ms > host.due_ms + LATE_MS)
        self._looked_ms = -1

    def _drop(self, is_dropped: Callable[[_Host], bool]) -> None:
        dropped = {name for name, host in self._hosts.items() if is_dropped(host)}
        if any([self._hosts.pop(name).brokers for name in dropped]):  # noqa: C419  # all of them
            self._places = {key: place for key, place in self._places.items() if place[1].name not in dropped}

    def _counted(self, now_ms: int) -> Silence:
        hosts = list(self._hosts.values())
        others = _due(host for host in hosts if not host.is_own)
        counting = others or _due(hosts)
        # A heartbeat that is due a moment ago may be on its way.
        silent = [due_ms for due_ms in counting if now_ms > due_ms + LATE_MS]
        awaited = sum(now_ms > due_ms for due_ms in counting) - len(silent)
        own_in_contact = any(host.is_own and now_ms <= host.due_ms + LATE_MS for host in hosts)
        if silent and self.silent_from_ms is None:
            self.silent_since_ms = min(silent) - PERIOD_MS_DEFAULT
        # Where few hosts are proven, as behind proxies, the others have to end the wait for those few.
        other_in_contact = any(not host.is_own and now_ms <= host.due_ms + LATE_MS for host in hosts)
        if len(silent) == len(counting) and not other_in_contact:
            self.others_in_contact_from_ms = None
        elif self.others_in_contact_from_ms is None:
            self.others_in_contact_from_ms = now_ms
        are_two = len(others) == 1 and own_in_contact
        return Silence(len(counting), len(silent), awaited, are_two=are_two)

    def _put(self, key: BrokerKey, address: str, due_ms: int) -> tuple[str, _Host]:
        if key in self._places:
            self.remove(key)
        name = intern(address.rpartition(":")[0])
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = _Host(name, self.is_own(name), due_ms)
        host.brokers += 1
        host.given_up_ms = None
        place = self._places[key] = address, host
        return place

    def _take(self, key: BrokerKey) -> _Host | None:
        place = self._places.pop(key, None)
        if place is None:
            return None
        place[1].brokers -= 1
        return place[1]


def _due(hosts: Iterable[_Host]) -> list[int]:
    """Return when the next heartbeat of each host that counts is due: a host with several names is one.

    All count where none is proven: neither way between this controller and its brokers may show where they are.
    """
    all_hosts = list(hosts)
    proven: dict[str, int] = {}
    for host in all_hosts:
        if host.proof:
            proven[host.proof] = max(host.due_ms, proven.get(host.proof, host.due_ms))
    if not proven:
        return [host.due_ms for host in all_hosts]
    return [*proven.values(), *(host.due_ms for host in all_hosts if host.is_expected)]
