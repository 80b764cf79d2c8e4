"""Measures this NameServer beside its peers and writes `benchmarks/RESULTS.md`.

    make bench          (about 70 minutes: every server is warmed)
    make bench-quick    (under two minutes, prints only)

Rows are medians of several runs, taken in turn on each server. A goal that is not reached is marked; nothing fails.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import rows
from rows import MANY_BROKERS, ONE_BROKER, Plan, Row
from servers import REPOSITORY, Stolen, rust_binary

RESULTS = REPOSITORY / "benchmarks" / "RESULTS.md"
FULL = Plan(runs=3, seconds=4, cluster_seconds=120, quick=False)
_TABLE = ["| # | work | goal | measured | reached | host took |", "|---|---|---|---|---|---|"]
_ALONE = "- Row "
QUICK = Plan(runs=1, seconds=1.5, cluster_seconds=30, quick=True)


def measured(folder: Path, plan: Plan, only: list[str]) -> Iterator[tuple[Row, float]]:
    """Yield the rows one after another, each with how much of the machine its host took meanwhile, in percent."""
    parts = {
        "routes": lambda: rows.routes(folder, plan, ONE_BROKER, 1),
        "many-brokers": lambda: rows.routes(folder, plan, MANY_BROKERS, 65),
        "registrations": lambda: rows.registrations(folder, plan),
        "cluster": lambda: rows.cluster(folder, plan),
        "large-broker": lambda: rows.large_broker(folder, plan),
        "clients": lambda: rows.many_clients(folder, plan),
        "scan": lambda: rows.scan(folder, plan),
        "growth": lambda: rows.growth(folder, plan),
        "recording": lambda: rows.recording(folder, plan),
    }
    wanted = only or ([*parts][:3] if plan.quick else [*parts])
    for name in wanted:
        with Stolen() as stolen:
            found = list(parts[name]())
        yield from ((row, stolen.percent) for row in found)


def page(head: list[str], table: dict[str, str]) -> str:
    """Return the page of a full run: what it was taken on, and its rows by number."""
    return "\n".join([*head, *_TABLE, *table.values()]) + "\n"


def page_with(former: str, some: dict[str, str], taken: str) -> str:
    """Return the page of a former run with some rows in place of its own; below the table it says when those were."""
    lines = former.splitlines()
    begins = lines.index(_TABLE[0])
    table = {line.split("|")[1].strip(): line for line in lines[begins + len(_TABLE) :] if line.startswith("| ")}
    alone = {line.removeprefix(_ALONE).partition(" ")[0]: line for line in lines if line.startswith(_ALONE)}
    alone |= {number: f"{_ALONE}{number} by itself: {taken}" for number in some}
    return page(lines[:begins], table | some) + "\n" + "\n".join(alone.values()) + "\n"


def machine() -> str:
    """Return what the figures were taken on."""
    text = Path("/proc/cpuinfo").read_text()
    cpu = next((line.partition(": ")[2] for line in text.splitlines() if line.startswith("model name")), "")
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr.splitlines()[0]
    libraries = ", ".join(f"{name} {version(name)}" for name in ("uvloop", "msgspec", "aiohttp"))
    return (
        f"{os.cpu_count()} cores ({cpu}), {platform.platform()}; Python {platform.python_version()}, {libraries}; "
        f"{java}; Java NameServer 5.5.0; rocketmq-rust {'1.0.0' if rust_binary() else 'not installed'}"
    )


def main() -> None:
    """Measure, print, and write the table if it is a full one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="append", default=[], help="one part; may be given several times")
    options = parser.parse_args()
    plan = QUICK if options.quick else FULL
    head = [
        "# Results",
        "",
        f"Taken {time.strftime('%Y-%m-%d')} by `make bench` on {machine()}.",
        f"Medians of {plan.runs} runs of {plan.seconds:g} s, generator and server on one machine, not pinned. Every",
        "server is warm: loaded until three seconds in a row differ by less than 3 %, for 60 s at most; the longest",
        "of the runs is given. `host took` is processor time that the host gave to other machines meanwhile. Absolute",
        "figures move from day to day, ratios hold.",
        "",
    ]
    print("\n".join([*head, *_TABLE]), flush=True)
    lines: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for row, stolen in measured(Path(folder), plan, options.only):
            reached = "yes" if row.reached else "**no**"
            figures = f"{row.goal} | {row.figures} | {reached} | {stolen:.1f} %"
            lines[row.number] = f"| {row.number} | {row.work} | {figures} |"
            print(lines[row.number], flush=True)
    if options.only and RESULTS.exists() and not options.quick:
        taken = f"{time.strftime('%Y-%m-%d')} on {machine()}."
        RESULTS.write_text(page_with(RESULTS.read_text(), lines, taken))
    elif not options.quick:
        RESULTS.write_text(page(head, lines))


if __name__ == "__main__":
    sys.exit(main())
