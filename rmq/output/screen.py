"""A picture of rows that is drawn over the one before. Pure: rows in, text with escape sequences out."""

from collections.abc import Sequence
from typing import Final

import msgspec

from rmq.output.formats import Style, rendered
from rmq.output.printable import printable

#: Begin: another screen than that with the shell's lines, no cursor, long lines are cut off instead of wrapped.
OPEN: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l"
CLOSE: Final = "\x1b[?7h\x1b[?25h\x1b[?1049l"

_HOME: Final = "\x1b[H"
_END_OF_LINE: Final = "\x1b[K\n"
_REST: Final = "\x1b[J"
#: A window of few lines shows the title and a row all the same.
_LINES_MIN: Final = 2


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


def drawn(lines: Sequence[str]) -> str:
    """Return what draws these lines over the whole screen."""
    return _HOME + _END_OF_LINE.join(lines) + "\x1b[K" + _REST
