"""Compares this NameServer with that of another commit, so that a change is known to cost nothing.

    make bench-former FORMER=REVISION         (rows 1 to 5 of the table; about 20 minutes, prints only)

Both servers run and are warm before the first pair; each pair loads one after the other, and every second pair begins
with the other one, so that neither gains by its turn.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from load import frames, held, run, warm
from rows import MANY_BROKERS, ONE_BROKER, REGISTRATIONS, query_of, registrations_of
from servers import Server, Stolen, checkout, ours

PAIRS = 10
SECONDS = 4.0
LEAST_RATIO = 0.97


class Load(NamedTuple):
    """What both servers are asked over and over."""

    number: str
    text: str
    frames: Path
    connections: int
    depth: int = 1


def main() -> None:
    """Measure and print each pair and the medians of their ratios; exit with 1 if one is below LEAST_RATIO."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("former", help="the other commit; it is checked out, and gets an environment of its own")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--only", default="", help="the number of the row that is compared")
    options = parser.parse_args()
    ratios = []
    with tempfile.TemporaryDirectory() as name, checkout(options.former) as former, Stolen() as stolen:
        folder = Path(name)
        for brokers, loads in (*routes(folder), (1, [*registrations(folder)])):
            wanted = [load for load in loads if options.only in ("", load.number)]
            if not wanted:
                continue
            registered = frames(folder, "register", "--brokers", brokers, "--topics", 100)
            with (
                ours(folder) as new,
                ours(folder, checkout=former) as old,
                held(new, registered),
                held(old, registered),
            ):
                ratios += [compared(load, new, old, options.pairs) for load in wanted]
    print(f"the host took {stolen.percent:.1f} %")
    sys.exit(min(ratios) < LEAST_RATIO)


def routes(folder: Path) -> Iterator[tuple[int, list[Load]]]:
    """Yield the numbers of brokers that hold the topic, each with the queries for it."""
    for brokers, works in ((1, ONE_BROKER), (65, MANY_BROKERS)):
        yield (
            brokers,
            [Load(work.number, work.text, query_of(folder, work), work.connections, work.depth) for work in works],
        )


def registrations(folder: Path) -> Iterator[Load]:
    """Yield the large registrations."""
    for number, text, change, connections, _ in REGISTRATIONS:
        yield Load(number, text, registrations_of(folder, change), connections)


def compared(load: Load, new: Server, old: Server, count: int) -> float:
    """Load both servers in turns, print what they answered, and return the median ratio."""
    shape = {"connections": load.connections, "depth": load.depth}
    warm(new, load.frames, **shape)
    warm(old, load.frames, **shape)
    pairs: list[tuple[float, float]] = []
    for number in range(count):
        rates = {}
        for server in (new, old) if number % 2 == 0 else (old, new):
            rates[server.name] = run(server, load.frames, seconds=SECONDS, **shape).qps
        pairs.append((rates["ours"], rates["former"]))
    ratio = median(ours_qps / former_qps for ours_qps, former_qps in pairs)
    ours_qps, former_qps = (median(rates) for rates in zip(*pairs, strict=True))
    print(f"row {load.number}, {load.text}; medians of {count} pairs: {ours_qps:,.0f}/s, former {former_qps:,.0f}/s;")
    print(f"ratio {ratio:.3f} (at least {LEAST_RATIO})", flush=True)
    return ratio


if __name__ == "__main__":
    main()
