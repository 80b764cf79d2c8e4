"""What a log event is, and how a catalogue of them becomes a page.

A name is `noun_verb_past`; the keys hold the subject.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import partial
from typing import Final

import msgspec

from serving.config.server_config import Config
from serving.config.server_kind import ServerKind


class Level(IntEnum):
    """How much an event matters; the numbers are those of the standard library."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40

    @property
    def word(self) -> str:
        return self.name.lower()


class LogEvent(msgspec.Struct, frozen=True):
    name: str
    #: Keys that the line has beside those of every line; one may be missing where it has no value.
    keys: tuple[str, ...]
    meaning: str
    #: What an operator does about it.
    advice: str = "Nothing."
    level: Level = Level.INFO
    #: A change by request: the line also has `audit` and `peer`; unless it came over HTTP, `request_code` and `opaque`.
    audit: bool = False


debug: Final = partial(LogEvent, level=Level.DEBUG)
info: Final = LogEvent
warning: Final = partial(LogEvent, level=Level.WARNING)
error: Final = partial(LogEvent, level=Level.ERROR)


def events_in(module: Mapping[str, object]) -> tuple[LogEvent, ...]:
    """Return the events that the names of a module stand for, in the order of their definition."""
    return tuple(each for each in module.values() if isinstance(each, LogEvent))


class Key(msgspec.Struct, frozen=True):
    name: str
    meaning: str


def common_keys(kind: ServerKind[Config]) -> tuple[Key, ...]:
    return (
        Key("timestamp", "UTC, ISO 8601 with milliseconds."),
        Key("level", "debug, info, warning or error."),
        Key("event", "A name of the table below."),
        Key(kind.id_key, kind.id_meaning),
        Key("version", f"Version of this {kind.name}."),
        Key("suppressed", "Number of lines of the same event and broker or peer left out before this one."),
        Key("lines_dropped", "Number of lines lost before this one because the output did not accept them."),
        Key("exception", "The exception with its traceback, without local variables."),
    )


def log_page(kind: ServerKind[Config], events: Iterable[LogEvent], catalogue: str) -> str:
    """Return all events of a server as a page; `catalogue` is the file that it is written from."""
    suppressed = f"{kind.metric_prefix}log_suppressed_total"
    head = [
        f"# Log events of the {kind.name}",
        "",
        "One line per fact that an operator would put in a timeline, on standard output; none per heartbeat, query or",
        f"topic. Written from `{catalogue}`; do not edit.",
        "",
        "Lines of one event about one broker or peer are limited to 5 at once and then one each 10 s; those left out",
        f"are counted in `{suppressed}` and in the next line's `suppressed`. Errors are never",
        "lost: what was held back comes as one line 10 s later. Debug and audit lines are not limited that way.",
        "",
        "## Keys of every line",
        "",
        "| key | meaning |",
        "|---|---|",
        *(f"| `{key.name}` | {key.meaning} |" for key in common_keys(kind)),
        "",
        "## Events",
        "",
        "Events marked *audit* are changes by request: they also have `audit`, and `peer`, `request_code`",
        "and `opaque` of the request (over HTTP `peer` alone). They are written at every `logLevel`.",
        "",
        "| event | level | keys | meaning | what to do |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*head, *map(_row, events)]) + "\n"


def _row(event: LogEvent) -> str:
    keys = ", ".join(f"`{key}`" for key in event.keys)
    level = f"{event.level.word}, *audit*" if event.audit else event.level.word
    return f"| `{event.name}` | {level} | {keys} | {event.meaning} | {event.advice} |"
