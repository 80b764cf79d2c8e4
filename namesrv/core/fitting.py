"""What fits into an answer that lists broker sets, of what hosts have registered for it.

Everybody gets these answers, and no peer reads more than 16 MiB. So each host has a share of one; where all together
are too long, those that add most have less. The latest that a host added is left out first, its own sets and its
members of others' sets alike. Pure.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from namesrv.core.tables.broker_table import RegisteredSet
from namesrv.core.values.cooperative import CooperativeTask, in_batches

#: All that an answer lists, in bytes; JSON writes some characters as two.
ANSWER_BYTES_MAX: Final = 7 * 1024 * 1024
#: What each of the topicSetsPerHostMax sets of a host may add to a route, in bytes.
ROUTE_BYTES_PER_SET: Final = 1024
#: A host may add so much to a route, however few sets it may have.
ROUTE_HOST_BYTES_MIN: Final = 64 * 1024
#: The names of fields, and numbers.
_SET_BYTES: Final = 300
_MEMBER_BYTES: Final = 24


class Addition(NamedTuple):
    """What a host adds to an answer."""

    network: str
    #: The set, and which of its members; None for what the set has beside them.
    broker_name: str
    broker_id: int | None
    size_bytes: int


def additions(
    broker_set: RegisteredSet, filter_servers: Mapping[str, Sequence[str]], mapping_bytes: int = 0
) -> Iterable[Addition]:
    """Yield what a set adds to an answer; `filter_servers` has those of its members by address."""
    name = broker_set.broker_name
    texts_bytes = _bytes(name) * 3 + _bytes(broker_set.cluster) * 2 + _bytes(broker_set.zone_name or "")
    yield Addition(broker_set.network, name, None, _SET_BYTES + texts_bytes + mapping_bytes)
    for broker_id, member in broker_set.members.items():
        size = _MEMBER_BYTES + len(member.address)
        if member.cluster != broker_set.cluster:
            # Another cluster that lists the set.
            size += _bytes(name) + _bytes(member.cluster)
        if servers := filter_servers.get(member.address):
            size += len(member.address) + sum(map(len, servers)) + 4 * len(servers)
        yield Addition(member.network, name, broker_id, size)


def fitting(
    sets: Sequence[RegisteredSet], added: Sequence[Addition], host_bytes_max: int = ANSWER_BYTES_MAX
) -> CooperativeTask[Sequence[RegisteredSet]]:
    """Return the sets with those of their members that fit, as they came; `added` has what each of them adds."""
    sums: Counter[str] = Counter()
    for part in in_batches(added):
        for addition in part:
            sums[addition.network] += addition.size_bytes
        yield
    share = min(host_bytes_max, share_of(sums.values()))
    if max(sums.values(), default=0) <= share:
        return sets
    used: Counter[str] = Counter()
    left_out: set[tuple[str, int | None]] = set()
    for part in in_batches(added):
        for network, name, broker_id, size in part:
            if used[network] + size > share:
                left_out.add((name, broker_id))
            else:
                used[network] += size
        yield
    fit: list[RegisteredSet] = []
    for some in in_batches(sets):
        rest = (_without(each, left_out) for each in some if (each.broker_name, None) not in left_out)
        fit += [each for each in rest if each.members]
        yield
    return fit


def share_of(sums: Collection[int]) -> int:
    """Return how many bytes a host may have so that all, which would have `sums`, have ANSWER_BYTES_MAX."""
    rest = ANSWER_BYTES_MAX
    for number, size in enumerate(sorted(sums)):
        if size * (len(sums) - number) > rest:
            return rest // (len(sums) - number)
        rest -= size
    return ANSWER_BYTES_MAX


def _without(broker_set: RegisteredSet, left_out: set[tuple[str, int | None]]) -> RegisteredSet:
    name = broker_set.broker_name
    members = {i: member for i, member in broker_set.members.items() if (name, i) not in left_out}
    return broker_set if len(members) == len(broker_set.members) else replace(broker_set, members=members)


def _bytes(text: str) -> int:
    return len(text.encode())
