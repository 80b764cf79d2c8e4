"""One agent: hands events to the rules, and performs what follows from them; queries are one line and one answer."""

import asyncio
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from remoting.background_tasks import BackgroundTasks
from remoting.clock import Clock
from role_agent.events import AgentEvent
from role_agent.log import AgentLog
from role_agent.network.host import HostNetwork
from role_agent.network.kernel import ENDLESS_S, Session
from role_agent.rules.address_holder import (
    AddressHolder,
    Effect,
    EndSessions,
    NotifyClients,
    Phase,
    ProbeAddress,
    QueryPeers,
    ReleaseAddress,
    RenewAddress,
    TakeAddress,
    lifetime_s,
)
from role_agent.rules.answers import (
    LINE_BYTES_MAX,
    PeerAnswer,
    PeerReply,
    PeerRequest,
    PeerVerb,
    Role,
    RoleLine,
    peer_answer,
    role_line,
)
from role_agent.settings import AgentSettings, HostPort
from role_agent.syn_relay import SynRelay


class NoAnswer(Exception):
    """There was no answer in time, or none at all; the text says why."""


async def exchange(
    address: HostPort, line: str, timeout_s: float, *, source: str | None = None, bytes_max: int = LINE_BYTES_MAX
) -> str:
    """Send a line, from `source` if that is given, and return the answer without its end; raises NoAnswer."""
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


_CHANGES_MAX: Final = 20


class Observed:
    """The last answer of each controller and agent, and the last changes of the address."""

    def __init__(self, settings: AgentSettings, log: AgentLog, now_ms: int) -> None:
        self._settings, self._log = settings, log
        #: What a controller answered or why it did not, whether it did, and when.
        self._controllers: dict[str, tuple[str, bool, int]] = {
            str(each): ("", False, now_ms) for each in settings.controllers
        }
        #: When an agent last answered, and why its last query failed; blank if it did not.
        self._peers: dict[str, tuple[int, str]] = {str(each): (now_ms, "") for each in settings.peers}
        self._definite_ms = now_ms
        self._is_silent = False
        self._silent_peers: set[str] = set()
        self._changes: deque[dict[str, object]] = deque(maxlen=_CHANGES_MAX)

    def controller_answered(self, controller: str, line: RoleLine, now_ms: int) -> None:
        self._controllers[controller] = (line.text, True, now_ms)
        if line.role is Role.UNKNOWN:
            return
        self._definite_ms = now_ms
        if self._is_silent:
            self._is_silent = False
            self._log.write(AgentEvent.CONTROLLERS_ANSWER, controller=controller, answer=line.text)

    def controller_failed(self, controller: str, error: str, now_ms: int) -> None:
        self._controllers[controller] = (f"no answer: {error}", False, now_ms)

    def peer_answered(self, peer: str, lease_ms: int, now_ms: int) -> None:
        self._peers[peer] = (now_ms, "")
        if peer in self._silent_peers:
            self._silent_peers.discard(peer)
            self._log.write(AgentEvent.PEER_ANSWERS, peer=peer)
        self._compare(peer, "lease", lease_ms, differs=lease_ms != self._settings.lease_ms)

    def peer_failed(self, peer: str, error: str, now_ms: int) -> None:
        """Record that another agent did not answer; logged once that has lasted for a lease."""
        answered_ms, _ = self._peers[peer]
        self._peers[peer] = (answered_ms, error)
        if now_ms - answered_ms >= self._settings.lease_ms and peer not in self._silent_peers:
            self._silent_peers.add(peer)
            self._log.write_about(peer, AgentEvent.PEER_SILENT, {"peer": peer, "error": error})

    def peer_reported(self, peer: str, lease_ms: int, broker_id: int) -> None:
        own = self._settings
        self._compare(peer, "lease", lease_ms, differs=lease_ms != own.lease_ms)
        self._compare(peer, "brokerId", broker_id, differs=broker_id == own.broker_id)

    def changed(self, change: str, epoch: int, unix_ms: int) -> None:
        at = datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(timespec="milliseconds")
        self._changes.append({"at": at.replace("+00:00", "Z"), "change": change, "masterEpoch": epoch})

    def tick(self, now_ms: int) -> None:
        if not self._is_silent and now_ms - self._definite_ms >= self._settings.lease_ms:
            self._is_silent = True
            answers = {controller: text for controller, (text, _, _) in self._controllers.items()}
            self._log.write(AgentEvent.CONTROLLERS_SILENT, answers=answers)

    def status(self, now_ms: int) -> dict[str, object]:
        return {
            "controllers": {
                name: {"answer": text, "answered": answered, "ageMs": now_ms - at_ms}
                for name, (text, answered, at_ms) in self._controllers.items()
            },
            "peers": {
                name: {"answeredBeforeMs": now_ms - at_ms, "error": error}
                for name, (at_ms, error) in self._peers.items()
            },
            "changes": list(self._changes),
        }

    def _compare(self, peer: str, name: str, theirs: object, *, differs: bool) -> None:
        if differs:
            keys: dict[str, object] = {"peer": peer, "property": name, "theirs": theirs}
            self._log.write_about(f"{peer} {name}", AgentEvent.PEER_DIFFERS, keys)


#: Between two renewals of an address: the kernel reports each to whoever watches addresses.
_RENEWAL_GAP_MS: Final = 400
#: When announcements follow the first one, since any may be lost; after these, one in each `_ANNOUNCEMENT_GAP_MS`.
_ANNOUNCEMENTS_MS: Final = (100, 300, 700, 1500, 3000)
_ANNOUNCEMENT_GAP_MS: Final = 5_000
#: When clients are notified after their connections were closed, in case no other agent reports to have the address: a
#: broker may take seconds until it serves.
_NOTICES_MS: Final = (250, 1000, 2000, 4000, 8000, 16_000)
#: And once more after that report: a neighbour may follow the announcement of the new host a moment later.
_NOTICE_AGAIN_MS: Final = 100
#: For so long slaves of the superseded master are cut off again and again: one that has not yet been notified of its
#: election connects anew, and waits for the frozen master's answer for 5 s.
_HA_CLOSED_FOR_MS: Final = 6_000
#: With 1,000 sockets on the host the kernel takes 6 ms each time, in which the agent does nothing else.
_HA_CLOSED_GAP_MS: Final = 250


class HostActions:
    """Changes this host as the rules have decided."""

    def __init__(self, host: HostNetwork, clock: Clock, log: AgentLog) -> None:
        self._host, self._clock, self._log = host, clock, log
        self._renewed_ms: int | None = None
        self._announce_at_ms: list[int] = []
        self._notify_at_ms: list[int] = []
        self._ha_closed_until_ms = 0
        self._ha_close_again_ms = 0
        #: Connections that were closed last; their clients may not have noticed.
        self._closed: list[Session] = []

    def take(self, effect: TakeAddress, claimed_for_ms: int) -> bool:
        """Add the address and announce it; False if the kernel refuses, and then the address is to be removed."""
        now_ms = self._clock.now_ms()
        try:
            self._host.add(lifetime_s(effect.until_ms, now_ms))
            self._host.announce()
        except OSError as error:
            self._log.write(AgentEvent.ADDRESS_NOT_TAKEN, epoch=effect.epoch, error=str(error))
            return False
        self._renewed_ms = now_ms
        self._announce_at_ms = [now_ms + each for each in _ANNOUNCEMENTS_MS]
        if effect.without:
            self._log.write(
                AgentEvent.ADDRESS_TAKEN_WITHOUT_RELEASE,
                epoch=effect.epoch,
                without=sorted(effect.without),
                claimed_for_ms=claimed_for_ms,
            )
        else:
            self._log.write(AgentEvent.ADDRESS_TAKEN, epoch=effect.epoch, claimed_for_ms=claimed_for_ms)
        return True

    def renew(self, epoch: int, until_ms: int) -> None:
        """Have the kernel remove the address at `until_ms`; one that somebody else removed is added again."""
        now_ms = self._clock.now_ms()
        seconds = lifetime_s(until_ms, now_ms)
        is_early = self._renewed_ms is not None and now_ms - self._renewed_ms < _RENEWAL_GAP_MS
        if seconds < 1 or is_early:
            return
        try:
            self._host.add(seconds)
        except OSError as error:
            self._log.write(AgentEvent.ADDRESS_NOT_TAKEN, epoch=epoch, error=str(error))
            return
        self._renewed_ms = now_ms
        if not self._announce_at_ms:
            self._announce_at_ms.append(now_ms + _ANNOUNCEMENT_GAP_MS)

    def release(self, effect: ReleaseAddress) -> bool:
        """Remove the address; False if the kernel refuses, which then removes it after its lifetime."""
        self._announce_at_ms.clear()
        try:
            self._host.remove()
        except OSError as error:
            self._log.write(AgentEvent.ADDRESS_NOT_RELEASED, epoch=effect.epoch, error=str(error))
            return False
        self._log.write(AgentEvent.ADDRESS_RELEASED, epoch=effect.epoch, cause=effect.cause)
        return True

    def end_sessions(self, effect: EndSessions) -> list[Session]:
        """Close the connections of the address and return them; their clients are notified now and then.

        The connections of the broker's slaves are closed too, for a while: one that is elected reads from its master,
        if that is frozen, for up to a second more before it becomes the master (`AutoSwitchHAClient`).
        """
        now_ms = self._clock.now_ms()
        self._ha_closed_until_ms, self._ha_close_again_ms = now_ms + _HA_CLOSED_FOR_MS, now_ms + _HA_CLOSED_GAP_MS
        try:
            ha_connections = self._host.close_ha_connections()
            self._closed = self._host.close_sessions()
        except OSError as error:
            self._log.write(AgentEvent.SESSIONS_NOT_ENDED, epoch=effect.epoch, error=str(error))
            return []
        self._notify_at_ms = [now_ms + each for each in _NOTICES_MS]
        if self._closed or ha_connections:
            ended = {"sessions": len(self._closed), "ha_connections": ha_connections}
            self._log.write(AgentEvent.SESSIONS_ENDED, epoch=effect.epoch, **ended)
        return self._closed

    def notify_clients(self) -> None:
        """Have clients of closed connections notice: another host has the address now."""
        self._notify_at_ms = [self._clock.now_ms() + _NOTICE_AGAIN_MS]
        self._notify()

    def allow_slaves(self) -> None:
        """Close no more connections of slaves: the broker of this host is the master."""
        self._ha_closed_until_ms = 0

    def tick(self) -> None:
        now_ms = self._clock.now_ms()
        if self._ha_close_again_ms <= now_ms < self._ha_closed_until_ms:
            self._ha_close_again_ms = now_ms + _HA_CLOSED_GAP_MS
            # What the kernel refuses it has refused before, and that is logged.
            with suppress(OSError):
                self._host.close_ha_connections()
        if _is_due(self._announce_at_ms, now_ms):
            self._announce(now_ms)
        if _is_due(self._notify_at_ms, now_ms):
            self._notify()

    def _announce(self, now_ms: int) -> None:
        try:
            self._host.announce()
        except OSError as error:
            self._log.write(AgentEvent.ADDRESS_NOT_ANNOUNCED, error=str(error))
        if not self._announce_at_ms:
            self._announce_at_ms.append(now_ms + _ANNOUNCEMENT_GAP_MS)

    def _notify(self) -> None:
        try:
            self._host.notify_clients(self._closed)
        except OSError as error:
            self._log.write(AgentEvent.CLIENTS_NOT_NOTIFIED, error=str(error))
        if not self._notify_at_ms:
            self._closed = []


def _is_due(times_ms: list[int], now_ms: int) -> bool:
    """Return whether a time has come, and remove those that have."""
    later = [each for each in times_ms if each > now_ms]
    is_due = len(later) < len(times_ms)
    times_ms[:] = later
    return is_due


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
        self._settings, self._clock, self._host, self._relay = settings, clock, host, relay
        self._log, self._tasks = log, tasks
        self._actions = HostActions(host, clock, log)
        self._peers = {str(each): each for each in settings.peers}
        self._observed = Observed(settings, log, clock.now_ms())
        self._holder = AddressHolder(frozenset(self._peers), settings.lease_ms, self._present_until_ms())
        #: Requests that were not answered yet.
        self._queries: set[tuple[str, PeerVerb]] = set()
        self._claimed_ms = 0

    @property
    def has_address(self) -> bool:
        return self._holder.phase is Phase.HOLDING

    def controller_answered(self, controller: HostPort, text: str, sent_ms: int) -> None:
        """Follow the line that a controller answered to a query which left at `sent_ms`."""
        line, now_ms = role_line(text), self._clock.now_ms()
        self._observed.controller_answered(str(controller), line, now_ms)
        if line.role is Role.UP and line.epoch is not None and line.epoch < self._holder.epoch:
            keys: dict[str, object] = {"controller": str(controller), "answer": line.text, "epoch": self._holder.epoch}
            self._log.write_about(str(controller), AgentEvent.LOWER_EPOCH_IGNORED, keys)
        was = self._holder.phase
        effects = self._holder.controller_answered(line, sent_ms, now_ms)
        if self._holder.phase is Phase.CLAIMING and was is not Phase.CLAIMING:
            self._claimed_ms = now_ms
            self._actions.allow_slaves()
            self._log.write(AgentEvent.ADDRESS_CLAIMED, epoch=self._holder.epoch)
        self._perform(effects)

    def controller_failed(self, controller: HostPort, error: str) -> None:
        self._observed.controller_failed(str(controller), error, self._clock.now_ms())

    def peer_requested(self, peer: str, request: PeerRequest) -> PeerAnswer | None:
        """Return the answer to another agent, None if there must be none: the address could not be released."""
        self._observed.peer_reported(peer, request.lease_ms, request.broker_id)
        answer, effects = self._holder.peer_requested(request, self._clock.now_ms())
        return answer if self._perform(effects) or answer.reply is not PeerReply.RELEASED else None

    def tick(self) -> None:
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
                self._log.write(AgentEvent.ADDRESS_IN_USE, epoch=epoch, address=str(address.ip), owner=mac)
        except OSError as error:
            self._log.write(AgentEvent.ADDRESS_NOT_TAKEN, epoch=epoch, error=str(error))
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
