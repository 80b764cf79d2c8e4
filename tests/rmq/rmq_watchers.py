"""Runs of `rmq` that go on until they are stopped, and what they have written so far."""

import contextlib
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading

from peers.waiting import wait_until

START_S = 60


class Watcher:
    """A run with its output to pipes."""

    def __init__(self, rmq, *words):
        command = [sys.executable, "-m", "rmq", *words]
        self._process = subprocess.Popen(
            command,
            env=rmq.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines, self.errors = [], []
        streams = ((self._process.stdout, self.lines), (self._process.stderr, self.errors))
        self._readers = [threading.Thread(target=self._read, args=each, daemon=True) for each in streams]
        for each in self._readers:
            each.start()

    def _read(self, stream, lines):
        lines.extend(iter(stream.readline, ""))

    @property
    def events(self):
        return [json.loads(line) for line in list(self.lines)]

    def types(self, name):
        """Return what happened to which: (type, value of the row's field)."""
        return [(each["type"], each["object"][name]) for each in self.events]

    def wait_for(self, condition, what, seconds=START_S):
        wait_until(condition, seconds=seconds, what=lambda: f"{what}: {self.lines[-5:]} {self.errors}")

    def interrupt(self, number=signal.SIGINT):
        """Stop it as Ctrl-C does; returns its exit code."""
        self._process.send_signal(number)
        code = self._process.wait(timeout=START_S)
        for each in self._readers:
            each.join(START_S)
        return code

    def close(self):
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            stream.close()


@contextlib.contextmanager
def watching(rmq, *words):
    watcher = Watcher(rmq, *words)
    try:
        yield watcher
    finally:
        watcher.close()


class Terminal:
    """A run in a terminal of some columns and lines; `text` is all that it has been sent."""

    def __init__(self, rmq, *words, columns=100, lines=12):
        self._ours, its = pty.openpty()
        self._size(columns, lines)
        command = [sys.executable, "-m", "rmq", *words]
        environment = rmq.environment | {"TERM": "xterm"}
        self.process = subprocess.Popen(command, env=environment, stdin=its, stdout=its, stderr=its)
        os.close(its)
        self.text = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _size(self, columns, lines):
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def _read(self):
        with contextlib.suppress(OSError):
            while chunk := os.read(self._ours, 65536):
                self.text += chunk.decode()

    def resize(self, columns, lines):
        self._size(columns, lines)
        self.process.send_signal(signal.SIGWINCH)

    @property
    def screen(self):
        """The lines of the last picture that was drawn whole."""
        whole = self.text.rpartition("\x1b[J")[0].rpartition("\x1b[H")[2]
        return [line.removesuffix("\x1b[K") for line in whole.replace("\r", "").split("\n")]

    def wait_for(self, condition, what, seconds=START_S):
        wait_until(condition, seconds=seconds, what=lambda: f"{what}: {self.text[-2000:]!r}")

    def interrupt(self, number=signal.SIGINT):
        self.process.send_signal(number)
        code = self.process.wait(timeout=START_S)
        self._reader.join(START_S)
        return code

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)
