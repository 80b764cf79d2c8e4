"""The events that an agent logs."""

from enum import Enum
from typing import Final


class AgentEvent(Enum):
    """A kind of line: level, keys beside those of every line, meaning, and what an operator does about it."""

    def __init__(self, level: str, keys: tuple[str, ...], meaning: str, advice: str = "Nothing.") -> None:
        self.level, self.keys, self.meaning, self.advice = level, keys, meaning, advice

    @property
    def key(self) -> str:
        """Its name in lines."""
        return self.name.lower()

    AGENT_STARTED = (
        "info",
        ("addresses", "interface", "controllers", "peers", "present"),
        "The agent runs. `present` says whether the interface had the address already, from a former run.",
    )
    AGENT_STOPPED = ("info", (), "The agent has released the address and ends.")
    ADDRESS_CLAIMED = (
        "info",
        ("epoch",),
        "A controller answers that the broker is master. Agents of other hosts must release the address.",
    )
    ADDRESS_TAKEN = ("info", ("epoch", "claimed_for_ms"), "This host has the address and has announced it.")
    ADDRESS_TAKEN_WITHOUT_RELEASE = (
        "warning",
        ("epoch", "without", "claimed_for_ms"),
        "This host has the address. The agents in `without` did not answer, so it waited for their lease to lapse.",
        "Check those hosts and their agents.",
    )
    ADDRESS_IN_USE = (
        "error",
        ("epoch", "address", "owner"),
        "Another host answers for the address (`owner`: its MAC), although no agent can have it. The agent waits.",
        "Remove the address from that host. The agent takes it within a second after that.",
    )
    ADDRESS_NOT_TAKEN = (
        "error",
        ("epoch", "error"),
        "The kernel refused to probe for the address, to add it, or to renew it. The agent tries again.",
        "Check the interface, and that the unit gives CAP_NET_ADMIN and CAP_NET_RAW.",
    )
    ADDRESS_RELEASED = (
        "info",
        ("epoch", "cause"),
        (
            "This host no longer has the address: the broker has failed or its set is held (`down`), another broker "
            "is the master (`superseded`), another agent claimed it (`claimed`), no confirmation came in time that "
            "the broker is the master (`lease_lapsed`), or the agent ends (`stopped`)."
        ),
        "`lease_lapsed`: check the network between this host and the controllers and agents.",
    )
    ADDRESS_NOT_RELEASED = (
        "error",
        ("epoch", "error"),
        "The kernel refused to remove the address. It will drop the address by itself, at most one lease later.",
        "Check that the unit gives CAP_NET_ADMIN.",
    )
    SESSIONS_ENDED = (
        "info",
        ("epoch", "sessions", "ha_connections"),
        (
            "`sessions` connections of clients to the address, and `ha_connections` of slaves to `haPort`, were "
            "closed: another broker is the master."
        ),
    )
    SESSIONS_NOT_ENDED = (
        "error",
        ("epoch", "error"),
        (
            "The kernel did not list or close the connections of the address. They carry nothing, as the address is "
            "removed; clients notice at their next request."
        ),
        "Check that the unit gives CAP_NET_ADMIN and CAP_NET_RAW.",
    )
    ADDRESS_NOT_ANNOUNCED = (
        "error",
        ("error",),
        "The kernel refused to send an announcement of the address that this host has.",
        "Check whether the interface is up.",
    )
    CLIENTS_NOT_NOTIFIED = (
        "error",
        ("error",),
        "The kernel gave no raw socket. Clients of closed connections notice at their next request.",
        "Check that the unit gives CAP_NET_RAW.",
    )
    CONNECTIONS_PASSED_ON = (
        "info",
        ("epoch", "connections"),
        (
            "`connections` connection requests (SYN) came to this host in the last 5 s before another host had the "
            "address, or in the 3 s after that, and were passed on to that host."
        ),
    )
    CONNECTIONS_NOT_PASSED_ON = (
        "error",
        ("error",),
        (
            "The kernel gave no packet socket or no raw socket, refused all packets, or the interface is down. "
            "Clients that connect while no host answers for the address wait until their kernels try again, a second "
            "or more."
        ),
        (
            "Check the interface, that the firewall of this host lets packets from clients' addresses out, that the "
            "unit gives CAP_NET_ADMIN and CAP_NET_RAW, and AF_PACKET in RestrictAddressFamilies."
        ),
    )
    SESSIONS_CANNOT_BE_CLOSED = (
        "warning",
        (),
        (
            "This kernel closes no connections of other processes. Those of a superseded broker carry nothing, as "
            "the address is removed, and clients notice at their next request."
        ),
        "Use a kernel with CONFIG_INET_DIAG_DESTROY.",
    )
    CONTROLLERS_SILENT = (
        "warning",
        ("answers",),
        (
            "No controller has given a definite answer for one lease; `answers` has the last one of each. Nothing "
            "changes as long as all other agents answer."
        ),
        "Check the controllers, their `roleCheckPort`, and the network to them.",
    )
    CONTROLLERS_ANSWER = ("info", ("controller", "answer"), "A controller gives definite answers again.")
    LOWER_EPOCH_IGNORED = (
        "warning",
        ("controller", "answer", "epoch"),
        "A controller answers for a lower master epoch than the highest known one (`epoch`). It is not followed.",
        (
            "Check whether that controller is cut off from the others. If the stored epochs began anew, restart all "
            "agents of the set at the same time."
        ),
    )
    PEER_SILENT = (
        "warning",
        ("peer", "error"),
        (
            "The agent of another host does not answer. Meanwhile a failover takes one lease longer, and if the "
            "controllers are silent too, the address is released."
        ),
        "Check that host and its agent.",
    )
    PEER_ANSWERS = ("info", ("peer",), "The agent of another host answers again.")
    PEER_DIFFERS = (
        "error",
        ("peer", "property", "theirs"),
        "The agent of another host has another `lease`, or this agent's `brokerId`. A longer lease is waited for.",
        "Give all agents of a set the same `lease`, and each the id of its own broker.",
    )
    REQUEST_REFUSED = (
        "warning",
        ("peer", "error"),
        "A request that came over the network was not answered: its sender is not one of `peers`, or it is invalid.",
        "Name the agents of all hosts in `peers`; let nobody else reach the port of `listen`.",
    )
    TASK_FAILED = (
        "error",
        ("task", "error"),
        "A part of the agent failed. The agent continues and restarts that part.",
        "A fault of the agent: report it, with this line.",
    )


def as_markdown() -> str:
    return "\n".join([_HEAD, *(_row(event) for event in AgentEvent)]) + "\n"


_HEAD: Final = """# Log events of the role agent

One JSON object per line on standard output; `journalctl -u rmq-role-agent@SET` shows them. Written from
`role_agent/events.py`; do not edit. A warning or error that is repeated about the same peer within 10 s is counted in
`suppressed` of the next line. A reader that does not keep up loses lines, and holds up nothing.

Every line also has `timestamp` (UTC), `level`, `event`, `set` and `broker_id`.

| event | level | keys | meaning | what to do |
|---|---|---|---|---|"""


def _row(event: AgentEvent) -> str:
    keys = ", ".join(f"`{key}`" for key in event.keys)
    return f"| `{event.key}` | {event.level} | {keys} | {event.meaning} | {event.advice} |"


if __name__ == "__main__":
    print(as_markdown(), end="")  # noqa: T201  # this page is what it is for
