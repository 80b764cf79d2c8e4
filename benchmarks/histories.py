"""How many simulated histories of the controller one core runs a minute: `python benchmarks/histories.py [count]`."""

import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "tests")]

from simulation.faults import history_of  # noqa: E402  # found through the path above
from simulation.world import World  # noqa: E402  # as above

COUNT_DEFAULT = 3_000


def main(count: int) -> None:
    """Run histories and print their rate."""
    events = elections = 0
    began_s = time.process_time()
    for seed in range(count):
        world = World(*history_of(seed))
        world.run()
        events += world.events
        elections += world.elections
    took_s = time.process_time() - began_s
    print(f"{count} histories in {took_s:.1f} s of one core: {60 * count / took_s:.0f} a minute")
    print(f"{events / count:.0f} events and {elections / count:.1f} elections in each")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else COUNT_DEFAULT)
