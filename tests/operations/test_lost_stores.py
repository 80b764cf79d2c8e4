"""What operators see and do when what is stored is lost, old, damaged, or elsewhere, as `controller/OPERATIONS.md`
tells it; and how a master is forced, and a dead broker cleaned.
"""

import contextlib
import os
import shutil
import sqlite3
import sys

import pytest
from operations.brokers_at_work import SET_UNKNOWN, BrokerAtWork, in_sync
from operations.control_plane import (
    SOON_S,
    ControlPlane,
    apply_new_id,
    clean,
    configure,
    designate,
    elections,
    events,
    shown,
)
from peers import disks
from peers.controllers import OurController
from peers.etcd import Etcd
from peers.jars import REPOSITORY
from peers.processes import Process
from peers.waiting import wait_until
from peers.wire import SUCCESS, SYSTEM_ERROR

pytestmark = [pytest.mark.broad, pytest.mark.timeout(600)]

ELECT_FAILED = 2012
CLEANING_REFUSED = 2009
LOG_BYTES = 5000


class AlonePlane(ControlPlane):
    """One controller with a store of its own."""

    def __init__(self, folder):
        self.folder = folder
        self._ways = []
        self.brokers = []
        self.controllers = [OurController(folder, "alone", configWhiteList="adoptUnknownBrokers")]
        self.etcd = Etcd(folder, members=0)

    @property
    def controller(self):
        return self.controllers[0]

    @property
    def file(self):
        return self.controller.folder / "store" / "controller.db"


@pytest.fixture
def alone(tmp_path):
    with contextlib.closing(AlonePlane(tmp_path)) as made:
        made.controller.start()
        made.leader()
        yield made


def led_by(plane, brokers, master):
    """Let an operator move the master, and wait until all are in sync again."""
    assert designate(plane.leader(), brokers[0].name, master.broker_id).code == SUCCESS
    wait_until(lambda: all(each.master == master.broker_id for each in brokers), seconds=SOON_S, what="all follow")
    plane.wait_for_sync(brokers)
    return plane.state(brokers[0].name)


# etcd restored from a backup


@pytest.mark.etcd
def test_restored_etcd_backup_is_noticed_and_no_epoch_decreases(tmp_path, figure):
    with contextlib.closing(ControlPlane(tmp_path, members=1)) as plane:
        plane.start()
        known = plane.brokers_of("known")
        plane.etcd.ctl("snapshot", "save", tmp_path / "backup")
        later = plane.brokers_of("later")
        before = led_by(plane, known, known[1])
        known[1].max_offset = LOG_BYTES
        wait_until(
            lambda: LOG_BYTES in {each["maxOffset"] for each in seen(plane, "known")["replicas"]},
            seconds=SOON_S,
            what="its log is known",
        )
        plane.etcd.kill()
        plane.etcd.restore(tmp_path / "backup")
        plane.etcd.restart()
        # By itself: who has the longest log leads, at an epoch above all that brokers have seen.
        state = plane.wait_for_state(
            "known", lambda state: state.master_epoch > before.master_epoch, what="an epoch above the old one"
        )
        assert state.master == known[1].broker_id
        newest = elections(plane.leader(), "known")[0]
        assert (newest["trigger"], newest["result"]) == ("store_behind", "new_master_elected")
        plane.wait_for_sync(known)
        # A set that the backup does not know waits for the operator.
        assert plane.state("later") is None
        assert [each.master_epoch for each in later] == [1, 1]
        for each in later:
            each.close()
        for each in plane.controllers:
            configure(each, "adoptUnknownBrokers", "true")
        again = started_again(plane, later)
        state = plane.wait_for_state("later", lambda state: state.master is not None, what="it has a master again")
        assert state.master_epoch > 1
        in_sync(again)
        plane.wait_for_sync(again)
        for each in plane.controllers:
            configure(each, "adoptUnknownBrokers", "false")
        for each in known:
            epochs = [epoch for _, epoch in each.roles]
            assert epochs == sorted(set(epochs))


def seen(plane, name):
    return shown(plane.leader(), f"/v1/broker-sets/{name}")


# The embedded store


def test_lost_store_is_rebuilt_by_restarted_brokers(alone, figure):
    brokers = alone.brokers_of("kept")
    before = led_by(alone, brokers, brokers[1])
    brokers[1].max_offset = LOG_BYTES
    controller = alone.controller
    controller.process.stop()
    shutil.rmtree(alone.file.parent)
    for each in brokers:
        each.close()
    controller.start()
    configure(controller, "adoptUnknownBrokers", "true")
    again = started_again(alone, brokers)
    state = alone.wait_for_state("kept", lambda state: state.master is not None, what="it has a master again")
    assert state.master == brokers[1].broker_id
    assert state.master_epoch > before.master_epoch
    in_sync(again)
    alone.wait_for_sync(again)
    # Each is taken in once, and registers again until all have come.
    adopted = [each["broker_id"] for each in events(controller, "broker_started") if each["adopted"]]
    assert set(adopted) == {each.broker_id for each in brokers}
    configure(controller, "adoptUnknownBrokers", "false")


def started_again(plane, brokers):
    """Start brokers that were ended; they have their ids and logs."""
    addresses = [each.address for each in plane.controllers]
    again = [
        BrokerAtWork(addresses, each.name, broker_id=each.broker_id, epoch=each.epoch, max_offset=each.max_offset)
        for each in brokers
    ]
    plane.brokers += again
    for each in again:
        each.start()
    return again


def does_not_start(controller, *reasons):
    controller.launch()
    assert controller.process.wait(seconds=SOON_S) != 0
    output = controller.process.text()
    assert all(words in output for words in reasons), output[-1000:]


def test_a_folder_that_another_controller_uses_is_refused(alone, tmp_path):
    second = OurController(tmp_path, "second", controllerStorePath=alone.file.parent)
    does_not_start(second, str(alone.file), "is another controller running on it?")


@pytest.mark.parametrize("damage", ["no database", "unreadable entry"])
def test_damaged_store_file_is_named_and_can_be_replaced_by_a_copy(alone, damage):
    brokers = alone.brokers_of("kept")
    alone.controller.process.stop()
    copy = alone.file.read_bytes()
    damaged = {
        "no database": lambda: alone.file.write_bytes(b"x" * len(copy)),
        "unreadable entry": lambda: overwrite(alone.file),
    }
    damaged[damage]()
    does_not_start(alone.controller, str(alone.file))
    alone.file.write_bytes(copy)
    alone.controller.start()
    alone.wait_for_sync(brokers)
    assert alone.state("kept").epochs == (1, 1)


def overwrite(file):
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE entries SET entry = '{'")


class OnSmallDisk(OurController):
    """A controller whose store is on a disk that a test fills."""

    def __init__(self, folder, disk, *, read_only=False):
        super().__init__(folder, "small-disk", controllerStorePath=disk.folder)
        self._disk, self._read_only = disk, read_only

    def _launch(self):
        wrapper = self._disk.wrapper(read_only=self._read_only)
        command = [*wrapper, sys.executable, "-m", "controller", "-c", self._file]
        env = os.environ | {"PYTHONPATH": str(REPOSITORY), "HOME": str(self.folder)}
        process = Process(self.name, command, folder=self.folder, env=env)
        self._disk.attach(process)
        return process


mounts = pytest.mark.skipif(disks.why_not() is not None, reason=str(disks.why_not()))


@mounts
def test_changes_are_refused_while_the_disk_is_full(tmp_path):
    disk = disks.SmallDisk(tmp_path / "small")
    controller = OnSmallDisk(tmp_path, disk).start()
    try:
        assert apply_new_id(controller).code == SUCCESS
        disk.fill()
        # The file may have room left in its last page.
        refused = wait_until(lambda: refusal(controller), seconds=SOON_S, what="a change is refused")
        assert refused.code == SYSTEM_ERROR
        assert "controller.db: database or disk is full" in refused.remark
        assert controller.replica_info("nobody").code == SET_UNKNOWN
        failed = wait_until(lambda: events(controller, "store_failed"), seconds=SOON_S, what="the log says so")
        assert "controller.db: database or disk is full" in failed[0]["error"]
        disk.make_room()
        wait_until(lambda: refusal(controller) is None, seconds=SOON_S, what="changes are taken again")
    finally:
        controller.process.kill()


@mounts
def test_no_controller_starts_on_a_read_only_disk(tmp_path):
    controller = OnSmallDisk(tmp_path, disks.SmallDisk(tmp_path / "small"), read_only=True)
    does_not_start(controller, "controller.db cannot be used")


def refusal(controller):
    answer = apply_new_id(controller)
    return None if answer.code == SUCCESS else answer


# Moving


@pytest.mark.etcd
@pytest.mark.soak
def test_sets_move_from_the_embedded_store_to_etcd_with_their_brokers(alone, tmp_path, figure):
    brokers = alone.brokers_of("moved")
    before = led_by(alone, brokers, brokers[1])
    brokers[1].max_offset = LOG_BYTES
    with contextlib.closing(ControlPlane(tmp_path / "group")) as plane:
        plane.start()
        for each in plane.controllers:
            configure(each, "adoptUnknownBrokers", "true")
        alone.controller.process.stop()
        for each in brokers:
            each.close()
        again = started_again(plane, brokers)
        state = plane.wait_for_state("moved", lambda state: state.master is not None, what="it has a master")
        assert state.master == brokers[1].broker_id
        assert state.master_epoch > before.master_epoch
        in_sync(again)
        plane.wait_for_sync(again)


def test_after_a_lost_store_an_old_broker_with_all_messages_is_elected_over_a_new_one(alone):
    controller = alone.controller
    old = BrokerAtWork([controller.address], "reborn", broker_id=2, epoch=7, max_offset=LOG_BYTES)
    alone.brokers.append(old)
    old.start()
    wait_until(lambda: 2010 in old.codes and old.has_beaten, seconds=SOON_S, what="it is heard, and not known any more")
    new = BrokerAtWork([controller.address], "reborn")
    alone.brokers.append(new)
    new.start()
    wait_until(lambda: ELECT_FAILED in new.codes, seconds=SOON_S, what="the new one asks in vain")
    assert "is not known here has messages" in elections(controller, "reborn")[0]["reason"]
    assert alone.state("reborn").master is None
    configure(controller, "adoptUnknownBrokers", "true")
    state = alone.wait_for_state("reborn", lambda state: state.master is not None, what="it has a master")
    assert state.master == old.broker_id
    assert state.master_epoch > 7
    in_sync([old, new])
    alone.wait_for_sync([old, new])


# By hand


def test_set_without_a_candidate_shows_the_bytes_at_stake_and_the_command_to_force_one(alone):
    master, behind = brokers = alone.brokers_of("stuck")
    for each in brokers:
        each.reports = frozenset({master.broker_id})
    alone.wait_for_state("stuck", lambda state: state.in_sync == {master.broker_id}, what="one is in sync")
    master.max_offset, behind.max_offset = LOG_BYTES, LOG_BYTES - 1000
    wait_until(
        lambda: [each["maxOffset"] for each in seen(alone, "stuck")["replicas"]] == [LOG_BYTES, LOG_BYTES - 1000],
        seconds=SOON_S,
        what="their logs are known",
    )
    master.close()
    controller = alone.controller
    wait_until(lambda: events(controller, "election_failed"), seconds=SOON_S, what="the log says so")
    failed_election = events(controller, "election_failed")[0]
    assert failed_election["bytes_at_stake"] == 1000
    assert f"rmq controller elect stuck {behind.broker_id} " in failed_election["force"]
    assert elections(controller, "stuck")[0]["force"] == failed_election["force"]
    assert designate(controller, "stuck", behind.broker_id).code == ELECT_FAILED
    # `force`, with what has to come before and after it.
    controller.restart_with(enableElectUncleanMaster="true")
    wait_until(
        lambda: failed_election["force"] in {each["force"] for each in elections(controller, "stuck")},
        seconds=SOON_S,
        what="it shows what it held before",
    )
    wait_until(
        lambda: designate(controller, "stuck", behind.broker_id).code in {SUCCESS, 2011}, seconds=SOON_S, what="forced"
    )
    wait_until(lambda: behind.is_master, seconds=SOON_S, what="it leads")
    assert wait_until(lambda: events(controller, "unclean_master_elected"), seconds=SOON_S, what="the log says so")
    controller.restart_with(enableElectUncleanMaster="false")
    # What will never come back is cleaned; what lives is not.
    assert clean(controller, "stuck", [behind.broker_id]).code == CLEANING_REFUSED
    assert clean(controller, "stuck").code == CLEANING_REFUSED
    wait_until(
        lambda: clean(controller, "stuck", [master.broker_id]).code == SUCCESS,
        seconds=SOON_S,
        what="it has been silent for long enough after the start",
    )
    assert alone.state("stuck").members == {behind.broker_id}
    # Who was cleaned and comes back needs to be adopted.
    back = BrokerAtWork([controller.address], "stuck", broker_id=master.broker_id, epoch=1)
    alone.brokers.append(back)
    back.start()
    wait_until(lambda: 2010 in back.codes, seconds=SOON_S, what="it is refused")
    configure(controller, "adoptUnknownBrokers", "true")
    wait_until(lambda: back.master == behind.broker_id, seconds=SOON_S, what="it follows")
    in_sync([behind, back])
    alone.wait_for_sync([behind, back])
