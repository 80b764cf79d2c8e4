"""Measures how many commits a second an offset manager acknowledges over HTTP, and what each costs.

    python benchmarks/offset_commits.py [--seconds 10] [--clients 20] [--batch 100] [--keys 10000] [--rate 0]
                                        [--options ...]

A manager is started in a process of its own, and the clients in another one. They commit batches one after the other,
each to keys of its own, and wait for each answer; `--rate` limits the commits a second of all. Printed: commits a
second, the times of answers, the manager's CPU by thread, and what it costs. `--options` is handed to the manager, such
as "--flush-interval-ms 500".
"""

import argparse
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from commit_load import SeenLoad, add_load_options

STARTS_WITHIN_S = 120
_TICKS = os.sysconf("SC_CLK_TCK")
_LOAD = Path(__file__).with_name("commit_load.py")


def cpu_seconds(pid: int) -> dict[str, float]:
    """Return how long each thread of a process has run, by its id."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        found[task.name] = (int(fields[11]) + int(fields[12])) / _TICKS
    return found


def busiest(before: dict[str, float], after: dict[str, float]) -> list[float]:
    """Return how long the threads have run meanwhile, the busiest first."""
    return sorted((after[each] - before.get(each, 0.0) for each in after), reverse=True)


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def started(folder: Path, port: int, options: Sequence[str]) -> subprocess.Popen[bytes]:
    """Return the process of a manager that serves."""
    command = [sys.executable, "-m", "controller.offsets", "--store-path", str(folder), "--http-port", str(port)]
    manager = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL)
    deadline_s = time.perf_counter() + STARTS_WITHIN_S
    while time.perf_counter() < deadline_s and manager.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port)) as probe:
                probe.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                if probe.recv(64).startswith(b"HTTP/1.1 200"):
                    return manager
        except OSError:
            pass
        time.sleep(0.1)
    manager.kill()
    raise SystemExit("the manager did not start")


def load(port: int, options: argparse.Namespace) -> SeenLoad:
    """Return what clients in a process of their own have seen."""
    names = ("seconds", "clients", "batch", "keys", "rate")
    arguments = [word for name in names for word in (f"--{name}", str(getattr(options, name)))]
    done = subprocess.run([sys.executable, _LOAD, str(port), *arguments], stdout=subprocess.PIPE, check=True)
    seen = msgspec.json.decode(done.stdout, type=SeenLoad)
    if seen.error:
        raise SystemExit(f"clients have failed: {seen.error}")
    return seen


def answered_ms(seen: SeenLoad, share: float) -> float:
    """Return within how many ms this share of the answers has come."""
    return 1000 * seen.seconds[int(len(seen.seconds) * share)]


def report(seen: SeenLoad, cpu_s: list[float]) -> None:
    """Print the results."""
    rate, requests = seen.commits / seen.wall_s, len(seen.seconds) / seen.wall_s
    print(f"{rate:,.0f} commits/s in {requests:,.0f} requests/s, {seen.refused} refused, {seen.not_stored} not stored")
    print(f"answers: p50 {answered_ms(seen, 0.5):.1f} ms, p99 {answered_ms(seen, 0.99):.1f} ms")
    shares = ", ".join(f"{100 * each / seen.wall_s:.0f} %" for each in cpu_s[:4])
    cost_us = 1e6 * sum(cpu_s) / max(seen.commits, 1)
    print(f"the manager's busiest threads: {shares} of a core; {cost_us:.1f} us per commit")


def main() -> None:
    """Run it once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_load_options(parser, seconds=10, rate=0)
    parser.add_argument("--options", default="")
    options = parser.parse_args()
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        manager = started(Path(folder), port, shlex.split(options.options))
        try:
            before = cpu_seconds(manager.pid)
            seen = load(port, options)
            report(seen, busiest(before, cpu_seconds(manager.pid)))
        finally:
            manager.terminate()
            manager.wait()


if __name__ == "__main__":
    main()
