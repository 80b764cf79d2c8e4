"""A well-behaved broker beside what is going on at a controller: how long it waits, and what is refused.

    controller_witness.py PORT [PID]

As `witness.py`: asks until its input ends, then prints one JSON object.
"""

import json
import select
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from peers.replicas import Replica
from peers.waiting import wait_until
from peers.wire import SUCCESS
from witness import PAUSE_S, Processor, share

SET = "witnessed"
START_S = 30


class Witness:
    def __init__(self, port, processor):
        self._processor = processor
        self._held_s = 0.0
        self._replica = Replica(f"127.0.0.1:{port}", SET, cluster="Witnesses").join()
        wait_until(lambda: self._replica.elect().code == SUCCESS, seconds=START_S, what="the witness to be master")
        self._master = self._replica.info().fields
        self.polls = []
        self.refused = []

    def poll(self):
        """Ask who leads the set, as a broker does again and again."""
        began, worked_s = time.perf_counter(), self._processor.seconds()
        answer = self._replica.info()
        self._held_s = max(self._held_s, self._processor.seconds() - worked_s)
        self.polls.append(time.perf_counter() - began)
        if answer.code != SUCCESS or answer.fields != self._master:
            self.refused.append(f"poll: {answer.code} {answer.remark} {answer.fields}, not {self._master}")

    def run(self):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
            self.poll()

    def figures(self):
        return {
            "queries": len(self.polls),
            "p99_ms": share(self.polls, 0.99),
            "max_ms": share(self.polls, 1),
            "held_ms": round(1000 * self._held_s, 2),
            "refused": self.refused[:3],
        }


if __name__ == "__main__":
    witness = Witness(int(sys.argv[1]), Processor(*sys.argv[2:]))
    try:
        witness.run()
    except OSError as error:
        witness.refused.append(repr(error))
    sys.stdout.write(json.dumps(witness.figures()))
