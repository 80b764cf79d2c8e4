"""The command line as a whole: it runs a command and turns whatever happens into an exit code and a sentence."""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO, cast

import click

from rmq.cli.options import common_options
from rmq.failures import CommandFailed, ExitCode, NotSupportedThere, WrongUse, unknown_sentence
from rmq.output.printable import printable

DEBUG_VARIABLE: Final = "RMQ_DEBUG"
PROGRAM: Final = "rmq"
_SUMMARY: Final = """Show and change RocketMQ clusters, with these servers or those of Java.

These options may stand before or after the command. Exit codes and examples: docs/rmq.md."""


class Verb(NamedTuple):
    #: Module and function, below `rmq`.
    place: str
    summary: str


class Noun(NamedTuple):
    summary: str
    verbs: Mapping[str, Verb]


class LazyGroup(click.Group):
    def __init__(self, name: str, entries: Mapping[str, "Verb | Noun"], **settings: Any) -> None:
        super().__init__(name=name, no_args_is_help=True, **settings)
        self._entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # the name is click's
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # the name is click's
        """Import and return a command; None for an unknown name."""
        entry = self._entries.get(cmd_name)
        if isinstance(entry, Noun):
            return LazyGroup(cmd_name, entry.verbs, help=entry.summary, short_help=entry.summary)
        if entry is None:
            return None
        try:
            module, _, function = entry.place.rpartition(".")
            command: click.Command = getattr(import_module(f"rmq.{module}"), function)
        except ModuleNotFoundError as error:
            what = f"{cmd_name} needs {error.name}, which is not installed here"
            raise NotSupportedThere(f"{what}: pip install 'rocketmq-control-plane[server]'") from None
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command at hand; an unknown name ends it with names like it."""
        if not ctx.resilient_parsing and args[0] not in self._entries and not args[0].startswith("-"):
            ctx.fail(unknown_sentence("command", args[0], self._entries))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # the name is click's
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self._entries.items()])


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
            raise WrongUse(f"argument {number} is not UTF-8: {each!a}") from None


def _failed(sentence: str, code: ExitCode) -> int:
    try:
        sys.stdout.flush()
    except OSError:
        # The sentence may be about this: the disk is full, or nobody reads.
        drop_output()
    click.echo(f"{PROGRAM}: {printable(sentence)}", err=True)
    return code
