"""Keeps the number of the last record beside a journal, a moment later: SQLite ends a damaged log without an error."""

import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from controller.offsets.storage.sqlite_file import FileDamaged, FileProblem
from controller.storage.high_water import DamagedMark, HighWater
from serving.durable_file import DurableFileError

#: How long after a record its number is written: no acknowledgement waits for a second write.
LAG_S: Final = 0.05


class LaggingMark:
    """The number of the last record that is known to be stored; never ahead of the journal."""

    def __init__(self, path: Path, number: int) -> None:
        """Open the file, or make it; raises FileDamaged if it counts more records than `number`, or FileProblem."""
        self._path = path
        try:
            self._mark = HighWater(path)
        except (OSError, DurableFileError) as error:
            raise FileProblem(path, f"it cannot be used: {error}; check the folder, its owner and its disk") from None
        except DamagedMark:
            raise FileDamaged(
                path, f"it is damaged, so nobody knows whether the journal beside it is whole: {self._remedy}"
            ) from None
        if number < self._mark.number:
            lacking = (
                f"it counts {self._mark.number} records, and the journal beside it lacks {self._mark.number - number}"
            )
            self._mark.close()
            raise FileDamaged(
                path, f"{lacking}: its log is damaged, or an older copy was put in its place. {self._remedy}"
            )
        self._number = number
        self._is_closing = threading.Event()
        self._is_behind = threading.Event()
        self._thread = threading.Thread(target=self._run, name="offset-journal-mark", daemon=True)
        self._mark.raise_to(number)

    @property
    def _remedy(self) -> str:
        return (
            "Restore the whole folder from a backup. To go on with what is left, remove this file: groups then read "
            "again what they consumed since the last flush"
        )

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def follow(self, number: int) -> None:
        """Write this number soon; from the thread of the journal."""
        self._number = number
        self._is_behind.set()

    def close(self) -> None:
        """Write the last number, and close the file; blocks."""
        self._is_closing.set()
        self._is_behind.set()
        if self._thread.is_alive():
            self._thread.join()
        self._mark.close()

    def _run(self) -> None:
        while not self._is_closing.is_set():
            self._is_behind.wait()
            self._is_closing.wait(LAG_S)
            self._is_behind.clear()
            # Where it cannot be written, less is noticed later; records report their own failures.
            with suppress(OSError):
                if self._number > self._mark.number:
                    self._mark.raise_to(self._number)
