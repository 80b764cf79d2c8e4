"""What follows from a rule, and is to be performed in this order."""

from dataclasses import dataclass
from enum import StrEnum

from role_agent.rules.answers import PeerVerb


class ReleaseCause(StrEnum):
    """Why the address was released; the values are in log lines."""

    #: A controller answered that the broker has failed, or that a switchover holds its set.
    DOWN = "down"
    #: A controller answered that another broker is the master.
    SUPERSEDED = "superseded"
    #: The agent of another broker claimed the address for a higher epoch, or knows of one.
    CLAIMED = "claimed"
    #: No controller, and not every other agent, confirmed in time that the broker is still the master.
    LEASE_LAPSED = "lease_lapsed"
    #: The agent ends.
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ReleaseAddress:
    """Remove the address from this host: from now on nothing enters or leaves by it."""

    cause: ReleaseCause
    epoch: int


@dataclass(frozen=True, slots=True)
class EndSessions:
    """Close the TCP connections of the address, have their clients notice, and close those of the broker's slaves."""

    epoch: int


@dataclass(frozen=True, slots=True)
class NotifyClients:
    """Another host has the address: have the clients of the closed connections notice."""


@dataclass(frozen=True, slots=True)
class QueryPeers:
    """Send a request to these agents; answers come back as `peer_answered`."""

    verb: PeerVerb
    epoch: int
    peers: frozenset[str]


@dataclass(frozen=True, slots=True)
class ProbeAddress:
    """Find out whether another host has the address; the outcome comes back as `probe_ended`."""

    epoch: int


@dataclass(frozen=True, slots=True)
class TakeAddress:
    """Add the address, for the kernel to remove at `until_ms` by itself, and announce it."""

    epoch: int
    until_ms: int
    #: Agents that did not release it, whose lease must have lapsed.
    without: frozenset[str]


@dataclass(frozen=True, slots=True)
class RenewAddress:
    """Have the kernel remove the address at `until_ms`, not before."""

    until_ms: int


Effect = ReleaseAddress | EndSessions | NotifyClients | QueryPeers | ProbeAddress | TakeAddress | RenewAddress
