"""Compares the route path of this NameServer with that of another commit, so that a change is known to cost nothing.

    make bench-former FORMER=REVISION         (rows 1 to 3 of the table; about ten minutes, prints only)

Both servers run and are warm before the first pair; each pair loads one after the other, and every second pair begins
with the other one, so that neither gains by its turn.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median

from load import TOPIC, frames, held, run, warm
from rows import MANY_BROKERS, ONE_BROKER, Work
from servers import Server, Stolen, checkout, ours

PAIRS = 10
SECONDS = 4.0
LEAST_RATIO = 0.97


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
        for brokers, rows in ((1, ONE_BROKER), (65, MANY_BROKERS)):
            works = [work for work in rows if options.only in ("", work.number)]
            registered = frames(folder, "register", "--brokers", brokers, "--topics", 100)
            with (
                ours(folder) as new,
                ours(folder, checkout=former) as old,
                held(new, registered),
                held(old, registered),
            ):
                ratios += [compared(work, new, old, folder, options.pairs) for work in works]
    print(f"the host took {stolen.percent:.1f} %")
    sys.exit(min(ratios) < LEAST_RATIO)


def compared(work: Work, new: Server, old: Server, folder: Path, count: int) -> float:
    """Load both servers in turns, print what they answered, and return the median ratio."""
    shape = {"connections": work.connections, "depth": work.depth}
    query = frames(folder, "route", TOPIC, *(["--binary"] if work.binary else []))
    warm(new, query, **shape)
    warm(old, query, **shape)
    pairs: list[tuple[float, float]] = []
    for number in range(count):
        rates = {}
        for server in (new, old) if number % 2 == 0 else (old, new):
            rates[server.name] = run(server, query, seconds=SECONDS, **shape).qps
        pairs.append((rates["ours"], rates["former"]))
    ratio = median(ours_qps / former_qps for ours_qps, former_qps in pairs)
    ours_qps, former_qps = (median(rates) for rates in zip(*pairs, strict=True))
    print(f"row {work.number}, {work.text}; medians of {count} pairs: {ours_qps:,.0f}/s, former {former_qps:,.0f}/s;")
    print(f"ratio {ratio:.3f} (at least {LEAST_RATIO})", flush=True)
    return ratio


if __name__ == "__main__":
    main()
