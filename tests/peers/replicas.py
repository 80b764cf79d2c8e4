"""Brokers of a set as a controller sees them: hand-made, each with a port of its own and a line to the controller.

What they answer, whether they beat, and which of their connections stays, the test decides.
"""

import contextlib
import json
import socket
import struct
import threading
import time
from dataclasses import dataclass

from peers.networks import Network
from peers.scripted import Line
from peers.wire import SUCCESS, frame

HEARTBEAT = 904
HA_STATUS = 907
ALTER_SYNC_STATE_SET = 1001
ELECT_MASTER = 1002
REGISTER = 1003
REPLICA_INFO = 1004
EPOCH_CACHE = 1007
HA_STATUS = 907
ROLE_CHANGED = 1008
CLEAN = 1011
NEXT_ID = 1012
APPLY_ID = 1013

RESPONSE = 1
ONE_WAY = 2
CLUSTER = "C"
ANSWER_S = 10


@dataclass(frozen=True)
class ReceivedRequest:
    """A request that the controller sent."""

    code: int
    flag: int
    fields: dict
    body: bytes
    at_s: float

    @property
    def json(self):
        return json.loads(self.body)


class Replica:
    """A broker that listens from the start, and beats while `beating`. `answers` gives a code, or None for silence."""

    def __init__(self, controller, name, *, cluster=CLUSTER, port=0, binary=False):
        self.name = name
        self.cluster = cluster
        self.broker_id = None
        #: It has changed to master.
        self.is_master = False
        self.epoch = -1
        self.max_offset = 0
        self.received = []
        self.answers = lambda _request: SUCCESS
        self._controller = controller
        self._binary = binary
        self._lock = threading.Lock()
        self._dead = threading.Event()
        self._beating = threading.Event()
        self._accepted = []
        self._listener = None
        self.address = None
        self.open_port(port)
        self._line = self._connected()

    @property
    def identity(self):
        return {"clusterName": self.cluster, "brokerName": self.name}

    # To the controller

    def request(self, code, fields, body=b""):
        with self._lock:
            return self._line.request(code, fields, body)

    def request_for_set(self, code, body=b"", **fields):
        """Send a request with the name of the set and these fields; True as `true`, None for no field."""
        return self.request(code, self.fields(**fields), body)

    def fields(self, **fields):
        texts = {key: str(value).lower() if isinstance(value, bool) else value for key, value in fields.items()}
        return {key: str(value) for key, value in (self.identity | texts).items() if value is not None}

    def next_id(self):
        return int(self.request_for_set(NEXT_ID).fields["nextBrokerId"])

    def apply(self, broker_id, *, code=None):
        return self.request_for_set(APPLY_ID, appliedBrokerId=broker_id, registerCheckCode=code or f"{self.address};17")

    def register(self):
        return self.request_for_set(REGISTER, brokerId=self.broker_id, brokerAddress=self.address)

    def elect(self):
        """Ask for a master, as a broker does that knows of none."""
        return self.request_for_set(ELECT_MASTER, brokerId=self.broker_id, designateElect=False)

    def report(self, members, *, master_epoch, sync_state_set_epoch):
        body = {"syncStateSet": list(members), "syncStateSetEpoch": sync_state_set_epoch}
        fields = {"masterBrokerId": self.broker_id, "masterEpoch": master_epoch}
        return self.request_for_set(ALTER_SYNC_STATE_SET, json.dumps(body).encode(), **fields)

    def info(self):
        return self.request(REPLICA_INFO, {"brokerName": self.name})

    def join(self):
        """Get an id, register and beat from now on."""
        self.broker_id = self.next_id()
        assert self.apply(self.broker_id).code == SUCCESS
        assert self.register().code == SUCCESS
        self.heartbeat()
        return self.keep_beating()

    def heartbeat(self, **fields):
        """Send one heartbeat; `fields` replace what it says, None leaves a field out."""
        header = {
            "brokerAddr": self.address,
            "brokerId": self.broker_id,
            "heartbeatTimeoutMills": 10_000,
            "epoch": self.epoch,
            "maxOffset": self.max_offset,
            "confirmOffset": self.max_offset,
        }
        with self._lock:
            self._line.send(HEARTBEAT, self.fields(**header | fields), flag=ONE_WAY)

    def keep_beating(self):
        self._beating.set()
        threading.Thread(target=self._heartbeat_on, daemon=True).start()
        return self

    def stop_beating(self):
        self._beating.clear()

    # What goes wrong

    def cut(self):
        """Lose the connection to the controller; the port lives."""
        self._beating.clear()
        _shut(self._line)

    def reconnect(self):
        with self._lock:
            _shut(self._line)
            self._line = self._connected()
            if self._dead.is_set():
                # It died while this thread connected.
                _shut(self._line)

    def open_port(self, port=0):
        self._listener = socket.create_server(("127.0.0.1", port))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._listen, args=(self._listener,), daemon=True).start()

    def close_port(self):
        _close(self._listener)
        for connection in self._accepted:
            _close(connection)
        self._accepted.clear()

    def die(self):
        """Close everything, as the system does for a killed process."""
        self._dead.set()
        self._beating.clear()
        self.close_port()
        _shut(self._line)

    def _connected(self):
        host, port = self._controller.split(":")
        return Line(socket.create_connection((host, int(port)), timeout=ANSWER_S), binary=self._binary)

    def _heartbeat_on(self):
        while self._beating.is_set() and not self._dead.wait(0.5):
            with contextlib.suppress(OSError):
                self.heartbeat()

    def _listen(self, listener):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                self._accepted.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        # One that is accepted while the port closes is closed by nobody else.
        with contextlib.suppress(OSError, struct.error), connection:
            while True:
                received, opaque = _received(connection)
                self.received.append(received)
                code = self.answers(received)
                if code is not None and not received.flag & ONE_WAY:
                    body = self.body_of(received) if code == SUCCESS else b""
                    connection.sendall(frame(code, body=body, opaque=opaque, flag=RESPONSE))

    def body_of(self, received):
        """Return the body of a successful answer."""
        bodies = {EPOCH_CACHE: self._epoch_cache, HA_STATUS: self._ha_status}
        return bodies[received.code]() if received.code in bodies else b""

    def _ha_status(self):
        ends = {"masterCommitLogMaxOffset": self.max_offset, "haConnectionInfo": [], "inSyncSlaveNums": 0}
        return json.dumps(
            {"master": self.is_master, "haClientRuntimeInfo": {"maxOffset": self.max_offset}} | ends
        ).encode()

    def _epoch_cache(self):
        cache = {"clusterName": self.cluster, "brokerName": self.name, "brokerId": self.broker_id or -1}
        epochs = [{"epoch": self.epoch, "startOffset": 0}] if self.epoch > 0 else []
        return json.dumps(cache | {"epochList": epochs, "maxOffset": self.max_offset}).encode()

    def notices(self):
        """Return the 1008 that came."""
        return [received for received in self.received if received.code == ROLE_CHANGED]


class RemoteReplica(Replica):
    """A broker on a `networks.Host`, None: beside the controller. It connects again when its connection fails."""

    def __init__(self, controller, name, host=None, port=0):
        self._host = host
        super().__init__(controller, name, port=port)

    def _inside(self):
        return self._host.inside() if self._host is not None else contextlib.nullcontext()

    def open_port(self, port=0):
        ip = self._host.address if self._host is not None else Network.server
        with self._inside():
            self._listener = socket.create_server((ip, port))
        self.address = f"{ip}:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._listen, args=(self._listener,), daemon=True).start()

    def _connected(self):
        host, port = self._controller.split(":")
        with self._inside():
            return Line(socket.create_connection((host, int(port)), timeout=2))

    def _heartbeat_on(self):
        while self._beating.is_set() and not self._dead.wait(0.5):
            try:
                self.heartbeat()
            except OSError:
                with contextlib.suppress(OSError):
                    self.reconnect()


def _received(connection):
    (length,) = struct.unpack(">I", _exactly(connection, 4))
    data = _exactly(connection, length)
    header_bytes = struct.unpack(">I", data[:4])[0] & 0xFFFFFF
    header = json.loads(data[4 : 4 + header_bytes])
    fields = header.get("extFields") or {}
    received = ReceivedRequest(header["code"], header["flag"], fields, data[4 + header_bytes :], time.perf_counter())
    return received, header["opaque"]


def _exactly(connection, count):
    data = b""
    while len(data) < count:
        chunk = connection.recv(count - len(data))
        if not chunk:
            raise ConnectionResetError("closed")
        data += chunk
    return data


def _shut(line):
    _close(line._connection)


def _close(each):
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
