"""Reads the newest results of the Spark analyses now and then, for as long as a controller serves."""

import asyncio
import contextlib
from pathlib import Path
from typing import Final

import msgspec

from controller.observability.analytics_results import AnalysisResult, Sample, samples
from controller.observability.topic_outlooks import TopicOutlooks

#: Analyses run once a day; a new result shows after so long.
_LOOK_S: Final = 30.0
#: Below the folder that `rmq-analytics` writes to.
_PLACE: Final = "results/latest"
_RESULT_BYTES_MAX: Final = 64 * 1024 * 1024

_decode: Final = msgspec.json.Decoder(AnalysisResult).decode


class ResultsReader:
    """The newest results in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / _PLACE
        #: File -> when it was written, how long it was and which one as it was read, and its content.
        self._read: dict[Path, tuple[tuple[int, int, int], AnalysisResult]] = {}
        #: What all of them come to, by now.
        self.samples: tuple[Sample, ...] = ()
        #: What A9 and A12 tell of topics, by now.
        self.outlooks = TopicOutlooks()

    async def read_results(self) -> None:
        """Look for new results for as long as the server serves."""
        while True:
            self.samples = await asyncio.to_thread(self.read)
            await asyncio.sleep(_LOOK_S)

    def read(self) -> tuple[Sample, ...]:
        """Return the samples of all results; an unreadable file keeps its last content, a removed one has none."""
        with contextlib.suppress(OSError):
            # A folder that is away for a while, as one of another machine, has not lost its results.
            paths = [each for each in self._folder.iterdir() if each.suffix == ".json"]
            self._read = {path: known for path, known in self._read.items() if path in paths}
            for path in paths:
                # A file of anybody's can be nested more deeply than it can be read.
                with contextlib.suppress(OSError, msgspec.DecodeError, RecursionError):
                    self._read_one(path)
        results = [latest for _, latest in self._read.values()]
        self.outlooks = TopicOutlooks(results)
        return tuple(samples(results))

    def _read_one(self, path: Path) -> None:
        status = path.stat()
        version = (status.st_mtime_ns, status.st_size, status.st_ino)
        known = self._read.get(path)
        if (known is None or known[0] != version) and status.st_size <= _RESULT_BYTES_MAX:
            self._read[path] = (version, _decode(path.read_bytes()))
