"""Resizes under load with clients as they come: how long each phase takes, and why; prints, and keeps it.

    make bench-resizes                             (about an hour, into benchmarks/CONTROLLER.md)
    python benchmarks/resizes.py --only static

Brokers are Java 5.5.0. Clients query routes each 30 s, send heartbeats each 30 s, share out queues each 20 s and store
offsets each 5 s; the waits of the resizes are the defaults. No tool of RocketMQ resizes topics in use, so there is no
peer.

* `resize_static`: two sets, each with a slave, which copies topics once a minute: a topic grows from 4 to 8 queues,
  another one shrinks from 8 to 4 at the same time.
* `resize_managed`: the same with a controller that elects masters.
* `resize_ten`: ten topics at once, five up and five down, while the controller is killed again and again.
* `ramp`: producers go from 100 to 1,000 messages a second in five minutes, more consumers come than there are queues,
  and the autoscaler decides.
* `ramp_slow`: the same ramp with listeners that are too slow, each of which has a queue.
"""

import argparse
import contextlib
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from controller_results import keep, row, table
from ramps import ramp_part, slow_part
from repeated_kills import RepeatedKills
from scaling_site import Operation, Site, ended_after_s, group_of

CONSUMERS = 3
#: Clients know their queues by then, and each of their timers has run once.
STEADY_S = 40
FEW, MANY = 4, 8
GOAL_MANAGED_S, GOAL_STATIC_S = 90, 200
EVIDENCE_MAX = 3
KILLED_EACH_S = (30.0, 90.0)


def in_use(site: Site, topic: str, queues: int) -> str:
    """Make a topic with consumers and a producer; return the group."""
    site.make_topic(topic, queues)
    for number in range(CONSUMERS):
        site.consume(topic, name=f"{topic}-reader-{number}")
    site.send(topic, name=f"{topic}-producer")
    return group_of(topic)


def both_ways(site: Site, goal_s: int) -> Iterator[str]:
    """Grow a topic and shrink another one at the same time; yield the lines of the part."""
    groups = [in_use(site, "Grown", FEW), in_use(site, "Shrunk", MANY)]
    time.sleep(STEADY_S)
    grown, shrunk = site.done([site.resize("Grown", MANY), site.resize("Shrunk", FEW)])
    verified_s = ended_after_s(grown, "WRITE_UP")
    yield (
        f"Grow of {FEW} to {MANY}: write queues verified on all brokers and NameServers after **{verified_s:.0f} s** "
        f"(goal: {goal_s} s, reached: {'yes' if verified_s <= goal_s else '**no**'}), DONE after "
        f"{ended_after_s(grown):.0f} s."
    )
    yield ""
    yield from phases_table(grown)
    yield f"Shrink of {MANY} to {FEW}: DONE after **{ended_after_s(shrunk):.0f} s**."
    yield ""
    yield from phases_table(shrunk)
    yield f"{site.end_of_traffic(groups)}."


def phases_table(operation: Operation) -> Iterator[str]:
    """Yield each phase with its time, and what was seen at its end."""
    yield from table("phase", "s", "seen at its end")
    for step in operation["steps"]:
        took_s = (step["endedUnixMs"] - step["beganUnixMs"]) / 1000
        yield row(step["phase"], f"{took_s:.1f}", "; ".join(step["evidence"][:EVIDENCE_MAX]) or "-")
    yield ""


def static_part(folder: Path) -> Iterator[str]:
    """Yield the lines of the part with static sets."""
    with contextlib.closing(Site(folder)) as site:
        yield from both_ways(site, GOAL_STATIC_S)


def managed_part(folder: Path) -> Iterator[str]:
    """Yield the lines of the part in which the controller elects masters."""
    with contextlib.closing(Site(folder, managed=True)) as site:
        yield from both_ways(site, GOAL_MANAGED_S)


def ten_part(folder: Path) -> Iterator[str]:
    """Yield the lines of the part in which ten topics are resized at once."""
    with contextlib.closing(Site(folder, slaves=False)) as site:
        before = {f"Topic-{number}": FEW if number % 2 else MANY for number in range(10)}
        groups = [in_use(site, topic, queues) for topic, queues in before.items()]
        time.sleep(STEADY_S)
        ids = [site.resize(topic, FEW + MANY - queues) for topic, queues in before.items()]
        with RepeatedKills([site.controller], random.SystemRandom(), between_s=KILLED_EACH_S) as kills:
            done = site.done(ids)
        yield f"{len(done)} resizes at once are DONE, {kills.count} kills of the controller."
        yield ""
        yield from table("resizes", "median, s", "longest, s", "blocked or in conflict")
        for kind in ("grow", "shrink"):
            took = [ended_after_s(each) for each in done if each["kind"] == kind]
            yield row(f"{len(took)} x {kind}", f"{median(took):.0f}", f"{max(took):.0f}", 0)
        yield ""
        yield f"{site.end_of_traffic(groups)}."


PARTS = {
    "resize_static": static_part,
    "resize_managed": managed_part,
    "resize_ten": ten_part,
    "ramp": ramp_part,
    "ramp_slow": slow_part,
}


def main() -> None:
    """Measure, print, and keep each part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[*PARTS], help="one part; may be given several times")
    options = parser.parse_args()
    # Told to stop, it ends what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    for part in options.only or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            keep(part, "make bench-resizes", PARTS[part](Path(folder)))


if __name__ == "__main__":
    main()
