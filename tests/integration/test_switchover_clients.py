"""Switchovers through a real HAProxy and a controller's process; brokers and clients are hand-made, and count all."""

import json
import socket
import struct
import threading
import time
import urllib.request

import pytest
from peers.controllers import OurController
from peers.processes import free_port
from peers.programs import require
from peers.replicas import EPOCH_CACHE, ROLE_CHANGED, Replica
from peers.role_proxy import RoleHAProxy
from peers.waiting import wait_until
from peers.wire import SUCCESS, Caller

SEND = 310
RUNTIME_INFO = 28
BROKER_CONFIG = 26
HA_STATUS = 907
NOT_MASTER = 14
TOKEN = "a-token-of-thirty-two-characters-"
#: How long a broker takes to become master.
ROLE_CHANGE_S = 0.1
#: As a Java client's: a first try and two retries, 3 s each.
TRIES = 3
TRY_S = 3
#: Generous: only waits that would never end end here.
SOON_S = 90


class SendingReplica(Replica):
    """A broker that takes messages while it is master; all of a set share one log, which is copied at once."""

    def __init__(self, *args, log):
        self.log = log
        self.is_master = False
        self.taken, self.refused = [], 0
        self.boot_unix_ms = 1
        #: Bytes that it lacks of the log.
        self.behind = 0
        super().__init__(*args)
        self.answers = self._answer

    def _answer(self, received):
        if received.code == SEND and not self.is_master:
            self.refused += 1
            return NOT_MASTER
        if received.code == SEND:
            self.log.append((self.broker_id, received.body))
            self.taken.append(received.body)
        if received.code == ROLE_CHANGED:
            becomes = int(received.fields["masterBrokerId"]) == self.broker_id
            if becomes and not self.is_master:
                time.sleep(ROLE_CHANGE_S)
            self.epoch, self.is_master = int(received.fields["masterEpoch"]), becomes
        self.max_offset = 100 * len(self.log)
        return SUCCESS

    def body_of(self, received):
        match received.code:
            case code if code == EPOCH_CACHE:
                cache = {
                    "clusterName": self.cluster,
                    "brokerName": self.name,
                    "maxOffset": 100 * len(self.log) - self.behind,
                }
                cache["brokerId"] = 0 if self.is_master else self.broker_id
                return json.dumps(cache | {"epochList": [{"epoch": self.epoch, "startOffset": 0}]}).encode()
            case code if code == HA_STATUS:
                return json.dumps({"master": self.is_master, "haConnectionInfo": []}).encode()
            case code if code == BROKER_CONFIG:
                return b"allAckInSyncStateSet=false\n"
            case code if code == RUNTIME_INFO:
                table = {"bootTimestamp": str(self.boot_unix_ms), "brokerVersionDesc": "V5_5_0"}
                return json.dumps({"table": table}).encode()
        return b""


class Client(threading.Thread):
    """Sends one message after the other over one connection, and tries again at once if it breaks."""

    def __init__(self, name, address):
        super().__init__(daemon=True)
        self.address = address
        self.prefix = name
        self.sent, self.failed, self.tries = [], [], 0
        self.longest_s = 0.0
        self.goes_on = True
        self._connection = None

    def run(self):
        number = 0
        while self.goes_on:
            key = f"{self.prefix}-{number}".encode()
            began = time.perf_counter()
            (self.sent if self._send(key) else self.failed).append(key)
            self.longest_s = max(self.longest_s, time.perf_counter() - began)
            number += 1
            time.sleep(0.005)
        self._close()

    def _close(self):
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _send(self, key):
        for _ in range(TRIES):
            self.tries += 1
            try:
                if self._exchange(key) == SUCCESS:
                    return True
            except OSError:
                self._close()
        return False

    def _exchange(self, key):
        if self._connection is None:
            host, port = self.address.split(":")
            self._connection = socket.create_connection((host, int(port)), timeout=TRY_S)
        header = json.dumps({"code": SEND, "language": "JAVA", "version": 0, "opaque": 1, "flag": 0}).encode()
        frame = struct.pack(">I", len(header)) + header + key
        self._connection.sendall(struct.pack(">I", len(frame)) + frame)
        answer = self._exactly(struct.unpack(">I", self._exactly(4))[0])
        header_bytes = struct.unpack(">I", answer[:4])[0] & 0xFFFFFF
        return json.loads(answer[4 : 4 + header_bytes])["code"]

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            chunk = self._connection.recv(count - len(data))
            if not chunk:
                raise ConnectionResetError("closed")
            data += chunk
        return data


class Site:
    """A controller, three brokers and HAProxy."""

    def __init__(self, folder):
        checks_port = free_port()
        token = folder / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        self.controller = OurController(folder, roleCheckPort=checks_port, httpAdminTokenFile=token).start()
        self.log = []
        self.replicas = [SendingReplica(self.controller.address, "broker-a", log=self.log) for _ in range(3)]
        self.address = f"127.0.0.1:{free_port()}"
        rules = folder / "role-addresses.toml"
        rules.write_text(f'[[roleAddress]]\nset = "broker-a"\nmaster = "{self.address}"\ncontrollerMode = true\n')
        self.proxy = RoleHAProxy(folder, rules, [self.controller], [checks_port])
        self.clients = []

    def start(self):
        first, *others = self.replicas
        first.join()
        first.is_master, first.epoch = True, 1
        assert first.elect().code == SUCCESS
        for each in others:
            each.epoch = 1
            each.join()
        answer = first.report([1, 2, 3], master_epoch=1, sync_state_set_epoch=1)
        assert answer.code == SUCCESS, answer
        self.proxy.configure()
        self.proxy.start()
        wait_until(Caller(self.address).is_up, seconds=SOON_S, what="an answer at the role address")
        self.clients = [Client(f"client{number}", self.address) for number in range(8)]
        for each in self.clients:
            each.start()
        wait_until(lambda: all(len(each.sent) > 20 for each in self.clients), seconds=SOON_S, what="messages")
        return self

    def request(self, path, body=None):
        url = f"http://127.0.0.1:{self.controller.http_port}/v1/broker-sets/broker-a/{path}"
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def switch_over(self, **body):
        self.request("switchover", body)

        def ended():
            shown = self.request("switchover")
            return shown if shown["phase"] in {"DONE", "FAILED", "ROLLED_BACK", "INTERRUPTED"} else None

        return wait_until(ended, seconds=SOON_S, what="the end of the switchover")

    def by_id(self, broker_id):
        return next(each for each in self.replicas if each.broker_id == broker_id)

    def in_sync(self):
        """Let the master report that all are in sync again."""
        state = self.controller.set_state("broker-a")
        master = self.by_id(state.master)
        answer = master.report(
            [1, 2, 3], master_epoch=state.master_epoch, sync_state_set_epoch=state.sync_state_set_epoch
        )
        assert answer.code == SUCCESS, answer

    def more_sent(self):
        counts = [len(each.sent) for each in self.clients]
        wait_until(
            lambda: all(len(each.sent) > count + 20 for each, count in zip(self.clients, counts, strict=True)),
            seconds=SOON_S,
            what="more messages of each client",
        )

    def close(self):
        for each in self.clients:
            each.goes_on = False
        for each in self.clients:
            each.join()
        for each in self.replicas:
            each.die()
        for each in (self.proxy.process, self.controller.process):
            if each is not None:
                each.kill()


@pytest.fixture
def site(tmp_path):
    require("haproxy")
    site = Site(tmp_path)
    yield site
    site.close()


def test_clients_behind_haproxy_wait_for_the_new_master_and_none_reaches_the_old_one_again(site):
    """The master does not wait for its slaves, so whatever it takes after the election would be lost."""
    site.start()
    done = site.switch_over(reason="a test", holdMsMax=5_000)
    assert (done["phase"], done["isHeld"], done["problem"]) == ("DONE", True, ""), done
    old, new = site.by_id(done["oldMaster"]), site.by_id(done["newMaster"])
    taken = len(old.taken)
    site.more_sent()
    assert len(old.taken) == taken
    assert len(new.taken) > 0
    assert [each.failed for each in site.clients] == [[]] * len(site.clients)
    # No message was refused, which would use up the tries of a client within milliseconds.
    assert [each.refused for each in site.replicas] == [0, 0, 0]
    assert max(each.longest_s for each in site.clients) < TRY_S
    # A frame that the old master had received and reads late belongs to a connection that was cut at the hold: its
    # client had no answer, and sent it again, to the new one.
    led = next(number for number, (broker_id, _) in enumerate(site.log) if broker_id == new.broker_id)
    late = {key for broker_id, key in site.log[led:] if broker_id == old.broker_id}
    assert late <= set(new.taken)


def test_new_master_that_never_serves_is_rolled_back_and_clients_go_on_at_the_old_one(site):
    site.start()
    for each in site.replicas[1:]:
        each.answers = lambda received, each=each: None if received.code == ROLE_CHANGED else each._answer(received)
    back = site.switch_over(holdMsMax=5_000)
    assert back["phase"] == "ROLLED_BACK", back
    site.more_sent()
    assert [len(each.taken) for each in site.replicas[1:]] == [0, 0]
    assert site.controller.set_state("broker-a").master == site.replicas[0].broker_id


def test_rolling_restart_names_each_broker_and_hands_the_role_over(site):
    site.start()
    site.request("rolling-restart", {"reason": "a test"})
    restarted = []

    def named():
        shown = site.request("rolling-restart")
        now = shown["restartNow"]
        return shown if shown["phase"] in {"DONE", "FAILED"} or (now and now not in restarted) else None

    while (shown := wait_until(named, seconds=SOON_S, what="the next broker"))["restartNow"] is not None:
        broker = site.by_id(shown["restartNow"])
        assert not broker.is_master
        broker.boot_unix_ms += 1_000
        restarted.append(broker.broker_id)
        if len(restarted) == len(site.replicas) - 1:
            wait_until(lambda: site.controller.set_state("broker-a").master != 1, seconds=SOON_S, what="another master")
            wait_until(lambda: any(each.is_master for each in site.replicas[1:]), seconds=SOON_S, what="it serves")
            site.in_sync()
    assert shown["phase"] == "DONE", shown
    assert restarted == [2, 3, 1]
    site.more_sent()
    assert [each.failed for each in site.clients] == [[]] * len(site.clients)


def test_controller_that_is_killed_while_it_holds_clients_leaves_the_old_master_in_its_role(site):
    """Holds are gone with it; who is stored serves, as soon as a controller leads again."""
    site.start()
    old = site.replicas[0]
    # The next master lacks something for ever, so that clients are held until the limit.
    site.replicas[1].behind = 1
    site.request("switchover", {"brokerId": 2, "holdMsMax": 5_000})
    wait_until(lambda: site.request("switchover")["phase"] == "DRAIN", seconds=SOON_S, what="that clients are held")
    site.controller.process.kill()
    site.controller.start()
    for each in site.replicas:
        each.reconnect()
        each.keep_beating()
    site.more_sent()
    assert site.controller.set_state("broker-a").master == old.broker_id
    assert [len(each.taken) for each in site.replicas[1:]] == [0, 0]
