"""Runs a command: `rmq`, or `python -m rmq`."""

import gc
import sys
from typing import Final

#: Almost all objects of a run are modules and their classes, which stay: to look through them again and again while
#: they load costs 20 ms.
OBJECTS_BETWEEN_COLLECTIONS: Final = 50_000


def main() -> None:
    """Run the command of the command line and exit with its code."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    # They load most modules.
    from rmq.cli.command_line import run  # noqa: PLC0415
    from rmq.commands.table import COMMANDS  # noqa: PLC0415

    sys.exit(run(COMMANDS, sys.argv[1:]))


if __name__ == "__main__":
    main()
