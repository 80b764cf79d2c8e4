"""Failovers of real brokers under a producer that sends, with our controller and the Java one by turns.

    make bench-failover                                 (about 30 minutes, into benchmarks/CONTROLLER.md)
    python benchmarks/failover.py --quick               (two of each kind, six pauses, prints only)
    python benchmarks/failover.py --only kill --runs 4  (prints only, as it is not the full number)

Each controller has a set of two Java brokers 5.5.0 that acknowledges only what both have (allAckInSyncStateSet), and
our NameServer. A gap is the longest time between two acknowledged messages around the event. Clients learn routes by a
poll, so the event comes at the same offsets to the producer's polls with both controllers, spread over the interval. At
the end of each part all that was acknowledged is looked for in a scan of the whole topic.
"""

import argparse
import contextlib
import math
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

from controller_results import keep, row, table
from failover_steps import STEPS, steps_of
from failover_subjects import DEFAULT_TIMEOUT_MS, SHORT_TIMEOUT_MS, Moment, Subject
from peers.clients import POLL_MS, Load
from peers.servers import Broker
from replicated import UNIX

#: How long a producer sends before anything happens: its first seconds are those of its compiler.
STEADY_S = 4
#: How long sending is watched after it went on.
AFTER_S = 1
GAP_MAX_S = 90
PAUSE_S = 2
#: Between two pauses.
BREATH_S = 3
#: So many pauses in a row are one controller's.
BLOCK = 10
GOAL_WORST_S = 2
GOAL_FROZEN_S = 4.5


class Event(NamedTuple):
    """What one failover came to; times are milliseconds since the event."""

    gap_s: float
    #: With the timeout that producers have by default; None where it makes no difference.
    default_gap_s: float | None
    steps: dict[str, int]


def strike(subject: Subject, load: Load, offset: float, do: Callable[[Broker], None]) -> Moment:
    """Do something to the master once the producer sends steadily, at an offset (0 to 1) between two of its polls."""
    polls_from_ms = int(load.process.wait_for(r"^READY (\d+)")[1])
    victim = subject.brokers.master
    earliest_ms = UNIX.unix_ms() + STEADY_S * 1000
    polls = (earliest_ms - polls_from_ms) // POLL_MS + 1
    due_ms = polls_from_ms + (polls + offset) * POLL_MS
    log = subject.brokers.namesrv.process.position()
    time.sleep(max(0, due_ms - UNIX.unix_ms()) / 1000)
    unix_ms = UNIX.unix_ms()
    do(victim)
    return Moment(unix_ms, victim, log)


def first_sent(load: Load, moment: Moment, *, by_another: bool = True) -> int:
    """Wait for the first message that another broker acknowledged since, and return when it did."""

    def found() -> int | None:
        later = (each for each in load.acknowledged() if each.unix_ms > moment.unix_ms)
        return next((each.unix_ms for each in later if (each.port != moment.victim.port) is by_another), None)

    end = time.monotonic() + GAP_MAX_S
    while (sent_ms := found()) is None:
        if time.monotonic() > end:
            raise AssertionError(f"nothing was sent for {GAP_MAX_S} s")
        # Often enough: what counts is read from the producer's own stamps.
        time.sleep(0.25)
    return sent_ms


def longest_gap_s(load: Load, from_ms: int) -> float:
    """Return the longest time between two acknowledged messages from just before a moment on."""
    stamps = [each.unix_ms for each in load.acknowledged() if each.unix_ms >= from_ms - 1_000]
    return max((later - earlier for earlier, later in pairwise(stamps)), default=0) / 1000


def killed(subject: Subject, offset: float) -> Event:
    """Kill the master, and wait until the set is complete again."""
    load = subject.load()
    moment = strike(subject, load, offset, lambda broker: broker.process.kill())
    sent_ms = first_sent(load, moment)
    time.sleep(AFTER_S)
    gap_s, steps = longest_gap_s(load, moment.unix_ms), steps_of(subject, moment, sent_ms)
    subject.brokers.restart(moment.victim)
    subject.brokers.wait_until_complete()
    load.stop()
    return Event(gap_s, None, steps)


def frozen(subject: Subject, offset: float) -> Event:
    """Stop the master until another one serves, let it go on, and wait until the set is complete again."""
    usual, load = subject.load(), subject.load(SHORT_TIMEOUT_MS)
    moment = strike(subject, load, offset, lambda broker: broker.process.pause())
    sent_ms = first_sent(load, moment)
    first_sent(usual, moment)
    time.sleep(AFTER_S)
    gap_s, default_gap_s = longest_gap_s(load, moment.unix_ms), longest_gap_s(usual, moment.unix_ms)
    steps = steps_of(subject, moment, sent_ms)
    moment.victim.process.resume()
    subject.brokers.wait_until_complete()
    load.stop()
    usual.stop()
    return Event(gap_s, default_gap_s, steps)


# The parts

Subjects = list[Subject]


@dataclass
class Plan:
    """How much is done."""

    runs: int = 10
    pauses: int = 50

    def offsets(self) -> Iterator[float]:
        """Yield where in the producer's poll interval each run falls; neighbours are far apart."""
        for number in range(self.runs):
            yield ((number * 7) % self.runs + 0.5) / self.runs if self.runs % 7 else (number + 0.5) / self.runs


def alternating(subjects: Subjects, plan: Plan, run: Callable[[Subject, float], Event]) -> dict[str, list[Event]]:
    """Run everything, each offset once with every subject."""
    events: dict[str, list[Event]] = {subject.name: [] for subject in subjects}
    for number, offset in enumerate(plan.offsets()):
        # Neither always goes first.
        for subject in subjects if number % 2 == 0 else reversed(subjects):
            try:
                event = run(subject, offset)
            except AssertionError as error:
                subject.begin_anew(str(error))
                continue
            events[subject.name].append(event)
            print(
                f"  {subject.name} at {offset:.2f}: gap {event.gap_s:.2f} s {event.steps}", file=sys.stderr, flush=True
            )
    return events


def kill_part(subjects: Subjects, plan: Plan) -> Iterator[str]:
    """Yield the lines of the part in which masters are killed."""
    events = alternating(subjects, plan, killed)
    yield (
        f"kill -9 of the master under load, {plan.runs} times each by turns. Goal: median not above Java's, worst <= "
        f"{GOAL_WORST_S} s, nothing lost."
    )
    yield ""
    yield from table("controller", "gaps, s", "median", "worst", "lost of acknowledged", "reached")
    other = [event.gap_s for event in events.get("java", [])]
    for subject in subjects:
        gaps = [event.gap_s for event in events[subject.name]] or [math.nan]
        lost, acknowledged = subject.lost()
        kept = not lost and max(gaps) <= GOAL_WORST_S and (not other or median(gaps) <= median(other))
        yield row(
            subject.name, gap_text(gaps), *middle_and_worst(gaps), f"{lost} of {acknowledged}", verdict(subject, kept)
        )
    yield from steps_table(subjects, events)


def freeze_part(subjects: Subjects, plan: Plan) -> Iterator[str]:
    """Yield the lines of the part in which masters stand still."""
    events = alternating(subjects, plan, frozen)
    yield (
        f"SIGSTOP of the master under load until another one serves, {plan.runs} times each by turns. Goal: median <= "
        f"{GOAL_FROZEN_S} s, nothing lost.\nTwo producers send: one gives up a send after {SHORT_TIMEOUT_MS} ms, the "
        f"other after {DEFAULT_TIMEOUT_MS} ms, the default. As sends to a broker\nthat stands still end by their "
        "timeout, gaps of the second are multiples of 3 s."
    )
    yield ""
    yield from table(
        "controller", "gaps, s", "median", "worst", "gaps with 3 s", "median", "lost of acknowledged", "reached"
    )
    for subject in subjects:
        gaps = [event.gap_s for event in events[subject.name]] or [math.nan]
        usual = [event.default_gap_s or 0 for event in events[subject.name]] or [math.nan]
        lost, acknowledged = subject.lost()
        kept = not lost and median(gaps) <= GOAL_FROZEN_S
        yield row(
            subject.name,
            gap_text(gaps),
            *middle_and_worst(gaps),
            gap_text(usual),
            f"{median(usual):.2f}",
            f"{lost} of {acknowledged}",
            verdict(subject, kept),
        )
    yield from steps_table(subjects, events)


def pause_part(subjects: Subjects, plan: Plan) -> Iterator[str]:
    """Yield the lines of the part in which masters pause."""
    changes, gaps = {subject.name: 0 for subject in subjects}, {subject.name: 0.0 for subject in subjects}
    for start in range(0, plan.pauses, BLOCK):
        for subject in subjects:
            count = min(BLOCK, plan.pauses - start)
            try:
                changed, gap_s = paused(subject, count)
            except AssertionError as error:
                subject.begin_anew(str(error))
                changed, gap_s = 1, math.inf
            changes[subject.name] += changed
            gaps[subject.name] = max(gaps[subject.name], gap_s)
            print(
                f"  {subject.name}: {count} pauses, {changed} role changes, longest gap {gap_s:.2f} s", file=sys.stderr
            )
    yield (
        f"SIGSTOP of the master for {PAUSE_S} s under load, {plan.pauses} times each, {BLOCK} in a row by turns. Goal: "
        "no role change, nothing lost."
    )
    yield ""
    yield from table("controller", "pauses", "role changes", "longest gap, s", "lost of acknowledged", "reached")
    for subject in subjects:
        name = subject.name
        lost, acknowledged = subject.lost()
        kept = verdict(subject, not lost and not changes[name])
        yield row(name, plan.pauses, changes[name], f"{gaps[name]:.2f}", f"{lost} of {acknowledged}", kept)


def paused(subject: Subject, count: int) -> tuple[int, float]:
    """Let the master pause some times; returns how often the role changed, and the longest gap."""
    load, changed = subject.load(), 0
    time.sleep(STEADY_S)
    began_ms = UNIX.unix_ms()
    for _ in range(count):
        before, master = subject.brokers.state(), subject.brokers.master
        master.process.pause()
        time.sleep(PAUSE_S)
        master.process.resume()
        time.sleep(BREATH_S)
        after = subject.brokers.state()
        if after is None or after.epochs != before.epochs:
            changed += 1
            subject.brokers.wait_until_complete()
    subject.brokers.wait_until_complete()
    load.wait_for_more().stop()
    return changed, longest_gap_s(load, began_ms)


def steps_table(subjects: Subjects, events: dict[str, list[Event]]) -> Iterator[str]:
    """Yield what went wrong, and where the time goes."""
    for subject in subjects:
        for why in subject.failed:
            yield ""
            yield f"In one run the set of {subject.name} did not come back, and is not counted above: {why}"
    yield ""
    yield "Milliseconds since the event, median / longest; Java's controller does not record its own steps."
    yield ""
    yield from table("until", *(subject.name for subject in subjects))
    for name, meaning in STEPS.items():
        cells = []
        for subject in subjects:
            known = [event.steps[name] for event in events[subject.name] if name in event.steps]
            cells.append(f"{median(known):.0f} / {max(known)}" if known else "-")
        yield row(meaning, *cells)


def gap_text(gaps: list[float]) -> str:
    """Return all gaps, in order of length."""
    return " ".join(f"{gap:.2f}" for gap in sorted(gaps))


def middle_and_worst(gaps: list[float]) -> tuple[str, str]:
    """Return both for a table."""
    return f"**{median(gaps):.2f}**", f"{max(gaps):.2f}"


def verdict(subject: Subject, kept: bool) -> str:  # noqa: FBT001  # as it is judged
    """Return whether ours reached its goals."""
    return ("yes" if kept and not subject.failed else "**no**") if subject.name == "ours" else "-"


PARTS = {"kill": kill_part, "freeze": freeze_part, "pause": pause_part}
FULL = Plan()
QUICK = Plan(runs=2, pauses=6)


def main() -> None:
    """Measure, print, and write the parts that are full ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="append", choices=[*PARTS], help="one part; may be given several times")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--pauses", type=int)
    parser.add_argument("--subject", action="append", choices=["ours", "java"], help="only this one; prints only")
    options = parser.parse_args()
    # Told to stop, it ends what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    plan = QUICK if options.quick else FULL
    plan = Plan(options.runs or plan.runs, options.pauses or plan.pauses)
    names = options.subject or ["ours", "java"]
    for part in options.only or PARTS:
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as closing:
            subjects = []
            for name in names:
                subject = Subject(name, Path(folder) / name)
                subjects.append(subject)
                subject.start()
                # The lab that it has then.
                closing.callback(lambda subject=subject: subject.lab.close())
            lines = PARTS[part](subjects, plan)
            if plan == FULL and len(names) > 1:
                keep(part, "make bench-failover", lines)
            else:
                print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
