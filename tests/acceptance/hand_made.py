"""Brokers without messages: they say to a controller what a test wants, and hear what it tells them."""

import contextlib
import itertools
import json
import socket
import threading

from peers.scripted import Line
from peers.servers import CLUSTER
from peers.wire import SUCCESS, frame

HEARTBEAT = 904
ALTER_SYNC_STATE_SET = 1001
ELECT_MASTER = 1002
REGISTER = 1003
NOTIFY_ROLE_CHANGED = 1008
CLEAN_BROKER_DATA = 1011
GET_NEXT_BROKER_ID = 1012
APPLY_BROKER_ID = 1013

RESPONSE = 1
ONE_WAY = 2
HEARTBEAT_S = 1.0
#: In a group the leader may be about to change.
ANSWER_S = 10

_codes = itertools.count(1)


class HandMadeBroker:
    """A broker that listens at an address of its own, and sends heartbeats each second once it lives."""

    def __init__(self, controller_address, broker_name, *, cluster=CLUSTER, epoch=-1, max_offset=0):
        self.name = broker_name
        self.cluster = cluster
        self.epoch = epoch
        self.max_offset = max_offset
        self.broker_id = None
        #: The fields of every 1008 that came.
        self.notices = []
        self.check_code = f"check-{next(_codes)}"
        self._line = Line(_connected(controller_address))
        self._lock = threading.Lock()
        self._dead = threading.Event()
        self._accepted = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def identity(self):
        return {"clusterName": self.cluster, "brokerName": self.name}

    def request(self, code, fields, body=b""):
        with self._lock:
            return self._line.request(code, fields, body)

    def join(self):
        """Get an id, register and live."""
        self.broker_id = int(self.request(GET_NEXT_BROKER_ID, self.identity).fields["nextBrokerId"])
        assert self.apply_id().code == SUCCESS
        assert self.register().code == SUCCESS
        return self.live()

    def live(self):
        """Beat from now on."""
        self.heartbeat()
        threading.Thread(target=self._heartbeat_on, daemon=True).start()
        return self

    def apply_id(self, broker_id=None, check_code=None):
        fields = {"appliedBrokerId": str(broker_id or self.broker_id)}
        fields |= {"registerCheckCode": f"{self.address};{check_code or self.check_code}"}
        return self.request(APPLY_BROKER_ID, self.identity | fields)

    def register(self):
        return self.request(REGISTER, self.identity | {"brokerId": str(self.broker_id), "brokerAddress": self.address})

    def stand(self):
        """Stand for election, as a broker does that knows of no master."""
        fields = {"brokerId": str(self.broker_id), "designateElect": "false"}
        return self.request(ELECT_MASTER, self.identity | fields)

    def report(self, members, *, master_epoch, sync_state_set_epoch, master=None):
        """Report who is in sync, as the master does."""
        fields = {"brokerName": self.name, "masterBrokerId": str(master or self.broker_id)}
        fields |= {"masterEpoch": str(master_epoch)}
        body = {"syncStateSet": sorted(members), "syncStateSetEpoch": sync_state_set_epoch}
        return self.request(ALTER_SYNC_STATE_SET, fields, json.dumps(body).encode())

    def heartbeat(self):
        fields = {"brokerAddr": self.address, "brokerId": str(self.broker_id), "heartbeatTimeoutMills": "10000"}
        fields |= {"epoch": str(self.epoch), "maxOffset": str(self.max_offset), "confirmOffset": str(self.max_offset)}
        with self._lock:
            self._line.send(HEARTBEAT, self.identity | fields, flag=ONE_WAY)

    def die(self):
        """Close everything at once, as the system does for a killed process."""
        self._dead.set()
        _close(self._listener)
        self._line.close()
        for connection in self._accepted:
            _close(connection)

    def _heartbeat_on(self):
        while not self._dead.wait(HEARTBEAT_S):
            try:
                self.heartbeat()
            except OSError:
                return

    def _listen(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._accepted.append(connection)
                if self._dead.is_set():
                    # It came when `die` was at the others already.
                    _close(connection)
                    return
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        """Answer everything with success; one-way requests too, which no controller minds."""
        with contextlib.suppress(OSError):
            line = Line(connection)
            while True:
                number, request = line.receive()
                if request.code == NOTIFY_ROLE_CHANGED:
                    self.notices.append(request.fields)
                connection.sendall(frame(SUCCESS, opaque=number, flag=RESPONSE))


def _connected(address):
    host, port = address.split(":")
    return socket.create_connection((host, int(port)), timeout=ANSWER_S)


def _close(each):
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
