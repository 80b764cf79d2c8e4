"""The history of a server: its recorder, what any server records of itself, and what is told of the recording.

Without a folder (`historyDir`) nothing is recorded. What each server sees of brokers is its own to record.
"""

import asyncio
import contextlib
import resource
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from history.recorder import Identity, Recorder
from history.retention import BYTES_MAX, Forgotten
from history.schemas import TICK_INTERVAL_MS
from history.server_rows import Life, Tick
from remoting.clock import SystemClock
from remoting.server.statistics import ServerStatistics
from serving.logging import server_events as events
from serving.logging.logs import Logs
from serving.metrics.server_counters import ServerCounts

_STATM: Final = Path("/proc/self/statm")

#: What a server knows of its tables, by column of NS_TICK.
Measure = Callable[[], Mapping[str, int | float | None]]


class Recording:
    """Records what one server sees, for as long as it serves."""

    def __init__(self, folder: Path, identity: Identity, logs: Logs, bytes_max: int = BYTES_MAX) -> None:
        """Take where to record, who, and how many bytes of files may lie there; to be made on the event loop."""
        self._logs = logs
        self._loop = asyncio.get_running_loop()
        self.recorder = Recorder(folder, identity, SystemClock(), self, bytes_max)

    def start(self, address: str) -> None:
        """Begin to record: the server serves."""
        self.recorder.start()
        self.recorder.note(Life("ready", address=address))

    async def tick(self, measure: Measure, statistics: ServerStatistics, counts: ServerCounts) -> None:
        """Say each 10 s that the server is watching, for as long as it serves."""
        ticked_s = self._loop.time()
        rejected = sum(statistics.rejected.values())
        while True:
            await asyncio.sleep(TICK_INTERVAL_MS / 1000)
            # Where the system had no thread for it at the start.
            self.recorder.start()
            now_s = self._loop.time()
            rejected_before, rejected = rejected, sum(statistics.rejected.values())
            common = {
                "connections": sum(statistics.connections.values()),
                "loop_lag_ms": counts.take_longest_lag_s() * 1000,
                "requests_rejected": rejected - rejected_before,
                "route_bytes": _memory_bytes(),
                "interval_ms": round((now_s - ticked_s) * 1000),
            }
            self.recorder.note(Tick({**common, **measure()}))
            ticked_s = now_s

    async def close(self) -> None:
        """Write what waits, and seal all files."""
        self.recorder.note(Life("stopping"))
        await asyncio.to_thread(self.recorder.close)

    # Told by the recorder's thread

    def recording_stopped(self, error: str) -> None:
        """Note that nothing can be written."""
        self._tell(lambda: self._logs.write(events.RECORDING_STOPPED, error=error))

    def recording_resumed(self) -> None:
        """Note that it is written again."""
        self._tell(lambda: self._logs.write(events.RECORDING_RESUMED))

    def history_deleted(self, forgotten: Forgotten) -> None:
        """Note that files are gone though nobody may have read them."""
        said = {"reason": forgotten.reason, "files": forgotten.files, "bytes": forgotten.size_bytes}
        self._tell(lambda: self._logs.write(events.HISTORY_DELETED, **said))

    def _tell(self, tell: Callable[[], None]) -> None:
        # At the very end the loop is closed, and nobody is there to be told.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(tell)


def _memory_bytes() -> int | None:
    try:
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return None
