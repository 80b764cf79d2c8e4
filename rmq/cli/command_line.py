"""The command line as a whole: it runs a command and turns whatever happens into an exit code and a sentence."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import click

from rmq.cli.lazy_groups import LazyGroup, Noun, Verb
from rmq.cli.options import common_options
from rmq.cli.standard_streams import drop_output, open_standard_streams
from rmq.failures import CommandFailed, ExitCode, WrongUse
from rmq.output.printable import printable

DEBUG_VARIABLE: Final = "RMQ_DEBUG"
PROGRAM: Final = "rmq"

_SUMMARY: Final = """One command for operators of RocketMQ: of these servers, and of the Java ones.

Every option may stand before or behind the command. Exit codes and examples: docs/rmq.md."""


def root(commands: Mapping[str, Verb | Noun]) -> click.Group:
    """Return the command `rmq` with these commands."""
    return LazyGroup(PROGRAM, commands, help=_SUMMARY, params=common_options(is_hidden=False))


def run(commands: Mapping[str, Verb | Noun], arguments: Sequence[str]) -> int:
    """Run a command; returns the exit code."""
    open_standard_streams()
    try:
        _check_text(arguments)
        # Options such as --help end with 0; of the commands only mqadmin returns a code, which is mqadmin's own.
        code = root(commands).main(list(arguments), prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
    except CommandFailed as failure:
        return _failed(str(failure), failure.exit_code)
    except click.ClickException as error:
        # It repeats words of the command line, which a script may have from servers. Help has many lines.
        error.message = "\n".join(map(printable, error.message.split("\n")))  # type: ignore[misc]  # only we have it
        error.show()
        return ExitCode.WRONG_USE
    except (click.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # Who reads has enough, as `head` has: click makes a SystemExit of that, and of nothing else.
        drop_output()
        return ExitCode.DONE
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        return _failed(f"{type(error).__name__}: {error}. {DEBUG_VARIABLE}=1 shows where", ExitCode.REFUSED)
    return code if isinstance(code, int) else ExitCode.DONE


def _check_text(arguments: Sequence[str]) -> None:
    """Raise WrongUse for an argument that is no UTF-8: no server could get it."""
    for number, each in enumerate(arguments, start=1):
        try:
            each.encode()
        except UnicodeEncodeError:
            raise WrongUse(f"argument {number} is no UTF-8: {each!a}") from None


def _failed(sentence: str, code: ExitCode) -> int:
    try:
        sys.stdout.flush()
    except OSError:
        # The sentence may be about this: the disk is full, or nobody reads.
        drop_output()
    click.echo(f"{PROGRAM}: {printable(sentence)}", err=True)
    return code
