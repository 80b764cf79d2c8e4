"""Many connections at once from one process, and how they leave."""

import contextlib
import resource
import select
import socket

import pytest
from peers.wire import frame

#: Files that this process has open beside its connections.
FILES_RESERVED = 200


class Crowd:
    """Sockets to one port; all are closed in the end."""

    def __init__(self, port):
        self._port = port
        self.sockets = []

    def connect(self, count, *, receive_bytes=None):
        """Open so many connections, one after the other."""
        for number in range(count):
            each = socket.socket()
            self.sockets.append(each)
            if receive_bytes:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
            # One address of loopback has too few ports for very many connections to one place.
            each.bind((f"127.0.0.{2 + number % 8}", 0))
            each.settimeout(30)
            each.connect(("127.0.0.1", self._port))
        return self.sockets[-count:]

    def closed(self):
        """Return how many of them the server has closed; what else there is to read is thrown away."""
        return sum(map(is_closed, self.sockets))

    def leave(self):
        while self.sockets:
            self.sockets.pop().close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.leave()


class Reopened:
    """So many connections; one that its peer leaves, or that the server has closed, is opened again."""

    def __init__(self, port, count, *, address="127.0.0.1"):
        self._port, self._address = port, address
        self._sockets = [self._connect() for _ in range(count)]
        self.reconnected = 0

    def _connect(self):
        return socket.create_connection(("127.0.0.1", self._port), timeout=30, source_address=(self._address, 0))

    def line(self, number, *, leaves, reads=True):
        """Return a connection; one that never `reads` does not see that it is closed."""
        if leaves or (reads and is_closed(self._sockets[number])):
            self._sockets[number].close()
            self._sockets[number] = self._connect()
            self.reconnected += 1
        return self._sockets[number]

    def close(self):
        for each in self._sockets:
            each.close()


def is_closed(each):
    each.setblocking(False)
    try:
        while True:
            if not each.recv(1 << 20):
                return True
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def push(each, data):
    """Send until the server takes no more for a moment, and return how many bytes it took."""
    each.setblocking(False)
    sent = 0
    with contextlib.suppress(ConnectionError):
        while sent < len(data) and select.select([], [each], [], 0.02)[1]:
            with contextlib.suppress(BlockingIOError):
                sent += each.send(data[sent : sent + (1 << 20)])
    return sent


def read_answers(each, count, *, seconds=30):
    """Read so many whole answers, and return the frames."""
    each.settimeout(seconds)
    with each.makefile("rb") as stream:
        frames = []
        for _ in range(count):
            prefix = stream.read(4)
            assert len(prefix) == 4, "closed before the answer"
            frames.append(prefix + stream.read(int.from_bytes(prefix)))
        return frames


def a_query(topic="witnessed"):
    return frame(105, {"topic": topic})


def need_files(count):
    """Let this process open so many connections more; fail where the machine does not allow it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + FILES_RESERVED
    if soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            pytest.fail(f"needs {wanted} open files, may have {hard}: ulimit -Hn")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
