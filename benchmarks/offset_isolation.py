"""Whether elections and leases stay as quick while an offset manager with an etcd of its own takes commits.

    python benchmarks/offset_isolation.py                  (about 12 minutes, into benchmarks/CONTROLLER.md)
    python benchmarks/offset_isolation.py --seconds 20     (prints only)
    python benchmarks/offset_isolation.py --shared-disk    (the etcd of the elections on the same disk, prints only)
    python benchmarks/offset_isolation.py --shared-cores   (all processes on all cores, prints only)

Three controllers on one etcd have broker sets of two scripted brokers that send heartbeats. A probe lets them elect by
turns and report the SyncStateSet, and renews leases in the same etcd as the controllers do: first while nothing else
runs, then while clients in a process of their own commit. The manager, its local file and its etcd are on the disk of
`--folder`; the etcd of the elections is in memory, as if on a disk of its own. The elections have the first half of the
cores, and the clients, the manager and its etcd the other one, as if on hosts of their own.
"""

import argparse
import base64
import contextlib
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

from commit_load import SeenLoad, add_load_options
from controller_results import keep, row, table
from offset_commits import answered_ms, busiest, cpu_seconds, free_port, load, started
from servers import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tests"))
sys.path.insert(0, str(REPOSITORY))

from peers.controllers import OurController, leader_of
from peers.etcd import Etcd
from peers.replicas import ELECT_MASTER, Replica
from peers.waiting import wait_until

from remoting.clock import SystemClock
from store.etcd.calls import grant_lease, renew_lease
from store.etcd.client import EtcdClient, EtcdOptions
from store.etcd.lease_state_machine import LEASE_TTL_S
from store.store import StoreError

MINUTES_10_S = 600
IDLE_S = 60
RATE = 30_000
GOAL_RATIO = 1.2
#: Of the commits that are due: clients do not end at the same moment.
DONE_SHARE = 0.99
CONTROLLERS = 3
SETS = 10
#: Between two elections, and between two renewals of each of the leases.
ELECT_EVERY_S = 0.05
RENEW_EVERY_S = 0.5
LEASES = 10
_RENEWAL_MS = 4_000


@dataclass
class ProbeTimes:
    """How long each kind of request has taken, in seconds, and what was lost meanwhile."""

    elections: list[float] = field(default_factory=list)
    reports: list[float] = field(default_factory=list)
    renewals: list[float] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


class ElectionProbe(threading.Thread):
    """Lets sets elect by turns: the other broker is designated, and then reports both as in sync."""

    def __init__(self, sets: list[list[Replica]], times: ProbeTimes, stop: threading.Event) -> None:
        super().__init__()
        self._sets = cycle(sets)
        self._times, self._stopping = times, stop

    def run(self) -> None:
        """Elect until it is stopped."""
        while not self._stopping.wait(ELECT_EVERY_S):
            brokers = next(self._sets)
            try:
                self._elect(brokers)
            except (OSError, AssertionError) as error:
                self._times.lost.append(f"an election: {error!r}")
            brokers.reverse()

    def _elect(self, brokers: list[Replica]) -> None:
        elected = brokers[0]
        began_s = time.perf_counter()
        answer = elected.request_for_set(ELECT_MASTER, brokerId=elected.broker_id, designateElect=True)
        elected_s = time.perf_counter()
        assert answer.code == 0, answer
        epochs = {
            "master_epoch": answer.fields["masterEpoch"],
            "sync_state_set_epoch": int(answer.fields["syncStateSetEpoch"]),
        }
        reported = elected.report([each.broker_id for each in brokers], **epochs)
        reported_s = time.perf_counter()
        assert reported.code == 0, reported
        self._times.elections.append(elected_s - began_s)
        self._times.reports.append(reported_s - elected_s)


class LeaseProbe(threading.Thread):
    """Renews leases of a controller's length, and gets a new one for each that is lost."""

    def __init__(self, endpoints: tuple[str, ...], times: ProbeTimes, stop: threading.Event) -> None:
        super().__init__()
        self._clock = SystemClock()
        self._client = EtcdClient(EtcdOptions(endpoints=endpoints), self._clock)
        self._times, self._stopping = times, stop

    def run(self) -> None:
        """Renew until it is stopped."""
        leases = [self._granted() for _ in range(LEASES)]
        place = 0
        while not self._stopping.wait(RENEW_EVERY_S / LEASES):
            began_s = time.perf_counter()
            try:
                left_s = self._client.request(renew_lease(leases[place]), deadline_ms=self._deadline_ms())
            except StoreError as error:
                self._times.lost.append(f"a renewal: {error}")
                continue
            self._times.renewals.append(time.perf_counter() - began_s)
            if left_s == 0:
                self._times.lost.append("a lease of the probe")
                leases[place] = self._granted()
            place = (place + 1) % LEASES
        self._client.close()

    def _granted(self) -> int:
        lease_id, _ = self._client.request(grant_lease(LEASE_TTL_S), deadline_ms=self._deadline_ms())
        return lease_id

    def _deadline_ms(self) -> int:
        return self._clock.now_ms() + _RENEWAL_MS


class ElectionSite:
    """Three controllers on an etcd, and their broker sets."""

    def __init__(self, folder: Path, *, on_disk: bool) -> None:
        self.etcd = Etcd(folder / "etcd", on_disk=on_disk)
        self.sets: list[list[Replica]] = []
        endpoints = ";".join(self.etcd.endpoints)
        self.controllers = [
            OurController(folder, f"c{n}", controllerId=f"c{n}", controllerStore="etcd", etcdEndpoints=endpoints)
            for n in range(CONTROLLERS)
        ]

    def start(self) -> None:
        """Start everything, and let the first broker of each set lead."""
        self.etcd.start()
        for each in self.controllers:
            each.launch()
        for each in self.controllers:
            each.ready()
        leader = wait_until(lambda: leader_of(self.controllers), seconds=60, what="a controller leads")
        self.sets = [[Replica(leader.address, f"broker-{n}").join() for _ in range(2)] for n in range(SETS)]
        for brokers in self.sets:
            first = brokers[0]
            assert first.elect().code == 0
            assert first.report([each.broker_id for each in brokers], master_epoch=1, sync_state_set_epoch=1).code == 0
            # The probe lets the first one be elected.
            brokers.reverse()

    @contextlib.contextmanager
    def probing(self) -> Iterator[ProbeTimes]:
        """Measure until the `with` ends."""
        times, stop = ProbeTimes(), threading.Event()
        probes = [ElectionProbe(self.sets, times, stop), LeaseProbe(self.etcd.endpoints, times, stop)]
        before = leader_keys(self.etcd)
        for each in probes:
            each.start()
        try:
            yield times
        finally:
            stop.set()
            for each in probes:
                each.join()
        if leader_keys(self.etcd) != before:
            times.lost.append("the lead of the controllers")

    def close(self) -> None:
        """End all."""
        for each in (broker for brokers in self.sets for broker in brokers):
            each.die()
        for controller in self.controllers:
            if controller.process is not None:
                controller.process.stop()
        self.etcd.stop()


def leader_keys(etcd: Etcd) -> dict[bytes, int]:
    """Return when each key of a leader was made, by its name: it lives as long as the leader's lease."""
    found = json.loads(etcd.ctl("get", "", "--prefix", "-w", "json").stdout)
    made = {base64.b64decode(each["key"]): each["create_revision"] for each in found.get("kvs", ())}
    return {name: revision for name, revision in made.items() if name.endswith(b"/leader")}


@dataclass
class LoadFigures:
    """What came of the commits."""

    seen: SeenLoad
    #: Of the manager's threads, the busiest first, in seconds.
    threads_s: list[float]
    #: Of the manager's etcd, and of that of the elections.
    etcds_s: tuple[float, float]
    times: ProbeTimes


@contextlib.contextmanager
def on(cores: Sequence[int]) -> Iterator[None]:
    """Begin processes and threads on these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def halves(options: argparse.Namespace) -> tuple[list[int], list[int]]:
    """Return the cores of the elections, and those of the commits."""
    cores = sorted(os.sched_getaffinity(0))
    half = len(cores) // 2
    return (cores, cores) if options.shared_cores or not half else (cores[:half], cores[half:])


def loaded(site: ElectionSite, folder: Path, options: argparse.Namespace) -> LoadFigures:
    """Let clients commit to a manager with an etcd of its own, and measure meanwhile."""
    etcd = Etcd(folder / "offsets-etcd", on_disk=True)
    port = free_port()
    manager = None
    elections_cores, own_cores = halves(options)
    try:
        with on(own_cores):
            etcds = [each.members[0].process.pid for each in (etcd.start(), site.etcd)]
            etcd_options = ["--store", "etcd", "--etcd-endpoints", etcd.endpoints[0]]
            manager = started(folder / "manager", port, [*etcd_options, "--advertised-address", f"127.0.0.1:{port}"])
        keys = leader_keys(etcd)
        threads, before = cpu_seconds(manager.pid), [sum(cpu_seconds(each).values()) for each in etcds]
        with on(elections_cores), site.probing() as times, on(own_cores):
            seen = load(port, options)
        after = [sum(cpu_seconds(each).values()) for each in etcds]
        if leader_keys(etcd) != keys:
            times.lost.append("the lead of the offset manager")
        own_s, elections_s = (now - then for now, then in zip(after, before, strict=True))
        return LoadFigures(seen, busiest(threads, cpu_seconds(manager.pid)), (own_s, elections_s), times)
    finally:
        if manager is not None:
            manager.terminate()
            manager.wait()
        etcd.stop()


def measured(options: argparse.Namespace) -> Iterator[str]:
    """Yield the lines of the part."""
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        folder = Path(temporary)
        site = ElectionSite(folder, on_disk=options.shared_disk)
        try:
            with on(halves(options)[0]):
                site.start()
                with site.probing() as idle:
                    time.sleep(min(IDLE_S, options.seconds))
            figures = loaded(site, folder, options)
        finally:
            site.close()
    yield from _figures(idle, figures, options)


def _figures(idle: ProbeTimes, figures: LoadFigures, options: argparse.Namespace) -> Iterator[str]:
    seen, times = figures.seen, figures.times
    where = "on the same disk" if options.shared_disk else "in memory, as if on a disk of its own"
    yield (
        f"{options.rate:,} commits a second in batches of {options.batch} of {options.clients} clients to "
        f"{options.keys:,} queues for {options.seconds} s.\nThe manager, its local file and its etcd are on one "
        f"disk, the etcd of the elections is {where}.\n{_shared(options)}\n"
        f"Goal: the p99 of elections and leases <= {GOAL_RATIO} times that of idle, no lease lost."
    )
    yield ""
    yield from table("ms", "idle: p50", "p99", "number", "under load: p50", "p99", "number", "p99 / idle")
    ratios = []
    for what in ("elections", "reports", "renewals"):
        before, during = sorted(getattr(idle, what)), sorted(getattr(times, what))
        ratios.append(_at(during, 0.99) / _at(before, 0.99))
        cells = [
            cell for each in (before, during) for cell in (f"{_at(each, 0.5):.1f}", f"{_at(each, 0.99):.1f}", len(each))
        ]
        yield row(_WORDS[what], *cells, f"**{ratios[-1]:.2f}**")
    yield ""
    yield from table(
        "commits a second",
        "answers, ms: p50",
        "p99",
        "refused",
        "manager: threads",
        "its etcd",
        "etcd of the elections",
    )
    rate = seen.commits / seen.wall_s
    shares = [f"{each / seen.wall_s:.0%}" for each in (*figures.threads_s[:3], *figures.etcds_s)]
    answers = (f"{answered_ms(seen, 0.5):.1f}", f"{answered_ms(seen, 0.99):.1f}")
    yield row(f"**{rate:,.0f}**", *answers, seen.refused + seen.not_stored, ", ".join(shares[:3]), *shares[3:])
    yield ""
    lost = [*(f"idle: {each}" for each in idle.lost), *times.lost]
    is_reached = max(ratios) <= GOAL_RATIO and rate >= DONE_SHARE * options.rate and not lost and not seen.refused
    yield f"Lost: {'; '.join(lost) or 'nothing'}. Reached: **{'yes' if is_reached else 'no'}**."


def _shared(options: argparse.Namespace) -> str:
    elections, own = halves(options)
    if elections == own:
        return f"Brokers, clients, controllers, both etcds and the manager share {len(own)} cores."
    return (
        f"The elections, their brokers and their etcd have {len(elections)} of the cores; the clients, the manager and "
        f"its etcd share {len(own)}."
    )


_WORDS = {
    "elections": "an election, as requested of a controller",
    "reports": "a SyncStateSet, as reported to a controller",
    "renewals": "the renewal of a lease",
}


def _at(times: list[float], share: float) -> float:
    return 1000 * times[int(len(times) * share)]


def main() -> None:
    """Measure and keep, or only print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_load_options(parser, seconds=MINUTES_10_S, rate=RATE)
    parser.add_argument("--folder", type=Path, help="on the disk of the manager and its etcd")
    parser.add_argument("--shared-cores", action="store_true", help="let all processes run on all cores")
    parser.add_argument("--shared-disk", action="store_true", help="put the etcd of the elections there too")
    options = parser.parse_args()
    if options.seconds < MINUTES_10_S or options.shared_disk or options.shared_cores:
        print("\n".join(measured(options)))
    else:
        keep("offset_commits", "make bench-offset-isolation", measured(options))


if __name__ == "__main__":
    main()
