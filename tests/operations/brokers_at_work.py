"""Brokers without messages that do what a running broker does: they beat to every controller, poll the leader, take the
role they are told, ask for a master where there is none, and report who is in sync. Each answer is timed.
"""

import contextlib
import json
import socket
import threading
import time

from peers.scripted import Line
from peers.wire import SUCCESS, frame

CLUSTER = "C"
HEARTBEAT = 904
ALTER_SYNC_STATE_SET = 1001
ELECT_MASTER = 1002
REGISTER = 1003
GET_REPLICA_INFO = 1004
GET_METADATA = 1005
EPOCH_CACHE = 1007
NOTIFY_ROLE_CHANGED = 1008
CLEAN_BROKER_DATA = 1011
GET_NEXT_BROKER_ID = 1012
APPLY_BROKER_ID = 1013

LEADER_ADDRESS = "controllerLeaderAddress"

SET_UNKNOWN = 2008

RESPONSE = 1
ONE_WAY = 2
#: As with real brokers several fall between two polls: the first after a registration only ends a restart.
HEARTBEAT_S = 0.2
POLL_S = 0.5
#: How long a broker waits for an answer.
ANSWER_S = 3.0
#: What a silent controller may keep a broker's heartbeats from the others.
CONNECT_S = 0.3


class BrokerAtWork:
    """One broker of a set; it starts with `start`, and its log is as long as `max_offset` says."""

    def __init__(self, controllers, name, *, broker_id=None, epoch=-1, max_offset=0):
        self.controllers = list(controllers)
        self.name = name
        self.broker_id = broker_id
        #: The last epoch of its log.
        self.epoch = epoch
        self.max_offset = max_offset
        #: As it was told: the master's id, and since which epoch.
        self.master = None
        self.master_epoch = 0
        #: Every change of the role, as (master, master epoch).
        self.roles = []
        #: Whom it would report to be in sync; None: nothing to report.
        self.reports = None
        #: Code and seconds of each answer; a timeout has no code.
        self.answers = []
        self._sync_state_set = (frozenset(), 0)
        self._lock = threading.Lock()
        #: One line to each controller for requests, and one for heartbeats.
        self._calls = {}
        self._dead = threading.Event()
        self._opening = threading.Lock()
        self._lines = {}
        self._accepted = []
        self._threads = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._spawn(self._listen)

    @property
    def identity(self):
        return {"clusterName": CLUSTER, "brokerName": self.name}

    @property
    def _registration(self):
        return self.identity | {"brokerId": str(self.broker_id), "brokerAddress": self.address}

    @property
    def is_master(self):
        return self.broker_id is not None and self.master == self.broker_id

    @property
    def has_beaten(self):
        return bool(self._lines)

    @property
    def slowest_s(self):
        return max(seconds for _, seconds in self.answers)

    @property
    def codes(self):
        return {code for code, _ in self.answers}

    def start(self):
        """Begin in a thread, as long as it takes: a broker tries until it is let in."""
        self._spawn(self._run)
        self._spawn(self._heartbeat_on)
        return self

    def stop(self):
        """Be gone at once, as after kill -9."""
        with self._opening:
            self._dead.set()
        for each in (self._listener, *self._accepted):
            _close(each)
        for line in (*list(self._lines.values()), *list(self._calls.values())):
            line.close()

    def close(self):
        self.stop()
        for thread in self._threads:
            thread.join(2 * ANSWER_S)

    # What it asks

    def request(self, code, fields, body=b""):
        """Ask the leader; None if nobody knows of one, or it does not answer."""
        leader = self._leader()
        if leader is None:
            return None
        return self._timed(leader, code, fields, body)

    def _timed(self, address, code, fields, body=b""):
        """Return the answer; None if the line broke. A line without an answer in time is closed, as brokers do."""
        began_s = time.perf_counter()
        try:
            line = self._opened(self._calls, address, ANSWER_S)
            answered = line.request(code, fields, body)
        except OSError:
            if (line := self._calls.pop(address, None)) is not None:
                line.close()
            # Where nothing listens, there is no answer that a broker had to wait for.
            if time.perf_counter() - began_s >= ANSWER_S:
                self.answers.append((None, time.perf_counter() - began_s))
            return None
        self.answers.append((answered.code, time.perf_counter() - began_s))
        return answered

    def _leader(self):
        for address in self.controllers:
            answer = self._timed(address, GET_METADATA, {})
            if answer is not None and answer.code == SUCCESS and (leader := answer.fields.get(LEADER_ADDRESS)):
                return leader
        return None

    def _run(self):
        while not self._dead.is_set() and not self._has_registered():
            self._dead.wait(POLL_S)
        while not self._dead.wait(POLL_S):
            self._poll()
            self._report()

    def _has_registered(self):
        if self.broker_id is None and not self._gets_id():
            return False
        answer = self.request(REGISTER, self._registration)
        if answer is None or answer.code != SUCCESS:
            return False
        self._heartbeat()
        if not self._heed(answer):
            self._stand()
        return True

    def _gets_id(self):
        answer = self.request(GET_NEXT_BROKER_ID, self.identity)
        if answer is None or answer.code != SUCCESS:
            return False
        wanted = answer.fields["nextBrokerId"]
        fields = {"appliedBrokerId": wanted, "registerCheckCode": f"{self.address};1"}
        answer = self.request(APPLY_BROKER_ID, self.identity | fields)
        if answer is not None and answer.code == SUCCESS:
            self.broker_id = int(wanted)
        return self.broker_id is not None

    def _poll(self):
        answer = self.request(GET_REPLICA_INFO, {"brokerName": self.name})
        if answer is not None and answer.code == SET_UNKNOWN:
            self.request(REGISTER, self._registration)
        if answer is None or answer.code != SUCCESS:
            return
        epoch = int(answer.fields["masterEpoch"])
        if epoch > self.master_epoch and "masterBrokerId" not in answer.fields:
            self._stand()
        elif epoch >= self.master_epoch:
            self._heed(answer)

    def _stand(self):
        answer = self.request(
            ELECT_MASTER, self.identity | {"brokerId": str(self.broker_id), "designateElect": "false"}
        )
        if answer is not None:
            self._heed(answer)

    def _heed(self, answer):
        """Take a role, and return whether the answer named a master."""
        if "masterBrokerId" not in answer.fields:
            return False
        body = answer.json if answer.body else {}
        members = frozenset(body.get("syncStateSet", ()))
        set_epoch = body.get("syncStateSetEpoch", answer.fields.get("syncStateSetEpoch", 0))
        self._take(int(answer.fields["masterBrokerId"]), int(answer.fields["masterEpoch"]), members, int(set_epoch))
        return True

    def _take(self, master, epoch, members, members_epoch):
        with self._lock:
            if epoch > self.master_epoch:
                self.master, self.master_epoch = master, epoch
                self.roles.append((master, epoch))
                self.epoch = max(epoch, self.epoch)
                self._sync_state_set = (members, members_epoch)
            elif epoch == self.master_epoch and members_epoch > self._sync_state_set[1]:
                self._sync_state_set = (members, members_epoch)

    def _report(self):
        wanted, (members, epoch) = self.reports, self._sync_state_set
        if not self.is_master or wanted is None or wanted == members:
            return
        fields = {"brokerName": self.name, "masterBrokerId": str(self.broker_id)}
        fields |= {"masterEpoch": str(self.master_epoch)}
        body = json.dumps({"syncStateSet": sorted(wanted), "syncStateSetEpoch": epoch}).encode()
        answer = self.request(ALTER_SYNC_STATE_SET, fields, body)
        if answer is not None and answer.code == SUCCESS:
            self._take(self.master, self.master_epoch, frozenset(wanted), answer.json["syncStateSetEpoch"])

    # What it says

    def _heartbeat_on(self):
        while not self._dead.wait(HEARTBEAT_S):
            self._heartbeat()

    def _heartbeat(self):
        if self.broker_id is None:
            return
        fields = {"brokerAddr": self.address, "brokerId": str(self.broker_id), "heartbeatTimeoutMills": "10000"}
        fields |= {"epoch": str(self.epoch), "maxOffset": str(self.max_offset), "confirmOffset": str(self.max_offset)}
        for address in self.controllers:
            try:
                self._line(address).send(HEARTBEAT, self.identity | fields, flag=ONE_WAY)
            except OSError:
                if (line := self._lines.pop(address, None)) is not None:
                    line.close()

    def _line(self, address):
        return self._opened(self._lines, address, CONNECT_S)

    def _opened(self, lines, address, timeout_s):
        """Return the line to an address, a new one if there is none."""
        if (line := lines.get(address)) is not None:
            return line
        host, port = address.split(":")
        line = Line(socket.create_connection((host, int(port)), timeout=timeout_s))
        with self._opening:
            kept = None if self._dead.is_set() else lines.setdefault(address, line)
        if kept is not line:
            # The broker died, or its other thread was quicker.
            line.close()
        if kept is None:
            raise ConnectionAbortedError(f"{self.name} is dead")
        return kept

    # What it is told

    def _listen(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._accepted.append(connection)
                self._spawn(self._answer, connection)

    def _answer(self, connection):
        with contextlib.suppress(OSError):
            line = Line(connection)
            while not self._dead.is_set():
                number, request = line.receive()
                if request.code == NOTIFY_ROLE_CHANGED:
                    self._heed(request)
                body = self._epoch_cache() if request.code == EPOCH_CACHE else b""
                connection.sendall(frame(SUCCESS, body=body, opaque=number, flag=RESPONSE))

    def _epoch_cache(self):
        role_id = 0 if self.is_master else self.broker_id or -1
        cache = {"clusterName": CLUSTER, "brokerName": self.name, "brokerId": role_id}
        epochs = [{"epoch": self.epoch, "startOffset": 0}] if self.epoch > 0 else []
        return json.dumps(cache | {"epochList": epochs, "maxOffset": self.max_offset}).encode()

    def _spawn(self, work, *arguments):
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()


def in_sync(brokers):
    """Let whoever of these leads report all of them to be in sync."""
    ids = frozenset(each.broker_id for each in brokers)
    for each in brokers:
        each.reports = ids


def _close(each):
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
