"""The state of an agent in the text format of Prometheus, for the textfile collector of the node exporter: pure."""

from collections.abc import Iterable

import msgspec

from role_agent.rules.address_holder import Phase
from role_agent.settings import AgentSettings


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
