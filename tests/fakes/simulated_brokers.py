"""Brokers as a controller without sockets sees them: what they answer, and what was requested of them."""

from msgspec.structs import replace

from controller.failover.events import CheckReachability
from controller.failure_detection.log_ends import LogEnds
from controller.wire.broker_queries import LOG_END_MS


class SimulatedBrokers:
    """A test sets what they answer; `clock` and `reachability` are those of the controller."""

    reaches = True
    #: Where brokers are reached, by their reported address; blank if there.
    reached_at = staticmethod(lambda _address: "")
    #: What a master answers about waiting for its slaves.
    all_ack = True

    def __init__(self):
        #: What the controller requests of its edge.
        self.effects = []
        #: What brokers answer of their logs, by id, and on how many replicas a message is that they confirm.
        self.log_ends = {}
        self.confirmed_on = None
        #: Masters report before an election on how many replicas a message is.
        self.masters_confirm = False
        #: Until when the process of a broker pauses, by id: a query to it lasts until then, or to its timeout.
        self.stands_still_ms = {}
        self.queried_masters = []
        #: Broker ids of each query for log ends.
        self.queried = []
        #: Brokers whose reachability was checked.
        self.reachability_checks = []
        #: Addresses of brokers that have changed to master.
        self.masters = set()
        #: When the process at an address has started.
        self.boots = {}

    def _perform(self, effect):
        if isinstance(effect, CheckReachability):
            self.reachability_checks.append(effect.key)
            if self.reaches:
                self.reachability.reached(effect.key, effect.address, self.reached_at(effect.address))
        else:
            self.effects.append(effect)

    async def _log_ends(self, query):
        self.queried.append(sorted(query.addresses))
        still = {i: self.stands_still_ms.get(i, 0) for i in query.addresses}
        self.clock.pass_ms(min(LOG_END_MS, max(0, max(still.values()) - self.clock.now_ms())))
        late = {i for i, until_ms in still.items() if until_ms > self.clock.now_ms()}
        ends = {i: end for i, end in self.log_ends.items() if i in query.addresses and i not in late}
        answered = LogEnds(by_id=ends, is_awaited=bool(late))
        if not answered.are_inconclusive(query.in_sync, query.others) or not ends:
            return answered
        return replace(answered, confirmed_on=self.confirmed_on)

    async def _confirmed_on(self, address):
        return await self.confirmed_on_of(address)

    async def confirmed_on_of(self, address):
        self.queried_masters.append(address)
        return self.confirmed_on if self.masters_confirm else None

    async def _all_ack(self, _):
        return self.all_ack

    async def _boot(self, address):
        return self.boots.get(address)
