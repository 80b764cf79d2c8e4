"""One agent: hands events to the rules, and has performed what follows from them."""

from typing import Final

from remoting.background_tasks import BackgroundTasks
from remoting.clock import Clock
from role_agent import events
from role_agent.host_actions import HostActions
from role_agent.lines import NoAnswer, exchange
from role_agent.log import AgentLog
from role_agent.network.addresses import ENDLESS_S
from role_agent.network.host import HostNetwork
from role_agent.observed import Observed
from role_agent.rules.address_holder import AddressHolder, Phase
from role_agent.rules.answers import PeerAnswer, PeerReply, PeerRequest, PeerVerb, Role, peer_answer, role_line
from role_agent.rules.effects import (
    Effect,
    EndSessions,
    NotifyClients,
    ProbeAddress,
    QueryPeers,
    ReleaseAddress,
    RenewAddress,
    TakeAddress,
)
from role_agent.settings import AgentSettings, HostPort
from role_agent.syn_relay import SynRelay

#: A host of the same network answers within a millisecond; a lost packet is sent again after 200 ms.
PEER_TIMEOUT_S: Final = 0.4


class RoleAgent:
    """Has the address of its set on this host while the broker of this host is the master, and not otherwise."""

    def __init__(
        self,
        settings: AgentSettings,
        clock: Clock,
        host: HostNetwork,
        relay: SynRelay,
        log: AgentLog,
        tasks: BackgroundTasks,
    ) -> None:
        """Begin with the address that a former run left, if there is one; raises OSError without the interface."""
        self._settings = settings
        self._clock = clock
        self._host = host
        self._relay = relay
        self._log = log
        self._tasks = tasks
        self._actions = HostActions(host, clock, log)
        self._peers = {str(each): each for each in settings.peers}
        self._observed = Observed(settings, log, clock.now_ms())
        self._holder = AddressHolder(frozenset(self._peers), settings.lease_ms, self._present_until_ms())
        #: Requests that were not answered yet.
        self._queries: set[tuple[str, PeerVerb]] = set()
        self._claimed_ms = 0

    @property
    def has_address(self) -> bool:
        """Return whether this host has the address, as far as the agent knows."""
        return self._holder.phase is Phase.HOLDING

    def controller_answered(self, controller: HostPort, text: str, sent_ms: int) -> None:
        """Follow the line that a controller answered to a query which left at `sent_ms`."""
        line, now_ms = role_line(text), self._clock.now_ms()
        self._observed.controller_answered(str(controller), line, now_ms)
        if line.role is Role.UP and line.epoch is not None and line.epoch < self._holder.epoch:
            keys: dict[str, object] = {"controller": str(controller), "answer": line.text, "epoch": self._holder.epoch}
            self._log.write_about(str(controller), events.LOWER_EPOCH_IGNORED, keys)
        was = self._holder.phase
        effects = self._holder.controller_answered(line, sent_ms, now_ms)
        if self._holder.phase is Phase.CLAIMING and was is not Phase.CLAIMING:
            self._claimed_ms = now_ms
            self._actions.allow_slaves()
            self._log.write(events.ADDRESS_CLAIMED, epoch=self._holder.epoch)
        self._perform(effects)

    def controller_failed(self, controller: HostPort, error: str) -> None:
        """Record that a controller did not answer: nothing follows from that by itself."""
        self._observed.controller_failed(str(controller), error, self._clock.now_ms())

    def peer_requested(self, peer: str, request: PeerRequest) -> PeerAnswer | None:
        """Return the answer to another agent, None if there must be none: the address could not be released."""
        self._observed.peer_reported(peer, request.lease_ms, request.broker_id)
        answer, effects = self._holder.peer_requested(request, self._clock.now_ms())
        return answer if self._perform(effects) or answer.reply is not PeerReply.RELEASED else None

    def tick(self) -> None:
        """Do what is due; to be called several times in each third of the lease."""
        now_ms = self._clock.now_ms()
        self._perform(self._holder.tick(now_ms))
        self._observed.tick(now_ms)
        self._actions.tick()
        self._relay.tick()

    def query_peers(self) -> None:
        """Find out whether all other agents run, and which leases they have."""
        self._query_peers(QueryPeers(PeerVerb.HELLO, self._holder.epoch, frozenset(self._peers)))

    def stop(self) -> None:
        """Release the address, and begin nothing more that takes long."""
        self._perform(self._holder.stop())
        self._relay.stop()

    def status(self) -> dict[str, object]:
        """Return where the agent is and what it was answered, for people."""
        now_ms, until_ms = self._clock.now_ms(), self._holder.lease_until_ms
        return {
            "set": self._settings.set_name,
            "brokerId": self._settings.broker_id,
            "addresses": [str(each) for each in self._settings.addresses],
            "phase": self._holder.phase,
            "masterEpoch": self._holder.epoch,
            "leaseMs": self._settings.lease_ms,
            "leaseLeftMs": None if until_ms is None else until_ms - now_ms,
            **self._observed.status(now_ms),
        }

    def _perform(self, effects: list[Effect]) -> bool:
        """Perform the effects in their order; False if the address could not be released."""
        return all([self._perform_one(effect) for effect in effects])  # noqa: C419  # a failure ends none of the others

    def _perform_one(self, effect: Effect) -> bool:
        match effect:
            case ReleaseAddress():
                self._observed.changed("released", effect.epoch, self._clock.unix_ms())
                return self._actions.release(effect)
            case TakeAddress():
                self._take(effect)
            case RenewAddress():
                self._actions.renew(self._holder.epoch, effect.until_ms)
            case EndSessions():
                # Thousands take a while, and the address is removed already: an answer to another agent leaves first.
                self._tasks.start(self._end_sessions(effect), "end_sessions")
            case NotifyClients():
                self._actions.notify_clients()
                self._tasks.start(self._relay.pass_on(self._holder.epoch), "pass_on")
            case QueryPeers():
                self._query_peers(effect)
            case ProbeAddress():
                self._tasks.start(self._probe(effect.epoch), "probe")
        return True

    def _take(self, effect: TakeAddress) -> None:
        if self._actions.take(effect, self._clock.now_ms() - self._claimed_ms):
            self._observed.changed("taken", effect.epoch, self._clock.unix_ms())
            self._relay.stop()
        else:
            # A part of it may be there.
            self._perform(self._holder.stop())

    async def _end_sessions(self, effect: EndSessions) -> None:
        self._relay.ended(self._actions.end_sessions(effect))

    async def _probe(self, epoch: int) -> None:
        is_free = False
        try:
            owner = await self._host.owner()
            is_free = owner is None
            if owner is not None:
                address, mac = owner
                self._log.write(events.ADDRESS_IN_USE, epoch=epoch, address=str(address.ip), owner=mac)
        except OSError as error:
            self._log.write(events.ADDRESS_NOT_TAKEN, epoch=epoch, error=str(error))
        finally:
            self._perform(self._holder.probe_ended(epoch, is_free=is_free, now_ms=self._clock.now_ms()))

    def _query_peers(self, effect: QueryPeers) -> None:
        request = PeerRequest(
            verb=effect.verb,
            set_name=self._settings.set_name,
            broker_id=self._settings.broker_id,
            epoch=effect.epoch,
            lease_ms=self._settings.lease_ms,
        )
        for peer in effect.peers:
            # One at a time: an agent that does not answer must not be sent ever more of them.
            if (peer, effect.verb) not in self._queries:
                self._queries.add((peer, effect.verb))
                self._tasks.start(self._query_peer(peer, request), "query_peer")

    async def _query_peer(self, peer: str, request: PeerRequest) -> None:
        sent_ms = self._clock.now_ms()
        try:
            source = str(self._settings.listen.ip)
            answer = peer_answer(await exchange(self._peers[peer], request.line(), PEER_TIMEOUT_S, source=source))
        except NoAnswer as error:
            self._observed.peer_failed(peer, str(error), self._clock.now_ms())
            return
        finally:
            self._queries.discard((peer, request.verb))
        now_ms = self._clock.now_ms()
        if answer is None:
            self._observed.peer_failed(peer, "what it answers is no line of an agent", now_ms)
            return
        self._observed.peer_answered(peer, answer.lease_ms, now_ms)
        self._perform(self._holder.peer_answered(peer, request, answer, sent_ms, now_ms))

    def _present_until_ms(self) -> int | None:
        lifetime_s = self._host.lifetime_s()
        if lifetime_s is None:
            return None
        # One that somebody added by hand has no end.
        left_ms = self._settings.lease_ms if lifetime_s == ENDLESS_S else lifetime_s * 1000
        return self._clock.now_ms() + min(left_ms, self._settings.lease_ms)
