"""Measures how many commits a second an offset manager acknowledges over HTTP, and what each costs.

    python benchmarks/offset_commits.py [--seconds 10] [--clients 20] [--batch 100] [--keys 10000] [--options ...]

A manager is started in a process of its own. Clients commit batches one after the other, each to keys of its own, and
wait for each answer. Printed: commits a second, the times of answers, the manager's CPU by thread, and what it costs.
`--options` is handed to the manager, such as "--flush-interval-ms 500".
"""

import argparse
import asyncio
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

QUEUES = 10
STARTS_WITHIN_S = 60
_TICKS = os.sysconf("SC_CLK_TCK")


class Committed(NamedTuple):
    """What one client has seen."""

    commits: int
    refused: int
    seconds: list[float]


def cpu_seconds(pid: int) -> dict[str, float]:
    """Return how long each thread of a process has run, by its id."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        found[task.name] = (int(fields[11]) + int(fields[12])) / _TICKS
    return found


class Committer:
    """One client with keys of its own, ten queues in each row."""

    def __init__(self, number: int, port: int, options: argparse.Namespace) -> None:
        self._number = number
        self._port = port
        self._batch_rows = max(options.batch // QUEUES, 1)
        rows = max(options.keys // options.clients // QUEUES, self._batch_rows)
        self._rows = [(f"group-{number}", f"topic-{row}") for row in range(rows)]
        self._at = 0

    async def run(self, until_s: float) -> Committed:
        """Commit until then."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        commits = refused = offset = 0
        took: list[float] = []
        while time.perf_counter() < until_s:
            offset += 1
            request = self._request(offset)
            begun_s = time.perf_counter()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            answer = await reader.readexactly(length)
            took.append(time.perf_counter() - begun_s)
            if head.startswith(b"HTTP/1.1 200"):
                commits += answer.count(b'"ok"')
            else:
                refused += 1
        writer.close()
        return Committed(commits, refused, took)

    def _request(self, offset: int) -> bytes:
        entries = []
        for _ in range(self._batch_rows):
            group, topic = self._rows[self._at % len(self._rows)]
            self._at += 1
            for queue_id in range(QUEUES):
                names = {"group": group, "topic": topic, "brokerName": "broker-a"}
                entries.append(names | {"queueId": queue_id, "offset": offset})
        body = msgspec.json.encode({"writer": f"10.0.0.{self._number}@7", "entries": entries})
        head = "POST /v1/offsets/commit HTTP/1.1\r\nHost: manager\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def started(folder: str, port: int, options: argparse.Namespace) -> subprocess.Popen[bytes]:
    """Return the process of a manager that serves."""
    command = [sys.executable, "-m", "controller.offsets", "--store-path", folder, "--http-port", str(port)]
    manager = subprocess.Popen([*command, *shlex.split(options.options)], stdout=subprocess.DEVNULL)
    deadline_s = time.perf_counter() + STARTS_WITHIN_S
    while time.perf_counter() < deadline_s and manager.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port)) as probe:
                probe.sendall(b"GET /readyz HTTP/1.1\r\nHost: manager\r\nConnection: close\r\n\r\n")
                if probe.recv(64).startswith(b"HTTP/1.1 200"):
                    return manager
        except OSError:
            pass
        time.sleep(0.1)
    manager.kill()
    raise SystemExit("the manager did not start")


async def measured(port: int, options: argparse.Namespace) -> list[Committed]:
    """Return what each client has seen."""
    until_s = time.perf_counter() + options.seconds
    return await asyncio.gather(*(Committer(each, port, options).run(until_s) for each in range(options.clients)))


def report(seen: list[Committed], cpu_s: list[float], wall_s: float) -> None:
    """Print the results."""
    commits = sum(each.commits for each in seen)
    times = sorted(took for each in seen for took in each.seconds)
    at = {share: 1000 * times[int(len(times) * share)] for share in (0.5, 0.99)}
    refused = sum(each.refused for each in seen)
    print(f"{commits / wall_s:,.0f} commits/s in {len(times) / wall_s:,.0f} requests/s, {refused} refused")
    print(f"answers: p50 {at[0.5]:.1f} ms, p99 {at[0.99]:.1f} ms")
    shares = ", ".join(f"{100 * each / wall_s:.0f} %" for each in cpu_s[:4])
    print(f"the manager's busiest threads: {shares} of a core; {1e6 * sum(cpu_s) / max(commits, 1):.1f} us per commit")


def main() -> None:
    """Run it once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("seconds", 10), ("clients", 20), ("batch", 100), ("keys", 10_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--options", default="")
    options = parser.parse_args()
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        manager = started(folder, port, options)
        try:
            before = cpu_seconds(manager.pid)
            begun_s = time.perf_counter()
            seen = asyncio.run(measured(port, options))
            wall_s = time.perf_counter() - begun_s
            after = cpu_seconds(manager.pid)
            report(seen, sorted((after[each] - before.get(each, 0.0) for each in after), reverse=True), wall_s)
        finally:
            manager.terminate()
            manager.wait()


if __name__ == "__main__":
    main()
