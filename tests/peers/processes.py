"""One operating system process under test: started, watched through its log, paused, killed by its own id."""

import atexit
import itertools
import os
import random
import re
import signal
import socket
import subprocess

from peers.waiting import wait_until

#: Below the range from which the system takes ports for outgoing connections, so that those cannot take ours.
PORTS = range(16000, 32000)
#: At most so many workers of one run take ports, each from a part of its own: a port that one has found free it uses
#: later, and not at the first start only.
WORKERS = 16


def _part(worker):
    """Return the ports of a worker, as pytest-xdist numbers them; without it there is one, which has them all."""
    if worker is None:
        return PORTS
    width = len(PORTS) // WORKERS
    first = PORTS.start + int(worker.removeprefix("gw")) % WORKERS * width
    return range(first, first + width)


_ports = _part(os.environ.get("PYTEST_XDIST_WORKER"))
_next_port = itertools.cycle(random.sample(range(_ports.start, _ports.stop, 4), len(_ports) // 4))

#: Every process of this test run, for the report of a failing test.
started = []


class Process:
    """A running program; `log` holds both its output streams."""

    def __init__(self, name, command, *, folder, env):
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as log:
            self._start = log.tell()
            self._popen = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.PIPE,
                # Nothing is kept back, which closing the pipe to an ended process would try to write.
                bufsize=0,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=env,
                cwd=folder,
            )
        self._paused = False
        started.append(self)

    @property
    def pid(self):
        return self._popen.pid

    @property
    def running(self):
        """Whether it has not ended; if it has, the pipe to it is closed."""
        if self._popen.poll() is None:
            return True
        self._popen.stdin.close()
        return False

    @property
    def active(self):
        """Whether it runs and is not paused."""
        return self.running and not self._paused

    def text(self, position=None):
        """Return what was printed since `position`, a former answer of `position()`, or since the start."""
        with self.log.open("rb") as log:
            log.seek(self._start if position is None else position)
            return log.read().decode(errors="replace")

    def position(self):
        """Return where the log ends now."""
        return self.log.stat().st_size

    def wait_for(self, pattern, *, seconds=60, position=None):
        """Return the first match of `pattern` in what was printed since `position`; fail if the process ends before."""
        compiled = re.compile(pattern, re.MULTILINE)

        def found():
            running = self.running
            match = compiled.search(self.text(position))
            assert match or running, f"{self.name} ended with {self._popen.returncode}, not printing {pattern!r}"
            return match

        return wait_until(found, seconds=seconds, what=f"{self.name} prints {pattern!r}")

    def write_line(self, line):
        self._popen.stdin.write(line.encode() + b"\n")

    def pause(self):
        """Stop the process without its connections noticing (SIGSTOP)."""
        self._popen.send_signal(signal.SIGSTOP)
        self._paused = True

    def resume(self):
        self._popen.send_signal(signal.SIGCONT)
        self._paused = False

    def kill(self):
        """End the process at once (SIGKILL); its connections are reset."""
        self._popen.kill()
        return self._ended(seconds=10)

    def signal(self, number):
        self._popen.send_signal(number)

    def terminate(self):
        """Send SIGTERM and do not wait."""
        self._popen.terminate()

    def stop(self, *, seconds=20):
        """End the process by SIGTERM, after `seconds` by SIGKILL, and return its exit code."""
        if self._paused:
            self.resume()
        self.terminate()
        try:
            return self._ended(seconds=seconds)
        except subprocess.TimeoutExpired:
            return self.kill()

    def wait(self, *, seconds):
        """Wait for the process to end by itself and return its exit code."""
        return self._ended(seconds=seconds)

    def _ended(self, *, seconds):
        code = self._popen.wait(timeout=seconds)
        self._popen.stdin.close()
        return code


#: By port, the UDP socket of the same number that keeps other test runs on this machine from it until this one ends.
_claims = {}


def free_port():
    """Return the first of four neighbouring loopback ports that are free: a Java broker takes three of them."""
    return next(port for port in _next_port if _is_claimed(port) and all(map(_is_free, range(port, port + 4))))


def _is_claimed(port):
    if port not in _claims:
        claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            claim.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
            return False
        atexit.register(claim.close)
        _claims[port] = claim
    return True


def _is_free(port):
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
