"""Masters that are killed under consumers, in four ways, and what each group saw of each event.

- `kill`: brokers acknowledge what both have. One group stays as it is; of the other one a client is killed with the
  master, and another one joins later: whoever has its queues next reads the offset at the new master.
- `restart`: a broker without a slave or a controller starts again after kill -9. Groups as in `kill`.
- `order`: 1,000 messages a second have keys, and two orderly clients, or three from the promotion on, in each second
  event, so that queues move while nobody has locks.
- `tail`: brokers acknowledge what the master has. The slave is down for the last seconds of the master, which are lost;
  new messages get their offsets again. Groups as in `kill`. A slave that is frozen instead knows each client several
  times when it goes on, by its former connections, and so clients leave queues to nobody for two minutes.
"""

import multiprocessing
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from failover_events import restore
from failover_ways import Properties
from group_deliveries import Delivered, Queue, seconds_of_traffic
from offset_clients import THOUSAND_A_SECOND, THOUSAND_KEYS, Group, OffsetClients, Senders
from offset_ways import ORDERED, LoneSet, ManagedSite
from peers.servers import Broker
from replicated import VERY_LONG_S
from role_addressed import now_ms

TOPIC, QUEUES = "Offsets", 4
STEADY, CHANGING = "steady", "changing"
#: Slaves copy offsets each 10 s, clients commit each 5 s, the manager reads each 5 s: events come at all parts of it.
COPIED_EACH_S = 10
#: Offsets are as they are in a life of days, and a broker that came back knows its clients.
SETTLED_S = 15
#: Clients without a role address need their poll, 30 s; a lock that nobody gives back ends after 60 s.
GO_ON_MAX_S = 150
#: So long the slave has been down when the master is killed, at least: clients have committed what is lost.
TAIL_S = 6
#: A broker that has come back knows its clients after one heartbeat: events come more often than 30 s, the default.
HEARTBEAT_MS = 5_000
DEFAULT_HEARTBEAT_MS = 30_000


@dataclass(frozen=True)
class Scenario:
    """What happens to a set, and who works on it."""

    title: str
    senders: Senders
    groups: tuple[Group, ...]
    heartbeat_ms: int = HEARTBEAT_MS
    properties: Properties = field(default_factory=dict)
    #: Of a client that is killed with the master.
    loses_client: str | None = None
    #: To which a client comes at the promotion, in each second event.
    gets_client: str | None = None
    loses_tail: bool = False


#: `haMaxTimeSlaveNotCatchup`: how soon a slave that is down is out of the SyncStateSet, 15 s by default.
TAIL_IS_LOST = {
    "allAckInSyncStateSet": False,
    "haMaxTimeSlaveNotCatchup": 3_000,
    "controller_properties": {"enableElectUncleanMaster": True},
}
_GROUPS = (Group(STEADY), Group(CHANGING, clients=2))
SCENARIOS = {
    "kill": Scenario("kill -9 of the master", Senders(4, interval_ms=20), _GROUPS, loses_client=CHANGING),
    "restart": Scenario(
        "kill -9 of a broker without a controller", Senders(4, interval_ms=20), _GROUPS, loses_client=CHANGING
    ),
    "order": Scenario(
        "kill -9 of the master, orderly consumers",
        THOUSAND_KEYS,
        (Group(ORDERED, "orderly", clients=2),),
        heartbeat_ms=DEFAULT_HEARTBEAT_MS,
        gets_client=ORDERED,
    ),
    "tail": Scenario(
        "kill -9 of the master, the end of its log is lost",
        THOUSAND_A_SECOND,
        _GROUPS,
        properties=TAIL_IS_LOST,
        loses_client=CHANGING,
        loses_tail=True,
    ),
}


@dataclass(frozen=True)
class GroupEvent:
    """What one group saw of one event, up to the next one."""

    #: Messages that it got again, and how many seconds of the traffic of a queue these are at most.
    repeated: int
    repeated_s: float
    inversions: int
    #: Queues that two clients had at a time.
    shared: int
    #: By queue that went on, the seconds from the kill until a message came that was sent after it.
    went_on_s: Mapping[Queue, float]
    #: A client was killed with the master, or has joined at the promotion.
    is_changed: bool

    @property
    def all_went_on_s(self) -> float:
        """The seconds until the last queue went on; infinite if one did not in time."""
        return max(self.went_on_s.values()) if len(self.went_on_s) == QUEUES else float("inf")


@dataclass
class SetSeen:
    """What became of all events at one set."""

    events: dict[str, list[GroupEvent]] = field(default_factory=dict)
    delivered: dict[str, Delivered] = field(default_factory=dict)
    #: Messages a second before each event.
    rates: list[float] = field(default_factory=list)
    failed_sends: int = 0


class OffsetEvents:
    """The events of one scenario at one set."""

    def __init__(self, scenario: Scenario, managed: ManagedSite, version: str, seen: SetSeen) -> None:
        self._scenario, self._site, self._seen = scenario, managed.site, seen
        self._site.make_topic(TOPIC, QUEUES)
        lab, namesrv = self._site.lab, self._site.namesrv
        self._clients = OffsetClients(lab, namesrv, version, TOPIC, scenario.heartbeat_ms)
        self._clients.begin(scenario.senders, scenario.groups)
        time.sleep(self._settled_s)

    @property
    def _settled_s(self) -> float:
        return max(SETTLED_S, self._scenario.heartbeat_ms / 1_000 + 2)

    def run(self, number: int, phase: float) -> None:
        """Kill the master; `phase`, 0 to 1, is where in a period of copying offsets that is."""
        time.sleep(phase * COPIED_EACH_S)
        victim = self._site.master()
        if self._scenario.loses_tail:
            self._kill_slave(victim)
        self._clients.begin_window()
        victim.process.kill()
        killed_ms = now_ms()
        changed = self._change(number, victim)
        in_time = self._clients.wait_until_all_go_on(killed_ms, QUEUES, GO_ON_MAX_S)
        if not isinstance(self._site, LoneSet):
            restore("kill", self._site, victim)
        # A client that leaves gives back what others had before.
        shared = self._shared()
        self._change_back(changed)
        time.sleep(self._settled_s)
        self._note(killed_ms, changed, shared)
        shown = ", ".join(f"{name} {_shown(events[-1])}" for name, events in self._seen.events.items())
        late = "" if in_time else ", not all queues went on"
        report(f"{shown}{late}; {(now_ms() - killed_ms) / 1000:.0f} s in all")

    def judge(self) -> None:
        """End the producers, and look for all that they have sent."""
        self._seen.delivered = self._clients.judge()
        self._seen.failed_sends = self._clients.failed
        report(str(self._seen.delivered))

    def _kill_slave(self, master: Broker) -> None:
        """Kill the slave, and wait until it is out of the SyncStateSet, and some seconds more."""
        assert not isinstance(self._site, LoneSet), "it has no slave"
        (slave,) = (each for each in self._site.brokers.brokers if each is not master)
        slave.process.kill()
        killed_s = time.monotonic()
        alone = lambda state: len(state.in_sync) == 1  # noqa: E731
        self._site.brokers.wait_for_state(alone, seconds=VERY_LONG_S, what="the slave is out of sync")
        time.sleep(max(0.0, killed_s + TAIL_S - time.monotonic()))

    def _change(self, number: int, victim: Broker) -> str | None:
        """Change a group as the scenario wants it, wait for the promotion, and return the group."""
        scenario = self._scenario
        if scenario.loses_client:
            self._clients.kill_oldest(scenario.loses_client)
        if isinstance(self._site, LoneSet):
            victim.start().ready()
            return scenario.loses_client
        for each in self._site.brokers.brokers:
            if scenario.loses_tail and each is not victim:
                self._site.brokers.restart(each)
        other = lambda state: state.addresses[state.master] != victim.address  # noqa: E731
        self._site.brokers.wait_for_master(other, seconds=VERY_LONG_S, what="another master")
        joins = scenario.gets_client if number % 2 else None
        if joins:
            self._clients.join(joins)
        return scenario.loses_client or joins

    def _change_back(self, changed: str | None) -> None:
        if changed is None:
            return
        if self._scenario.loses_client:
            self._clients.join(changed)
        else:
            self._clients.leave(changed)

    def _shared(self) -> dict[str, int]:
        """Return by group how many queues two clients have had at a time."""
        self._clients.look()
        return {name: len(group.window.shared()) for name, group in self._clients.groups.items()}

    def _note(self, killed_ms: int, changed: str | None, shared: Mapping[str, int]) -> None:
        self._clients.look()
        queue_rates = self._clients.rates(killed_ms)
        self._seen.rates.append(sum(queue_rates.values()))
        for name, group in self._clients.groups.items():
            window = group.window
            event = GroupEvent(
                repeated=window.repeated.total(),
                repeated_s=seconds_of_traffic(window.repeated, queue_rates),
                inversions=window.inversions,
                shared=shared[name],
                went_on_s=self._clients.went_on_s(name, killed_ms),
                is_changed=changed == name,
            )
            self._seen.events.setdefault(name, []).append(event)


def _shown(event: GroupEvent) -> str:
    return (
        f"went on after {event.all_went_on_s:.1f} s, {event.repeated} twice = {event.repeated_s:.1f} s, "
        f"{event.inversions} inversions, {event.shared} queues shared"
    )


def report(text: str) -> None:
    """Print what happens at a set, and at which: others may run side by side."""
    print(f"{multiprocessing.current_process().name}: {text}", file=sys.stderr, flush=True)
