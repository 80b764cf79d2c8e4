"""The servers that are measured, each started on a free loopback port and ended by its own process id.

Ours, the Java NameServer, rocketmq-rust where `cargo install rocketmq-namesrv` has made it, and an echo of ready bytes
on the same event loop as ours, which is what one core of this machine can do at all.
"""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tests"))

from peers.jars import V5_5, class_path  # noqa: E402

#: Where the binary of rocketmq-rust is, if not on the PATH or where cargo puts it.
RUST_VARIABLE = "ROCKETMQ_RUST_NAMESRV"
JAVA_HEAP = ("-Xms1g", "-Xmx4g")
START_S = 60
STOP_S = 20


class Server(NamedTuple):
    """A server that runs."""

    name: str
    port: int
    pid: int
    http_port: int = 0

    def cpu_seconds(self) -> float:
        """Return the processor time it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self) -> float:
        """Return its resident memory."""
        return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())[1]) / 1024

    def metrics(self) -> str:
        """Scrape it."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/metrics", timeout=10) as answer:
            return answer.read().decode()


class Stolen:
    """How much of the machine the host has given to others until the `with` ends: time in which nobody here ran."""

    percent: float

    def __enter__(self) -> Self:
        self._before = self._ticks()
        return self

    def __exit__(self, *_: object) -> None:
        stolen, total = (now - before for now, before in zip(self._ticks(), self._before, strict=True))
        self.percent = 100 * stolen / total

    def _ticks(self) -> tuple[int, int]:
        # user, nice, system, idle, iowait, irq, softirq, steal: the first line of proc(5)'s stat.
        ticks = [int(each) for each in Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]]
        return ticks[7], sum(ticks)


def free_port() -> int:
    """Return a port that nobody listens on at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@contextlib.contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """Check a revision of this repository out, with its environment, until the `with` ends."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / revision
        # A clone without its history does not have it: git says so.
        subprocess.run(
            ["git", "worktree", "add", "--quiet", "--detach", str(path), revision], cwd=REPOSITORY, check=True
        )
        try:
            subprocess.run(["make", "--silent", "-C", str(path), ".venv/.run"], check=True)
            yield path
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(path)], cwd=REPOSITORY, check=True)


@contextlib.contextmanager
def ours(folder: Path, *options: str, checkout: Path | None = None) -> Iterator[Server]:
    """Run the NameServer of this repository, or that of another checkout in the environment which `make` made there."""
    port, http_port = free_port(), free_port()
    name = "former" if checkout else "ours"
    python = str(checkout / ".venv" / "bin" / "python") if checkout else sys.executable
    command = [python, "-m", "namesrv", "--bind-address", "127.0.0.1", "--listen-port", str(port)]
    command += ["--http-port", str(http_port), "--kv-config-path", str(folder / f"{name}.json"), *options]
    with _run(name, command, folder, checkout or REPOSITORY) as pid:
        yield _up(Server(name, port, pid, http_port))


@contextlib.contextmanager
def java(folder: Path) -> Iterator[Server]:
    """Run the Java NameServer 5.5.0, logging only warnings."""
    port = free_port()
    home = folder / "java"
    (home / "conf").mkdir(parents=True, exist_ok=True)
    quiet = home / "conf" / "logback.xml"
    quiet.write_text('<configuration><root level="OFF"/></configuration>')
    properties = home / "namesrv.properties"
    properties.write_text(f"listenPort={port}\nbindAddress=127.0.0.1\nkvConfigPath={home / 'kvConfig.json'}\n")
    command = ["java", *JAVA_HEAP, f"-Duser.home={home}", f"-Drmq.logback.configurationFile={quiet}"]
    command += ["-cp", class_path(V5_5), "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(properties)]
    with _run("java", command, folder, ROCKETMQ_HOME=str(home)) as pid:
        yield _up(Server("java", port, pid))


@contextlib.contextmanager
def rust(folder: Path) -> Iterator[Server]:
    """Run the NameServer of rocketmq-rust."""
    port = free_port()
    home = folder / "rust"
    home.mkdir(exist_ok=True)
    command = [str(rust_binary()), "--listenPort", str(port), "--bindAddress", "127.0.0.1"]
    command += ["--kvConfigPath", str(home / "kv.json"), "--rocketmqHome", str(home), "--log-filter", "error"]
    with _run("rust", command, folder, ROCKETMQ_HOME=str(home)) as pid:
        yield _up(Server("rust", port, pid))


@contextlib.contextmanager
def echo(folder: Path, answer: Path) -> Iterator[Server]:
    """Run a server that answers every chunk with the bytes in `answer`."""
    port = free_port()
    command = [sys.executable, str(REPOSITORY / "benchmarks" / "echo.py"), str(port), str(answer)]
    with _run("echo", command, folder) as pid:
        yield _up(Server("echo", port, pid))


def rust_binary() -> Path | None:
    """Return where rocketmq-rust's NameServer is, None if this machine has none."""
    name = "rocketmq-namesrv-rust"
    candidates = [os.environ.get(RUST_VARIABLE), shutil.which(name), Path.home() / ".cargo" / "bin" / name]
    return next((Path(each) for each in candidates if each and Path(each).exists()), None)


@contextlib.contextmanager
def _run(name: str, command: list[str], folder: Path, checkout: Path = REPOSITORY, **environment: str) -> Iterator[int]:
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, cwd=checkout, env=os.environ | environment
        )
    try:
        yield process.pid
        if process.poll() is not None:
            raise RuntimeError(f"{name} ended with {process.returncode}; see {log}")
    finally:
        process.terminate()
        try:
            process.wait(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _up(server: Server) -> Server:
    end = time.monotonic() + START_S
    for port in filter(None, (server.port, server.http_port)):
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
    return server
