"""What this NameServer knows in a few numbers, and where peers know otherwise.

A digest is a sum of checksums modulo 2**48: in whatever order brokers and topics came it is the same, and a gauge of
Prometheus holds it exactly. Pure.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import islice
from struct import pack
from typing import Final, NamedTuple
from zlib import crc32

from namesrv.core.cold_start import ColdStart
from namesrv.core.tables.change import RouteTables
from namesrv.core.tables.live_table import PERIOD_MS_DEFAULT
from namesrv.core.values.cooperative import CooperativeTask
from remoting.protocol.shapes.route import BrokerData, QueueData

#: A difference that lasts for so long, in ms, is not due to a registration that has reached only one side yet.
LASTING_MS: Final = 2 * PERIOD_MS_DEFAULT

_DIGEST_BYTES: Final = 6
_MODULUS: Final = 1 << 8 * _DIGEST_BYTES
#: Topics that are hashed in a step, about a millisecond.
_AT_ONCE: Final = 4_096


class SetDigest(NamedTuple):
    cluster: str
    brokers: int
    topics: int


class ClusterDigest(NamedTuple):
    digest: int
    #: Since when it is this one, in monotonic ms.
    since_ms: int


class ViewDigests:
    """The digests of all sets and clusters, as of the last update."""

    def __init__(self, tables: RouteTables) -> None:
        self._tables = tables
        self._changed: set[str] = set()
        self._sets: dict[str, SetDigest] = {}
        self.clusters: dict[str, ClusterDigest] = {}

    def changed(self, broker_name: str) -> None:
        """Have the next update look at a set."""
        self._changed.add(broker_name)

    def topics(self) -> dict[str, int]:
        """Return the digest of each set's topics."""
        return {name: digest.topics for name, digest in self._sets.items()}

    def update(self, now_ms: int) -> CooperativeTask[None]:
        """Look at the sets that have changed; a cooperative task."""
        if not self._changed:
            return
        while self._changed:
            name = self._changed.pop()
            topics = yield from _topics_digest(name, self._tables.topics.of_broker(name))
            # Read the set only now; if its topics changed meanwhile, the next update hashes them again.
            if (broker_set := self._tables.brokers.get(name)) is None:
                self._sets.pop(name, None)
                continue
            members = broker_set.members.items()
            brokers = sum(_hash(f"{name}\0{broker_id}\0{member.address}") for broker_id, member in members)
            self._sets[name] = SetDigest(broker_set.cluster, brokers % _MODULUS, topics)
        sums: Counter[str] = Counter()
        for digest in self._sets.values():
            sums[digest.cluster] += digest.brokers + digest.topics
        former = self.clusters
        now = {name: ClusterDigest(value % _MODULUS, now_ms) for name, value in sums.items()}
        self.clusters = {
            name: former[name] if name in former and former[name].digest == found.digest else found
            for name, found in now.items()
        }


class Difference(NamedTuple):
    peer: str
    cluster: str
    broker_name: str
    #: `brokers` or `topics`.
    kind: str


class _Sides(NamedTuple):
    ours: object
    theirs: object


#: Cluster, broker name and kind of a difference, with what either side knows.
_Found = tuple[str, str, str, _Sides]


class Differences:
    """What peers know otherwise, and since when."""

    def __init__(self) -> None:
        self._known: dict[Difference, tuple[int, _Sides]] = {}

    def put(self, peer: str, found: Iterable[_Found], now_ms: int) -> None:
        """Take all differences to a peer.

        If both sides of one have changed, it is a new one: they may follow the same changes, one of them later.
        """
        former, self._known = self._known, {key: row for key, row in self._known.items() if key.peer != peer}
        for cluster, name, kind, sides in found:
            key = Difference(peer, cluster, name, kind)
            since_ms, before = former.get(key, (now_ms, sides))
            have_both_changed = sides.ours != before.ours and sides.theirs != before.theirs
            self._known[key] = now_ms if have_both_changed else since_ms, sides

    def lasting(self, now_ms: int) -> list[Difference]:
        """Return the differences that have lasted longer than registrations take, sorted."""
        return sorted(key for key, (since_ms, _) in self._known.items() if now_ms - since_ms >= LASTING_MS)


def differences(
    tables: RouteTables, own: Mapping[str, int], theirs: Mapping[str, BrokerData], their_topics: Mapping[str, int]
) -> Iterator[_Found]:
    """Yield what differs; topics where both sides have a digest of them."""
    for broker_set in tables.brokers.sets():
        name = broker_set.broker_name
        members = {broker_id: member.address for broker_id, member in broker_set.members.items()}
        their_members = theirs[name].broker_addrs if name in theirs else None
        if their_members != members:
            yield broker_set.cluster, name, "brokers", _Sides(members, their_members)
        digest, their_digest = own.get(name), their_topics.get(name)
        if digest is not None and their_digest is not None and digest != their_digest:
            yield broker_set.cluster, name, "topics", _Sides(digest, their_digest)
    for name, data in theirs.items():
        if tables.brokers.get(name) is None:
            yield data.cluster, name, "brokers", _Sides(None, data.broker_addrs)


class PeerViews(NamedTuple):
    """All that is known of and about peers, for those who show it."""

    cold: ColdStart
    digests: ViewDigests
    differences: Differences


def _topics_digest(broker_name: str, topics: Mapping[str, QueueData]) -> CooperativeTask[int]:
    # A copy: topics come and go between two steps.
    rows, digest = iter(list(topics.items())), 0
    # A CRC that starts from another seed is another one for the same name, and a CRC differs for sure if only 32 bits
    # in a row do: one topic with one other number always changes the sum.
    start, seeds = crc32(broker_name.encode()), dict[QueueData, int]()
    while part := list(islice(rows, _AT_ONCE)):
        for topic, data in part:
            if (seed := seeds.get(data)) is None:
                settings = data.read_queue_nums, data.write_queue_nums, data.perm, data.topic_sys_flag
                seed = seeds[data] = crc32(pack("<4i", *settings), start)
            digest += crc32(topic.encode(), seed)
        yield
    return digest % _MODULUS


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest())
