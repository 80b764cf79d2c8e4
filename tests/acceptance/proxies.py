"""A proxy between two peers that a test cuts, holds up or slows down."""

import contextlib
import socket
import struct
import threading
import time

_CHUNK_BYTES = 65536
_POLL_S = 0.05
#: Closing with this option resets the connection instead of ending it in order.
_RESET = struct.pack("ii", 1, 0)


class Proxy:
    """Passes every byte on between `address` and `target`, over as many connections as come.

    Held up, it loses nothing: what came meanwhile arrives later, as from a network that was away.
    """

    def __init__(self, target, *, port):
        self.address = f"127.0.0.1:{port}"
        self._target = target
        self._pairs = set()
        self._flows = threading.Event()
        self._flows.set()
        self._delay_s = 0.0
        self._closed = False
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Reset all connections, and return how many there were; new ones are taken."""
        pairs = list(self._pairs)
        for pair in pairs:
            _reset(pair)
        return len(pairs)

    def hold(self):
        """Let nothing through, neither bytes nor ends of connections."""
        self._flows.clear()

    def release(self):
        self._flows.set()

    def slow_down(self, seconds):
        """Let every byte come so much later; 0 ends it."""
        self._delay_s = seconds

    def close(self):
        self._closed = True
        self._flows.set()
        self._listener.close()
        self.cut()

    def _accept(self):
        while not self._closed:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near):
        self._flows.wait()
        host, port = self._target.split(":")
        try:
            far = socket.create_connection((host, int(port)), timeout=3)
        except OSError:
            _reset((near,))
            return
        far.settimeout(None)
        for each in (near, far):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pair = (near, far)
        self._pairs.add(pair)
        threading.Thread(target=self._pass, args=(pair, far, near), daemon=True).start()
        self._pass(pair, near, far)

    def _pass(self, pair, source, sink):
        """Pass on what comes, in order, each piece after the delay that held when it came."""
        with contextlib.suppress(OSError):
            while chunk := source.recv(_CHUNK_BYTES):
                due = time.perf_counter() + self._delay_s
                while (left := due - time.perf_counter()) > 0 and self._delay_s:
                    time.sleep(min(left, _POLL_S))
                self._flows.wait()
                sink.sendall(chunk)
        self._flows.wait()
        self._pairs.discard(pair)
        for each in pair:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def _reset(sockets):
    for each in sockets:
        with contextlib.suppress(OSError):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            # A thread that reads keeps a closed socket open.
            each.shutdown(socket.SHUT_RD)
            each.close()
