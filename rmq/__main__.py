"""Runs a command: `rmq`, or `python -m rmq`."""

import gc
import sys
from typing import Final

#: Almost all objects of a run are modules and their classes, which stay: to look through them again and again while
#: they load costs 20 ms.
OBJECTS_BETWEEN_COLLECTIONS: Final = 50_000
#: As in rmq/failures.py, which is not loaded yet.
INTERRUPTED: Final = 130


def main() -> None:
    """Run the command of the command line and exit with its code."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    try:
        # They load most modules.
        from rmq.cli.command_line import run  # noqa: PLC0415
        from rmq.commands.table import COMMANDS  # noqa: PLC0415

        code = run(COMMANDS, sys.argv[1:])
    except KeyboardInterrupt:
        # Nothing was sent yet, or all is done: what is sent takes notice of it by itself.
        code = INTERRUPTED
    sys.exit(code)


if __name__ == "__main__":
    main()
