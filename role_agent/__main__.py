"""Starts an agent, or shows what it does: `rmq-role-agent run FILE`; also `status`, `metrics`, `check` and `nft`."""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from role_agent.agent import NoAnswer, exchange
from role_agent.metrics_text import metrics_text
from role_agent.nft_rules import nft_rules
from role_agent.service import STATUS_REQUEST, CannotStart, serve
from role_agent.settings import AgentSettings, InvalidSettings, read_settings

_DESCRIPTION: Final = "Keep the address of a broker set on this host while its broker is master."
_STATUS_TIMEOUT_S: Final = 5.0
_STATUS_BYTES_MAX: Final = 65_536


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what the command line says; a file or host that cannot be used ends the process with a message."""
    parser = argparse.ArgumentParser(prog="rmq-role-agent", description=_DESCRIPTION)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("run", "run the agent until SIGTERM"),
        ("status", "show, as JSON, whether the running agent holds the address, and why"),
        ("metrics", "print the running agent's metrics for the textfile collector of the node exporter"),
        ("check", "check the configuration file"),
        ("nft", "print the nftables rules that this host needs, for `nft -f -`"),
    ):
        commands.add_parser(name, help=text).add_argument("file", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        settings = read_settings(options.file)
        if options.command == "run":
            asyncio.run(serve(settings))
        elif options.command == "status":
            print(_indented(asyncio.run(_status(settings)), settings))
        elif options.command == "metrics":
            print(metrics_text(settings, asyncio.run(_status_if_any(settings))), end="")
        elif options.command == "nft":
            print(nft_rules(settings), end="")
    except (InvalidSettings, CannotStart) as error:
        parser.error(str(error))
    except NoAnswer as error:
        sys.exit(f"no agent runs at {settings.listen}: {error}")


def _indented(answer: str, settings: AgentSettings) -> str:
    try:
        return json.dumps(json.loads(answer), indent=2)
    except ValueError:
        sys.exit(f"{settings.listen} answers {answer[:80]!r}, which is no status: another program may run there")


async def _status(settings: AgentSettings) -> str:
    return await exchange(
        settings.listen, STATUS_REQUEST, _STATUS_TIMEOUT_S, source=str(settings.listen.ip), bytes_max=_STATUS_BYTES_MAX
    )


async def _status_if_any(settings: AgentSettings) -> str | None:
    try:
        return await _status(settings)
    except NoAnswer:
        return None


if __name__ == "__main__":
    main()
