"""`rmq-analytics report`: one HTML page of what the analyses have found, for people who would rather look.

It reads published results and nothing else, so it needs neither Spark's Java nor the history, and takes a moment.
"""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from analytics.cli.options import WrongOptions
from analytics.engine.publication import LATEST
from analytics.engine.registry import MODULES
from analytics.reporting import brokers, dry_runs, incidents, offsets, outlook, resizes, routes
from analytics.reporting.advice import advice
from analytics.reporting.page import ReportPage, Section, Told, as_page
from analytics.reporting.results import JobResult, decoded
from analytics.reporting.wording import counted
from analytics.spark.progress import to_stderr
from analytics.spark.storage import UnreadableFile

#: What `rmq scaling dry-run` writes, beside the results of the analyses: nobody runs it each day.
DRY_RUN: Final = "dry-run"
_DRY_RUN_FILE: Final = "dry-run/scaling_dry_run.json"

#: In the order of the page: what hurts first.
_SECTIONS: Final[Mapping[str, tuple[str, Callable[[JobResult], Section]]]] = MappingProxyType(
    {
        "A10": ("Failovers", incidents.failovers),
        "A16": ("Offsets that jumped", offsets.read_again),
        "A1": ("Availability", brokers.availability),
        "A11": ("Restart storms", incidents.storms),
        "A6": ("Divergence", routes.divergence),
        "A13": ("Anomalies", incidents.anomalies),
        "A14": ("Correlated failures", incidents.correlated_failures),
        "A3": ("Flapping", brokers.flapping),
        "A4": ("Detection", brokers.detection),
        "A5": ("Timeouts", brokers.timeouts),
        "A2": ("Heartbeats", brokers.heartbeats),
        "A8": ("Queue balance", routes.balance),
        "A9": ("Queue scaling", routes.scaling),
        "A15": ("Resizes of topics", resizes.resizes),
        DRY_RUN: ("What policies would have done", dry_runs.dry_run),
        "A7": ("Route changes", routes.churn),
        "A12": ("Capacity", outlook.capacity),
    }
)

#: These report what happened; the others how things are.
_HAPPENINGS: Final = ("A10", "A16", "A1", "A11", "A6", "A13", "A14", "A3", "A15", "A12")


def report(options: argparse.Namespace) -> None:
    """Write the page; raises WrongOptions if there is no result to show, UnreadableFile if one is torn."""
    if "://" in options.output:
        raise WrongOptions(
            f"report reads a folder of this machine: copy {options.output}/{LATEST} to DIR/{LATEST}, "
            "and name DIR by --output"
        )
    results = read_results(Path(options.output) / LATEST)
    if not results:
        raise WrongOptions(f"no results in {Path(options.output).absolute() / LATEST}: run `rmq-analytics run` first")
    target = Path(options.file or Path(options.output) / "report.html")
    target.write_text(as_page(page_of(results)), encoding="utf-8")
    to_stderr(f"report of {counted(len(results), 'analysis', 'analyses')}: {target.absolute()}")


def read_results(folder: Path) -> dict[str, JobResult]:
    """Return the newest result of each analysis that has one, by its id, and that of a dry run beside them."""
    paths = {job_id: folder / f"{name}.json" for job_id, name in MODULES.items()}
    paths[DRY_RUN] = folder.parent / _DRY_RUN_FILE
    return {job_id: _read(path) for job_id, path in paths.items() if path.is_file()}


def _read(path: Path) -> JobResult:
    try:
        return decoded(path.read_bytes())
    except msgspec.DecodeError as why:
        raise UnreadableFile(str(path), why) from why


def page_of(results: Mapping[str, JobResult]) -> ReportPage:
    """Return the whole report of these results."""
    sections = [
        Told(title, results[job_id], section_of(results[job_id]))
        for job_id, (title, section_of) in _SECTIONS.items()
        if job_id in results
    ]
    by_id = {told.result.job: told.section for told in sections}
    happened = [(job_id, by_id[job_id].answer) for job_id in _HAPPENINGS if job_id in by_id]
    start = min(result.window_start for result in results.values())
    end = max(result.window_end for result in results.values())
    missing = len(MODULES.keys() - results.keys())
    lacking = f"; {counted(missing, 'analysis has', 'analyses have')} not been run yet" if missing else ""
    window = f"{start[:16].replace('T', ' ')} to {end[:16].replace('T', ' ')} UTC"
    return ReportPage(f"{window}{lacking}", happened, advice(results), sections)
