"""Measures how long the NameServer takes to start and how much memory it holds when idle.

    make bench-start          (or: python benchmarks/start.py [--runs N])

Starts the server of this repository N times (default 5), one after another, on free loopback ports, and prints the
median and worst seconds from the start of the process until it accepts requests (the boot line) and until it is ready,
and its resident memory two seconds later. Then the first client comes over HTTP, for which that side is loaded: the
seconds until it has its answer, and the memory afterwards.
"""

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

IDLE_S = 2


def free_port() -> int:
    """Return a port that nobody listens on at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def measure(folder: Path) -> tuple[float, ...]:
    """Start and stop one server; return the figures of `main` in their order."""
    http_port = free_port()
    command = [sys.executable, "-m", "namesrv", "--bind-address", "127.0.0.1"]
    command += ["--listen-port", str(free_port()), "--http-port", str(http_port), "--log-format", "json"]
    command += ["--kv-config-path", str(folder / "kvConfig.json"), "--config-store-path", str(folder / "p.properties")]
    began = time.perf_counter()
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    booted = ready = 0.0
    try:
        for line in server.stdout:
            if "boot success" in line:
                booted = time.perf_counter() - began
            elif line.startswith("{") and json.loads(line)["event"] == "server_ready":
                ready = time.perf_counter() - began
                break
        time.sleep(IDLE_S)
        idle_mb = resident_mb(server.pid)
        asked = time.perf_counter()
        with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/metrics", timeout=10) as answer:
            answer.read()
        answered = time.perf_counter() - asked
        return booted, ready, idle_mb, answered, resident_mb(server.pid)
    finally:
        server.terminate()
        server.wait(timeout=10)


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process."""
    memory = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True)
    return int(memory.stdout) / 1024


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder))  # the first one may have to compile
        measured = [measure(Path(folder)) for _ in range(runs)]
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.platform()}, {runs} runs")
    for name, unit, values in zip(
        (
            "start until requests are accepted",
            "start until ready",
            "idle memory",
            "first answer over HTTP",
            "memory after it",
        ),
        ("s", "s", "MB", "s", "MB"),
        zip(*measured, strict=True),
        strict=True,
    ):
        print(f"{name}: median {statistics.median(values):.3f} {unit}, worst {max(values):.3f} {unit}")


if __name__ == "__main__":
    main()
