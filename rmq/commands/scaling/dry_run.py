"""`rmq scaling dry-run`: the program rmq-scaling-dry-run, in the place of this process."""

import os
import sys
from collections.abc import Sequence

import click

_MODULE = "controller.dry_run"


@click.command("dry-run", context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def dry_run(arguments: Sequence[str]) -> None:
    """Play recorded samples to policies: which resizes there would have been (controller/SCALING.md)."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", _MODULE, *arguments])  # noqa: S606  # no shell: its own arguments
