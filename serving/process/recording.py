"""The history of a server: its recorder, the events of the server itself, and the log lines about recording.

Without a folder (`historyDir`) nothing is recorded. What a server knows of brokers is recorded by its own package.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from history.recorder import Recorder, RecorderIdentity
from history.retention import DeletedFiles
from history.schemas import TICK_INTERVAL_MS
from history.server_rows import lifecycle, tick
from remoting.clock import SystemClock
from remoting.server.statistics import ServerStatistics
from serving import __version__
from serving.config.server_config import Config
from serving.config.server_kind import ServerKind
from serving.logging import server_events as events
from serving.logging.logs import Logs
from serving.metrics.server_counters import ServerCounters
from serving.process.system_limits import resident_bytes

#: Returns the size of a server's tables, by column of NS_TICK.
Measure = Callable[[], Mapping[str, int | float | None]]


class Recording:
    """Records what one server sees, for as long as it serves."""

    def __init__(self, folder: Path, identity: RecorderIdentity, logs: Logs, bytes_max: int) -> None:
        """Take where to record, who, and how many bytes of files may lie there; to be made on the event loop."""
        self._logs = logs
        self._loop = asyncio.get_running_loop()
        self.recorder = Recorder(folder, identity, SystemClock(), self, bytes_max)

    def start(self, address: str) -> None:
        self.recorder.start()
        self.recorder.enqueue(lifecycle("ready", address=address))

    async def tick(self, measure: Measure, statistics: ServerStatistics, counters: ServerCounters) -> None:
        ticked_s = self._loop.time()
        rejected = sum(statistics.rejected.values())
        while True:
            await asyncio.sleep(TICK_INTERVAL_MS / 1000)
            # The OS may have refused the thread at the start.
            self.recorder.start()
            now_s = self._loop.time()
            rejected_before, rejected = rejected, sum(statistics.rejected.values())
            common = {
                "connections": sum(statistics.connections.values()),
                "loop_lag_ms": counters.take_longest_lag_s() * 1000,
                "requests_rejected": rejected - rejected_before,
                # Null where the system has no /proc.
                "resident_memory_bytes": resident_bytes() or None,
                "interval_ms": round((now_s - ticked_s) * 1000),
            }
            self.recorder.enqueue(tick({**common, **measure()}))
            ticked_s = now_s

    async def close(self) -> None:
        self.recorder.enqueue(lifecycle("stopping"))
        await asyncio.to_thread(self.recorder.close)

    # Called by the recorder's thread

    def recording_stopped(self, error: str) -> None:
        self._on_loop(lambda: self._logs.write(events.RECORDING_STOPPED, error=error))

    def recording_resumed(self) -> None:
        self._on_loop(lambda: self._logs.write(events.RECORDING_RESUMED))

    def history_deleted(self, deleted: DeletedFiles) -> None:
        fields = {"reason": deleted.reason, "files": deleted.files, "bytes": deleted.size_bytes}
        self._on_loop(lambda: self._logs.write(events.HISTORY_DELETED, **fields))

    def _on_loop(self, call: Callable[[], None]) -> None:
        # At the very end the loop is closed, and nothing can be logged.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)


def recording_of(kind: ServerKind[Config], config: Config, port: int, logs: Logs) -> Recording:
    """Return the recording of a server whose port is `port`; to be made on the event loop."""
    # A server that takes any free port has no name that outlives it.
    ns_id = f"{socket.gethostname()}:{port or os.getpid()}"
    identity = RecorderIdentity(ns_id, kind.program.removeprefix("rmq-"), __version__, f"{config.bind_address}:{port}")
    return Recording(Path(config.history_dir).expanduser(), identity, logs, config.history_bytes_max)
