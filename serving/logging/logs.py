"""Log lines: one JSON object or one console line per event of the catalogue, on standard output.

A line goes to `writer.py`, so that no caller waits for a reader. structlog only renders exceptions and console lines,
and is loaded for the first of them. What other libraries write with `logging` becomes `library_logged`.
"""

import logging
import os
import threading
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, Literal, Protocol

import msgspec

from remoting.clock import Clock
from remoting.protocol.plain_text import escaped, escaped_json
from serving.logging.events import Level, LogEvent
from serving.logging.limits import Line, LogLimits, Subject
from serving.logging.server_events import LIBRARY_LOGGED

Format = Literal["auto", "json", "console"]

#: Longest text of a line; names and errors can hold what a peer sent.
TEXT_CHARS_MAX: Final = 1000

#: The descriptor that takes the lines.
STDOUT: Final = 1

#: Makes the bytes of a line.
Render = Callable[[Line], bytes]

_FRAMES_MAX: Final = 20
_LEVELS: Final = {level.word: level for level in Level}


class LineSink(Protocol):
    """What takes finished lines."""

    dropped: int

    def put(self, line: bytes) -> None:
        """Take a line, without its line end."""

    def close(self, timeout_s: float) -> None:
        """Write out what was taken, for at most so many seconds."""


class Logs:
    """Writes events of the catalogue; from any thread."""

    def __init__(self, sink: LineSink, render: Render, clock: Clock, bound: dict[str, str]) -> None:
        """Write lines with the `bound` keys, as `render` makes them, to `sink`."""
        self._sink = sink
        self._render = render
        self._clock = clock
        self._bound = bound
        self._least = Level.INFO
        self._limits = LogLimits()
        self._lock = threading.Lock()
        self._lines_dropped_logged = 0
        #: Lines written, by the word of their level.
        self.written = dict.fromkeys(_LEVELS, 0)
        self._library_handler = _LibraryHandler(self, sink)
        logging.getLogger().addHandler(self._library_handler)

    @property
    def suppressed(self) -> dict[str, int]:
        return dict(self._limits.suppressed)

    @property
    def lines_dropped(self) -> int:
        return self._sink.dropped

    def set_level(self, word: str) -> None:
        self._least = _LEVELS[word]

    def write(self, event: LogEvent, **keys: object) -> None:
        """Write an event at its level; `exc_info` takes an exception."""
        self.write_at(event.level, event, **keys)

    def write_at(self, level: Level, event: LogEvent, **keys: object) -> None:
        # Who changed what must be known whatever the level is, the change of the level itself above all.
        if level < self._least and not event.audit:
            return
        line: Line = {"timestamp": self._now(), "level": level.word, "event": event.name, **self._bound, **keys}
        if event.audit:
            line["audit"] = True
        # Who turns debug lines on wants to see every one.
        if level > Level.DEBUG:
            with self._lock:
                if not self._passes(level, line):
                    return
        self._finish([line])

    def announce(self, text: str) -> None:
        """Put a line that is no event among the others; scripts wait for some."""
        self._sink.put(text.encode())

    def write_held(self) -> None:
        """Write the errors that were held back and whose time has come; to be called each second."""
        with self._lock:
            due = self._limits.due(self._clock.now_ms())
        self._finish(due)

    def finish(self) -> None:
        """Hand over the errors that were held back, and take no more lines of libraries; others may use the sink."""
        logging.getLogger().removeHandler(self._library_handler)
        with self._lock:
            due = self._limits.all_held()
        self._finish(due)

    def close(self, timeout_s: float) -> None:
        """Write all that is left, for at most `timeout_s` seconds."""
        self.finish()
        self._sink.close(timeout_s)

    def _now(self) -> str:
        at = datetime.fromtimestamp(self._clock.unix_ms() / 1000, UTC)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _passes(self, level: Level, line: Line) -> bool:
        now_ms = self._clock.now_ms()
        if line.get("audit"):
            return self._limits.passes_total(line["event"], now_ms)
        if level is Level.ERROR:
            subject = (line["event"], (_subject(line)[1], type(line.get("exc_info"))))
            return self._limits.error_passes(subject, line, now_ms)
        return self._limits.passes(_subject(line), line, now_ms)

    def _finish(self, lines: list[Line]) -> None:
        for line in lines:
            self.written[line["level"]] += 1
            if lost := self._sink.dropped - self._lines_dropped_logged:
                self._lines_dropped_logged += lost
                line["lines_dropped"] = lost
            self._sink.put(self._render({key: _shortened(value) for key, value in line.items()}))


def open_logs(stdout: LineSink, log_format: Format, level: str, clock: Clock, bound: dict[str, str]) -> Logs:
    """Log on standard output, with the `bound` keys; `auto` is console lines on a terminal and JSON elsewhere."""
    is_console = log_format == "console" or (log_format == "auto" and os.isatty(STDOUT))
    render = console_line() if is_console else json_line()
    logs = Logs(stdout, render, clock, bound)
    logs.set_level(level)
    return logs


def json_line() -> Render:
    encode = msgspec.json.Encoder(enc_hook=str).encode

    def render(line: Line) -> bytes:
        if (error := line.pop("exc_info", None)) is not None:
            line["exception"] = _shortened(_described(error))
        try:
            text = encode(line)
        except (UnicodeEncodeError, OverflowError):
            # A path or number that JSON cannot hold must not cost the line.
            text = encode({key: ascii(value) for key, value in line.items()})
        return escaped_json(text.decode()).encode()

    return render


def _described(error: BaseException) -> Any:
    """Return the exceptions that led to an error, each with its frames; as text while nothing can be loaded."""
    try:
        from structlog.tracebacks import ExceptionDictTransformer  # noqa: PLC0415  # most servers log no exception
    except (ImportError, OSError):
        return "".join(traceback.format_exception(error, limit=-_FRAMES_MAX))
    transformed = ExceptionDictTransformer(show_locals=False, max_frames=_FRAMES_MAX)
    return transformed((type(error), error, error.__traceback__))


def console_line() -> Render:
    import structlog  # noqa: PLC0415  # JSON lines do without

    console = structlog.dev.ConsoleRenderer(
        colors=False, repr_native_str=True, sort_keys=False, exception_formatter=structlog.dev.plain_traceback
    )

    def render(line: Line) -> bytes:
        return escaped(str(console(None, "", line)), kept="\t\n").encode()

    return render


class _LibraryHandler(logging.Handler):
    """Takes what libraries write with `logging`: of several servers that share a sink, the first one does."""

    def __init__(self, logs: Logs, sink: LineSink) -> None:
        super().__init__(logging.WARNING)
        self._logs = logs
        self.sink = sink
        self.addFilter(lambda _: self._is_first())

    def _is_first(self) -> bool:
        handlers = (each for each in logging.getLogger().handlers if isinstance(each, _LibraryHandler))
        return next((each for each in handlers if each.sink is self.sink), self) is self

    def emit(self, record: logging.LogRecord) -> None:
        level = Level.ERROR if record.levelno >= logging.ERROR else Level.WARNING
        error = record.exc_info[1] if record.exc_info else None
        keys: dict[str, object] = {} if error is None else {"exc_info": error}
        try:
            message = record.getMessage()
        except (TypeError, ValueError):
            # Its arguments do not fit its format; it is written without them.
            message = str(record.msg)
        self._logs.write_at(level, LIBRARY_LOGGED, logger=record.name, message=message, **keys)


def _subject(line: Line) -> Subject:
    """Return whom a line is about: a broker, a phase of a resize, an option, a host, a library, or nobody."""
    if (broker := line.get("broker")) is not None:
        return line["event"], (broker, line.get("broker_id"))
    if (resize := line.get("resize")) is not None:
        # A resize goes through several phases within seconds, and its reader wants to know all of them.
        return line["event"], (resize, line.get("to_phase"))
    if (key := line.get("property")) is not None:
        # A file may have many lines that change nothing, and its author wants to know all of them.
        return line["event"], key
    # Without the port: who reconnects for every bad frame is still the same peer.
    peer = str(line.get("peer", ""))
    return line["event"], peer.rpartition(":")[0] or peer or line.get("addr") or line.get("logger")


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= TEXT_CHARS_MAX else value[:TEXT_CHARS_MAX] + "..."
    if isinstance(value, dict):
        return {key: _shortened(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_shortened(item) for item in value]
    return value
