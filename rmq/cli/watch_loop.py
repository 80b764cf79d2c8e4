"""`--watch`: a command is run again and again, and what changed of its rows is shown, until it is interrupted."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

import click
import msgspec

from remoting.clock import SystemClock
from rmq.cli.printed_output import CommandOutput
from rmq.cli.watch_views import Reading, WatchView, view_of
from rmq.failures import CommandFailed, UnknownName, WrongUse
from rmq.output.changes import keyed
from rmq.output.formats import Style
from rmq.site.change_feed import ChangeFeed
from rmq.site.settings import SiteSettings

POLL_S: Final = 2.0
#: While every NameServer notifies of changes: in case that one is lost on the way.
RESYNC_S: Final = 30.0
#: Changes within this time are read together.
GATHER_S: Final = 0.1

Take = Callable[[CommandOutput], Awaitable[None]]


class ChangeSource(NamedTuple):
    """What notifies of changes."""

    #: Blank: brokers.
    topics: tuple[str, ...] = ()
    #: Whether the rows change with nothing else.
    is_enough: bool = False


class WatchedOutput:
    """Keeps what one run of the command shows."""

    def __init__(self) -> None:
        self.rows: Sequence[msgspec.Struct] | None = None
        self.kind: type[msgspec.Struct] | None = None
        self.is_partial = False
        self.notes: list[str] = []
        self.source = ChangeSource()

    def show(self, rows: Sequence[msgspec.Struct], kind: type[msgspec.Struct], *, is_partial: bool = False) -> None:
        """Keep rows."""
        self.rows, self.kind, self.is_partial = rows, kind, is_partial

    def note(self, text: str) -> None:
        """Keep a sentence."""
        self.notes.append(text)

    def follow_brokers(self) -> None:
        """Keep that the rows change only as brokers register or leave."""
        self.source = ChangeSource((), is_enough=True)

    def follow_routes(self, topics: Sequence[str]) -> None:
        """Keep that the rows change only with the routes of these topics."""
        self.source = ChangeSource(tuple(topics), is_enough=True)


class _WatchedRun:
    """The rows as they were read last, and what says that they may have changed."""

    def __init__(self, settings: SiteSettings, take: Take, view: WatchView) -> None:
        self._settings = settings
        self._take = take
        self._view = view
        self._work = asyncio.Event()
        self._feed: ChangeFeed | None = None
        self._source = ChangeSource()
        self._former: Reading | None = None

    async def run(self) -> None:
        """Read and show until cancelled; raises CommandFailed if the first reading gives no rows."""
        while True:
            await self._read()
            if self._feed is None:
                self._feed = ChangeFeed(self._settings, self._source.topics, self._work.set)
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
        self._source = output.source
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
            rows = {**rows, **{key: row for key, row in former.rows.items() if key not in rows}}
        return Reading(kind=kind, rows=rows, read_unix_ms=now_unix_ms, warnings=warnings, is_live=self._is_live)

    @property
    def _is_live(self) -> bool:
        return self._source.is_enough and self._feed is not None and self._feed.is_complete

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(RESYNC_S if self._is_live and not self._is_old else POLL_S):
                await self._work.wait()
            await asyncio.sleep(GATHER_S)
        except TimeoutError:
            pass
        self._work.clear()

    @property
    def _is_old(self) -> bool:
        return self._former is not None and self._former.is_old


async def watch(settings: SiteSettings, style: Style, take: Take) -> None:
    """Run a command, with an output to show its rows in, until the operator interrupts; raises CommandFailed."""
    if style.output_format == "json":
        raise WrongUse("--watch writes a change at a time: take -o jsonl, csv or table; json is one document")
    view = view_of(style)
    run = _WatchedRun(settings, take, view)
    task = asyncio.current_task()
    assert task is not None, "a coroutine of asyncio.run is a task"
    loop = asyncio.get_running_loop()
    # A terminal must not be left as it is while watched. SIGINT is asyncio's.
    terminated = asyncio.Event()

    def terminate() -> None:
        terminated.set()
        task.cancel()

    for each in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(each, terminate)
    loop.add_signal_handler(signal.SIGWINCH, run.redraw)
    with view:
        try:
            await run.run()
        except asyncio.CancelledError:
            if terminated.is_set():
                raise click.Abort from None
            raise
