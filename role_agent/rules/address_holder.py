"""Decides when this host has the address of its set. Reads no clock and opens no socket; docs/role-addresses-vip.md.

Two hosts never have the address at once, if their clocks run at the same speed:

1. A host has it for one lease, counted from the moment at which a query *left* that was answered "still the master":
   by a controller, or, while no controller answers, by the agents of all other hosts that may have the address.
2. A host takes it for an epoch only after every other agent has released it for that epoch, or one lease and
   `CLAIM_MARGIN_MS` after a controller first answered that its broker is the master of that epoch.
3. An agent that was answered "master" for a higher epoch confirms no lower one.

A confirmation of the old master left before the new one was elected (1, 3), so it lapses before the new one takes the
address (2). A lower epoch than the highest known one is never followed.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from role_agent.rules.answers import PeerAnswer, PeerReply, PeerRequest, PeerVerb, Role, RoleLine


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


#: Beside the lease of an agent that does not answer: what its host may be late.
CLAIM_MARGIN_MS: Final = 500
#: For so long an agent that has taken the address reports that again to agents that do not answer: the requests for
#: connections that they have wait for it.
REPORTED_FOR_MS: Final = 3_000
#: The kernel counts lifetimes of addresses in seconds, and removes an address up to one second late.
_KERNEL_SECOND_MS: Final = 1000
#: After this part of its lease without an answer of a controller, an agent queries the other agents.
_UNCONFIRMED_PART: Final = 3


def lifetime_s(until_ms: int, now_ms: int) -> int:
    """Return the lifetime until `until_ms`, or later by less than the margin; 0 or less if it is too late."""
    return (until_ms + CLAIM_MARGIN_MS - _KERNEL_SECOND_MS - now_ms) // _KERNEL_SECOND_MS


class Phase(StrEnum):
    STANDBY = "standby"
    #: Its broker is the master; it waits until no other host can have the address.
    CLAIMING = "claiming"
    HOLDING = "holding"


class AddressHolder:
    """The state of one agent. Each method takes one event and returns what is to be performed, in that order."""

    def __init__(self, peers: frozenset[str], lease_ms: int, present_until_ms: int | None) -> None:
        """Begin in standby; with an address left by a former run if the kernel removes it at `present_until_ms`.

        `peers` are the agents of all other hosts that may have the address.
        """
        self.phase = Phase.STANDBY if present_until_ms is None else Phase.HOLDING
        #: The highest master epoch known; 0 before the first one.
        self.epoch = 0
        #: Until then this host may have the address; None if it may not.
        self.lease_until_ms = present_until_ms
        self.lease_ms, self._peers = lease_ms, peers
        #: The longest lease of any agent.
        self._longest_lease_ms = lease_ms
        #: When the newest answer arrived that the broker is not to be reached.
        self._down_ms: int | None = None
        #: There may be connections to the address that the kernel has not closed.
        self._has_sessions = True
        self._claimed_since_ms = 0
        self._released: frozenset[str] = frozenset()
        self._probes = False
        #: When the newest request to keep the address left that each agent granted, for the epoch held.
        self._granted_ms: dict[str, int] = {}
        #: Until then these agents are sent again that this host has taken the address.
        self._report_until_ms = 0
        self._unreported: frozenset[str] = frozenset()

    def controller_answered(self, line: RoleLine, sent_ms: int, now_ms: int) -> list[Effect]:
        """Follow the answer of a controller to a query that left at `sent_ms`, unless a newer epoch is known."""
        effects = self._expired(now_ms)
        if line.epoch is None or line.epoch < self.epoch:
            return effects
        match line.role:
            case Role.UP:
                return effects + self._confirm_by_controller(line.epoch, sent_ms, now_ms)
            case Role.DOWN | Role.SUPERSEDED:
                self.epoch, self._down_ms = line.epoch, now_ms
                cause = ReleaseCause.SUPERSEDED if line.role is Role.SUPERSEDED else ReleaseCause.DOWN
                effects += self._release(cause)
                return effects + (self._end_sessions() if line.role is Role.SUPERSEDED else [])
            case Role.UNKNOWN:
                return effects

    def peer_requested(self, request: PeerRequest, now_ms: int) -> tuple[PeerAnswer, list[Effect]]:
        """Return the answer to another agent; it is to leave only after the effects were performed."""
        effects = self._expired(now_ms)
        self._longest_lease_ms = max(self._longest_lease_ms, request.lease_ms)
        match request.verb:
            case PeerVerb.HELLO:
                return self._answer(PeerReply.NOTED), effects
            case PeerVerb.TAKEN:
                if request.epoch >= self.epoch:
                    effects += [*self._yield_to(request.epoch), NotifyClients()]
                return self._answer(PeerReply.NOTED), effects
            case PeerVerb.CLAIM | PeerVerb.KEEP:
                if request.epoch < self.epoch or (request.epoch == self.epoch and self.phase is not Phase.STANDBY):
                    return self._answer(PeerReply.REFUSED), effects
        if request.verb is PeerVerb.KEEP:
            return self._grant(request.epoch), effects
        return self._answer(PeerReply.RELEASED, request.epoch), effects + self._yield_to(request.epoch)

    def peer_answered(
        self, peer: str, request: PeerRequest, answer: PeerAnswer, sent_ms: int, now_ms: int
    ) -> list[Effect]:
        """Follow the answer of another agent to a request that left at `sent_ms`."""
        effects = self._expired(now_ms)
        self._longest_lease_ms = max(self._longest_lease_ms, answer.lease_ms)
        if answer.reply is PeerReply.REFUSED and answer.epoch > self.epoch:
            return effects + self._yield_to(answer.epoch)
        if request.epoch != self.epoch:
            return effects
        match answer.reply:
            case PeerReply.RELEASED if self.phase is Phase.CLAIMING:
                self._released |= {peer}
                return effects + self._probe_if_free(now_ms)
            case PeerReply.REFUSED if self.phase is Phase.CLAIMING:
                # It has the address or claims it: no time of waiting ends that.
                self._claimed_since_ms = now_ms
                self._released -= {peer}
            case PeerReply.NOTED if request.verb is PeerVerb.TAKEN:
                self._unreported -= {peer}
            case PeerReply.GRANTED if self.phase is Phase.HOLDING:
                return effects + self._confirm_by_peer(peer, sent_ms, now_ms)
        return effects

    def probe_ended(self, epoch: int, *, is_free: bool, now_ms: int) -> list[Effect]:
        """Take the address if no other host answered for it and nothing has changed since the probe began."""
        effects = self._expired(now_ms)
        self._probes = False
        until_ms = self.lease_until_ms
        if not is_free or epoch != self.epoch or self.phase is not Phase.CLAIMING or not self._may_take(now_ms):
            return effects
        if until_ms is None or lifetime_s(until_ms, now_ms) < 1:
            return effects
        self.phase, self._has_sessions, self._granted_ms = Phase.HOLDING, True, {}
        self._report_until_ms, self._unreported = now_ms + REPORTED_FOR_MS, self._peers
        without = self._peers - self._released
        return [*effects, TakeAddress(epoch, until_ms, without), QueryPeers(PeerVerb.TAKEN, epoch, self._peers)]

    def tick(self, now_ms: int) -> list[Effect]:
        """Do what is due; to be called several times in each third of the lease."""
        effects = self._expired(now_ms)
        if self.phase is Phase.HOLDING:
            effects += [*self._report(now_ms), *self._query_to_keep(now_ms)]
        elif self.phase is Phase.CLAIMING:
            if missing := self._peers - self._released:
                effects.append(QueryPeers(PeerVerb.CLAIM, self.epoch, missing))
            effects += self._probe_if_free(now_ms)
        return effects

    def stop(self) -> list[Effect]:
        return self._release(ReleaseCause.STOPPED)

    # Confirmations

    def _confirm_by_controller(self, epoch: int, sent_ms: int, now_ms: int) -> list[Effect]:
        if sent_ms + self.lease_ms <= now_ms or (self._down_ms is not None and sent_ms <= self._down_ms):
            return []
        is_newer, self.epoch = epoch > self.epoch, epoch
        self._extend(sent_ms)
        if self.phase is Phase.HOLDING:
            self._granted_ms = {} if is_newer else self._granted_ms
            return self._renewal()
        if self.phase is Phase.CLAIMING and not is_newer:
            return []
        return self._claim(now_ms)

    def _claim(self, now_ms: int) -> list[Effect]:
        self.phase, self._claimed_since_ms, self._released = Phase.CLAIMING, now_ms, frozenset()
        ask: list[Effect] = [QueryPeers(PeerVerb.CLAIM, self.epoch, self._peers)] if self._peers else []
        return ask + self._probe_if_free(now_ms)

    def _confirm_by_peer(self, peer: str, sent_ms: int, now_ms: int) -> list[Effect]:
        self._granted_ms[peer] = max(sent_ms, self._granted_ms.get(peer, sent_ms))
        if self._granted_ms.keys() < self._peers:
            return []
        oldest_ms = min(self._granted_ms.values())
        if oldest_ms + self.lease_ms <= now_ms:
            return []
        self._extend(oldest_ms)
        return self._renewal()

    def _query_to_keep(self, now_ms: int) -> list[Effect]:
        until_ms = self.lease_until_ms
        assert until_ms is not None, "who has the address has a lease"
        if not self._peers:
            # Nobody else may have it.
            self._extend(now_ms)
            return self._renewal()
        is_early = now_ms < until_ms - self.lease_ms + self.lease_ms // _UNCONFIRMED_PART
        # An agent that just started does not know for which epoch it has the address: only a controller can confirm it.
        if is_early or self.epoch == 0:
            return []
        return [QueryPeers(PeerVerb.KEEP, self.epoch, self._peers)]

    def _extend(self, sent_ms: int) -> None:
        self.lease_until_ms = max(self.lease_until_ms or 0, sent_ms + self.lease_ms)

    def _renewal(self) -> list[Effect]:
        assert self.lease_until_ms is not None, "it was just extended"
        return [RenewAddress(self.lease_until_ms)]

    # Taking it

    def _may_take(self, now_ms: int) -> bool:
        waited_ms = now_ms - self._claimed_since_ms
        return self._released == self._peers or waited_ms >= self._longest_lease_ms + CLAIM_MARGIN_MS

    def _probe_if_free(self, now_ms: int) -> list[Effect]:
        if self._probes or not self._may_take(now_ms):
            return []
        self._probes = True
        return [ProbeAddress(self.epoch)]

    def _report(self, now_ms: int) -> list[Effect]:
        if not self._unreported or now_ms >= self._report_until_ms:
            return []
        return [QueryPeers(PeerVerb.TAKEN, self.epoch, self._unreported)]

    # Releasing it

    def _expired(self, now_ms: int) -> list[Effect]:
        if self.lease_until_ms is None or now_ms < self.lease_until_ms:
            return []
        return self._release(ReleaseCause.LEASE_LAPSED)

    def _release(self, cause: ReleaseCause) -> list[Effect]:
        was_holding = self.phase is Phase.HOLDING
        self.phase, self.lease_until_ms = Phase.STANDBY, None
        return [ReleaseAddress(cause, self.epoch)] if was_holding else []

    def _yield_to(self, epoch: int) -> list[Effect]:
        """Another broker is the master of this epoch, which is at least the highest known one."""
        self.epoch = epoch
        return self._release(ReleaseCause.CLAIMED) + self._end_sessions()

    def _end_sessions(self) -> list[Effect]:
        has_sessions, self._has_sessions = self._has_sessions, False
        return [EndSessions(self.epoch)] if has_sessions else []

    def _grant(self, epoch: int) -> PeerAnswer:
        self.epoch = epoch
        return self._answer(PeerReply.GRANTED)

    def _answer(self, reply: PeerReply, epoch: int | None = None) -> PeerAnswer:
        return PeerAnswer(reply=reply, epoch=self.epoch if epoch is None else epoch, lease_ms=self.lease_ms)
