"""A real HAProxy with our configuration, before servers of one line and controllers that a test lets answer."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

from peers.processes import free_port
from peers.role_proxy import states_to_save

from controller.roles.events import RoleChecked
from controller.roles.verdict import RoleAnswer, RoleVerdict
from controller.wire.role_check_port import RoleCheckPort
from rmq.haproxy_config.configuration import ProxyOptions, configuration
from rmq.haproxy_config.frontends import Frontends, MasterFrontend

HOST = "127.0.0.1"
#: Generous: only waits that would never end end here.
WAIT_S = 30
#: What a server answers before it closes the connection.
LAST = b"last\n"
SERVES = RoleAnswer(RoleVerdict.SERVES, 7)
SUPERSEDED = RoleAnswer(RoleVerdict.SUPERSEDED, 7)
FAILED = RoleAnswer(RoleVerdict.FAILED, 7)
UNKNOWN = RoleAnswer(RoleVerdict.UNKNOWN, 7, "the master is suspect")


async def eventually(holds, what):
    try:
        async with asyncio.timeout(WAIT_S):
            while not holds():
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"never: {what}") from None


class Controller:
    """A role check port; `answers` has the answers by broker, UNKNOWN for all others."""

    def __init__(self, host=HOST, port=0):
        self.answers, self.leads, self.checked, self._host = {}, True, [], host
        self._port = RoleCheckPort(
            lambda key: self.answers.get(key, UNKNOWN), lambda: self.leads, self.record, self.emit
        )
        self._number = self._port.listen(host, port)

    @property
    def address(self):
        return f"{self._host}:{self._number}"

    def record(self, key, host, verdict):
        """Take who checks: of no interest here."""

    def emit(self, event):
        if isinstance(event, RoleChecked):
            self.checked.append(event)

    def fall_silent(self):
        self._port.close()

    def speak_again(self):
        self._port.listen(self._host, self._number)

    async def checks(self, number=3):
        """Wait until a broker was checked so often from now on."""
        self.checked.clear()
        await eventually(lambda: len(self.checked) >= 2 * number, "checks arrive")


class Server:
    """Answers each line with its name, and closes the connection after LAST."""

    def __init__(self, name, host=HOST, port=None):
        self.name, self._host, self._number = name, host, port or free_port()
        self.writers = set()

    @property
    def address(self):
        return f"{self._host}:{self._number}"

    async def start(self):
        self._server = await asyncio.start_server(self._serve, self._host, self._number)

    async def _serve(self, reader, writer):
        self.writers.add(writer)
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                writer.write(f"{self.name}\n".encode())
                if line == LAST:
                    break
        self.writers.discard(writer)
        writer.close()

    def kill(self):
        """Refuse connections, and reset those that there are."""
        self._server.close()
        for writer in self.writers:
            writer.transport.abort()


class RunningHAProxy:
    """An HAProxy process with a configuration of its own."""

    def __init__(self, folder, inside=contextlib.nullcontext):
        """`inside` is entered to start it: the host on which it runs."""
        self.folder, self._inside, self._process = Path(folder), inside, None
        self._socket = self.folder / "admin.sock"

    def configure(self, frontend, role_checks):
        options = ProxyOptions(role_checks=role_checks, local_port=free_port(), run_folder=str(self.folder))
        (self.folder / "haproxy.cfg").write_text(configuration(Frontends((frontend,), ()), options, "abc"))

    async def start(self):
        command = ["haproxy", "-W", "-f", str(self.folder / "haproxy.cfg")]
        with (self.folder / "haproxy.log").open("ab") as log, self._inside():
            self._process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
        await eventually(lambda: self._socket.exists() or self._has_ended, "HAProxy listens")
        assert not self._has_ended, self.log

    @property
    def _has_ended(self):
        return self._process.returncode is not None

    @property
    def log(self):
        return (self.folder / "haproxy.log").read_text()

    async def stop(self):
        """End it at once, as a crash does."""
        if self._process is None:
            return
        assert not self._has_ended, self.log
        for process_id in [*children_of(self._process.pid), self._process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)
        await self._process.wait()
        self._process = None
        self._socket.unlink(missing_ok=True)

    async def reload(self):
        """Let a new process take over, as `systemctl reload` does."""
        before = children_of(self._process.pid)
        async with asyncio.timeout(WAIT_S):
            while not set(children_of(self._process.pid)) - set(before):
                # It is lost while the master process still starts.
                self._process.send_signal(signal.SIGUSR2)
                await asyncio.sleep(1)

    async def command(self, text):
        """Return what the runtime socket answers."""
        reader, writer = await asyncio.open_unix_connection(str(self._socket))
        writer.write(f"{text}\n".encode())
        answer = (await asyncio.wait_for(reader.read(), WAIT_S)).decode()
        writer.close()
        await writer.wait_closed()
        return answer

    async def save_states(self):
        (self.folder / "state").write_text(states_to_save(await self.command("show servers state")))

    async def states(self):
        """Return the state of each server of the set, as operators see it."""
        lines = [line.split(",") for line in (await self.command("show stat")).splitlines()]
        return {line[1]: line[17] for line in lines if line[0].startswith("set_") and line[1].startswith("broker_")}


class ProxiedSet:
    """The clients' side of a set behind HAProxy; `connect` opens a session, `controllers` and `set_name` are there."""

    def answer(self, one, two):
        """Let all controllers answer so about the two brokers of the set."""
        for each in self.controllers:
            each.answers = {(self.set_name, 1): one, (self.set_name, 2): two}

    async def who(self):
        """Return which server answers a new connection; None where HAProxy ends it before it is open."""
        try:
            session = await self.connect()
        except BrokenPipeError:
            return None
        try:
            return await session.ask()
        finally:
            await session.close()


class Proxied(ProxiedSet):
    """HAProxy, and what it stands before: two servers of one set, and controllers."""

    def __init__(self, folder, controllers=1, set_name="broker-a"):
        self.set_name = set_name
        self.controllers = [Controller() for _ in range(controllers)]
        self.controller = self.controllers[0]
        self.one, self.two = Server("one"), Server("two")
        self.port, self._sessions = free_port(), []
        self.haproxy = RunningHAProxy(folder)
        self.haproxy.configure(
            frontend_of(set_name, f"{HOST}:{self.port}", self.one, self.two),
            tuple(each.address for each in self.controllers),
        )

    async def __aenter__(self):
        await self.one.start()
        await self.two.start()
        await self.haproxy.start()
        return self

    async def __aexit__(self, *_):
        for session in self._sessions:
            await session.close()
        for each in self.controllers:
            each.fall_silent()
        for server in (self.one, self.two):
            server.kill()
        await self.haproxy.stop()

    async def connect(self):
        session = await Session.to(HOST, self.port)
        self._sessions.append(session)
        return session


def frontend_of(set_name, address, *servers):
    return MasterFrontend(set_name, (address,), {i: each.address for i, each in enumerate(servers, 1)})


class Session:
    """A connection through HAProxy."""

    @classmethod
    async def to(cls, host, port):
        return cls(*await asyncio.wait_for(asyncio.open_connection(host, port), WAIT_S))

    def __init__(self, reader, writer):
        self._reader, self._writer = reader, writer

    async def ask(self, line=b"?\n"):
        """Return the name of the server that answers; blank if the connection ends."""
        try:
            self._writer.write(line)
            return (await asyncio.wait_for(self._reader.readline(), WAIT_S)).decode().strip()
        except ConnectionError:
            return ""

    async def ended(self):
        """Wait until the connection ends, and return whether it was reset."""
        try:
            assert await asyncio.wait_for(self._reader.read(), WAIT_S) == b""
        except ConnectionResetError:
            return True
        return False

    async def close(self):
        self._writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


def children_of(process_id):
    return [int(each) for each in Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()]
