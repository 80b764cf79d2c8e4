"""Standard input, output and error of this process, also where whoever started it has closed them."""

import os
import sys
from pathlib import Path
from typing import TextIO, cast


def open_standard_streams() -> None:
    """Let all of them be there. Standard output takes what no server could get as UTF-8."""
    if sys.stdin is None:
        sys.stdin = _nothing("r")
    if sys.stdout is None:
        sys.stdout = _nothing("w")
    if sys.stderr is None:
        sys.stderr = _nothing("w")
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # a text file in every process


def drop_output() -> None:
    """Write nothing more to standard output: Python would complain at its end about what is left to be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _nothing(mode: str) -> TextIO:
    return cast("TextIO", Path(os.devnull).open(mode, encoding="utf-8"))
