"""`--watch`: a command is run again and again, and what changed of its rows is shown, until it is interrupted.

The fields that say which thing a row is about are named by `row_key` of its type. Without it the whole row is the key:
it is added and deleted, never modified.
"""

import asyncio
import http.client
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, Literal
from urllib.parse import urlencode

import click
import msgspec

from remoting.clock import SystemClock
from remoting.transport.http_exchange import connection_to
from rmq.cli.printed_output import PrintedOutput
from rmq.failures import CommandFailed, UnknownName, WrongUse
from rmq.output.formats import Style, rendered
from rmq.output.printable import printable
from rmq.site.settings import SiteSettings

POLL_S: Final = 2.0
#: While every NameServer notifies of changes: in case that one is lost on the way.
RESYNC_S: Final = 30.0
#: Changes within this time are read together.
GATHER_S: Final = 0.1
#: A server sends a comment after 15 s without an event.
SILENCE_S_MAX: Final = 40.0
RETRY_S_MIN: Final = 1.0
RETRY_S_MAX: Final = 30.0
#: A route has 16 MiB at most, and an event is one line.
LINE_BYTES_MAX: Final = 17 * 1024 * 1024

_OK: Final = 200
_EVENT: Final = b"event:"
_CLOSING: Final = b"closing"
#: Begin: another screen than that with the shell's lines, no cursor, long lines are cut off instead of wrapped.
_OPEN: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_CLOSE: Final = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_END_OF_LINE: Final = "\x1b[K\n"
_REST: Final = "\x1b[K\x1b[J"
#: A window of few lines shows the title and a row all the same.
_LINES_MIN: Final = 2

Take = Callable[[PrintedOutput], Awaitable[None]]
#: The key of a row, and how many rows before it have the same.
Key = tuple[bytes, int]
Rows = Mapping[Key, msgspec.Struct]


class RowChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One change; in JSON lines it is written as it is."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    #: When `rmq` read it.
    seen_unix_ms: int
    #: The row as it is now; of a deleted one, as it was last.
    object: Any


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Rows as they were read last, and what is to be known about that."""

    kind: type[msgspec.Struct]
    rows: Rows
    read_unix_ms: int
    #: Sentences about what is missing or failed.
    warnings: tuple[str, ...] = ()
    #: Whether every later reading has failed.
    is_old: bool = False
    #: Whether servers notify of all changes.
    is_live: bool = False


async def watch(settings: SiteSettings, style: Style, take: Take) -> None:
    """Run a command, with an output to show its rows in, until the operator interrupts; raises CommandFailed."""
    if style.output_format == "json":
        raise WrongUse("-o json is one document, which --watch cannot write: use -o jsonl, csv or table")
    is_screen = style.output_format == "table" and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    view = ScreenView(style) if is_screen else LinesView(style)
    run = _WatchedRun(settings, take, view)
    task = asyncio.current_task()
    assert task is not None, "a coroutine of asyncio.run is a task"
    loop = asyncio.get_running_loop()
    # A terminal must not be left as it is while watched. SIGINT is asyncio's.
    terminated = asyncio.Event()

    def terminate() -> None:
        terminated.set()
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, terminate)
    loop.add_signal_handler(signal.SIGWINCH, run.redraw)
    try:
        await run.run()
    except asyncio.CancelledError:
        if terminated.is_set():
            raise click.Abort from None
        raise
    finally:
        view.close()


class WatchedOutput(PrintedOutput):
    def __init__(self) -> None:
        super().__init__(Style())
        self.rows: Sequence[msgspec.Struct] | None = None
        self.kind: type[msgspec.Struct] | None = None
        self.is_partial = False
        self.notes: list[str] = []

    def show(self, rows: Sequence[msgspec.Struct], kind: type[msgspec.Struct], *, is_partial: bool = False) -> None:
        self.rows, self.kind, self.is_partial = rows, kind, is_partial

    def note(self, text: str) -> None:
        self.notes.append(text)


class _WatchedRun:
    """The rows as they were read last, and what says that they may have changed."""

    def __init__(self, settings: SiteSettings, take: Take, view: "LinesView") -> None:
        self._settings = settings
        self._take = take
        self._view = view
        self._work = asyncio.Event()
        self._feed: ChangeFeed | None = None
        self._follows: Sequence[str] | None = None
        self._former: Reading | None = None

    async def run(self) -> None:
        """Read and show until cancelled; raises CommandFailed if the first reading gives no rows."""
        while True:
            await self._read()
            if self._feed is None:
                self._feed = ChangeFeed(self._settings, self._follows or (), self._work.set)
            await self._wait()

    def redraw(self) -> None:
        """Show again what was read last: the terminal has another size."""
        if self._former is not None:
            self._view.update(self._former, self._former)

    async def _read(self) -> None:
        output, failure = WatchedOutput(), None
        try:
            await self._take(output)
        except CommandFailed as error:
            if self._former is None and output.rows is None:
                raise
            failure = error
        self._follows = output.follows
        reading = self._reading(output, failure)
        self._view.update(self._former, reading)
        self._former = reading

    def _reading(self, output: WatchedOutput, failure: CommandFailed | None) -> Reading:
        former = self._former
        warnings = (*output.notes, *([str(failure)] if failure is not None else []))
        now_unix_ms = SystemClock().unix_ms()
        kind = output.kind or (former.kind if former is not None else None)
        assert kind is not None, "the first reading has rows"
        if output.rows is None and former is not None and not isinstance(failure, UnknownName):
            # Nobody knows what the rows are now: those that were are no deleted ones.
            return msgspec.structs.replace(former, warnings=warnings, is_old=True, is_live=self._is_live)
        rows = keyed(output.rows or ())
        if output.is_partial and former is not None:
            rows |= {key: row for key, row in former.rows.items() if key not in rows}
        return Reading(kind=kind, rows=rows, read_unix_ms=now_unix_ms, warnings=warnings, is_live=self._is_live)

    @property
    def _is_live(self) -> bool:
        return self._follows is not None and self._feed is not None and self._feed.is_complete

    async def _wait(self) -> None:
        is_old = self._former is not None and self._former.is_old
        try:
            async with asyncio.timeout(RESYNC_S if self._is_live and not is_old else POLL_S):
                await self._work.wait()
            await asyncio.sleep(GATHER_S)
        except TimeoutError:
            pass
        self._work.clear()


class ChangeFeed:
    """Calls back when NameServers notify of a change of routes, or of brokers where no topics are given.

    Notices are server-sent events (docs/route-watch.md), which a thread for each NameServer reads. A server that has
    none, as one of Java, is tried again from time to time, as it may be replaced.
    """

    def __init__(self, settings: SiteSettings, topics: Sequence[str], noticed: Callable[[], None]) -> None:
        """Start to read; `noticed` is called in the event loop, after changes, and as a stream begins or ends."""
        self._settings = settings
        query = urlencode([("topic", topic) for topic in topics])
        self._target = f"/v1/routes/watch?{query}" if topics else "/v1/cluster/watch"
        self._noticed = noticed
        self._loop = asyncio.get_running_loop()
        self._live: set[str] = set()
        for url in settings.namesrv_http:
            # Nothing waits for these threads: most of the time they read what does not come.
            threading.Thread(target=self._follow, args=(url,), daemon=True).start()

    @property
    def is_complete(self) -> bool:
        """Whether every NameServer notifies of its changes."""
        urls = self._settings.namesrv_http
        return len(self._live) == len(urls) >= len(self._settings.namesrv)

    def _follow(self, url: str) -> None:
        retry_s = RETRY_S_MIN
        pause = threading.Event()
        while True:
            try:
                for event in self._events(url):
                    retry_s = RETRY_S_MIN
                    self._notify(url, is_live=event != _CLOSING)
            except (OSError, ValueError, http.client.HTTPException):
                # No stream, or no more of it: rows are read every 2 s then, and a failure of that is shown.
                pass
            self._notify(url, is_live=False)
            pause.wait(retry_s)
            retry_s = min(retry_s * 2, RETRY_S_MAX)

    def _events(self, url: str) -> Iterator[bytes]:
        """Yield the names of events until the stream ends; raises OSError, ValueError and HTTPException."""
        connection = connection_to(url, self._settings.timeout_s, self._settings.tls_ca)
        try:
            connection.request("GET", self._target, headers={"Accept": "text/event-stream"})
            if connection.sock is not None:
                connection.sock.settimeout(SILENCE_S_MAX)
            answer = connection.getresponse()
            if answer.status != _OK:
                return
            while line := answer.readline(LINE_BYTES_MAX):
                if line.startswith(_EVENT):
                    yield line.removeprefix(_EVENT).strip()
        finally:
            connection.close()

    def _notify(self, url: str, *, is_live: bool) -> None:
        try:
            self._loop.call_soon_threadsafe(self._note, url, is_live)
        except RuntimeError:
            # The loop is closed: the command ends.
            return

    def _note(self, url: str, is_live: bool) -> None:  # noqa: FBT001  # handed over by position
        was_live = url in self._live
        if is_live:
            self._live.add(url)
        else:
            self._live.discard(url)
        if is_live or was_live:
            self._noticed()


class LinesView:
    """Writes a line for each change, and sentences about failures to standard error, each once."""

    def __init__(self, style: Style) -> None:
        self._style = style

    def update(self, former: Reading | None, reading: Reading) -> None:
        before = {} if former is None else former.rows
        changes = changes_between(before, reading.rows, reading.read_unix_ms)
        if changes or (former is None and self._style.output_format != "jsonl"):
            click.echo(rendered_changes(changes, reading.kind, self._style), nl=False)
            if self._style.output_format == "csv":
                # One header for all.
                self._style = msgspec.structs.replace(self._style, has_header=False)
        known = () if former is None else former.warnings
        for text in reading.warnings:
            if text not in known:
                waits = "; trying again every 2 s" if reading.is_old else ""
                click.echo(f"rmq: {printable(text)}{waits}", err=True)
        if former is not None and former.is_old and not reading.is_old:
            click.echo("rmq: answers again", err=True)

    def close(self) -> None:
        """Leave the terminal as it was."""


class ScreenView(LinesView):
    def __init__(self, style: Style) -> None:
        super().__init__(style)
        self._lines: list[str] = []

    def update(self, former: Reading | None, reading: Reading) -> None:  # noqa: ARG002  # a picture shows what is
        size = os.get_terminal_size(sys.stdout.fileno())
        style = msgspec.structs.replace(self._style, width=size.columns or None)
        # A command that fails at once leaves its message where one looks for it.
        opening = "" if self._lines else _OPEN
        rows = list(reading.rows.values())
        self._lines = picture(rows, reading.kind, style, [_state(reading), *reading.warnings], size.lines)
        sys.stdout.write(opening + _HOME + _END_OF_LINE.join(self._lines) + _REST)
        sys.stdout.flush()

    def close(self) -> None:
        if self._lines:
            sys.stdout.write(_CLOSE + "\n".join([*self._lines, ""]))
            sys.stdout.flush()


def _state(reading: Reading) -> str:
    read = datetime.fromtimestamp(reading.read_unix_ms // 1000, UTC).isoformat().replace("+00:00", "Z")
    how = "notified of changes" if reading.is_live else "read every 2 s"
    if reading.is_old:
        return f"OLD, as of {read}: no answer since, {how}"
    return f"{read}  {len(reading.rows)} rows, {how}; Ctrl-C ends"


def picture(
    rows: Sequence[msgspec.Struct], kind: type[msgspec.Struct], style: Style, head: Sequence[str], height: int
) -> list[str]:
    """Return the lines of a screen of this height: sentences, as many rows as fit, and how many there are in all."""
    above = [*map(printable, head), ""]
    space = max(height - len(above) - 1, _LINES_MIN)
    # A row takes a line at least, so that more rows need not be drawn.
    lines = rendered(rows[:space], kind, style).splitlines()
    if len(lines) <= space and len(rows) <= space:
        return [*above, *lines]
    return [*above, *lines[:space], f"… {len(rows)} rows in all; a larger window, or a pipe, shows more"]


def keyed(rows: Iterable[msgspec.Struct]) -> dict[Key, msgspec.Struct]:
    counted: Counter[bytes] = Counter()
    found: dict[Key, msgspec.Struct] = {}
    for row in rows:
        names: tuple[str, ...] | None = getattr(type(row), "row_key", None)
        key = msgspec.json.encode(row if names is None else [getattr(row, name) for name in names])
        found[key, counted[key]] = row
        counted[key] += 1
    return found


def changes_between(before: Rows, after: Rows, seen_unix_ms: int) -> list[RowChange]:
    """Return what was deleted, then what was added or modified in the order of the rows."""
    changes = [
        RowChange(type="DELETED", seen_unix_ms=seen_unix_ms, object=row)
        for key, row in before.items()
        if key not in after
    ]
    return changes + [
        RowChange(type="MODIFIED" if key in before else "ADDED", seen_unix_ms=seen_unix_ms, object=row)
        for key, row in after.items()
        if before.get(key) != row
    ]


def rendered_changes(changes: Sequence[RowChange], kind: type[msgspec.Struct], style: Style) -> str:
    """Return the changes of rows of one kind: JSON lines as `object`, tables and CSV with `type` in front."""
    if style.output_format == "jsonl":
        return rendered(changes, RowChange, style)
    flat = _flat_kind(kind)
    rows = [flat(change.type, change.seen_unix_ms, *msgspec.structs.astuple(change.object)) for change in changes]
    return rendered(rows, flat, style)


@lru_cache
def _flat_kind(kind: type[msgspec.Struct]) -> type[msgspec.Struct]:
    fields = [(field.name, field.type) for field in msgspec.structs.fields(kind)]
    return msgspec.defstruct(f"Changed{kind.__name__}", [("type", str), ("seen_unix_ms", int), *fields], rename="camel")
