"""Wires an agent, answers other agents and `rmq-role-agent status`, and releases the address at the end."""

import asyncio
import json
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from remoting.background_tasks import BackgroundTasks
from remoting.clock import BootClock
from role_agent.agent import NoAnswer, RoleAgent, exchange
from role_agent.events import AgentEvent
from role_agent.log import AgentLog
from role_agent.network.host import HostNetwork
from role_agent.network.kernel import can_close
from role_agent.rules.answers import LINE_BYTES_MAX, peer_request
from role_agent.settings import AgentSettings, HostPort
from role_agent.syn_relay import SynRelay, SynSockets
from serving.process.signals import Signals

if TYPE_CHECKING:
    from remoting.background_tasks import Work


class SystemdNotices:
    """Sends to the socket that systemd names in the environment; without one, nothing."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        path = environment.get("NOTIFY_SOCKET", "")
        # An abstract socket is written with an @.
        self._address = "\0" + path[1:] if path.startswith("@") else path

    def ready(self) -> None:
        self._send(b"READY=1")

    def still_runs(self) -> None:
        """Put off the end of WatchdogSec."""
        self._send(b"WATCHDOG=1")

    def _send(self, text: bytes) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
            notices.setblocking(False)
            notices.sendto(text, self._address)


STATUS_REQUEST: Final = "status"
#: A request is one packet; who sends none keeps no connection.
_REQUEST_TIMEOUT_S: Final = 2.0
CONNECTIONS_MAX: Final = 64


class PeerListener:
    """Takes connections at `listen`: one line, one answer, closed."""

    def __init__(self, settings: AgentSettings, agent: RoleAgent, log: AgentLog) -> None:
        self._settings, self._agent, self._log = settings, agent, log
        self._own = str(settings.listen.ip)
        #: The address of a host -> its agent, as `peers` names it.
        self._peers = {str(each.ip): str(each) for each in settings.peers}
        self._connections = 0
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        listen = self._settings.listen
        self._server = await asyncio.start_server(self._serve, str(listen.ip), listen.port, limit=LINE_BYTES_MAX)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        peer = writer.get_extra_info("peername")
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT_S):
                if peer is not None and self._connections <= CONNECTIONS_MAX:
                    await self._answer(str(peer[0]), reader, writer)
        except (OSError, TimeoutError, ValueError):
            # It is no request; the connection is closed.
            pass
        finally:
            self._connections -= 1
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, source: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if source != self._own and source not in self._peers:
            self._refuse(source, "it is none of `peers`")
            return
        text = (await reader.readline()).decode(errors="replace").strip()
        # Who has given up before it sent its line wants nothing.
        if text and (answer := self._answer_to(source, text)):
            writer.write(answer.encode() + b"\n")
            await writer.drain()

    def _answer_to(self, source: str, text: str) -> str | None:
        if text == STATUS_REQUEST:
            return json.dumps(self._agent.status())
        request = peer_request(text)
        if source not in self._peers or request is None:
            self._refuse(source, f"{text!r} is no request of an agent")
            return None
        if request.set_name != self._settings.set_name:
            self._refuse(source, f"it is an agent of {request.set_name}, not of {self._settings.set_name}")
            return None
        answer = self._agent.peer_requested(self._peers[source], request)
        return answer.line() if answer else None

    def _refuse(self, source: str, error: str) -> None:
        self._log.write_about(source, AgentEvent.REQUEST_REFUSED, {"peer": source, "error": error})


#: A controller answers within a millisecond; a lost packet is not worth waiting for.
CONTROLLER_TIMEOUT_S: Final = 0.5
_HELLO_GAP_S: Final = 1.0
#: Pause before a part of the agent that failed begins again.
_RESTART_PAUSE_S: Final = 0.1


class CannotStart(Exception):
    """An agent cannot run on this host; the text says why and what to do."""


async def query_for_ever(settings: AgentSettings, controller: HostPort, agent: RoleAgent, clock: BootClock) -> None:
    """Query one controller once in each interval; a query that takes longer moves those after it."""
    line, loop = f"{settings.set_name}/{settings.broker_id}", asyncio.get_running_loop()
    due_s = loop.time()
    while True:
        sent_ms = clock.now_ms()
        try:
            text = await exchange(controller, line, CONTROLLER_TIMEOUT_S)
        except NoAnswer as error:
            agent.controller_failed(controller, str(error))
        else:
            agent.controller_answered(controller, text, sent_ms)
        due_s = max(due_s + settings.interval_ms / 1000, loop.time())
        await asyncio.sleep(due_s - loop.time())


async def serve(settings: AgentSettings) -> None:
    """Run until SIGTERM or SIGINT; raises CannotStart."""
    signals, clock = Signals(), BootClock()
    signals.listen()
    log = AgentLog(clock, {"set": settings.set_name, "broker_id": settings.broker_id})
    host = HostNetwork(settings.interface, settings.addresses, settings.ha_port)
    _check_kernel(settings, host, log)

    def report(task: str, error: BaseException) -> None:
        log.write_about(task, AgentEvent.TASK_FAILED, {"task": task, "error": repr(error)})

    async with BackgroundTasks(report) as tasks:
        relay = SynRelay(SynSockets(settings.interface, [each.ip for each in settings.addresses]), clock, log)
        agent = RoleAgent(settings, clock, host, relay, log, tasks)
        listener = PeerListener(settings, agent, log)
        try:
            await listener.open()
        except OSError as error:
            raise CannotStart(f"listen = {settings.listen}: {error.strerror}") from None
        log.write(
            AgentEvent.AGENT_STARTED,
            addresses=[str(each) for each in settings.addresses],
            interface=settings.interface,
            controllers=[str(each) for each in settings.controllers],
            peers=[str(each) for each in settings.peers],
            present=agent.has_address,
        )
        notices = SystemdNotices(os.environ)
        works: dict[str, Work] = {
            "tick": lambda: _tick_for_ever(agent, settings, notices),
            "hello": lambda: _query_peers_for_ever(agent),
        }
        for each in settings.controllers:
            works[f"query {each}"] = partial(query_for_ever, settings, each, agent, clock)
        running = [tasks.keep_running(work, name, _RESTART_PAUSE_S) for name, work in works.items()]
        notices.ready()
        await signals.stop.wait()
        listener.close()
        for task in running:
            task.cancel()
        agent.stop()
    log.write(AgentEvent.AGENT_STOPPED)


def _check_kernel(settings: AgentSettings, host: HostNetwork, log: AgentLog) -> None:
    try:
        host.lifetime_s()
    except OSError as error:
        reason = error.strerror or str(error)
        raise CannotStart(f"interface {settings.interface}: {reason}; `ip link` lists the interfaces") from None
    try:
        if not can_close():
            log.write(AgentEvent.SESSIONS_CANNOT_BE_CLOSED)
    except OSError as error:
        raise CannotStart(
            f"the kernel refuses to close connections: {error.strerror}; the agent needs CAP_NET_ADMIN and CAP_NET_RAW"
        ) from None


async def _tick_for_ever(agent: RoleAgent, settings: AgentSettings, notices: SystemdNotices) -> None:
    while True:
        agent.tick()
        notices.still_runs()
        await asyncio.sleep(settings.interval_ms / 2000)


async def _query_peers_for_ever(agent: RoleAgent) -> None:
    while True:
        agent.query_peers()
        await asyncio.sleep(_HELLO_GAP_S)
