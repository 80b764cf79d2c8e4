"""How many simulated histories of the controller this machine runs a minute: `python benchmarks/histories.py [count]`.

One process on each core; what is told is the time that each of them computed, so that other load does not count.
"""

import gc
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "tests")]

from simulation.faults import history_of  # noqa: E402  # found through the path above
from simulation.world import World  # noqa: E402  # as above

COUNT_DEFAULT = 3_000


class Ran(NamedTuple):
    """What one process did."""

    seconds: float
    events: int
    elections: int
    virtual_ms: int


def run(seeds: range) -> Ran:
    """Run histories."""
    gc.set_threshold(50_000, 20, 100)  # as the servers do
    events = elections = virtual_ms = 0
    began_s = time.process_time()
    for seed in seeds:
        world = World(*history_of(seed))
        world.run()
        events += world.events
        elections += world.elections
        virtual_ms += world.now_ms
    return Ran(time.process_time() - began_s, events, elections, virtual_ms)


def main(count: int) -> None:
    """Run histories and print their rate."""
    cores = os.cpu_count() or 1
    began_s = time.perf_counter()
    with ProcessPoolExecutor(cores) as pool:
        ran = list(pool.map(run, [range(i, count, cores) for i in range(cores)]))
    took_s = time.perf_counter() - began_s
    rate = sum(60 * len(range(i, count, cores)) / each.seconds for i, each in enumerate(ran))
    print(f"{count} histories: {rate:.0f} a minute of {cores} cores; {60 * count / took_s:.0f} a minute by the clock")
    events, elections, virtual_ms = (sum(each[i] for each in ran) / count for i in (1, 2, 3))
    print(f"{events:.0f} events, {elections:.1f} elections and {virtual_ms / 1000:.0f} simulated seconds in each")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else COUNT_DEFAULT)
