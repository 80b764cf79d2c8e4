"""Compares the route path of this NameServer with that of another commit, so that a change is known to cost nothing.

    make bench-former FORMER=REVISION         (about three minutes, prints only)

Both servers run and are warm before the first pair; each pair loads one after the other, and every second pair begins
with the other one, so that neither gains by its turn.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median

from load import TOPIC, frames, held, run, warm
from rows import ONE_BROKER
from servers import Stolen, checkout, ours

PAIRS = 10
SECONDS = 4.0
LEAST_RATIO = 0.98


def main() -> None:
    """Measure and print each pair and the median of their ratios; exit with 1 if it is below LEAST_RATIO."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("former", help="the other commit; it is checked out, and gets an environment of its own")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    options = parser.parse_args()
    work = ONE_BROKER[0]
    shape = {"connections": work.connections, "depth": work.depth}
    pairs: list[tuple[float, float]] = []
    with (
        tempfile.TemporaryDirectory() as name,
        checkout(options.former) as former,
        Stolen() as stolen,
        ours(Path(name)) as new,
        ours(Path(name), checkout=former) as old,
    ):
        folder = Path(name)
        registered = frames(folder, "register", "--brokers", 1, "--topics", 100)
        query = frames(folder, "route", TOPIC)
        with held(new, registered), held(old, registered):
            warm(new, query, **shape)
            warm(old, query, **shape)
            for number in range(options.pairs):
                rates = {}
                for server in (new, old) if number % 2 == 0 else (old, new):
                    rates[server.name] = run(server, query, seconds=SECONDS, **shape).qps
                pairs.append((rates["ours"], rates["former"]))
                ours_qps, former_qps = pairs[-1]
                print(f"pair {number + 1}: {ours_qps:,.0f}/s, former {former_qps:,.0f}/s: {ours_qps / former_qps:.3f}")
    ratio = median(ours_qps / former_qps for ours_qps, former_qps in pairs)
    ours_qps, former_qps = (median(each) for each in zip(*pairs, strict=True))
    print(f"row 1, {work.text}; medians of {len(pairs)} pairs: {ours_qps:,.0f}/s, former {former_qps:,.0f}/s;")
    print(f"ratio {ratio:.3f} (at least {LEAST_RATIO}); the host took {stolen.percent:.1f} %")
    sys.exit(ratio < LEAST_RATIO)


if __name__ == "__main__":
    main()
