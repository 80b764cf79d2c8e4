"""The repairs of docs/offset-repairs.md, with the commands of the page, at real brokers that have lost something."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from java_sets import SOON_S, Pair, admin, end_of, offset_of, read_moment, send
from peers.jars import V5_5
from peers.lab import Lab
from peers.offset_managers import OffsetManager, a_queue, an_entry
from peers.waiting import wait_until
from peers.wire import Caller

from controller.offsets.guard.boundaries import CLOCK_MARGIN_MS
from remoting.admin.groups import configured_groups
from remoting.admin.offsets import OffsetCommit, commit_offset

pytestmark = [pytest.mark.java, pytest.mark.soak, pytest.mark.timeout(900)]

PAGE = Path(__file__).parents[4] / "docs" / "offset-repairs.md"
TOKEN = "token-of-the-operators"
#: The group of the page; the topic has the name of the broker set.
GROUP = "billing"
MOMENT_OF_THE_PAGE, ID_OF_THE_PAGE, DRY = "1795720667358", '"ID"', ', "dryRun": true'
UPDATE_GROUP = 200


def commands(section):
    """Return the commands of a section of the page, in their order."""
    (text,) = re.findall(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    return [each for block in blocks for each in re.split(r"\n(?= *curl)", block.strip())]


def done(manager, command, *, name, moment="", operation_id="", dry=True):
    """Run a command of the page with the names of this test, and return its answer."""
    own = {'"broker-a"': f'"{name}"', '"orders"': f'"{name}"', ID_OF_THE_PAGE: f'"{operation_id}"'}
    own |= {MOMENT_OF_THE_PAGE: str(moment)} | ({} if dry else {DRY: ""})
    for old, new in own.items():
        command = command.replace(old, new)
    env = os.environ | {"M": manager.address, "TOKEN": TOKEN}
    ended = subprocess.run(["bash", "-ec", command], env=env, capture_output=True, text=True, timeout=120, check=True)
    return json.loads(ended.stdout)


def outcomes(answer):
    return [(each["status"], each["old"], each["new"]) for each in answer["queues"]]


@pytest.fixture
def lab(tmp_path):
    with contextlib.closing(Lab(tmp_path)) as own:
        yield own


@pytest.fixture
def namesrv(lab):
    return lab.name_server()


def manager_of(lab, **options):
    token = lab.folder / "admin-token"
    token.write_text(f"{TOKEN}\n")
    options |= {"http_admin_token_file": token, "mirror_period_ms": 1000}
    return lab.kept(OffsetManager(lab.folder, **options)).start()


def a_broker(lab, namesrv):
    return lab.broker("broker-a", namesrv=[namesrv.address], version=V5_5).start().ready()


def create_group(broker):
    """From 5.3.0 on a broker takes offsets of groups alone that it has."""
    answer = Caller(broker.address).request(UPDATE_GROUP, {}, json.dumps({"groupName": GROUP}).encode())
    assert answer.code == 0, answer


def commit(broker, offset):
    assert admin(broker.address, commit_offset(GROUP, broker.name, 0, offset)) is OffsetCommit.STORED


def guard_run(manager):
    """Return the newest run of the guard that has ended well, with its offsets; one that knew no master is repeated."""

    def found():
        ended = [each for each in manager.get("/v1/offsets/guard").body["runs"] if not each["error"]]
        if not ended or any(count["outcome"] == "role_changed" for count in ended[0]["counts"]):
            return None
        return manager.get(f"/v1/offsets/guard/{ended[0]['run']}").body

    return wait_until(found, seconds=SOON_S, what="the guard has run")


def guarded(manager):
    """Return the offset of the group in that run."""
    return {each["group"]: each for each in guard_run(manager)["offsets"]}[GROUP]


def causes(manager):
    (regressions,) = commands("What happened")
    found = done(manager, regressions, name="")["regressions"]
    return {each["cause"] for each in found if each["group"] == GROUP}


def test_offsets_after_a_failover_are_restored_where_the_guard_only_reports(lab):
    pair = Pair(lab, V5_5)
    manager = manager_of(lab, controller_http_addr=f"127.0.0.1:{pair.controller.http_port}")
    send(pair.master, pair.master.name, 100)
    create_group(pair.master)
    commit(pair.master, 50)
    read_moment(manager)
    has_group = lambda: GROUP in admin(pair.slave.address, configured_groups())  # noqa: E731
    wait_until(has_group, seconds=SOON_S, what="the slave has the group")
    commit(pair.master, 80)
    read_moment(manager)
    pair.kill_master()
    found = guarded(manager)
    assert found["outcome"] in ("withheld", "nothing"), found
    # The next reading shows it.
    wait_until(lambda: causes(manager) == {"role_change"}, seconds=SOON_S, what="the regression is listed")

    (restore,) = commands("A failover, and the guard only reports")
    before = offset_of(pair.slave, GROUP, pair.slave.name)
    assert outcomes(done(manager, restore, name=pair.topic)) == [("pops", before, 80)]
    said = restore.replace('"moment"', f'"group": "{GROUP}", "pulls": true, "moment"')
    assert outcomes(done(manager, said, name=pair.topic, dry=False)) == [("restored", before, 80)]
    assert offset_of(pair.slave, GROUP, pair.slave.name) == 80


def test_group_begins_at_the_beginning_of_a_disk_that_was_replaced(lab, namesrv):
    broker = a_broker(lab, namesrv)
    send(broker, broker.name, 100)
    create_group(broker)
    commit(broker, 80)
    manager = manager_of(lab, namesrv_addr=namesrv.address, guard="act")
    read_moment(manager)
    config = broker.store / "config"
    # Its own topic a broker makes by itself; there may be no file of topics yet.
    files = (config / name for name in ("topics.json", "subscriptionGroup.json"))
    kept = {each.name: each.read_bytes() for each in files if each.exists()}
    broker.process.kill()
    shutil.rmtree(broker.store)
    config.mkdir(parents=True)
    for name, text in kept.items():
        (config / name).write_bytes(text)
    time.sleep(CLOCK_MARGIN_MS / 1000 + 1)
    broker.start().ready()

    found = guarded(manager)
    # What a broker writes by itself makes a log that is not empty, whose queues all end at 0.
    assert found["action"] in ("archive", "set"), found
    assert (found["newOffset"], found["saved"]) == (0, 80), found
    assert found["outcome"] == "stored", found
    assert offset_of(broker, GROUP, broker.name) == 0
    assert causes(manager) <= {"disk_replaced"}
    (restore,) = commands("A failover, and the guard only reports")
    refused = done(manager, restore, name=broker.name, dry=False)
    assert {each["status"] for each in refused["queues"]} == {"beyond_end"}, refused
    assert offset_of(broker, GROUP, broker.name) == 0


def test_offset_beyond_a_lost_end_of_the_log_is_not_restored(lab, namesrv):
    broker = a_broker(lab, namesrv)
    create_group(broker)
    send(broker, broker.name, 40)
    commit(broker, 20)
    broker.process.stop()
    copy = broker.store.with_name("older-copy")
    shutil.copytree(broker.store, copy)
    broker.start().ready()
    manager = manager_of(lab, namesrv_addr=namesrv.address, guard="act")
    send(broker, broker.name, 60)
    commit(broker, 90)
    read_moment(manager)
    broker.process.kill()
    shutil.rmtree(broker.store)
    copy.rename(broker.store)
    time.sleep(CLOCK_MARGIN_MS / 1000 + 1)
    broker.start().ready()

    # Nobody is online who shows that the group does not pop: the offset of the copy stays, and is read from again.
    assert [(each["group"], each["reason"]) for each in guard_run(manager)["offsets"]] == [(GROUP, "pops")]
    assert end_of(broker.address, broker.name) == 40
    assert offset_of(broker, GROUP, broker.name) == 20
    # The next reading shows it.
    wait_until(lambda: causes(manager) == {"disk_replaced"}, seconds=SOON_S, what="the regression is listed")
    (preview,) = commands("The end of a log was lost")
    assert {each["status"] for each in done(manager, preview, name=broker.name)["queues"]} == {"beyond_end"}
    # New messages get the offsets of the lost ones: nobody has read them.
    send(broker, broker.name, 80)
    said = preview.replace('"moment"', '"pulls": true, "moment"')
    after = done(manager, said, name=broker.name, dry=False)
    assert {each["status"] for each in after["queues"]} == {"not_proved"}, after
    assert offset_of(broker, GROUP, broker.name) <= 40


def test_reset_by_mistake_is_taken_back(lab, namesrv):
    broker = a_broker(lab, namesrv)
    manager = manager_of(lab, namesrv_addr=namesrv.address)
    operations, undo, restore = commands("A reset by mistake")
    # Of this manager's own offsets.
    token = {"Authorization": f"Bearer {TOKEN}"}
    manager.post("/v1/offsets/commit", {"writer": "client-1", "entries": [an_entry(80)]}, **token)
    entries = [a_queue() | {"offset": 3}]
    manager.post("/v1/offsets/reset", {"writer": "bob", "entries": entries}, **token)
    (newest, *_) = done(manager, operations, name="")["operations"]
    assert (newest["kind"], newest["writer"]) == ("reset", "bob")
    own = {"name": "broker-a", "operation_id": newest["operationId"]}
    assert outcomes(done(manager, undo, **own)) == [("ready", 3, 80)]
    assert outcomes(done(manager, undo, **own, dry=False)) == [("restored", 3, 80)]

    # At the broker, forward.
    send(broker, broker.name, 100)
    create_group(broker)
    commit(broker, 40)
    moment = read_moment(manager)
    words = ("resetOffsetByTime", "-g", GROUP, "-t", broker.name, "-s", "now")
    print(lab.mqadmin().run(*words, namesrv=[namesrv.address], seconds=SOON_S))  # noqa: T201
    wait_until(
        lambda: offset_of(broker, GROUP, broker.name) == 100,
        seconds=SOON_S,
        what=lambda: f"the reset, not {offset_of(broker, GROUP, broker.name)}",
    )
    of_group = {"name": broker.name, "moment": moment}
    assert outcomes(done(manager, restore, **of_group)) == [("ready", 100, 40)]
    restored = done(manager, restore, **of_group, dry=False)
    assert outcomes(restored) == [("restored", 100, 40)]
    assert offset_of(broker, GROUP, broker.name) == 40
    again = {"name": broker.name, "operation_id": restored["operationId"]}
    assert outcomes(done(manager, undo, **again)) == [("pops", 40, 100)]
    said = undo.replace('"writer"', '"pulls": true, "writer"')
    assert outcomes(done(manager, said, **again, dry=False)) == [("restored", 40, 100)]
