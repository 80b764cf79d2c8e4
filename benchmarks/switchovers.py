"""Switchovers that producers as they come notice through a role address and HAProxy, for `benchmarks/CONTROLLER.md`.

    make bench-switchovers                                        (about 40 minutes)
    python benchmarks/switchovers.py --runs 5 --versions 5.5.0    (prints only, as it is not the full number)

Three producers send all the time. Two poll routes each 30 s, give up a send after 3 s and try twice more, with one
thread and with four: with several, a request may wait for its timeout although its connection has ended
(docs/role-addresses-switchover.md). One sends four keys in order, and its application sends a message again until it is
acknowledged. A pause is the longest time between two acknowledged messages of a producer around a switchover, a hold
what the controller counts. At the end all that was acknowledged is looked for in a scan of the whole topic.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from controller_results import keep, row, table
from servers import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tests" / "acceptance"))

from peers.clients import Load
from peers.jars import V5_1, V5_5
from peers.lab import Lab
from role_addressed import SET, acknowledged_too_late, first_acknowledged, longest_gap_s, now_ms
from switched import SwitchedSet, keeps_order, orders_of

RUNS = 50
#: The first seconds of a producer are those of its compiler.
STEADY_S = 4
#: How long sending is watched after it went on.
AFTER_S = 2
#: Goal in seconds.
PAUSE_S = 1.0


@dataclass
class Seen:
    """What one release of brokers and clients came to."""

    pauses_s: list[float] = field(default_factory=list)
    holds_s: list[float] = field(default_factory=list)
    not_done: list[str] = field(default_factory=list)
    too_late: int = 0
    failed: int = 0
    failed_of_threads: int = 0
    repeated: int = 0
    unread: int = 0
    acknowledged: int = 0
    keys_out_of_order: int = 0


def switchovers(version: str, runs: int) -> Seen:
    """Hand the role over so often."""
    seen = Seen()
    with tempfile.TemporaryDirectory() as name:
        lab = Lab(Path(name))
        site = SwitchedSet(lab, Path(name), version)
        try:
            site.start()
            loads = [site.load(), site.load("threads", threads=4), site.load("ordered", ordered=1, threads=4)]
            time.sleep(STEADY_S)
            for number in range(runs):
                # Spread over the interval between two heartbeats.
                time.sleep(AFTER_S + number / runs)
                _switch_over(site, loads, seen)
                site.brokers.wait_until_complete()
            for each in loads:
                each.stop()
            seen.failed, seen.failed_of_threads, seen.repeated = (len(each.failures()) for each in loads)
            _read(site, loads, seen)
        finally:
            lab.close()
            site.close()
    return seen


def _switch_over(site: SwitchedSet, loads: list[Load], seen: Seen) -> None:
    since_ms = now_ms()
    done = site.switch_over(reason="a benchmark")
    if done["phase"] != "DONE":
        seen.not_done.append(f"{done['phase']}: {done['problem']}")
        return
    old = site.brokers.by_id(done["oldMaster"])
    for each in loads:
        first_acknowledged(each, since_ms, not_by=old)
    time.sleep(AFTER_S)
    seen.too_late += sum(len(acknowledged_too_late(each, old, since_ms)) for each in loads)
    seen.pauses_s.append(max(longest_gap_s(each, since_ms) for each in loads))
    seen.holds_s.append(done["heldMs"] / 1000)
    phases = " ".join(f"{each['phase']} {each['lastedMs']}" for each in done["steps"])
    print(f"  pause {seen.pauses_s[-1]:.2f} s, hold {seen.holds_s[-1]:.2f} s: {phases}", file=sys.stderr, flush=True)


def _read(site: SwitchedSet, loads: list[Load], seen: Seen) -> None:
    acknowledged = {each.key for load in loads for each in load.acknowledged()}
    scan = site.lab.scan("scan", namesrv=[site.namesrv.address], topic=SET)
    stored: list[str] = []
    end = time.monotonic() + 120
    while not acknowledged <= set(stored) and time.monotonic() < end:
        stored = scan.keys(seconds=120) or []
    seen.unread, seen.acknowledged = len(acknowledged - set(stored)), len(acknowledged)
    orders = orders_of(key for key in stored if key.startswith(f"{loads[2].prefix}-"))
    seen.keys_out_of_order = sum(not keeps_order(numbers) for numbers in orders.values())


def part(versions: list[str], runs: int) -> Iterator[str]:
    """Yield the lines of the part."""
    yield (
        f"{runs} switchovers under three producers. Goal: no pause above {PAUSE_S} s, no failed send of one "
        "thread, nothing lost, keys in order,\nnothing acknowledged by the old master afterwards."
    )
    yield ""
    yield from table(
        "brokers, client", "pauses, s", "median", "worst", "hold, median", "not done", "failed sends",
        "of four threads", "ordered sends repeated", "late", "lost of acknowledged", "keys out of order", "reached",
    )  # fmt: skip
    for version in versions:
        seen = switchovers(version, runs)
        pauses = sorted(seen.pauses_s) or [0.0]
        bad = (seen.not_done, seen.failed, seen.too_late, seen.unread, seen.keys_out_of_order)
        yield row(
            version,
            " ".join(f"{each:.2f}" for each in pauses),
            f"**{median(pauses):.2f}**",
            f"{pauses[-1]:.2f}",
            f"{median(seen.holds_s or [0.0]):.2f}",
            "; ".join(seen.not_done) or "0",
            seen.failed,
            seen.failed_of_threads,
            seen.repeated,
            seen.too_late,
            f"{seen.unread} of {seen.acknowledged}",
            seen.keys_out_of_order,
            "yes" if pauses[-1] <= PAUSE_S and not any(bad) else "no",
        )


def main() -> None:
    """Measure and keep, or only print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--versions", nargs="+", default=[V5_5, V5_1])
    options = parser.parse_args()
    lines = part(options.versions, options.runs)
    if options.runs == RUNS and options.versions == [V5_5, V5_1]:
        keep("switchover", "make bench-switchovers", lines)
    else:
        print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
