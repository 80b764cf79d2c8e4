"""A proxy in front of a broker that answers queries for stored offsets (14) with an error, as a busy broker does."""

import contextlib
import json
import socket
import struct
import threading

QUERY_CONSUMER_OFFSET = 14
RESPONSE = 1


class FailingFront:
    """Passes everything on; while `failure` is a response code, 14 is answered with that."""

    def __init__(self, target):
        host, port = target.split(":")
        self._target = (host, int(port))
        self.failure = None
        #: How many queries it has answered with an error.
        self.failed = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(self._target)
                self._sockets += [client, broker]
                answering = threading.Lock()
                threading.Thread(target=self._pass_requests, args=(client, broker, answering), daemon=True).start()
                threading.Thread(target=self._pass_answers, args=(client, broker, answering), daemon=True).start()

    def _pass_requests(self, client, broker, answering):
        with _both_ended(client, broker):
            while frame := _frame(client):
                header = json.loads(frame[8 : 8 + (struct.unpack(">I", frame[4:8])[0] & 0xFFFFFF)])
                if self.failure is None or header["code"] != QUERY_CONSUMER_OFFSET or header["flag"] & RESPONSE:
                    broker.sendall(frame)
                    continue
                self.failed += 1
                answer = {"code": self.failure, "flag": RESPONSE, "opaque": header["opaque"], "language": "JAVA"}
                text = json.dumps(answer | {"version": header["version"], "remark": "the test fails it"}).encode()
                with answering:
                    client.sendall(struct.pack(">II", 4 + len(text), len(text)) + text)

    def _pass_answers(self, client, broker, answering):
        with _both_ended(client, broker):
            while frame := _frame(broker):
                with answering:
                    client.sendall(frame)


@contextlib.contextmanager
def _both_ended(*sockets):
    with contextlib.suppress(OSError):
        yield
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def _frame(connection):
    """Return the next frame with its length; empty at the end."""
    length = _exactly(connection, 4)
    return length + _exactly(connection, struct.unpack(">I", length)[0]) if length else b""


def _exactly(connection, count):
    data = b""
    while len(data) < count:
        chunk = connection.recv(count - len(data))
        if not chunk:
            return b""
        data += chunk
    return data
