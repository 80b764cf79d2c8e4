"""Measures how many offsets are acknowledged a second, and what the event loop waits for meanwhile.

    python benchmarks/offset_journal.py [--seconds 10] [--callers 20] [--batch 100] [--keys 10000] [--folder DIR]
                                        [--journal-only] [--etcd host:port]

Callers commit batches one after the other, each to keys of its own, and wait for each acknowledgement. Printed: commits
a second, the times of acknowledgements, CPU, the longest that the event loop was busy, and bytes written.
"""

import argparse
import asyncio
import resource
import tempfile
import time
from pathlib import Path

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.storage.embedded_remote import EmbeddedRemote
from controller.offsets.storage.journal import Journal
from controller.offsets.storage.remote import RemoteStore
from controller.offsets.storage.write_behind import WriteBehind
from controller.offsets.storage.write_behind_options import WriteBehindOptions
from controller.offsets.values import GroupTopic, OffsetSource, QueueKey, StoredOffset
from remoting.background_tasks import BackgroundTasks
from remoting.clock import SystemClock
from store.store import ControllerMember

QUEUES = 8
CLOCK = SystemClock()


class Lead:
    """Waits for the lead in etcd."""

    def __init__(self) -> None:
        self.is_ours = asyncio.Event()

    def leads(self, until_ms: int | None) -> None:  # noqa: ARG002  # as the store calls it
        """Go on."""
        self.is_ours.set()

    def follows(self, leader: ControllerMember | None) -> None:
        """Wait."""

    def put_back(self) -> None:
        """Nothing is restored here."""


def keys_of(caller: int, number: int) -> list[QueueKey]:
    """Return the keys of one caller, eight queues in each row."""
    rows = [GroupTopic("c", "", f"group-{caller}-{n}", "orders", "broker-a") for n in range(-(-number // QUEUES))]
    return [QueueKey(rows[n // QUEUES], n % QUEUES) for n in range(number)]


async def commit(store: WriteBehind | Journal, caller: int, options: argparse.Namespace, until_s: float) -> list[float]:
    """Commit until then, and return how long each acknowledgement took."""
    keys = keys_of(caller, options.keys // options.callers)
    writer, offset, at, took = f"10.0.0.{caller}@7", 0, 0, []
    while time.perf_counter() < until_s:
        offset += 1
        batch = []
        for _ in range(options.batch):
            at = (at + 1) % len(keys)
            stored = StoredOffset(offset, 0, OffsetSource.CLIENT, writer, 0, 1_800_000_000_000)
            batch.append(OffsetChange(keys[at], None, stored))
        begun_s = time.perf_counter()
        await store.record(batch)
        took.append(time.perf_counter() - begun_s)
    return took


async def longest_pause(until_s: float) -> float:
    """Return for how many seconds nothing else could run in the event loop, at most."""
    longest_s = 0.0
    while (begun_s := time.perf_counter()) < until_s:
        await asyncio.sleep(0.001)
        longest_s = max(longest_s, time.perf_counter() - begun_s - 0.001)
    return longest_s


async def opened_remote(options: argparse.Namespace, folder: Path) -> RemoteStore:
    """Return the remote store, once its manager leads."""
    if not options.etcd:
        return EmbeddedRemote(folder, CLOCK)
    from controller.offsets.storage.etcd_remote import EtcdRemote  # noqa: PLC0415  # it loads gRPC
    from store.etcd.client import EtcdOptions  # noqa: PLC0415

    lead, remote = Lead(), EtcdRemote(EtcdOptions(endpoints=(options.etcd,), group="bench"), CLOCK)
    remote.join(ControllerMember(id="m1", address="127.0.0.1:1"), lead)
    await lead.is_ours.wait()
    return remote


async def measured(options: argparse.Namespace, folder: Path) -> None:
    """Commit, and print what was measured."""
    journal = Journal(folder, CLOCK)
    remote = await opened_remote(options, folder)
    behind = WriteBehind(journal, remote, CLOCK, WriteBehindOptions())
    if not options.journal_only:
        behind.start(BackgroundTasks(lambda name, error: print(name, repr(error))))
        await behind.load()
    store = journal if options.journal_only else behind
    before, begun_s, cpu_s = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter(), time.process_time()
    until_s = begun_s + options.seconds
    work = (commit(store, caller, options, until_s) for caller in range(options.callers))
    *times, longest_s = await asyncio.gather(*work, longest_pause(until_s))
    seconds, cpu_s = time.perf_counter() - begun_s, time.process_time() - cpu_s
    written = resource.getrusage(resource.RUSAGE_SELF).ru_oublock - before.ru_oublock
    took = sorted(each for caller in times for each in caller)
    print(f"{len(took) * options.batch / seconds:,.0f} commits a second in batches of {options.batch}")
    median_ms, p99_ms = took[len(took) // 2] * 1000, took[-len(took) // 100] * 1000
    print(f"acknowledged within {median_ms:.1f} ms (median), {p99_ms:.1f} ms (p99)")
    print(f"{cpu_s / seconds:.2f} of a core, event loop busy for at most {longest_s * 1000:.1f} ms")
    print(f"{written * 512 / seconds / 1e6:.1f} MB written a second; dirty at the end: {len(journal.dirty)}")
    if not options.journal_only:
        begun_s = time.perf_counter()
        print(f"left: {await behind.stop(60)}, flushed within {time.perf_counter() - begun_s:.2f} s")
    await journal.close()
    await remote.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--callers", type=int, default=20)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--journal-only", action="store_true")
    parser.add_argument("--etcd", default="")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as temporary:
        asyncio.run(measured(arguments, Path(temporary)))
