"""Offset managers on an etcd of three that are killed while clients commit, and what is seen of it.

Offsets of the groups `strict-` are written through, so that any manager has what was acknowledged. Those of the groups
`local-` are acknowledged from the journal: what a killed leader has acknowledged so is there when it is back.
"""

import asyncio
import contextlib
import random
import time
from collections import Counter
from dataclasses import dataclass, field

from linearizability.committing_clients import GroupHistory, RestlessCommitter, read_until_answered
from linearizability.offset_checker import check_offset
from linearizability.offset_model import COMMIT
from peers.etcd import running_etcd
from peers.offset_managers import OffsetManager
from peers.waiting import wait_until

STARTS_WITHIN_S = 60
STRICT_GROUPS, LOCAL_GROUPS = 4, 2
CLIENTS_OF_GROUP = 3
#: How long after a kill the next one comes at the earliest, and how long the killed stays away.
CALM_S = (1.0, 2.0)
AWAY_S = (0.2, 2.0)
LED_S = 0.5


@dataclass
class CommitStorm:
    """What was done and seen."""

    histories: list[GroupHistory]
    seed: int
    seconds: float = 0.0
    kills: list[str] = field(default_factory=list)
    #: By group and queue.
    verdicts: dict[tuple[str, int], object] = field(default_factory=dict)

    def check(self, *, strict):
        """Check the histories of the groups whose names begin so."""
        for history in self.histories:
            if history.group.startswith(strict):
                for queue, operations in history.operations.items():
                    self.verdicts[history.group, queue] = check_offset(operations)
        return self

    @property
    def problems(self):
        return "\n\n".join(
            f"{name} (seed {self.seed}):\n{each}" for name, each in self.verdicts.items() if not each.holds
        )

    @property
    def lost(self):
        """The commits that were acknowledged `local` and are not there in the end."""
        return [each for history in self.histories if history.group.startswith("local") for each in history.lost()]

    @property
    def results(self):
        return sum((each.results for each in self.histories), start=Counter())

    def __str__(self):
        results = self.results
        unseen = sum(number for (_, result), number in results.items() if result == "unseen")
        kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(Counter(self.kills).items()))
        pairs = max(each.pairs for each in self.verdicts.values())
        return (
            f"linearizability of offsets: {results.total()} operations in {self.seconds:.0f} s, {unseen} of unknown "
            f"outcome, on {len(self.verdicts)} queues; killed: {kinds}; at most {pairs} pairs; seed {self.seed}"
        )


class StormyManagers:
    """The managers, and their killer."""

    def __init__(self, etcd, folder, *, managers, write_through):
        self.etcd = etcd
        options = {"store": "etcd", "etcd_endpoints": ";".join(etcd.endpoints), "write_through_groups": write_through}
        self.managers = [OffsetManager(folder, f"manager{number}", **options) for number in range(managers)]
        for each in self.managers:
            each.options["advertised_address"] = each.address
            each.timeout_s = 5

    def start(self):
        for each in self.managers:
            each.launch()
        for each in self.managers:
            each.ready()
        self.leader()
        return self

    def leader(self, *, but=None):
        """Return the manager that leads, once one of the others does."""

        def leading():
            return next((each for each in self.managers if each is not but and _leads(each)), None)

        return wait_until(leading, seconds=STARTS_WITHIN_S, what="an offset manager leads")

    def lose(self, kinds):
        """Kill or pause what is named, and return it."""
        found = {}
        if "etcd leader" in kinds:
            found["etcd leader"] = wait_until(self.etcd.leader, seconds=STARTS_WITHIN_S, what="etcd has a leader")
        leader = self.leader()
        found |= {kind: leader for kind in kinds if kind != "etcd leader"}
        for kind, each in found.items():
            each.process.pause() if kind == "paused leader" else each.process.kill()
        return found

    def bring_back(self, lost):
        """Start again what was killed, and wait until somebody leads."""
        for kind, each in lost.items():
            if kind == "paused leader":
                self.leader(but=each)
                time.sleep(LED_S)
                each.process.resume()
            elif kind == "etcd leader":
                self.etcd.restart(each)
            else:
                each.start()
        self.leader()

    def handed_over(self):
        """Wait until etcd has all that any journal has."""
        for each in self.managers:
            wait_until(
                lambda each=each: each.get("/v1/manager").body["dirtyKeys"] == 0,
                seconds=STARTS_WITHIN_S,
                what=f"the journal of {each.name} has nothing left to hand over",
            )

    def stop(self):
        for each in self.managers:
            if each.process is not None and each.process.running:
                each.process.kill()


def _leads(manager):
    if not manager.process.active:
        return False
    with contextlib.suppress(OSError):
        return manager.leads()
    return False


@contextlib.contextmanager
def stormy_managers(folder, *, managers=2, write_through="strict-*"):
    with running_etcd(folder / "etcd", members=3) as etcd:
        group = StormyManagers(etcd, folder, managers=managers, write_through=write_through)
        try:
            yield group.start()
        finally:
            group.stop()


async def commit_while_killing(group, kinds, seconds, seed, *, requests=None, local_groups=LOCAL_GROUPS):
    """Let clients commit for so long at least, while these are killed one after the other; return what was seen.

    `requests` says how often which kind is requested of the groups that are written through.
    """
    chance = random.Random(seed)
    histories = [GroupHistory(f"strict-{number}", kinds=requests) for number in range(STRICT_GROUPS)]
    histories += [GroupHistory(f"local-{number}", kinds={COMMIT: 1}) for number in range(local_groups)]
    ports = [each.port for each in group.managers]
    clients = [
        RestlessCommitter(f"{history.group}-client{number}", history, ports, chance)
        for history in histories
        for number in range(CLIENTS_OF_GROUP)
    ]
    storm = CommitStorm(histories, seed)
    stopping = asyncio.Event()
    began_s = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for each in clients:
            tasks.create_task(each.live(stopping))
        try:
            for kind in kinds:
                await asyncio.sleep(chance.uniform(*CALM_S))
                lost = await asyncio.to_thread(group.lose, kind.split(", "))
                storm.kills += lost
                await asyncio.sleep(chance.uniform(*AWAY_S))
                await asyncio.to_thread(group.bring_back, lost)
            await asyncio.sleep(max(LED_S, began_s + seconds - time.perf_counter()))
        finally:
            stopping.set()
    storm.seconds = time.perf_counter() - began_s
    await asyncio.to_thread(group.handed_over)
    for each in clients[::CLIENTS_OF_GROUP]:
        await read_until_answered(each, seconds=STARTS_WITHIN_S)
    return storm
