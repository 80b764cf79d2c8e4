"""Groups of commands whose modules are imported only when one of their commands runs."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click

from rmq.failures import NotSupportedThere
from rmq.site.nearest import unknown_sentence


class Verb(NamedTuple):
    """One command, by its place."""

    module: str
    function: str
    summary: str


class Noun(NamedTuple):
    """The commands about one thing, by their names."""

    summary: str
    verbs: Mapping[str, Verb]


class LazyGroup(click.Group):
    """A group that knows its commands by their places."""

    def __init__(self, name: str, entries: Mapping[str, "Verb | Noun"], **settings: Any) -> None:
        super().__init__(name=name, no_args_is_help=True, **settings)
        self._entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # the name is click's
        """Return the names in the order of the table."""
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # the name is click's
        """Import and return a command; None for an unknown name."""
        entry = self._entries.get(cmd_name)
        if isinstance(entry, Noun):
            return LazyGroup(cmd_name, entry.verbs, help=entry.summary, short_help=entry.summary)
        if entry is None:
            return None
        try:
            command: click.Command = getattr(import_module(entry.module), entry.function)
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
        """Write the summaries, without importing the commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self._entries.items()])
