"""Runs `rmq` as a process, as an operator does."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass

from peers.jars import REPOSITORY
from peers.waiting import wait_until

RUN_S = 60


@dataclass(frozen=True)
class Ran:
    """What a run of the command printed and exited with."""

    code: int
    out: str
    err: str

    @property
    def items(self):
        return json.loads(self.out)["items"]


class Rmq:
    """The command with the environment of one operator; `variables` replace those of the environment."""

    def __init__(self, home, **variables):
        home.mkdir(parents=True, exist_ok=True)
        own = {"PYTHONPATH": str(REPOSITORY), "HOME": str(home), "RMQ_TIMEOUT": "20"}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RMQ_", "NAMESRV_", "COV_"))}
        self.home = home
        self.environment = kept | own | variables

    def run(self, *words, input_text=None, stdout=subprocess.PIPE):
        done = subprocess.run(
            [sys.executable, "-m", "rmq", *words],
            cwd=self.home,
            env=self.environment,
            input=input_text,
            stdin=subprocess.DEVNULL if input_text is None else None,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            timeout=RUN_S,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Ran(done.returncode, done.stdout, done.stderr)

    def interrupt(self, *words, when):
        """Run a command and press Ctrl-C as soon as `when()` is true."""
        its = subprocess.PIPE
        process = subprocess.Popen(
            [sys.executable, "-m", "rmq", *words],
            cwd=self.home,
            env=self.environment,
            stdout=its,
            stderr=its,
            text=True,
        )
        try:
            wait_until(when, seconds=RUN_S, what="the command is where it is to be interrupted")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=RUN_S)
        finally:
            process.kill()
        assert "Traceback" not in err, err
        return Ran(process.returncode, out, err)

    def items(self, *words):
        """Return the rows of a command that is done."""
        ran = self.run(*words, "--output", "json")
        assert ran.code == 0, ran
        return ran.items
