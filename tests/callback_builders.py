"""Small valid examples of changes of masters and their callbacks."""

from controller_builders import CLUSTER, SET, an_address

from controller.callbacks.role_callback import RoleCallback
from controller.roles.changes import RoleChange, RoleHolder


def a_master(broker_id=2):
    return RoleHolder(broker_id, an_address(broker_id))


def a_change(**values):
    defaults = {
        "cluster": CLUSTER,
        "broker_name": SET,
        "master_epoch": 6,
        "old": a_master(1),
        "new": a_master(2),
        "unix_ms": 1_780_000_000_123,
    }
    return RoleChange(**(defaults | values))


def a_callback(change=None, **values):
    defaults = {
        "change": change or a_change(),
        "old": a_master(1),
        "why": "master 1 failed: its port refuses connections",
        "skipped": None,
        "attempt": 1,
        "controller_id": "n0",
    }
    return RoleCallback(**(defaults | values))
