"""The events that an agent logs."""

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEvent:
    """One kind of line."""

    name: str
    level: Literal["info", "warning", "error"]
    #: Keys that the line has beside those of every line.
    keys: tuple[str, ...] = ()
    meaning: str
    #: What an operator does about it.
    advice: str = "Nothing."


AGENT_STARTED: Final = AgentEvent(
    name="agent_started",
    level="info",
    keys=("addresses", "interface", "controllers", "peers", "present"),
    meaning="The agent runs. `present` says whether the interface had the address already, from a former run.",
)
AGENT_STOPPED: Final = AgentEvent(
    name="agent_stopped", level="info", meaning="The agent has released the address and ends."
)
ADDRESS_CLAIMED: Final = AgentEvent(
    name="address_claimed",
    level="info",
    keys=("epoch",),
    meaning="A controller answers that the broker is the master. Agents of other hosts are to release the address.",
)
ADDRESS_TAKEN: Final = AgentEvent(
    name="address_taken",
    level="info",
    keys=("epoch", "claimed_for_ms"),
    meaning="This host has the address and has announced it.",
)
ADDRESS_TAKEN_WITHOUT_RELEASE: Final = AgentEvent(
    name="address_taken_without_release",
    level="warning",
    keys=("epoch", "without", "claimed_for_ms"),
    meaning="This host has the address. The agents in `without` did not answer, so it waited for their lease to lapse.",
    advice="Look after those hosts, and whether their agents run.",
)
ADDRESS_IN_USE: Final = AgentEvent(
    name="address_in_use",
    level="error",
    keys=("epoch", "address", "owner"),
    meaning="Another host answers for the address (`owner`: its MAC), although no agent can have it. It is not taken.",
    advice="Remove the address from that host. The agent takes it within a second after that.",
)
ADDRESS_NOT_TAKEN: Final = AgentEvent(
    name="address_not_taken",
    level="error",
    keys=("epoch", "error"),
    meaning="The kernel refused to probe for the address, to add it, or to renew it. The agent tries again.",
    advice="Check the interface, and that the unit gives CAP_NET_ADMIN and CAP_NET_RAW.",
)
ADDRESS_RELEASED: Final = AgentEvent(
    name="address_released",
    level="info",
    keys=("epoch", "cause"),
    meaning="This host no longer has the address: the broker has failed or its set is held (`down`), another broker is "
    "the master (`superseded`), another agent claimed it (`claimed`), nobody confirmed in time that the broker is "
    "the master (`lease_lapsed`), or the agent ends (`stopped`).",
    advice="`lease_lapsed`: check the network between this host and the controllers and agents.",
)
ADDRESS_NOT_RELEASED: Final = AgentEvent(
    name="address_not_released",
    level="error",
    keys=("epoch", "error"),
    meaning="The kernel refused to remove the address. It removes it by itself, at most one lease later.",
    advice="Check that the unit gives CAP_NET_ADMIN.",
)
SESSIONS_ENDED: Final = AgentEvent(
    name="sessions_ended",
    level="info",
    keys=("epoch", "sessions", "ha_connections"),
    meaning="So many connections of clients to the address, and of slaves to `haPort`, were closed: another broker is "
    "the master.",
)
SESSIONS_NOT_ENDED: Final = AgentEvent(
    name="sessions_not_ended",
    level="error",
    keys=("epoch", "error"),
    meaning="The kernel did not list or close the connections of the address. They carry nothing, as the address is "
    "removed; clients notice at their next request.",
    advice="Check that the unit gives CAP_NET_ADMIN and CAP_NET_RAW.",
)
ADDRESS_NOT_ANNOUNCED: Final = AgentEvent(
    name="address_not_announced",
    level="error",
    keys=("error",),
    meaning="The kernel refused to send an announcement of the address that this host has.",
    advice="Check whether the interface is up.",
)
CLIENTS_NOT_NOTIFIED: Final = AgentEvent(
    name="clients_not_notified",
    level="error",
    keys=("error",),
    meaning="The kernel gave no raw socket. Clients of closed connections notice at their next request.",
    advice="Check that the unit gives CAP_NET_RAW.",
)
CONNECTIONS_PASSED_ON: Final = AgentEvent(
    name="connections_passed_on",
    level="info",
    keys=("epoch", "connections"),
    meaning="So many requests for a connection (SYN) came to this host in the last 5 s before another host had the "
    "address, and in the 3 s after that, and were passed on to it.",
)
CONNECTIONS_NOT_PASSED_ON: Final = AgentEvent(
    name="connections_not_passed_on",
    level="error",
    keys=("error",),
    meaning="The kernel gave no packet socket or no raw socket, refused all that was to be sent, or the interface is "
    "down. Clients that connect while nobody answers for the address wait until their kernels try again, a second or "
    "more.",
    advice="Check the interface, that the firewall of this host lets packets from clients' addresses out, that the "
    "unit gives CAP_NET_ADMIN and CAP_NET_RAW, and AF_PACKET in RestrictAddressFamilies.",
)
SESSIONS_CANNOT_BE_CLOSED: Final = AgentEvent(
    name="sessions_cannot_be_closed",
    level="warning",
    meaning="This kernel closes no connections of other processes. Those of a superseded broker carry nothing, as the "
    "address is removed, and clients notice at their next request.",
    advice="Use a kernel with CONFIG_INET_DIAG_DESTROY.",
)
CONTROLLERS_SILENT: Final = AgentEvent(
    name="controllers_silent",
    level="warning",
    keys=("answers",),
    meaning="No controller has given a definite answer for one lease; `answers` has the last one of each. Nothing "
    "changes as long as all other agents answer.",
    advice="Check the controllers, their `roleCheckPort`, and the network to them.",
)
CONTROLLERS_ANSWER: Final = AgentEvent(
    name="controllers_answer",
    level="info",
    keys=("controller", "answer"),
    meaning="A controller gives definite answers again.",
)
LOWER_EPOCH_IGNORED: Final = AgentEvent(
    name="lower_epoch_ignored",
    level="warning",
    keys=("controller", "answer", "epoch"),
    meaning="A controller answers for a lower master epoch than the highest known one (`epoch`). It is not followed.",
    advice="Check whether that controller is cut off from the others. If the stored epochs began anew, restart all "
    "agents of the set at the same time.",
)
PEER_SILENT: Final = AgentEvent(
    name="peer_silent",
    level="warning",
    keys=("peer", "error"),
    meaning="The agent of another host does not answer. A failover takes one lease longer while it is so, and when the "
    "controllers are silent too, the address is released.",
    advice="Look after that host and its agent.",
)
PEER_ANSWERS: Final = AgentEvent(
    name="peer_answers", level="info", keys=("peer",), meaning="The agent of another host answers again."
)
PEER_DIFFERS: Final = AgentEvent(
    name="peer_differs",
    level="error",
    keys=("peer", "property", "theirs"),
    meaning="The agent of another host has another `lease`, or this agent's `brokerId`. A longer lease is waited for.",
    advice="Give all agents of a set the same `lease`, and each the id of its own broker.",
)
REQUEST_REFUSED: Final = AgentEvent(
    name="request_refused",
    level="warning",
    keys=("peer", "error"),
    meaning="A request that came over the network was not answered: its sender is none of `peers`, or it is invalid.",
    advice="Name the agents of all hosts in `peers`; let nobody else reach the port of `listen`.",
)
TASK_FAILED: Final = AgentEvent(
    name="task_failed",
    level="error",
    keys=("task", "error"),
    meaning="A part of the agent failed. It goes on and begins that part again.",
    advice="A fault of the agent: report it, with this line.",
)

EVENTS: Final = tuple(each for each in tuple(globals().values()) if isinstance(each, AgentEvent))


def as_markdown() -> str:
    return "\n".join([_HEAD, *(_row(event) for event in EVENTS)]) + "\n"


_HEAD: Final = """# Log events of the role agent

One JSON object per line on standard output; `journalctl -u rmq-role-agent@SET` shows them. Written from
`role_agent/events.py`; do not edit. A warning or error that is repeated about the same peer within 10 s is counted in
`suppressed` of the next line. A reader that does not keep up loses lines, and holds up nothing.

Every line also has `timestamp` (UTC), `level`, `event`, `set` and `broker_id`.

| event | level | keys | meaning | what to do |
|---|---|---|---|---|"""


def _row(event: AgentEvent) -> str:
    keys = ", ".join(f"`{key}`" for key in event.keys)
    return f"| `{event.name}` | {event.level} | {keys} | {event.meaning} | {event.advice} |"


if __name__ == "__main__":
    print(as_markdown(), end="")  # noqa: T201  # this page is what it is for
