"""Runs histories: `python -m offset_fuzz.run FIRST COUNT`."""

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from offset_fuzz.world import Violation, World
from offsets.repair.events import OffsetsLost, OffsetsRepaired, RepairRows


def main():
    first, count = int(sys.argv[1]), int(sys.argv[2])
    began, seen, bad = time.time(), Counter(), []
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory() as folder:
            world = World(seed, Path(folder))
            try:
                world.run()
            except Violation as error:
                bad.append(seed)
                print(error)
            seen["writes"] += world.writes
            seen["raises"] += world.raises
            for manager in world.managers:
                for event in manager.told:
                    seen[type(event).__name__] += 1
                    if isinstance(event, RepairRows):
                        seen.update(f"{queue.outcome.value}: {queue.why}"[:90] for queue in event.of.queues)
                    if isinstance(event, OffsetsLost | OffsetsRepaired):
                        for name in ("right", "pushed", "set_back", "would_change", "not_proved", "failed"):
                            seen[name] += getattr(event, name)
                        if event.problem:
                            seen[event.problem[:60]] += 1
    for what, times in seen.most_common():
        print(times, what)
    print("violations", bad, f"{time.time() - began:.1f} s")


if __name__ == "__main__":
    main()
