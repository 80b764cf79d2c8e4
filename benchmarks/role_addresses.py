"""Failovers as clients as they come see them, of every way to find the next master, for `benchmarks/CONTROLLER.md`.

    make bench-role-addresses                                              (about 80 minutes)
    python benchmarks/role_addresses.py --ways haproxy --versions 5.5.0    (prints only, as it is not everything)
    python benchmarks/role_addresses.py --only kill --runs 1               (prints only)

A set of two Java brokers of each release acknowledges only what both have. On it a producer and a push consumer of each
release of clients run at the same time, so that each event is one of all four. They come as they are: they poll routes
each 30 s, give up a send after 3 s and try twice more, and repeat a failed pull after 3 s. A gap is the longest time
between two messages that a producer got acknowledged, or a consumer received, around the event. Without a role address
clients wait for their poll, so there are fewer events, spread over its interval. At the end of each set everything
acknowledged is looked for in a scan of the topic and at the consumers, and the tables are written with what is known
until then.
"""

import argparse
import math
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple

from controller_results import put, row, table
from failover_events import INTERVAL_MS, SLOW_EVENTS, SLOW_S, Clients, Failovers, Figures, Seen
from failover_ways import WAYS
from peers.jars import V4_9, V5_1, V5_5

RUNS = 20
#: Without a role address an event takes half a minute and more.
RUNS_WITHOUT = 3
BROKERS = [V5_5, V5_1]
CLIENTS = (V4_9, V5_5)
#: A set that does not come back within its time is left for a new one so often.
SETS_MAX = 3
KINDS = {
    "kill": "kill -9 of the master",
    "freeze": "SIGSTOP of the master until all clients go on with another one",
}


class Goal(NamedTuple):
    """Gaps in seconds."""

    median_s: float
    worst_s: float
    #: No send fails after the retries of its client.
    none_fails: bool


#: By kind of event and the first word of the client's title.
GOALS = {
    ("kill", "producer"): Goal(1.2, 2.0, none_fails=True),
    ("freeze", "producer"): Goal(3.5, 5.0, none_fails=False),
    ("kill", "push"): Goal(3.5, 7.0, none_fails=False),
    ("freeze", "push"): Goal(3.5, 7.0, none_fails=False),
}


@dataclass
class Measured:
    """What came of one way with one release of brokers."""

    way: str
    version: str
    seen: Seen
    #: Why events are not counted: the set did not come back.
    broken: list[str] = field(default_factory=list)


def measure(way: str, version: str, kinds: list[str], runs: int) -> Measured:
    """Kill and freeze the masters of a set so often; it lives for all events, unless it breaks."""
    measured = Measured(way, version, {kind: {} for kind in kinds})
    count = runs if WAYS[way].has_role_address else min(runs, RUNS_WITHOUT)
    left = {kind: [(number + 0.5) / count for number in range(count)] for kind in kinds}
    while any(left.values()) and len(measured.broken) < SETS_MAX:
        print(f"{way}, brokers {version}", file=sys.stderr, flush=True)
        try:
            _one_set(measured, left)
        except (AssertionError, OSError) as error:
            print(f"  the set broke: {error}", file=sys.stderr, flush=True)
            measured.broken.append(" ".join(str(error).split())[:200])
    return measured


def _one_set(measured: Measured, left: dict[str, list[float]]) -> None:
    way = WAYS[measured.way]
    with tempfile.TemporaryDirectory() as name, way.begin(Path(name), measured.version) as site:
        failovers = Failovers(way, site, Clients(site, CLIENTS), measured.seen)
        for kind, offsets in left.items():
            if offsets:
                failovers.run(kind, offsets)
        failovers.judge()


def section(kind: str, results: list[Measured]) -> Iterator[str]:
    """Yield the lines of a kind of event."""
    producer, push = GOALS[kind, "producer"], GOALS[kind, "push"]
    fails = ", no send fails" if producer.none_fails else ""
    yield (
        f"{KINDS[kind]}, each event seen by all four clients at once; each producer sends {INTERVAL_MS} ms after its "
        f"last answer.\nGoal with a role address: producers median <= {producer.median_s} s, worst <= "
        f"{producer.worst_s} s{fails}; push consumers median <= {push.median_s} s, worst <= {push.worst_s} s;\n"
        "nothing lost, nothing acknowledged by the old master after the next one had acknowledged some (late).\n"
        f"A consumer lost what was acknowledged and it did not receive. One that needed more than {SLOW_S} s "
        f"{SLOW_EVENTS} times is not watched in further events of its kind.\nWithout a role address there are at most "
        f"{RUNS_WITHOUT} events of a kind."
    )
    yield ""
    yield from table(
        "way", "brokers", "client", "gaps, s", "median", "worst", "until the set was complete", "failed sends", "late",
        "lost of acknowledged", "twice", "reached",
    )  # fmt: skip
    for each in results:
        for title, figures in each.seen[kind].items():
            yield _row(kind, each, title, figures)
    for each in results:
        for why in each.broken:
            yield ""
            where = f"{WAYS[each.way].title}, brokers {each.version}"
            yield f"{where}: a set broke; its last event is not counted, and its messages are not looked for: {why}"


def _row(kind: str, measured: Measured, title: str, figures: Figures) -> str:
    way, is_producer = WAYS[measured.way], title.startswith("producer")
    gaps = sorted(figures.gaps_s) or [math.nan]
    failed = ", ".join(f"{count} x {code}" for code, count in figures.failed.most_common()) or "0"
    return row(
        way.title,
        measured.version,
        title,
        " ".join(f"{gap_s:.2f}" for gap_s in gaps),
        f"**{median(gaps):.2f}**",
        f"{gaps[-1]:.2f}",
        f"{figures.until_complete_s:.2f}",
        failed if is_producer else "-",
        figures.late if is_producer else "-",
        f"{figures.lost} of {figures.acknowledged}",
        figures.repeated,
        _verdict(GOALS[kind, title.split(maxsplit=1)[0]], figures, measured) if way.has_role_address else "-",
    )


def _verdict(goal: Goal, figures: Figures, measured: Measured) -> str:
    gaps = figures.gaps_s
    quick = bool(gaps) and median(gaps) <= goal.median_s and max(gaps) <= goal.worst_s
    failed = goal.none_fails and figures.failed.total()
    return "yes" if quick and not any((failed, figures.lost, figures.late, measured.broken)) else "**no**"


def main() -> None:
    """Measure, and keep what is complete; a part of it is printed only."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--versions", nargs="+", default=BROKERS, help="releases of brokers")
    parser.add_argument("--only", choices=KINDS, help="one kind of event")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"events; without a role address at most {RUNS_WITHOUT}")
    options = parser.parse_args()
    # Told to stop, it ends what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    kinds = [options.only] if options.only else list(KINDS)
    is_full = (options.ways, options.versions, options.only, options.runs) == (list(WAYS), BROKERS, None, RUNS)
    results: list[Measured] = []
    for version in options.versions:
        for way in options.ways:
            results.append(measure(way, version, kinds, options.runs))
            for kind in kinds:
                if is_full:
                    put(f"role_{kind}", "make bench-role-addresses", section(kind, results))
    for kind in kinds:
        print("\n".join(section(kind, results)), "\n", flush=True)


if __name__ == "__main__":
    main()
