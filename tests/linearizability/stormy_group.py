"""Three controllers on an etcd of three that are killed while restless brokers ask them, and what is seen of it."""

import asyncio
import contextlib
import itertools
import random
import time
from collections import Counter
from dataclasses import dataclass, field

from linearizability.restless import History, RestlessBroker
from linearizability.set_checker import check
from peers.controllers import OurController, leader_of
from peers.etcd import running_etcd
from peers.waiting import wait_until

#: How many brokers each set has: 20 clients in all.
SETS = {"alpha": 7, "beta": 7, "gamma": 6}
STARTS_WITHIN_S = 60
#: What is killed, the leaders being those of the moment. One that is paused comes back when another one leads, and is
#: not to answer what it knew.
KILLS = ("leader", "follower, etcd leader", "paused leader", "leader")
KILLS_LONG = (
    "leader",
    "leader",
    "follower",
    "etcd leader",
    "paused leader",
    "etcd member",
    "leader, etcd leader",
    "follower, etcd leader",
    "leader, follower",
)
#: How long after a kill the next one comes at the earliest, and how long the killed stays away.
CALM_S = (1.0, 3.0)
AWAY_S = (0.2, 2.0)
SERVED_S = 0.5
#: How long another one leads while one is paused.
LED_S = 1.0
SENT_S = 0.1


@dataclass
class Storm:
    """What was done and seen."""

    histories: list[History]
    seed: int
    seconds: float = 0.0
    kills: list[str] = field(default_factory=list)
    #: When what was lost.
    losses: list[tuple[float, str]] = field(default_factory=list)
    check_s: float = 0.0
    verdicts: dict[str, object] = field(default_factory=dict)

    def check(self):
        began_s = time.perf_counter()
        for each in self.histories:
            self.verdicts[each.broker_name] = check(each.operations, each.lives)
        self.check_s = time.perf_counter() - began_s
        return self

    @property
    def problems(self):
        return "\n\n".join(
            f"{name} (seed {self.seed}):\n{each}" for name, each in self.verdicts.items() if not each.holds
        )

    @property
    def operations(self):
        return [each for history in self.histories for each in history.operations]

    @property
    def longest_gap(self):
        """The longest time in which no request that only a leader answers was answered, and what was lost before."""
        answered = sorted(each.answered_s for each in self.operations if each.answered_s is not None)
        gap_s, ended_s = max((later - earlier, later) for earlier, later in itertools.pairwise(answered))
        return gap_s, next((what for at_s, what in reversed(self.losses) if at_s < ended_s), "nothing")

    @property
    def codes(self):
        """How often each request had each answer."""
        return sum((each.codes for each in self.histories), start=Counter())

    def __str__(self):
        unknown = sum(each.unknown for each in self.histories)
        refused = sum(each.refused_by_followers for each in self.histories)
        pairs = max(each.pairs_at_once for each in self.verdicts.values())
        kinds = ", ".join(f"{kind} {self.kills.count(kind)}" for kind in sorted(set(self.kills)))
        gap_s, loss = self.longest_gap
        clients = f"{sum(SETS.values())} clients on {len(SETS)} sets"
        return (
            f"linearizability: {len(self.operations)} operations of {clients} in {self.seconds:.0f} s, {unknown} of "
            f"unknown outcome, {refused} refused by followers; {len(self.kills)} kills ({kinds}); longest without a "
            f"leader {gap_s:.1f} s (after the loss of: {loss}); checked in {self.check_s:.1f} s, at most "
            f"{pairs} states at once; seed {self.seed}"
        )


class StormyGroup:
    """The group, and its killer."""

    def __init__(self, etcd, folder):
        self.etcd = etcd
        self.controllers = [
            OurController(
                folder,
                f"c{number}",
                controllerId=f"c{number}",
                controllerGroup="stormy",
                controllerStore="etcd",
                etcdEndpoints=";".join(etcd.endpoints),
            )
            for number in range(3)
        ]

    @property
    def addresses(self):
        return [each.address for each in self.controllers]

    def start(self):
        for each in self.controllers:
            each.launch()
        for each in self.controllers:
            each.ready()
        self.leader()
        return self

    def leader(self, among=None):
        among = among or self.controllers
        return wait_until(lambda: leader_of(among), seconds=STARTS_WITHIN_S, what="a controller leads")

    def others(self, controller):
        return [each for each in self.controllers if each is not controller]

    def etcd_leader(self):
        return wait_until(self.etcd.leader, seconds=STARTS_WITHIN_S, what="etcd has a leader")

    def lose(self, kinds, chance):
        """Kill what is named, and return it."""
        leader = self.leader()
        found = {"leader": leader, "paused leader": leader, "follower": chance.choice(self.others(leader))}
        found["etcd leader"] = self.etcd_leader() if "etcd leader" in kinds else None
        found["etcd member"] = chance.choice(self.etcd.members)
        lost = {kind: found[kind] for kind in kinds}
        for kind, each in lost.items():
            each.process.pause() if kind == "paused leader" else each.process.kill()
        return lost

    def bring_back(self, lost):
        """Start again what was killed, and wait until it is healthy."""
        for kind, each in lost.items():
            if kind == "paused leader":
                each.process.resume()
            elif kind.startswith("etcd"):
                self.etcd.restart(each)
            else:
                each.start()
        self.leader()

    def stop(self):
        for each in self.controllers:
            if each.process is not None and each.process.running:
                each.process.kill()


@contextlib.contextmanager
def stormy_group(folder):
    with running_etcd(folder / "etcd", members=3) as etcd:
        group = StormyGroup(etcd, folder)
        try:
            yield group.start()
        finally:
            group.stop()


async def request_while_killing(group, kinds, seconds, seed):
    """Let the brokers ask for so long at least, while these are killed one after the other; return what was seen."""
    chance = random.Random(seed)
    numbers = itertools.count()
    storm = Storm([History(name, numbers) for name in SETS], seed)
    brokers = [
        RestlessBroker(f"{history.broker_name}{number}", history, group.addresses, chance)
        for history in storm.histories
        for number in range(SETS[history.broker_name])
    ]
    onlookers = [
        RestlessBroker(f"{history.broker_name} onlooker", history, group.addresses, chance)
        for history in storm.histories
    ]
    late = []
    stopping = asyncio.Event()
    began_s = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for each in brokers:
            tasks.create_task(each.live(stopping))
        try:
            for kind in kinds:
                await asyncio.sleep(chance.uniform(*CALM_S))
                for each in onlookers:
                    await each.connect()
                lost = await asyncio.to_thread(group.lose, kind.split(", "), chance)
                storm.kills += lost
                storm.losses.append((time.perf_counter(), kind))
                await asyncio.sleep(chance.uniform(*AWAY_S))
                if "paused leader" in lost:
                    late += await _request_of_paused(group, lost["paused leader"], onlookers)
                await asyncio.to_thread(group.bring_back, lost)
            await asyncio.sleep(max(SERVED_S, began_s + seconds - time.perf_counter()))
        finally:
            stopping.set()
    storm.seconds = time.perf_counter() - began_s
    await asyncio.gather(*late)
    await _look_at_last(onlookers)
    return storm


async def _request_of_paused(group, paused, onlookers):
    """Let another one lead for a while, and return questions that wait for the paused one: the first that it hears."""
    await asyncio.to_thread(group.leader, group.others(paused))
    await asyncio.sleep(LED_S)
    late = [asyncio.create_task(each.look(at=paused.address)) for each in onlookers]
    await asyncio.sleep(SENT_S)
    return late


async def _look_at_last(onlookers):
    """Ask once more how each set is: what nobody saw before is seen now."""
    for each in onlookers:
        async with asyncio.timeout(STARTS_WITHIN_S):
            while await each.look() is None:
                await asyncio.sleep(SERVED_S)
        await each.end()
