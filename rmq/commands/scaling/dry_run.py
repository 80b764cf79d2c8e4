"""`rmq scaling dry-run`: the program rmq-scaling-dry-run, in the place of this process."""

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec

import click

from rmq.failures import NotSupportedThere

_MODULE = "controller.dry_run"


@click.command("dry-run", context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def dry_run(arguments: Sequence[str]) -> None:
    """Play recorded samples to policies: which resizes there would have been (controller/SCALING.md)."""
    if find_spec(_MODULE.partition(".")[0]) is None:
        raise NotSupportedThere("the controller is not installed here: run rmq-scaling-dry-run where it is")
    sys.stdout.flush()
    # -P: not what the present folder has under this name.
    os.execv(sys.executable, [sys.executable, "-P", "-m", _MODULE, *arguments])  # noqa: S606  # no shell: its own arguments
