"""Keeps the number of the last change beside a file, a moment later: SQLite ends a damaged log without an error.

And an older copy that was put in the place of the file looks as whole as the newer one.
"""

import threading
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from controller.offsets.storage.sqlite_file import FileDamaged, FileProblem
from serving.durable_file import DurableFileError
from store.high_water import DamagedMark, HighWater

#: How long after a change its number is written: no acknowledgement waits for a second write.
LAG_S: Final = 0.05


class MarkedFile(NamedTuple):
    """The file beside a mark, in sentences for operators."""

    #: `journal`.
    title: str
    #: What is counted: `records`.
    counted: str
    #: What follows where an operator goes on with what is left.
    loss: str


class LaggingMark:
    """The number of the last change that is known to be stored; never ahead of the file."""

    def __init__(self, path: Path, number: int, marked: MarkedFile) -> None:
        """Open the mark, or make it; raises FileDamaged if it counts more than `number`, or FileProblem."""
        remedy = f"Restore the whole folder from a backup. To go on with what is left, remove this file: {marked.loss}"
        try:
            self._mark = HighWater(path)
        except (OSError, DurableFileError) as error:
            raise FileProblem(path, f"it cannot be used: {error}; check the folder, its owner and its disk") from None
        except DamagedMark:
            raise FileDamaged(
                path, f"it is damaged, so nobody knows whether the {marked.title} beside it is whole: {remedy}"
            ) from None
        if number < self._mark.number:
            counted, lacking = self._mark.number, self._mark.number - number
            self._mark.close()
            raise FileDamaged(
                path,
                f"it counts {counted} {marked.counted}, and the {marked.title} beside it lacks {lacking}: its log is "
                f"damaged, or an older copy was put in its place. {remedy}",
            )
        self._number = number
        self._is_closing = threading.Event()
        self._is_behind = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"offset-{marked.title}-mark", daemon=True)
        self._mark.raise_to(number)

    def follow(self, number: int) -> None:
        """Write this number soon; from one thread, that of the file."""
        self._number = number
        self._is_behind.set()
        if self._thread.ident is None:
            self._thread.start()

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
