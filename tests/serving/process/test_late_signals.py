"""Signals that come while a stopped process ends."""

import signal
import subprocess
import sys

import pytest
from peers.jars import REPOSITORY

PROGRAM = """
import os, signal
from serving.process.process import serve_together
from serving.process.start import run

async def server(shared):
    shared.signals.listen()
    print("ready", flush=True)
    await shared.signals.stop.wait()

class Last:
    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.{second}):
        kill(pid, number)  # the interpreter has ended its own handling of signals by then

last = Last()
run("", lambda: serve_together(server))
"""


@pytest.mark.parametrize("second", ["SIGTERM", "SIGINT"])
def test_second_signal_at_the_very_end_leaves_the_status_of_a_stop_in_order(second):
    command = [sys.executable, "-c", PROGRAM.format(second=second)]
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert (process.wait(timeout=60), process.stderr.read()) == (0, "")
