"""One line there and one line back over a connection of its own: how agents query controllers and one another."""

import asyncio

from role_agent.rules.answers import LINE_BYTES_MAX
from role_agent.settings import HostPort


class NoAnswer(Exception):
    """There was no answer in time, or none at all; the text says why."""


async def exchange(
    address: HostPort, line: str, timeout_s: float, *, source: str | None = None, bytes_max: int = LINE_BYTES_MAX
) -> str:
    """Send a line and return the line that answers it, without its end; raises NoAnswer after `timeout_s`.

    With `source` the connection leaves from that address of this host.
    """
    local = (source, 0) if source else None
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(
                str(address.ip), address.port, local_addr=local, limit=bytes_max
            )
            return await _exchange(reader, writer, line)
    except TimeoutError:
        raise NoAnswer(f"no answer within {timeout_s:g} s") from None
    except (OSError, ValueError) as error:
        raise NoAnswer(str(error)) from None


async def _exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: str) -> str:
    try:
        writer.write(line.encode() + b"\n")
        # A line that is too long is a ValueError.
        answer = await reader.readline()
    finally:
        # It is over: nothing that is still on its way matters.
        writer.transport.abort()
    if not answer:
        raise NoAnswer("the connection was closed without an answer")
    return answer.decode(errors="replace").strip()
