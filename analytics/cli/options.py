"""What the options of `rmq-analytics` mean: a window of time, the history folder, settings of Spark. Starts nothing."""

from collections.abc import Collection, Iterable
from datetime import datetime
from pathlib import Path
from typing import Final

from analytics.ingest.landing import LANDING
from analytics.ingest.manifest import MANIFESTS
from analytics.shared.days import DAY_US, date_at, iso, moment, span_of, unix_us
from analytics.shared.job import Span
from analytics.spark.storage import Storage

#: The window of a run that names no beginning.
WINDOW_DAYS: Final = 30

#: What brokers send, as `heartbeat.kind` has it.
HEARTBEAT_KINDS: Final = ("register", "heartbeat", "data_version", "controller")


class WrongOptions(Exception):
    """An option has a value that cannot be taken; the text says which and why."""


def window(start: str | None, end: str | None, now_us: int) -> Span:
    """Return the window between two times; without an end it is now, without a start a midnight 30 days before that."""
    end_us = _time("--to", end) if end else now_us
    # From a midnight on the days between are whole ones, whose parts are kept.
    midnight_us = span_of(date_at(end_us)).start_us
    start_us = _time("--from", start) if start else midnight_us - WINDOW_DAYS * DAY_US
    if start_us >= end_us:
        raise WrongOptions(f"the window from {iso(start_us)} to {iso(end_us)} is empty: --from has to be before --to")
    return Span(start_us, end_us)


def _time(option: str, text: str) -> int:
    try:
        return unix_us(datetime.fromisoformat(text))
    except ValueError:
        today = f"{moment(0):%Y-%m-%d}"
        raise WrongOptions(f"{option} {text} is not a time: write a day like {today}, or {today}T05:30:00Z") from None


def settings(texts: Iterable[str]) -> dict[str, str]:
    """Return settings of Spark that were given as KEY=VALUE."""
    found = {}
    for text in texts:
        key, is_there, value = text.partition("=")
        if not is_there or not key.startswith("spark."):
            raise WrongOptions(f"--conf {text} is not a setting of Spark: write spark.something=value")
        found[key] = value
    return found


def limits(texts: Iterable[str], known: Collection[str]) -> dict[str, float]:
    """Return the ends of resources that were given as RESOURCE=NUMBER."""
    found = {}
    for text in texts:
        resource, _, number = text.partition("=")
        if resource not in known or not number.isdecimal() or not int(number):
            raise WrongOptions(
                f"--limit {text} is no limit: write RESOURCE=NUMBER, bytes where it has bytes; resources are "
                f"{', '.join(known)}"
            )
        found[resource] = float(number)
    return found


def periods(texts: Iterable[str]) -> dict[tuple[str | None, str], int]:
    """Return the configured periods of heartbeats, given as KIND=MS or SET/KIND=MS: by broker set and kind."""
    found: dict[tuple[str | None, str], int] = {}
    for text in texts:
        heartbeats, _, number = text.rpartition("=")
        name, _, kind = heartbeats.rpartition("/")
        if kind not in HEARTBEAT_KINDS or not number.isdecimal() or not int(number):
            raise WrongOptions(
                f"--period {text} is no period: write KIND=MS, or SET/KIND=MS of one broker set, as register=60000; "
                f"kinds are {', '.join(HEARTBEAT_KINDS)}"
            )
        found[name or None, kind] = int(number)
    return found


def require_history(storage: Storage, root: str) -> None:
    """See that servers have written there."""
    if not storage.exists(""):
        raise WrongOptions(f"no history folder {_shown(root)}: name the historyDir of the servers with --history")
    if not storage.exists(LANDING):
        raise WrongOptions(
            f"{_shown(root)} has no {LANDING}: it is no historyDir of a server, or nothing has been recorded yet"
        )


def require_stored(storage: Storage, root: str) -> None:
    """See that an ingest has been there; results of nothing would take the place of good ones."""
    if not storage.exists(MANIFESTS):
        raise WrongOptions(
            f"nothing stored yet in {_shown(root)}: run `rmq-analytics ingest` first, or name the folder with --output"
        )


def _shown(root: str) -> str:
    return root if "://" in root else str(Path(root).absolute())
