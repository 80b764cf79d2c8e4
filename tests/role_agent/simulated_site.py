"""Hosts with agents, controllers and a network between them, in simulated time: everything that can be late, is.

Messages take up to 0.3 s or are lost, links are cut, controllers are away, agents are paused, killed and restarted, and
the kernel removes an address up to a second after its lifetime.
"""

import heapq
import itertools

from role_agent.rules.address_holder import (
    AddressHolder,
    ProbeAddress,
    QueryPeers,
    ReleaseAddress,
    RenewAddress,
    TakeAddress,
    lifetime_s,
)
from role_agent.rules.answers import PeerRequest, role_line

LEASE_MS = 3000
PEER_TIMEOUT_MS = 400
KERNEL_LATE_MS = 999
CONTROLLERS = "controllers"


class SimulatedHost:
    """One host: its kernel has the address until `address_until_ms`, whatever its agent does."""

    def __init__(self, site, name, others):
        self.site, self.name, self.others = site, name, others
        self.address_until_ms = 0
        self.runs_from_ms = 0
        self.agent = AddressHolder(frozenset(others), LEASE_MS, None)

    @property
    def has_address(self):
        return self.address_until_ms > self.site.now_ms

    def restart(self):
        left_ms = (self.address_until_ms - self.site.now_ms) // 1000 * 1000
        present_until_ms = self.site.now_ms + left_ms if left_ms > 0 else None
        self.agent = AddressHolder(frozenset(self.others), LEASE_MS, present_until_ms)

    def when_running(self, act):
        """Do it now, or once the agent's pause has ended; not at all if the agent was restarted meanwhile."""
        agent = self.agent

        def later():
            if agent is self.agent:
                act(self.site.now_ms)

        self.site.at(max(self.site.now_ms, self.runs_from_ms), later)

    def perform(self, effects):
        for effect in effects:
            match effect:
                case TakeAddress(epoch, until_ms):
                    self.site.taken.append((epoch, self.name))
                    self._add(until_ms)
                case RenewAddress(until_ms):
                    self._add(until_ms)
                case ReleaseAddress():
                    self.address_until_ms = 0
                case ProbeAddress(epoch):
                    self.site.at(self.site.now_ms + 75, lambda epoch=epoch: self._probe_ended(epoch))
                case QueryPeers(verb, epoch, peers):
                    for peer in sorted(peers):
                        self._query_peer(peer, verb, epoch)

    def tick(self):
        self.when_running(lambda now_ms: self.perform(self.agent.tick(now_ms)))
        self.site.at(self.site.now_ms + 100, self.tick)

    def query_controllers(self):
        sent_ms = self.site.now_ms
        self.site.send(self.name, CONTROLLERS, lambda: self._answer_of_controllers(sent_ms))
        self.site.at(sent_ms + 200, self.query_controllers)

    def _answer_of_controllers(self, sent_ms):
        line = role_line(self.site.answer_about(self.name))
        self.site.send(
            CONTROLLERS,
            self.name,
            lambda: self.when_running(
                lambda now_ms: self.perform(self.agent.controller_answered(line, sent_ms, now_ms))
            ),
        )

    def _add(self, until_ms):
        seconds = lifetime_s(until_ms, self.site.now_ms)
        if seconds >= 1:
            self.address_until_ms = self.site.now_ms + seconds * 1000 + self.site.random.randint(0, KERNEL_LATE_MS)

    def _probe_ended(self, epoch):
        # No probe helps here: it shows nobody who is cut off.
        self.when_running(lambda now_ms: self.perform(self.agent.probe_ended(epoch, is_free=True, now_ms=now_ms)))

    def _query_peer(self, name, verb, epoch):
        sent_ms, peer = self.site.now_ms, self.site.hosts[name]
        request = PeerRequest(verb=verb, set_name="broker-a", broker_id=1, epoch=epoch, lease_ms=LEASE_MS)

        def requested(now_ms):
            answer, effects = peer.agent.peer_requested(request, now_ms)
            peer.perform(effects)
            self.site.send(name, self.name, lambda: self.when_running(lambda now_ms: answered(answer, now_ms)))

        def answered(answer, now_ms):
            # An answer that is later than its limit, also because this agent was paused, is none.
            if now_ms - sent_ms <= PEER_TIMEOUT_MS:
                self.perform(self.agent.peer_answered(name, request, answer, sent_ms, now_ms))

        self.site.send(self.name, name, lambda: peer.when_running(requested))


class SimulatedSite:
    """Two or three hosts and the controllers; `run` until a time, with `check` after each event."""

    def __init__(self, random, hosts=2):
        names = [f"host-{number}" for number in range(1, hosts + 1)]
        self.random, self.now_ms = random, 10_000
        self._events, self._order = [], itertools.count()
        self.hosts = {name: SimulatedHost(self, name, [each for each in names if each != name]) for name in names}
        self.cut = set()
        self.loss = 0.0
        self.delay_ms_max = 2
        self.master, self.epoch, self.serves, self.leads = names[0], 1, True, True
        self.taken = []
        for host in self.hosts.values():
            host.tick()
            host.query_controllers()

    def at(self, at_ms, act):
        heapq.heappush(self._events, (at_ms, next(self._order), act))

    def send(self, source, target, deliver):
        if frozenset((source, target)) in self.cut or self.random.random() < self.loss:
            return
        self.at(self.now_ms + self.random.randint(0, self.delay_ms_max), deliver)

    def run(self, until_ms, check=lambda: None):
        while self._events[0][0] <= until_ms:
            self.now_ms, _, act = heapq.heappop(self._events)
            act()
            check()
        self.now_ms = until_ms

    def answer_about(self, name):
        """Return what the leading controller answers, if one leads."""
        if not self.leads:
            return "#unknown this controller does not lead"
        if name != self.master:
            return f"down #superseded epoch {self.epoch}"
        return f"up ready #epoch {self.epoch}" if self.serves else "#unknown the master is not confirmed to serve"

    def elect(self, name):
        """Make it the master of the next epoch, serving 0.1 s later."""
        self.master, self.epoch, self.serves = name, self.epoch + 1, False

        def confirm(epoch=self.epoch):
            self.serves = self.serves or epoch == self.epoch

        self.at(self.now_ms + 100, confirm)

    def holders(self):
        return [name for name, host in self.hosts.items() if host.has_address]

    def phases(self):
        return {name: host.agent.phase for name, host in self.hosts.items()}
