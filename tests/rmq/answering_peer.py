"""A broker of a few lines: what it answers to each request code, the test decides."""

import contextlib
import json
import socket
import struct
import threading

from peers.wire import SUCCESS, frame

RESPONSE = 1
NOT_SUPPORTED = 3


def answer(body=b"", *, code=SUCCESS, fields=None, remark=None):
    """Return an answer: its code, fields, remark and body, which may be text, bytes or what becomes JSON."""
    if isinstance(body, dict | list):
        body = json.dumps(body).encode()
    return code, fields, remark, body.encode() if isinstance(body, str) else body


class AnsweringPeer:
    """Listens from the start. `answers` is by request code; None for silence, bytes for those bytes and an end."""

    def __init__(self, answers):
        self.answers = answers
        #: Code and fields of each request.
        self.received = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _listen(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with contextlib.suppress(OSError, EOFError), connection:
            while True:
                header, _ = _request(connection)
                self.received.append((header["code"], header.get("extFields") or {}))
                found = self.answers.get(header["code"], answer(code=NOT_SUPPORTED, remark="not supported"))
                if found is None:
                    continue
                if isinstance(found, bytes):
                    connection.sendall(found)
                    return
                code, fields, remark, body = found
                connection.sendall(_response(code, fields, remark, body, header["opaque"]))


def _response(code, fields, remark, body, opaque):
    if remark is None:
        return frame(code, fields, body, opaque=opaque, flag=RESPONSE)
    header = {"code": code, "language": "JAVA", "version": 513, "opaque": opaque, "flag": RESPONSE, "remark": remark}
    text = json.dumps(header).encode()
    return struct.pack(">II", 4 + len(text) + len(body), len(text)) + text + body


def _request(connection):
    (length,) = struct.unpack(">I", _exactly(connection, 4))
    data = _exactly(connection, length)
    end = 4 + (struct.unpack(">I", data[:4])[0] & 0xFFFFFF)
    return json.loads(data[4:end]), data[end:]


def _exactly(connection, count):
    data = b""
    while len(data) < count:
        if not (chunk := connection.recv(count - len(data))):
            raise EOFError
        data += chunk
    return data
