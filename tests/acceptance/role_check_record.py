"""What controllers answer about the role of each broker, all the time.

None may answer `up` for a superseded master, and an epoch has one master.
"""

import re
import socket
import threading

#: Between two rounds of one controller.
ROUND_S = 0.2
#: A controller that is frozen answers, if it thaws in time, what was sent to it meanwhile.
TIMEOUT_S = 3
_UP = re.compile(r"up ready #epoch (\d+)")


class UpAnswers:
    """The `up` answers so far. Pure."""

    def __init__(self):
        self.count = 0
        #: The newest epoch answered.
        self.newest = 0
        #: By epoch, the broker that is its master.
        self._masters = {}

    def problem(self, broker, answer, newest):
        """Return what is wrong with an answer about a broker; it was sent for when `newest` was the newest epoch."""
        if (up := _UP.match(answer)) is None:
            return None
        epoch = int(up[1])
        self.count += 1
        self.newest = max(self.newest, epoch)
        if epoch < newest:
            return f"{answer!r} about {broker} after one of epoch {newest}"
        if (master := self._masters.setdefault(epoch, broker)) != broker:
            return f"{answer!r} about {broker}, but the master of that epoch is {master}"
        return None


class RoleCheckRecord:
    """Queries some controllers about every broker of a set, each in a thread of its own, until it is closed."""

    def __init__(self, addresses, broker_name, broker_ids):
        self._lines = [f"{broker_name}/{each}" for each in broker_ids]
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._ups = UpAnswers()
        self._problems = []
        self._threads = [threading.Thread(target=self._run, args=(each,), daemon=True) for each in addresses]
        for each in self._threads:
            each.start()

    @property
    def ups(self):
        """How many answers were `up`."""
        return self._ups.count

    @property
    def is_unanswered(self):
        """Whether controllers were queried, and none ever answered `up`."""
        return bool(self._threads) and not self.ups

    def take_problems(self):
        """Return a sentence for each wrong answer since this was called last."""
        with self._lock:
            taken, self._problems = self._problems, []
        return taken

    def close(self):
        self._is_over.set()
        for each in self._threads:
            each.join(2 * TIMEOUT_S * len(self._lines))

    def _run(self, address):
        while not self._is_over.wait(ROUND_S):
            for line in self._lines:
                self._check(address, line)

    def _check(self, address, line):
        with self._lock:
            # What was answered before this check is sent, this answer must not contradict.
            newest = self._ups.newest
        try:
            answer = _answer(address, line)
        except OSError:
            return
        with self._lock:
            if (problem := self._ups.problem(line, answer, newest)) is not None:
                self._problems.append(f"{address} answered {problem}")


def _answer(address, line):
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as connection:
        connection.sendall(f"{line}\n".encode())
        with connection.makefile() as answer:
            return answer.readline().strip()
