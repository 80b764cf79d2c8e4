"""What groups read twice, skip and get out of order when masters fail, with and without an offset manager.

    make bench-offset-failovers                                                  (about ten hours)
    python benchmarks/offset_failovers.py --only kill --at-once 3                (one part, three sets side by side)
    python benchmarks/offset_failovers.py --only tail --way act --kills 2        (prints only)

Parts: `kill`, `order` and `tail` kill the master of a set of two, `restart` a broker alone, see `offset_events.py`;
`losses` are those of a lone broker, see `offset_losses.py`. `offset_ways.py` has the ways that stand side by side. At
the end of each set all that can be read of the topic is looked for at each group. A part is kept in
`benchmarks/CONTROLLER.md` if all its ways were tried with all releases of brokers and KEPT_MIN kills or more.
"""

import argparse
import math
import multiprocessing
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from controller_results import keep, row, table
from group_deliveries import Delivered
from offset_events import CHANGING, SCENARIOS, STEADY, TAIL_S, GroupEvent, OffsetEvents, SetSeen, report
from offset_losses import LOSSES, MANY_OFFSETS, Loss, lose
from offset_ways import OFFSET_WAYS, OffsetWay
from peers.jars import ALL_VERSIONS, V4_9, V5_1, V5_5, V5_5_1

KILLS = 20
#: Fewer say too little to be kept.
KEPT_MIN = 5
#: A set that does not come back within its time is left for a new one so often.
SETS_MAX = 3
#: By part, its ways and the releases of brokers. A slave of 5.5.0 keeps its first copy of the offsets for ever once
#: anybody has pulled from its master; those of 5.1.4 and 5.5.1 copy them each 10 s. 4.9.7 knows no controller.
PARTS = {
    "kill": (["java", "act", "report"], [V5_1, V5_5, V5_5_1]),
    "restart": (["alone", "alone_act", "alone_report"], [V4_9, V5_1, V5_5, V5_5_1]),
    "order": (["java", "act", "addressed", "both"], [V5_5]),
    "tail": (["java", "act"], [V5_1, V5_5]),
    "losses": (["alone", "alone_act"], [V5_1, V5_5]),
}
#: Each loss takes two minutes and comes out much the same.
LOSS_RUNS = 2
#: Seconds of traffic that come twice, the median: where a slave is promoted, and where a broker starts again.
GOAL_REPEATED_S, GOAL_RESTARTED_S = 4, 9
GOAL_GOES_ON_S = 2.5
GOAL_RESTORED_S = 3


@dataclass
class PartOf:
    """What came of one way with one release of brokers, in one part."""

    way: OffsetWay
    version: str
    #: One for each set, the last one may be broken.
    sets: list[SetSeen] = field(default_factory=list)
    #: Why a set was left.
    broken: list[str] = field(default_factory=list)

    def events(self, group: str) -> list[GroupEvent]:
        """Return what a group saw of all events."""
        return [event for each in self.sets for event in each.events.get(group, ())]

    def delivered(self, group: str) -> Delivered:
        """Return what became of all messages of the sets that did not break."""
        judged = [each.delivered[group] for each in self.sets if group in each.delivered]
        sums = {name: sum(getattr(each, name) for each in judged) for name in ("stored", "skipped", "lost")}
        return Delivered(**sums)

    @property
    def is_judged(self) -> bool:
        """Whether the messages of all sets were looked for."""
        return bool(self.sets) and all(each.delivered for each in self.sets)

    @property
    def rate(self) -> float:
        """Messages a second before an event, the median."""
        return median([rate for each in self.sets for rate in each.rates] or [math.nan])


@dataclass
class LossesOf:
    """What came of the losses with one release of brokers, with or without an offset manager."""

    way: OffsetWay
    version: str
    losses: dict[str, list[Loss]] = field(default_factory=dict)
    #: What did not come to its end, and why.
    broken: list[str] = field(default_factory=list)


def measure(way: str, version: str, part: str, kills: int) -> PartOf:
    """Kill the masters of a set so often; it lives for all events, unless it breaks."""
    _name_process(way, version)
    measured = PartOf(OFFSET_WAYS[way], version)
    left = [(number, (number + 0.5) / kills) for number in range(kills)]
    while left and len(measured.broken) < SETS_MAX:
        report(f"{part}: {measured.way.title}, brokers {version}")
        try:
            _one_set(part, measured, left)
        except Exception as error:  # noqa: BLE001  # hours of other sets must not be lost with it
            measured.broken.append(_why(error))
            report(f"the set broke: {traceback.format_exc()}")
    return measured


def _one_set(part: str, measured: PartOf, left: list[tuple[int, float]]) -> None:
    """Carry out events, taking each away that was begun."""
    scenario, version = SCENARIOS[part], measured.version
    with (
        tempfile.TemporaryDirectory() as name,
        measured.way.begin(Path(name), version, **scenario.properties) as managed,
    ):
        seen = SetSeen()
        measured.sets.append(seen)
        events = OffsetEvents(scenario, managed, version, seen)
        while left:
            events.run(*left.pop(0))
        events.judge()


def measure_losses(way: str, version: str) -> LossesOf:
    """Carry out each loss some times."""
    _name_process(way, version)
    measured = LossesOf(OFFSET_WAYS[way], version)
    for kind in LOSSES:
        for _ in range(LOSS_RUNS):
            report(f"{kind}: {measured.way.title}, brokers {version}")
            try:
                loss = lose(kind, version, way)
            except Exception as error:  # noqa: BLE001  # as above
                measured.broken.append(f"{kind}: {_why(error)}")
                report(f"it broke: {traceback.format_exc()}")
            else:
                report(str(loss))
                measured.losses.setdefault(kind, []).append(loss)
    return measured


def _name_process(way: str, version: str) -> None:
    """Name this process after what it measures: its reports begin with it."""
    multiprocessing.current_process().name = f"{way} {version}"


def _why(error: BaseException) -> str:
    """Return what went wrong first: ending everything may have failed after that."""
    while error.__context__ is not None:
        error = error.__context__
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]


# Tables


def losses_section(results: list[LossesOf]) -> Iterator[str]:
    """Yield the lines of the losses."""
    yield from _LOSSES.splitlines()
    yield ""
    yield from table(
        *("way", "brokers", "what happens", "group", "twice", "all queues go on after s", "skipped"),
        *("acknowledged and lost", "10,000 offsets restored after s", "reached"),
    )
    for each in results:
        for kind, losses in each.losses.items():
            for group in losses[0].delivered:
                yield _loss_row(each, kind, group, losses)
    for each in results:
        for why in each.broken:
            yield ""
            yield f"{each.way.title}, brokers {each.version}: it broke: {why}"


def _loss_row(measured: LossesOf, kind: str, group: str, losses: list[Loss]) -> str:
    found = [each.delivered[group] for each in losses]
    restored = [each.restored_s for each in losses if each.restored_s is not None]
    is_restored = not restored or (
        max(restored) <= GOAL_RESTORED_S and all(each.restored == MANY_OFFSETS for each in losses)
    )
    is_good = is_restored and not any(each.skipped for each in found)
    return row(
        measured.way.title,
        measured.version,
        LOSSES[kind],
        group,
        " ".join(str(each.repeated[group]) for each in losses),
        " ".join(f"{each.went_on_s:.1f}" for each in losses),
        " ".join(f"{each.skipped} of {each.stored}" for each in found),
        " ".join(str(each.lost) for each in found),
        " ".join(f"{each:.1f}" for each in restored) or "-",
        ("yes" if is_good else "**no**") if measured.way.manager else "-",
    )


def section(part: str, results: list[PartOf], kills: int, at_once: int) -> Iterator[str]:
    """Yield the lines of a part."""
    yield from _INTRODUCTIONS[part].format(kills=kills).splitlines()
    if at_once > 1:
        yield f"{at_once} sets ran side by side."
    yield ""
    yield from table(*_TITLES[part])
    for each in results:
        for group in SCENARIOS[part].groups:
            yield from _ROWS[part](each, group.name)
    for each in results:
        for why in each.broken:
            yield ""
            yield f"{each.way.title}, brokers {each.version}: a set broke; its messages are not looked for: {why}"


def _kill_row(measured: PartOf, group: str) -> Iterator[str]:
    yield _repeats_row(measured, group, GOAL_REPEATED_S)


def _restart_row(measured: PartOf, group: str) -> Iterator[str]:
    yield _repeats_row(measured, group, GOAL_RESTARTED_S)


def _tail_row(measured: PartOf, group: str) -> Iterator[str]:
    yield _repeats_row(measured, group, math.inf)


def _repeats_row(measured: PartOf, group: str, goal_s: float) -> str:
    events, found = measured.events(group), measured.delivered(group)
    seconds = sorted(each.repeated_s for each in events) or [math.nan]
    # One that reports changes nothing.
    is_few = median(seconds) <= goal_s or measured.way.manager.get("repair") != "act"
    is_good = bool(events) and measured.is_judged and is_few and not found.skipped
    return row(
        measured.way.title,
        measured.version,
        group,
        f"{measured.rate:.0f}",
        " ".join(str(each.repeated) for each in sorted(events, key=lambda each: each.repeated)),
        f"**{median(seconds):.1f}**",
        f"{seconds[-1]:.1f}",
        _seconds(sorted(each.all_went_on_s for each in events)),
        f"{found.skipped} of {found.stored}",
        found.lost,
        ("yes" if is_good else "**no**") if measured.way.manager else "-",
    )


def _order_row(measured: PartOf, group: str) -> Iterator[str]:
    found = measured.delivered(group)
    for is_changed, title in ((False, "kill"), (True, "kill, and a client joins at the promotion")):
        events = [each for each in measured.events(group) if each.is_changed == is_changed]
        first = sorted(min(each.went_on_s.values(), default=math.inf) for each in events)
        last = sorted(each.all_went_on_s for each in events)
        inversions = sum(each.inversions for each in events)
        is_timed = measured.way.has_role_address and not is_changed
        is_quick = not is_timed or (bool(last) and last[-1] <= GOAL_GOES_ON_S)
        is_good = bool(events) and measured.is_judged and is_quick and not (inversions or found.skipped)
        yield row(
            measured.way.title,
            measured.version,
            title,
            f"{measured.rate:.0f}",
            _seconds(first),
            _seconds(last),
            inversions,
            sum(each.shared for each in events),
            sum(each.repeated for each in events),
            f"{found.skipped} of {found.stored}",
            ("yes" if is_good else "**no**") if measured.way.manager else "-",
        )


def _seconds(times: list[float]) -> str:
    """Return the median and the worst of sorted times, and how many there are of those that did not end."""
    ended = [each for each in times if math.isfinite(each)]
    late = f", {len(times) - len(ended)} not in time" if len(ended) < len(times) else ""
    return f"**{median(ended):.1f}**, {ended[-1]:.1f}{late}" if ended else f"-{late}"


_REPEATS = [
    *("way", "brokers", "group", "messages a second", "twice, each event", "seconds of traffic, median", "worst"),
    *("all queues go on after s, median, worst", "skipped", "acknowledged and lost", "reached"),
]
_ORDER = [
    *("way", "brokers", "event", "messages a second", "first queue goes on after s, median, worst", "last queue"),
    *("inversions", "queues of two clients at a time", "twice", "skipped", "reached"),
]
_TITLES = {"kill": _REPEATS, "restart": _REPEATS, "tail": _REPEATS, "order": _ORDER}
_ROWS = {"kill": _kill_row, "restart": _restart_row, "tail": _tail_row, "order": _order_row}
_GROUPS = f"""\
Clients are of the release of the brokers, and as they come. Group `{STEADY}` has one push consumer that stays; of
`{CHANGING}` one of two is killed with the master, and another one joins later. Twice are deliveries of what the group
had got before; as seconds of traffic of the queue where these are most. Skipped can be read at the end, never came."""
_INTRODUCTIONS = {
    "kill": f"""\
kill -9 of the master, {{kills}} times; both brokers have what is acknowledged.
{_GROUPS}
Goal with the offset manager: nothing skipped, and where it acts a median of at most {GOAL_REPEATED_S} s of traffic
twice. What a killed client has not committed, up to 5 s, comes twice in any case, and is in these figures.""",
    "restart": f"""\
kill -9 of a broker without a controller, {{kills}} times; it starts again at once.
{_GROUPS}
Goal with the offset manager: nothing skipped, and where it acts a median of at most {GOAL_RESTARTED_S} s of traffic
twice.""",
    "tail": f"""\
The slave is down for at least {TAIL_S} s and out of the SyncStateSet, then kill -9 of the master, {{kills}} times: the
slave is started and elected without the end of the log, and what is sent next gets the same offsets.
{_GROUPS}
Goal with the offset manager: nothing skipped.""",
    "order": f"""\
kill -9 of the master, {{kills}} times, under messages of 1,000 keys and a group of two orderly consumers as they come;
in each second event another client joins at the promotion, and leaves later. A queue goes on with the first message
that was sent after the kill. Inversions came for the first time after a later message of the same key.
Goal with the offset manager: no inversion, nothing skipped; with a role address the last queue of a group that stays as
it is goes on within {GOAL_GOES_ON_S} s, too.""",
}


_LOSSES = f"""\
A lone broker that a NameServer shows, 1,000 messages a second, each loss {LOSS_RUNS} times. Clients are of the release
of the brokers, and as they come. A client of group `{CHANGING}` is killed with the broker, and another one joins.
Group `reset` stands still while its offsets are set to 0, with those of 10,000 queues of other groups; one command
restores the latter, another one the former, and the group starts again. Twice are all deliveries of what the group had
got before. Skipped can be read at the end but never came.
Goal with the offset manager: nothing skipped, 10,000 offsets restored within {GOAL_RESTORED_S} s."""


def main() -> None:
    """Measure, and keep what is complete; a part of it is printed only."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--kills", type=int, default=KILLS, help=f"of each way; kept from {KEPT_MIN} on")
    parser.add_argument("--at-once", type=int, default=1, help="sets side by side, each takes a whole core at times")
    parser.add_argument("--way", nargs="+", choices=OFFSET_WAYS, help="some ways; prints only")
    parser.add_argument("--versions", nargs="+", choices=ALL_VERSIONS, help="releases of brokers; prints only")
    options = parser.parse_args()
    _end_orderly()
    is_complete = not options.way and not options.versions and options.kills >= KEPT_MIN
    for part in [options.only] if options.only else list(PARTS):
        lines = _measured(part, options)
        if is_complete:
            keep(f"offset_{part}", "make bench-offset-failovers", lines)
        else:
            print("\n".join(lines), "\n", flush=True)


def _end_orderly() -> None:
    """End what was started when this process is to end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


def _measured(part: str, options: argparse.Namespace) -> Iterator[str]:
    """Measure a part, and return its lines."""
    ways, versions = PARTS[part]
    chosen = options.way or ways
    pairs = [(way, version) for version in options.versions or versions for way in chosen]
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(options.at_once, context, _end_orderly, max_tasks_per_child=1)
    with pool:
        try:
            if part == "losses":
                return losses_section(list(pool.map(measure_losses, *zip(*pairs, strict=True))))
            each_set = ((*pair, part, options.kills) for pair in pairs)
            results = list(pool.map(measure, *zip(*each_set, strict=True)))
        except SystemExit:
            for each in multiprocessing.active_children():
                each.terminate()
            raise
    return section(part, results, options.kills, options.at_once)


if __name__ == "__main__":
    main()
