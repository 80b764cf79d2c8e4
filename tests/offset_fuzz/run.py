"""Runs histories, and says what repairs did in them: `python -m offset_fuzz.run FIRST COUNT`."""

import sys
import tempfile
from collections import Counter
from pathlib import Path

from offset_fuzz.world import Violation, World
from offsets.repair.runs import RepairRows


def main():
    first, count = int(sys.argv[1]), int(sys.argv[2])
    seen, bad = Counter(), []
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory() as folder:
            world = World(seed, Path(folder))
            try:
                world.run()
            except Violation as error:
                bad.append(seed)
                sys.stdout.write(f"{error}\n")
            seen.update(histories=1, writes=world.writes, raises=world.raises)
            for event in (event for manager in world.managers for event in manager.told):
                seen[type(event).__name__] += 1
                if isinstance(event, RepairRows):
                    seen.update(f"{queue.outcome.value}: {queue.why}"[:90] for queue in event.of.queues)
    for what, times in seen.most_common():
        sys.stdout.write(f"{times} {what}\n")
    sys.stdout.write(f"violations {bad}\n")


if __name__ == "__main__":
    main()
