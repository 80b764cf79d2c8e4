"""An attack, and a server that is attacked: started, watched by a peer that behaves, and what the attack cost.

Ours and the Java one of 5.5.0 are told apart only where they are started.
"""

import contextlib
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from socket import create_connection, socket
from types import MappingProxyType
from typing import Any, NamedTuple

from controller_load import FastJavaController
from peers.controllers import GET_REPLICA_INFO, Controller, OurController
from peers.disks import own_mounts
from peers.jars import SOURCES, V5_5, class_path
from peers.processes import Process
from peers.scripted import Line
from peers.servers import JavaNameServer, NameServer, OurNameServer
from peers.waiting import wait_until
from peers.wire import GET_ROUTE, Answer, frame
from servers import JAVA_HEAP, REPOSITORY

ABUSE = REPOSITORY / "tests" / "abuse"
sys.path.insert(0, str(ABUSE))

#: What is asked of a server before anything is measured.
WARMING = {
    "namesrv": (GET_ROUTE, {"topic": "nobody", "acceptStandardJsonOnly": "true"}),
    "controller": (GET_REPLICA_INFO, {"brokerName": "nobody"}),
}
#: So long a peer waits for an answer; a server that takes longer has not answered.
ANSWER_S = 60
#: A server that was just started is slow by itself.
WARM_UP_S = 2
#: After the attack, before its memory is looked at once more.
REST_S = 1
SAMPLE_S = 0.05
REMARK_CHARACTERS = 60
FILES_MAX = 20_000
SECRET = "hunter2-of-the-environment"  # noqa: S105 it is what must not be found again
MOUNTING = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'


class FastJavaNameServer(JavaNameServer):
    """The original with the memory and the compiler that it has by default, logging nothing."""

    wrapper: tuple[str, ...] = ()

    def _launch(self) -> Process:
        quiet = self.folder / "logback.xml"
        quiet.write_text((SOURCES / "conf" / "logback-silent.xml").read_text())
        command = [*self.wrapper, "java", *JAVA_HEAP, f"-Duser.home={self.folder}"]
        command += [f"-Drmq.logback.configurationFile={quiet}", "-cp", class_path(V5_5)]
        command += ["org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(self._file)]
        return Process(self.name, command, folder=self.folder, env=os.environ | {"ROCKETMQ_HOME": str(self.folder)})


class Result(NamedTuple):
    """What was answered, and what the state is afterwards: a text, or what tells it once nobody watches any more."""

    answered: str
    afterwards: str | Callable[[], str] = ""


class OpenLine(Line):
    """A connection over which whole frames can be sent as well."""

    def __init__(self, connection: socket, *, binary: bool) -> None:
        super().__init__(connection, binary=binary)
        self.socket = connection


class Target:
    """A server that runs, and how it is asked."""

    def __init__(self, server: NameServer | Controller) -> None:
        self.server = server
        self.port = server.port

    def line(self, *, binary: bool = False, host: str = "127.0.0.1") -> OpenLine:
        """Connect, from another address of loopback if need be."""
        connection = create_connection(("127.0.0.1", self.port), timeout=ANSWER_S, source_address=(host, 0))
        return OpenLine(connection, binary=binary)

    def request(self, code: int, fields: dict[str, str], body: bytes = b"", *, binary: bool = False) -> str:
        """Send one request over a connection of its own, and return what is answered in words."""

        def exchange() -> Answer:
            with contextlib.closing(self.line(binary=binary)) as line:
                return line.request(code, fields, body)

        return attempt(exchange)

    def send(self, data: bytes) -> str:
        """Send a whole frame over a connection of its own, and return what is answered in words."""

        def exchange() -> Answer:
            with contextlib.closing(self.line()) as line:
                line.socket.sendall(data)
                return line.receive()[1]

        return attempt(exchange)

    def serves(self) -> str:
        """Return whether it still does its work, in words."""
        if not self.server.process.running:
            return "**the process has ended**"
        if isinstance(self.server, Controller):
            return "serves" if self.server.serves() else "**does not answer**"
        return "serves" if self.server.caller.is_up() else "**does not answer**"

    def memory_mb(self) -> float:
        """Return its resident memory; 0 if it has ended."""
        try:
            text = Path(f"/proc/{self.server.process.pid}/status").read_text()
        except OSError:
            return 0
        return next((int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("VmRSS")), 0)


def attempt(exchange: Callable[[], Answer]) -> str:
    """Return the code of the answer and what the server says to it, or what came instead."""
    try:
        return in_words(exchange())
    except TimeoutError:
        return f"no answer within {ANSWER_S} s"
    except ConnectionRefusedError:
        return "no connection"
    except OSError:
        return "closed"


def in_words(answer: Answer) -> str:
    """Return the code, and the beginning of the remark."""
    remark = " ".join((answer.remark or "").split())
    if len(remark) > REMARK_CHARACTERS:
        remark = remark[:REMARK_CHARACTERS] + "..."
    return f"{answer.code} ({remark})".replace("|", "/") if remark else str(answer.code)


class Attack(NamedTuple):
    """One attack: its title, what is made before anything is measured, and what is done with it."""

    title: str
    act: Callable[[Target, Any], Result]
    make: Callable[[Target], Any] = lambda _target: None
    kind: str = "namesrv"
    properties: Mapping[str, Any] = MappingProxyType({})
    mounted: bool = False


def nothing(_target: Target, _made: object) -> Result:
    """Leave it alone."""
    time.sleep(3)
    return Result("-")


def frames(code: int, fields: dict[str, str], *bodies: Callable[[], bytes]) -> Callable[[Target], list[bytes]]:
    """Return what makes a request of each of these bodies."""
    return lambda _target: [frame(code, fields, make()) for make in bodies]


def requests(target: Target, made: list[bytes]) -> Result:
    """Send one after the other, each over a connection of its own."""
    return Result(", ".join(target.send(each) for each in made))


class Cost(NamedTuple):
    """What an attack cost the server and others."""

    wait_ms: float
    refused: list[str]
    most_mb: float
    left_mb: float

    @property
    def wait(self) -> str:
        """Return how long the witness waited at most, and whether it was refused."""
        return f"**{self.wait_ms:.0f}, then {self.refused[0][:40]}**" if self.refused else f"{self.wait_ms:.0f}"

    @property
    def memory(self) -> str:
        """Return how much more memory it had at most, and how much of that is left."""
        return f"{self.most_mb:+.0f} ({self.left_mb:+.0f})"


@contextlib.contextmanager
def running(server: str, kind: str, folder: Path, *, mounted: bool, properties: Mapping[str, Any]) -> Iterator[Target]:
    """Run ours or the Java one, a `namesrv` or a `controller`, with files of its own."""
    if kind == "controller":
        made = OurController(folder) if server == "ours" else FastJavaController(folder)
    else:
        made = _name_server(server, folder, _mounting(folder) if mounted else (), properties)
    made.start()
    try:
        yield Target(made)
    finally:
        if made.process.running:
            made.process.stop()


def _mounting(folder: Path) -> tuple[str, ...]:
    """Return what starts a NameServer whose KV file is a mount of its own."""
    outside, inside = folder / "outside.json", folder / "namesrv" / "kvConfig.json"
    inside.parent.mkdir()
    outside.write_text('{"configTable":{}}')
    inside.touch()
    return (*(own_mounts() or ()), "sh", "-c", MOUNTING, "sh", str(outside), str(inside))


def _name_server(server: str, folder: Path, wrapper: tuple[str, ...], properties: Mapping[str, Any]) -> NameServer:
    if server == "ours":
        environment = {"RMQ_NAMESRV_TLS_CLIENT_KEY_PASSWORD": SECRET}
        return OurNameServer(folder, wrapper=wrapper, environment=environment, **properties)
    java = FastJavaNameServer(folder, **properties)
    java.wrapper = wrapper
    return java


class Watch:
    """A broker and a client that behave, and a look at the memory, until the `with` ends."""

    def __init__(self, target: Target, kind: str) -> None:
        self._target = target
        self._kind = kind
        self._done = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._warm_up()
        self._before_mb = self._most_mb = target.memory_mb()

    def _warm_up(self) -> None:
        code, fields = WARMING[self._kind]
        wait_until(lambda: self._target.serves() == "serves", seconds=ANSWER_S, what="the server serves")
        end = time.monotonic() + WARM_UP_S
        with contextlib.closing(self._target.line()) as line:
            while time.monotonic() < end:
                line.request(code, fields)

    @contextlib.contextmanager
    def _witness(self) -> Iterator[subprocess.Popen[str]]:
        command = [sys.executable, str(ABUSE / "witness.py"), self._kind, str(self._target.port)]
        witness = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert witness.stdout is not None, "it was asked for"
        if witness.stdout.readline() != "ready\n":
            raise RuntimeError("the witness could not begin")
        yield witness

    def _sample(self) -> None:
        while not self._done.wait(SAMPLE_S):
            self._most_mb = max(self._most_mb, self._target.memory_mb())

    def during(self, act: Callable[[], Result]) -> tuple[Result, Cost]:
        """Carry the attack out, and return what became of it and what it cost."""
        self._sampler.start()
        with self._witness() as witness:
            try:
                result = act()
            except (OSError, AssertionError) as error:
                result = Result(f"**broken off: {error!r}**")
            time.sleep(REST_S)
        seen = json.loads(witness.communicate()[0])
        self._done.set()
        self._sampler.join()
        most, left = (each - self._before_mb for each in (self._most_mb, self._target.memory_mb()))
        return result, Cost(seen["max_ms"], seen["refused"], most, left)


def allow_files() -> None:
    """Let this process and its servers have many connections."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX if hard == resource.RLIM_INFINITY else min(FILES_MAX, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
