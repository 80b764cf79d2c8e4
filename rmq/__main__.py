"""Runs a command: `rmq`, or `python -m rmq`."""

import sys

from rmq.cli.command_line import run
from rmq.commands.table import COMMANDS


def main() -> None:
    """Run the command of the command line and exit with its code."""
    sys.exit(run(COMMANDS, sys.argv[1:]))


if __name__ == "__main__":
    main()
