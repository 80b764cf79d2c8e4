"""A controller calls a program or a URL for each new master, whatever becomes of the call and of the controller."""

import json
import os
import shlex
import signal
import sys
import threading
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from peers.controllers import OurController, leader_of
from peers.etcd import running_etcd
from peers.replicas import Replica
from peers.waiting import wait_until
from peers.wire import SUCCESS

UPDATE_CONFIG = 1009
NO_PERMISSION = 16
SET = "s"
WAIT_S = 60
#: How long a failover takes here at most if nothing holds it up.
FAILOVER_S = 10


class Program:
    """A program that appends each call to a file, and ends as the file beside it says: `0`, another status, `hang`."""

    def __init__(self, folder):
        self.folder = folder
        self._calls, self._status, self.pids = folder / "calls", folder / "status", folder / "pids"
        path = folder / "on role change.py"
        path.write_text(
            f"#!{sys.executable}\n"
            "import json, os, pathlib, sys, time\n"
            "folder = pathlib.Path(sys.argv[1])\n"
            "status = (folder / 'status').read_text()\n"
            "line = json.dumps([json.load(sys.stdin), os.environ['ROLE_CHANGE_NEW_ADDRESS'], status]) + '\\n'\n"
            "with open(folder / 'pids', 'a') as pids: pids.write(f'{os.getpid()}\\n')\n"
            "with open(folder / 'calls', 'a') as calls: calls.write(line)\n"
            "if status == 'hang': time.sleep(1000)\n"
            "print('moved')\n"
            "sys.exit(int(status))\n"
        )
        path.chmod(0o755)
        self.property = f"{shlex.quote(str(path))} {shlex.quote(str(folder))}"
        self.ends("0")

    def ends(self, status):
        # As a whole: the program may read it meanwhile.
        (self.folder / "next").write_text(status)
        (self.folder / "next").rename(self._status)

    @property
    def calls(self):
        if not self._calls.exists():
            return []
        return [json.loads(line) for line in self._calls.read_text().splitlines() if line.endswith("]")]

    def called(self, epoch, status="0"):
        """Wait for a call with this epoch that ended so, and return it."""

        def found():
            return next((body for body, _, how in self.calls if (body["masterEpoch"], how) == (epoch, status)), None)

        return wait_until(found, seconds=WAIT_S, what=f"a call for epoch {epoch} that ends with {status}")

    @property
    def left(self):
        """Return which of its processes are there still."""
        pids = self.pids.read_text().split() if self.pids.exists() else []
        return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.fixture
def program(tmp_path):
    folder = tmp_path / "program; $(touch x)"
    folder.mkdir()
    program = Program(folder)
    yield program
    for pid in program.left:
        # A controller that was killed can kill nothing.
        os.kill(int(pid), signal.SIGKILL)


@pytest.fixture
def new_controller(lab):
    """Return a function that makes a controller, not yet started."""
    return lambda name="controller", **settings: lab.kept(OurController(lab.folder, name, **settings))


@pytest.fixture
def new_replica():
    with ExitStack() as stack:

        def made(controller):
            replica = Replica(controller.address, SET)
            stack.callback(replica.die)
            return replica.join()

        yield made


def a_pair(controller, new_replica):
    """Return the master, at epoch 1, and a slave in sync."""
    master, slave = new_replica(controller), new_replica(controller)
    assert master.elect().code == SUCCESS
    assert master.report((1, 2), master_epoch=1, sync_state_set_epoch=1).code == SUCCESS
    for each in (master, slave):
        each.epoch = 1
        each.heartbeat()
    return master, slave


def led_by(controller, broker_id, seconds=WAIT_S):
    def led():
        state = controller.set_state(SET)
        return state is not None and state.master == broker_id and state

    return wait_until(led, seconds=seconds, what=f"{broker_id} leads")


def test_program_is_called_at_each_election_and_again_after_a_restart_until_it_takes_it(
    new_controller, new_replica, program
):
    controller = new_controller(onRoleChange=program.property).start()
    master, slave = a_pair(controller, new_replica)
    first = program.called(1)
    assert (first["oldMaster"], first["newMaster"]) == (None, {"brokerId": 1, "address": master.address})
    assert first["why"] == "broker 1 found no master"
    program.ends("7")
    master.die()
    led_by(controller, 2)
    failed = program.called(2, "7")
    assert failed["oldMaster"] == {"brokerId": 1, "address": master.address}
    assert failed["newMaster"] == {"brokerId": 2, "address": slave.address}
    assert failed["why"].startswith("master 1 failed: ")
    assert (failed["attempt"], failed["skippedEpochs"]) == (1, None)
    controller.process.kill()
    # What the killed controller had begun to call outlives it.
    wait_until(lambda: not program.left, seconds=WAIT_S, what="the last call of the killed controller has ended")
    program.ends("0")
    controller.start()
    again = program.called(2)
    assert (again["oldMaster"], again["newMaster"]) == (failed["oldMaster"], failed["newMaster"])
    assert again["why"] == "another controller elected it, or this one before it was started anew"
    controller.process.wait_for(r'"event":"role_callback_delivered"', seconds=WAIT_S)
    # What is stored a moment after the call is there at the next start.
    wait_until(lambda: controller.process.stop() == 0, seconds=WAIT_S, what="the end")
    calls = len(program.calls)
    controller.start()
    controller.process.wait_for(r'"event":"leadership_gained"', seconds=WAIT_S)
    third = new_replica(controller)
    assert third.info().code == SUCCESS
    assert len(program.calls) == calls


def test_hanging_program_holds_up_no_failover_and_is_killed(new_controller, new_replica, program):
    controller = new_controller(onRoleChange=program.property, onRoleChangeTimeoutMs=2_000).start()
    program.ends("hang")
    master, slave = a_pair(controller, new_replica)
    program.called(1, "hang")
    master.die()
    led_by(controller, 2, FAILOVER_S)
    controller.process.wait_for(r'"result":"timeout","error":"it was killed after 2 s"', seconds=WAIT_S)
    program.ends("0")
    delivered = program.called(2)
    assert (delivered["oldMaster"], delivered["newMaster"]["address"]) == (None, slave.address)
    wait_until(lambda: not program.left, seconds=WAIT_S, what="the killed program is gone")
    assert "1" not in {body["masterEpoch"] for body, _, how in program.calls if how == "0"}


def test_request_cannot_change_what_is_called(new_controller, program):
    controller = new_controller(onRoleChange=program.property, configWhiteList="suspectTimeoutMs").start()
    for line in ("onRoleChange=/usr/bin/touch /x", "onRoleChangeTokenFile=/etc/passwd", "onRoleChange="):
        answer = controller.caller.request(UPDATE_CONFIG, body=line.encode())
        assert answer.code == NO_PERMISSION, line
        assert line.partition("=")[0] in answer.remark
    answer = controller.caller.request(UPDATE_CONFIG, body=b"onRoleChangeTimeoutMs=100")
    assert answer.code == NO_PERMISSION


def test_missing_program_is_reported_at_the_start_and_used_once_it_is_there(new_controller, new_replica, program):
    path = program.folder / "later"
    controller = new_controller(onRoleChange=shlex.quote(str(path))).start()
    controller.process.wait_for(f'"event":"role_callback_unusable".*there is no program {"."}+later', seconds=WAIT_S)
    a_pair(controller, new_replica)
    controller.process.wait_for(r'"event":"role_callback_failed".*No such file or directory', seconds=WAIT_S)
    path.write_text("#!/bin/sh\necho moved\n")
    path.chmod(0o755)
    controller.process.wait_for(r'"event":"role_callback_delivered".*"output":"moved"', seconds=WAIT_S)


@pytest.mark.etcd
def test_next_leader_delivers_what_the_one_before_did_not(new_controller, new_replica, program, tmp_path):
    with running_etcd(tmp_path / "etcd") as etcd:
        settings = {"controllerStore": "etcd", "etcdEndpoints": ";".join(etcd.endpoints)}
        group = [new_controller(name, onRoleChange=program.property, **settings).launch() for name in ("c0", "c1")]
        for each in group:
            each.ready()
        leader = wait_until(lambda: leader_of(group), seconds=WAIT_S, what="a leader")
        (other,) = (each for each in group if each is not leader)
        master, slave = a_pair(leader, new_replica)
        program.called(1)
        program.ends("hang")
        master.die()
        led_by(leader, 2)
        program.called(2, "hang")
        program.ends("0")
        leader.process.kill()
        wait_until(other.serves, seconds=WAIT_S, what="the other leads")
        delivered = program.called(2)
        assert delivered["oldMaster"] == {"brokerId": 1, "address": master.address}
        assert delivered["newMaster"] == {"brokerId": 2, "address": slave.address}
        assert delivered["controllerId"] != program.called(1)["controllerId"]
        epochs = [body["masterEpoch"] for body, *_ in program.calls]
        assert epochs == sorted(epochs)


class _Webhook(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.calls.append((self.path, self.headers["Authorization"], json.loads(body)))
        self.send_response(self.server.statuses.pop(0) if self.server.statuses else 204)
        self.end_headers()

    def log_message(self, *_):
        """Print nothing."""


@pytest.fixture
def webhook():
    with ThreadingHTTPServer(("127.0.0.1", 0), _Webhook) as server:
        server.calls, server.statuses = [], []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_url_is_called_with_its_token_until_it_answers_2xx(new_controller, new_replica, webhook, tmp_path):
    token = tmp_path / "token"
    token.write_text("a-token-of-the-receiver\n")
    webhook.statuses += [503, 302]
    url = f"http://127.0.0.1:{webhook.server_port}/roles"
    controller = new_controller(onRoleChange=url, onRoleChangeTokenFile=token).start()
    master, _ = a_pair(controller, new_replica)
    controller.process.wait_for(r'"event":"role_callback_delivered"', seconds=WAIT_S)
    assert [(path, secret, body["attempt"]) for path, secret, body in webhook.calls] == [
        ("/roles", "Bearer a-token-of-the-receiver", attempt) for attempt in (1, 2, 3)
    ]
    assert {body["newMaster"]["address"] for *_, body in webhook.calls} == {master.address}
    assert "a-token-of-the-receiver" not in controller.process.text()
