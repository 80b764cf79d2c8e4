"""What repairs decide by, with a valid default for everything: master A was read, and its slave B is master now."""

from offsets.proof import LogProof
from offsets.queue_proof import Proved
from offsets.readings.reading import KnownBefore, Reading, ReplicaReading
from offsets.repair.rules import Before, BrokerNow, QueueNow
from offsets.values import GroupKind, GroupMembers, GroupTopic, QueueKey, SetName
from serving.shapes.offsets import Outcome

NAME = SetName("c", "broker-a")
A, B = "10.0.0.1:10911", "10.0.0.2:10911"
KEY = QueueKey("g", "t", 0)
#: When the change was noticed, monotonic ms.
CHANGED_MS = 1_000_000
PULLS = GroupMembers(GroupKind.PULL, is_online=True)


def a_reading(offset=100, *, ago_ms=5_000, first_end=5_000, key=KEY, **values):
    """Return a reading of A with one offset; None: without it."""
    ended_ms = CHANGED_MS - ago_ms
    offsets = {} if offset is None else {GroupTopic(key.group, key.topic): {key.queue_id: offset}}
    fields = {"set_name": NAME, "master": A, "master_epoch": 1, "boot_unix_ms": 1, "epochs": None}
    fields |= {"began_ms": ended_ms - 10, "ended_ms": ended_ms, "ended_unix_ms": 1_800_000_000_000 - ago_ms}
    fields |= {"first_end": first_end, "second_end": first_end + 100, "offsets": offsets}
    return Reading(**fields | values)


def a_copy(offset=60, *, ago_ms=4_900, key=KEY):
    """Return what B showed as a replica; None: no offset."""
    began_ms = CHANGED_MS - ago_ms
    offsets = {} if offset is None else {GroupTopic(key.group, key.topic): {key.queue_id: offset}}
    return ReplicaReading(address=B, began_ms=began_ms, ended_ms=began_ms + 2, offsets=offsets)


def before(readings=None, copies=None, *, same_until=10_000, parted_at=None, problem=""):
    known = KnownBefore(
        readings=tuple([a_reading()] if readings is None else readings),
        replica_readings=tuple([a_copy(ago_ms=9_900), a_copy()] if copies is None else copies),
        fingerprints=(),
    )
    return Before(known, LogProof(same_until, parted_at, problem), CHANGED_MS)


def a_queue(shown=60, *, members=PULLS, parted_at=None, proved=100, min_offset=0, why=""):
    found = None if proved is None and not why else Proved(proved, why, min_offset=min_offset)
    return QueueNow(KEY, shown, members, parted_at, found)


def a_broker(**values):
    return BrokerNow(**{"resets_on_server": True, "pops_in_kv": False, "behind": Outcome.SET_BACK} | values)
