"""What is sent to a server: the generator's files of frames, its runs, and connections that hold brokers registered.

The tools are those of `bench/` in the folder that LOAD_TOOLS names (default: `shared` beside the repository); the
generator is compiled here. Load goes to loopback only.
"""

import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from servers import REPOSITORY, Server

TOOLS = Path(os.environ.get("LOAD_TOOLS", REPOSITORY.parent / "shared" / "bench"))
BUILT = REPOSITORY / ".cache" / "bench"
TOPIC = "bench-topic-1"

#: A peer is warm once so many seconds in a row differ by less than this; no longer than so many seconds are waited.
STEADY_SECONDS, STEADY_WITHIN, WARM_S_MAX = 3, 1.03, 60


class Measured(NamedTuple):
    """One run of the generator; times in microseconds."""

    qps: float
    p50_us: int
    p99_us: int
    max_us: int
    errors: int


def generator() -> Path:
    """Return the load generator, compiling it if need be."""
    source = TOOLS / "rmqload.c"
    if not source.exists():
        sys.exit(f"{source} is missing: set LOAD_TOOLS to the folder of rmqload.c, frames.py and hold.py")
    return built(source)


def built(source: Path) -> Path:
    """Return the program of a C file, compiling it if need be."""
    binary = BUILT / source.stem
    if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
        BUILT.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-o", str(binary), str(source)], check=True)
    return binary


def frames(folder: Path, *words: object) -> Path:
    """Return a file of request frames as `frames.py` makes them; made once a folder."""
    arguments = [str(word) for word in words]
    file = folder / ("-".join(arguments).replace("--", "").replace("/", "_") + ".bin")
    if not file.exists():
        with file.open("wb") as out:
            subprocess.run([sys.executable, str(TOOLS / "frames.py"), *arguments], stdout=out, check=True)
    return file


def warm(server: Server, file: Path, *, connections: int = 16, depth: int = 1) -> float:
    """Load a server until three seconds in a row differ by less than 3 %; return how many seconds that took.

    After WARM_S_MAX it counts as warm: on a machine whose host takes time away rates may never agree.
    """
    rates: list[float] = []
    while len(rates) < WARM_S_MAX:
        rates.append(run(server, file, connections=connections, depth=depth, seconds=1, settle_s=0).qps)
        last = rates[-STEADY_SECONDS:]
        if len(last) == STEADY_SECONDS and max(last) < STEADY_WITHIN * min(last):
            break
    return len(rates)


def run(
    server: Server, file: Path, *, connections: int = 16, depth: int = 1, seconds: float = 4, settle_s: float = 1
) -> Measured:
    """Load a server in a closed loop after `settle_s` that do not count, and return what was measured."""
    command = [str(generator()), "127.0.0.1", str(server.port), str(file)]
    command += ["-c", str(connections), "-d", str(depth), "-s", str(seconds), "-w", str(settle_s)]
    printed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    measured = Measured(*(printed[key] for key in Measured._fields))
    if measured.errors:
        raise RuntimeError(f"{server.name}: {measured.errors} answers were no success")
    return measured


@contextlib.contextmanager
def held(server: Server, file: Path, *options: str) -> Iterator[None]:
    """Register the brokers of a file and keep their connections; `options` are those of `hold.py`.

    They register again each 30 s, as real brokers do: otherwise they expire while servers are warmed.
    """
    command = [sys.executable, str(TOOLS / "hold.py"), "127.0.0.1", str(server.port), str(file)]
    command += ["--every", "30", *options]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        if not holder.stdout.readline().startswith("held"):
            raise RuntimeError(f"{server.name} did not take the registrations of {file.name}")
        yield
    finally:
        holder.stdin.close()
        holder.wait(timeout=30)


def answer_to(server: Server, file: Path) -> bytes:
    """Return the whole frame that a server answers to the first frame of a file."""
    request = file.read_bytes()
    (length,) = struct.unpack_from(">I", request)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(request[: 4 + length])
        stream = connection.makefile("rb")
        prefix = stream.read(4)
        return prefix + stream.read(struct.unpack(">I", prefix)[0])
