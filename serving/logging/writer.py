"""A queue and a thread between the writers of log lines and the file descriptor that takes them.

A pipe whose reader has stopped blocks its writer; here it blocks this thread, and when the queue is full, lines are
dropped and counted. The descriptor is written to without Python's buffer of `sys.stdout`, whose lock a blocked thread
would still hold when the process ends.
"""

import os
import select
import threading
from collections import deque
from typing import Final

#: Bytes of lines that may wait for a slow reader.
QUEUED_BYTES_MAX: Final = 4 * 1024 * 1024

#: Bytes that are written at once, at least one line.
_WRITE_BYTES_MAX: Final = 64 * 1024

#: How long to wait for a descriptor that somebody else made non-blocking, in seconds.
_RETRY_S: Final = 1.0


class LineWriter:
    """Writes lines to a file descriptor in the order they came, never making the caller wait."""

    def __init__(self, descriptor: int, queued_bytes_max: int = QUEUED_BYTES_MAX) -> None:
        """Start the thread; the descriptor stays the caller's."""
        self._descriptor = descriptor
        self._queued_bytes_max = queued_bytes_max
        self._lines: deque[bytes] = deque()
        self._queued_bytes = 0
        self._closing = False
        self._changed = threading.Condition()
        #: What the next line follows on: a line that could not be written to its end must not swallow it.
        self._start = b""
        #: Lines that were lost, because the queue was full or the descriptor took no more.
        self.dropped = 0
        # A daemon, so that a reader that never comes back cannot keep the process.
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Queue one line, without its line end; from any thread. After `close` it is dropped."""
        with self._changed:
            if self._closing or self._queued_bytes + len(line) > self._queued_bytes_max:
                self.dropped += 1
                return
            self._lines.append(line)
            self._queued_bytes += len(line)
            # The thread waits for the first only, and each call of it costs much.
            if len(self._lines) == 1:
                self._changed.notify()

    def close(self, timeout_s: float) -> None:
        """Write what is queued, for at most `timeout_s` seconds; the rest is lost."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while lines := self._take():
            try:
                self._write_lines(lines)
            except Exception:  # noqa: BLE001  # whatever it is, later lines are written; there is no log for it
                with self._changed:
                    self.dropped += len(lines)

    def _write_lines(self, lines: list[bytes]) -> None:
        content = self._start + b"".join(line + b"\n" for line in lines)
        written = self._write(content)
        if written < len(content):
            # Nobody reads any more, or the disk is full. Serving goes on; the lost lines are counted.
            with self._changed:
                self.dropped += content.count(b"\n", max(written, len(self._start)))
        if written:
            self._start = b"" if content[written - 1 : written] == b"\n" else b"\n"

    def _take(self) -> list[bytes]:
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._closing)
            taken: list[bytes] = []
            taken_bytes = 0
            while self._lines and taken_bytes < _WRITE_BYTES_MAX:
                taken.append(self._lines.popleft())
                taken_bytes += len(taken[-1])
            self._queued_bytes -= taken_bytes
            return taken

    def _write(self, content: bytes) -> int:
        """Return how many bytes the descriptor has taken: all, unless it takes no more."""
        written = 0
        while written < len(content):
            try:
                written += os.write(self._descriptor, memoryview(content)[written:])
            except BlockingIOError:
                select.select([], [self._descriptor], [], _RETRY_S)
            except OSError:
                break
        return written
