"""Starts an agent, or shows what it does: `rmq-role-agent run FILE`; also `status`, `metrics`, `check` and `nft`."""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from role_agent.agent import NoAnswer, exchange
from role_agent.nft_rules import nft_rules
from role_agent.rules.address_holder import Phase
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


class _Controller(msgspec.Struct):
    answered: bool


class _Peer(msgspec.Struct, rename="camel"):
    answered_before_ms: int


class AgentStatus(msgspec.Struct, rename="camel"):
    """What metrics need of the answer to `status`."""

    phase: Phase
    master_epoch: int
    lease_left_ms: int | None
    controllers: dict[str, _Controller]
    peers: dict[str, _Peer]


def metrics_text(settings: AgentSettings, answer: str | None) -> str:
    """Return the metrics of an agent by its answer to `status`; without one, or a readable one, none runs."""
    status = None if answer is None else _status_in(answer)
    own = {"set": settings.set_name, "broker_id": str(settings.broker_id)}
    families = [_family("up", "Whether the agent runs and answers.", [(own, int(status is not None))])]
    if status is not None:
        families += _of_running(own, status)
    return "".join(families)


def _status_in(answer: str) -> AgentStatus | None:
    try:
        return msgspec.json.decode(answer, type=AgentStatus)
    except msgspec.DecodeError:
        return None


def _of_running(own: dict[str, str], status: AgentStatus) -> Iterable[str]:
    yield _family(
        "phase",
        "1 for the phase that the agent is in.",
        [({**own, "phase": each}, int(each is status.phase)) for each in Phase],
    )
    yield _family("master_epoch", "The highest master epoch that the agent knows.", [(own, status.master_epoch)])
    if status.lease_left_ms is not None:
        yield _family("lease_left_seconds", "Until the lease lapses.", [(own, status.lease_left_ms / 1000)])
    yield _family(
        "controller_answers",
        "Whether a controller answered the last query.",
        [({**own, "controller": name}, int(each.answered)) for name, each in status.controllers.items()],
    )
    yield _family(
        "peer_silent_seconds",
        "Since another agent last answered.",
        [({**own, "peer": name}, each.answered_before_ms / 1000) for name, each in status.peers.items()],
    )


def _family(name: str, text: str, samples: Iterable[tuple[dict[str, str], float]]) -> str:
    full = f"rocketmq_role_agent_{name}"
    lines = [f"# HELP {full} {text}", f"# TYPE {full} gauge"]
    for labels, value in samples:
        pairs = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        lines.append(f"{full}{{{pairs}}} {value}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


if __name__ == "__main__":
    main()
