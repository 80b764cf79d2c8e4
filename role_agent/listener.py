"""Answers the agents of the other hosts, and `rmq-role-agent status` on this one."""

import asyncio
import json
from contextlib import suppress
from typing import Final

from role_agent import events
from role_agent.agent import RoleAgent
from role_agent.log import AgentLog
from role_agent.rules.answers import LINE_BYTES_MAX, peer_request
from role_agent.settings import AgentSettings

STATUS_REQUEST: Final = "status"
#: A request is one packet; who sends none keeps no connection.
_REQUEST_TIMEOUT_S: Final = 2.0
CONNECTIONS_MAX: Final = 64


class PeerListener:
    """Takes connections at `listen`: one line, one answer, closed."""

    def __init__(self, settings: AgentSettings, agent: RoleAgent, log: AgentLog) -> None:
        """Answer for `agent`."""
        self._settings = settings
        self._agent = agent
        self._log = log
        self._own = str(settings.listen.ip)
        #: The address of a host -> its agent, as `peers` names it.
        self._peers = {str(each.ip): str(each) for each in settings.peers}
        self._connections = 0
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen from now on; raises OSError."""
        listen = self._settings.listen
        self._server = await asyncio.start_server(self._serve, str(listen.ip), listen.port, limit=LINE_BYTES_MAX)

    def close(self) -> None:
        """Take no more connections."""
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
        self._log.write_about(source, events.REQUEST_REFUSED, {"peer": source, "error": error})
