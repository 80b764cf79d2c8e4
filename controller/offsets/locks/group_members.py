"""Which clients are members of which group, by the lists of the brokers (203), and which of them are lost. Pure.

A client is connected to every broker of its topics, slaves included, so any of them passes a request on to it. A list
shows who is connected to that broker alone: one that has restarted lists nobody until clients send their next
heartbeat, up to 30 s later. Source: docs/protocol/broker-admin.md 18.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from controller.offsets.locks.holders import BROKER_LOCK_MS, CLIENT_VALIDITY_MS, UNCONFIRMED_MS, GroupMember
from controller.offsets.values import NAME_CHARACTERS_MAX
from remoting.admin.groups import GroupConnections

#: A client that no broker has listed for so long is lost. One that lives and lost all its connections has stopped
#: consuming by then: it does not trust a lock longer than this without renewing it.
LOST_MS: Final = CLIENT_VALIDITY_MS + 5000
#: A client that nobody has listed for so long is not waited for any more, whether its brokers answer or not: it has
#: given up its locks, brokers have ended them, and a minute is left for lists that come late.
UNLISTED_MS: Final = UNCONFIRMED_MS + BROKER_LOCK_MS
#: Only push consumers lock queues.
PUSH: Final = "CONSUME_PASSIVELY"
#: Members of all groups.
MEMBERS_MAX: Final = 50_000
#: Clients of one answer; a forged one could list any number.
CLIENTS_PER_LIST_MAX: Final = 5000


class _Listed(NamedTuple):
    """What one broker answered last about one group."""

    queried_ms: int
    clients: frozenset[str]


@dataclass(slots=True)
class _Group:
    is_clustering: bool = False
    is_push: bool = False
    #: By address of the broker.
    lists: dict[str, _Listed] = field(default_factory=dict)
    #: By client id, when a broker listed it last, and which brokers ever did.
    listed_ms: dict[str, int] = field(default_factory=dict)
    brokers: dict[str, set[str]] = field(default_factory=dict)


class ListedMembers:
    """The members of all groups of one cluster as its brokers list them.

    Group names are unique in a cluster only: there is one table for each.
    """

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._members = 0
        #: Members that were left out, because the table was full or their client ids are too long.
        self.left_out = 0

    def record(self, address: str, group: str, connections: GroupConnections | None, queried_ms: int) -> None:
        """Replace what the broker at "host:port" lists of a group; None is nobody. `queried_ms` is monotonic."""
        if connections is None or not connections.clients:
            if (known := self._groups.get(group)) is not None:
                known.lists[address] = _Listed(queried_ms, frozenset())
            return
        found = self._groups.setdefault(group, _Group())
        # What the brokers of one group answer differs only while an operator changes its clients.
        found.is_clustering = not connections.is_broadcasting
        found.is_push = connections.consume_type == PUSH
        clients = [each.client_id for each in connections.clients[:CLIENTS_PER_LIST_MAX]]
        listed = frozenset(each for each in clients if self._has_room(found, each))
        self.left_out += len(set(clients)) - len(listed)
        found.lists[address] = _Listed(queried_ms, listed)
        for each in listed:
            found.listed_ms[each] = max(queried_ms, found.listed_ms.get(each, queried_ms))
            found.brokers.setdefault(each, set()).add(address)

    def _has_room(self, group: _Group, client_id: str) -> bool:
        if client_id in group.listed_ms:
            return True
        if self._members >= MEMBERS_MAX or not 0 < len(client_id) <= NAME_CHARACTERS_MAX:
            return False
        self._members += 1
        group.listed_ms[client_id] = 0
        return True

    def drop_broker(self, address: str) -> None:
        """Forget what a broker listed that failed or left: nobody can be queried through it, and it proves nothing."""
        for group in self._groups.values():
            group.lists.pop(address, None)

    def lockable_groups(self) -> Iterator[str]:
        """Yield the groups of push consumers that share their queues: the only ones that may lock any."""
        for name, group in self._groups.items():
            if group.is_clustering and group.is_push:
                yield name

    def may_lock(self, group: str) -> bool:
        """Return whether a group is one of `lockable_groups`."""
        known = self._groups.get(group)
        return known is not None and known.is_clustering and known.is_push

    def clients_of(self, group: str) -> tuple[str, ...]:
        """Return the client ids of a group's members, sorted; those included that are no longer listed."""
        known = self._groups.get(group)
        return tuple(sorted(known.listed_ms)) if known is not None else ()

    def brokers_of(self, member: GroupMember) -> tuple[str, ...]:
        """Return the addresses of the brokers that list a member now, sorted."""
        known = self._groups.get(member.group)
        if known is None:
            return ()
        return tuple(sorted(address for address, each in known.lists.items() if member.client_id in each.clients))

    def lost(self, now_ms: int) -> tuple[GroupMember, ...]:
        """Return the members that are lost for certain, sorted.

        No broker lists them, and one that did has answered LOST_MS after they were listed last. Brokers that do not
        answer prove nothing: while only they have listed a member, it is not lost.
        """
        return tuple(
            sorted(
                GroupMember(name, client_id)
                for name, group in self._groups.items()
                for client_id, listed_ms in group.listed_ms.items()
                if now_ms - listed_ms >= LOST_MS and _is_lost(group, client_id, listed_ms)
            )
        )

    def is_lost(self, member: GroupMember, now_ms: int) -> bool:
        """Return whether a member is one of `lost`; True for one that is unknown."""
        group = self._groups.get(member.group)
        if group is None or (listed_ms := group.listed_ms.get(member.client_id)) is None:
            return True
        return now_ms - listed_ms >= LOST_MS and _is_lost(group, member.client_id, listed_ms)

    def unlisted(self, now_ms: int) -> tuple[GroupMember, ...]:
        """Return the members that no broker has listed for UNLISTED_MS, sorted.

        They may live, if no broker has answered: so nothing is given up for them. There is no use in waiting longer.
        """
        return tuple(
            sorted(
                GroupMember(name, client_id)
                for name, group in self._groups.items()
                for client_id, listed_ms in group.listed_ms.items()
                if now_ms - listed_ms >= UNLISTED_MS
            )
        )

    def outside(self, groups: Collection[str]) -> tuple[GroupMember, ...]:
        """Return the members of all groups but these, sorted."""
        return tuple(
            sorted(
                GroupMember(name, client_id)
                for name, group in self._groups.items()
                if name not in groups
                for client_id in group.listed_ms
            )
        )

    def __len__(self) -> int:
        """Return how many members there are."""
        return self._members

    def forget(self, members: Collection[GroupMember]) -> None:
        """Forget members; a broker that lists one of them again makes it a member again."""
        for member in members:
            if (group := self._groups.get(member.group)) is None or group.listed_ms.pop(member.client_id, None) is None:
                continue
            self._members -= 1
            group.brokers.pop(member.client_id, None)
            if not group.listed_ms:
                del self._groups[member.group]


def _is_lost(group: _Group, client_id: str, listed_ms: int) -> bool:
    answered = [each for address in group.brokers.get(client_id, ()) if (each := group.lists.get(address)) is not None]
    is_listed = any(client_id in each.clients for each in group.lists.values())
    return not is_listed and any(each.queried_ms - listed_ms >= LOST_MS for each in answered)
