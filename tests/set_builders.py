"""Small valid examples of followed broker sets, and of what controllers answer about them."""

from offsets.sets.controller_rules import MastersAnswer
from offsets.sets.followed import FollowedSet, SetMaster
from offsets.values import SetName

CLUSTER = "C"
GROUP = "g"
SET = "broker-a"
#: When answers come that tell no time.
CAME_UNIX_MS = 1_700_000_000_000


def an_address(broker_id):
    return f"10.0.0.{broker_id}:10911"


def a_master(broker_id=1, epoch=5, *, name=SET, address=None, boot_unix_ms=None):
    return SetMaster(SetName(CLUSTER, name), broker_id, address or an_address(broker_id), epoch, boot_unix_ms)


def a_set(broker_id=1, epoch=5, *, name=SET, address=None, members=(1, 2, 3), sync_epoch=1, elected=None):
    """Return a set; `broker_id` None for one without a master."""
    master = a_master(broker_id, epoch, name=name, address=address) if broker_id is not None else None
    return FollowedSet(SetName(CLUSTER, name), master, tuple(map(an_address, members)), epoch, sync_epoch, elected)


def an_answer(*sets, **values):
    """Return a complete answer, or as `values` say."""
    fields = {"controller_group": GROUP, "revision": "run:1", "complete": True, "sets": sets}
    return MastersAnswer(**fields | values)


def set_fields(broker_id=1, epoch=5, *, name=SET, **values):
    """Return a set as a controller writes it."""
    address = an_address(broker_id) if broker_id is not None else None
    members = [{"brokerId": number, "address": an_address(number), "inSync": number < 3} for number in (1, 2, 3)]
    fields = {"brokerName": name, "cluster": CLUSTER, "masterBrokerId": broker_id, "masterAddress": address}
    fields |= {"masterEpoch": epoch, "electedUnixMs": None, "syncStateSetEpoch": 1, "members": members}
    return fields | values


def answer_fields(*sets, **values):
    fields = {"controllerGroup": GROUP, "revision": "run:1", "complete": True}
    fields |= {"brokerSets": list(sets), "removed": [], "unreadable": []}
    return fields | values
