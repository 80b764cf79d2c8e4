"""Log lines of an agent: one JSON object each, on standard output. A reader that stops costs lines, never time."""

import contextlib
import json
import os
from datetime import UTC, datetime
from typing import Final

from remoting.clock import Clock
from role_agent.events import AgentEvent

_STDOUT: Final = 1
#: Lines of one event about one subject within this time are counted, not written.
_GAP_MS: Final = 10_000
#: Subjects whose last line is remembered; events of agents have few.
_SUBJECTS_MAX: Final = 1000


class AgentLog:
    """Writes events; those of warnings and errors at most once in 10 s for each subject."""

    def __init__(self, clock: Clock, bound: dict[str, object]) -> None:
        self._clock, self._bound = clock, bound
        self._last_ms: dict[tuple[str, str], int] = {}
        self._suppressed: dict[tuple[str, str], int] = {}
        if not os.isatty(_STDOUT):
            os.set_blocking(_STDOUT, False)

    def write(self, event: AgentEvent, **keys: object) -> None:
        """Write an event; a warning or error that is repeated within 10 s is only counted."""
        self.write_about("", event, keys)

    def write_about(self, subject: str, event: AgentEvent, keys: dict[str, object]) -> None:
        """Write an event as `write` does, with a count of its own for each subject."""
        about = (event.key, subject)
        if event.level != "info" and not self._passes(about):
            return
        if suppressed := self._suppressed.pop(about, 0):
            keys = {**keys, "suppressed": suppressed}
        at = datetime.fromtimestamp(self._clock.unix_ms() / 1000, UTC).isoformat(timespec="milliseconds")
        line = {
            "timestamp": at.replace("+00:00", "Z"),
            "level": event.level,
            "event": event.key,
            **self._bound,
            **keys,
        }
        with contextlib.suppress(OSError):
            os.write(_STDOUT, json.dumps(line, default=str).encode() + b"\n")

    def _passes(self, about: tuple[str, str]) -> bool:
        now_ms = self._clock.now_ms()
        last_ms = self._last_ms.get(about)
        if last_ms is not None and now_ms - last_ms < _GAP_MS:
            self._suppressed[about] = self._suppressed.get(about, 0) + 1
            return False
        if len(self._last_ms) >= _SUBJECTS_MAX:
            self._last_ms.clear()
            self._suppressed.clear()
        self._last_ms[about] = now_ms
        return True
