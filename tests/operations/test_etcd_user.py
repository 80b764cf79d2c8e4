"""A controller needs no more of etcd than a user who may read and write the keys of the controllers."""

import json

import pytest
from operations.control_plane import SOON_S, apply_new_id, events
from peers.controllers import OurController, leader_of
from peers.etcd import running_etcd
from peers.waiting import wait_until
from peers.wire import SUCCESS

from history.landing import LANDING, lines_of

pytestmark = [pytest.mark.etcd, pytest.mark.timeout(300)]

#: As in OPERATIONS.md.
COMMANDS = (
    ("user", "add", "root:secret"),
    ("user", "grant-role", "root", "root"),
    ("role", "add", "rmq"),
    ("role", "grant-permission", "rmq", "--prefix=true", "readwrite", "/rmq-controller/"),
    ("user", "add", "rmq-controller:pw"),
    ("user", "grant-role", "rmq-controller", "rmq"),
    ("auth", "enable"),
)


def recorded_sizes(history):
    """Return the sizes of etcd that ticks tell of, as far as they are written."""
    lines = (line for path in history.glob(f"{LANDING}/family=ns_tick/date=*/hour=*/*") for line in lines_of(path))
    return [size for line in lines if (size := json.loads(line).get("etcd_db_bytes"))]


def test_etcd_user_limited_to_the_controller_keys_leads_stores_and_hands_over(tmp_path):
    with running_etcd(tmp_path / "etcd") as etcd:
        for words in COMMANDS:
            etcd.ctl(*words)
        login = {"etcdUser": "rmq-controller", "etcdPassword": "pw"}
        where = {"controllerStore": "etcd", "etcdEndpoints": etcd.endpoints[0]}
        history = tmp_path / "history"
        controllers = [
            OurController(tmp_path, name, controllerId=name, historyDir=history, **where, **login)
            for name in ("c0", "c1")
        ]
        try:
            for each in controllers:
                each.start()
            wait_until(lambda: recorded_sizes(history), seconds=SOON_S, what="a tick with the size of etcd")
            for _ in controllers:
                leader = wait_until(lambda: leader_of(controllers), seconds=SOON_S, what="one leads")
                assert apply_new_id(leader).code == SUCCESS
                assert not any("permission" in each["error"] for each in events(leader, "store_calls_failing"))
                leader.process.stop()
        finally:
            for each in controllers:
                if each.process is not None and each.process.running:
                    each.process.kill()
