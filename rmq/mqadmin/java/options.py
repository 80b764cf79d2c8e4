"""Options of a command, as commons-cli's `Options` has them. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class CommandOption(NamedTuple):
    """One option; a required one of a group has its group required instead."""

    #: One letter or two; None for an option that has only a long name.
    short: str | None
    long: str
    summary: str
    has_value: bool = True
    is_required: bool = False

    @property
    def key(self) -> str:
        """What commons-cli calls it in messages and sorts it by."""
        return self.short or self.long

    @property
    def flag(self) -> str:
        """How it is written in the usage."""
        return f"-{self.short}" if self.short else f"--{self.long}"


class ExclusiveOptions(NamedTuple):
    """Options that exclude each other."""

    options: tuple[CommandOption, ...]
    is_required: bool = True

    @property
    def text(self) -> str:
        """What the message says where none of them is given."""
        return f"[{', '.join(f'{each.flag} {each.summary}' for each in self.options)}]"


@dataclass(frozen=True, slots=True)
class CommandOptions:
    """The options of a command, in the order in which mqadmin adds them."""

    entries: tuple[CommandOption | ExclusiveOptions, ...]

    def __iter__(self) -> Iterator[CommandOption]:
        for entry in self.entries:
            yield from entry.options if isinstance(entry, ExclusiveOptions) else (entry,)

    def group_of(self, option: CommandOption) -> ExclusiveOptions | None:
        """Return the group that an option is in."""
        return next(
            (each for each in self.entries if isinstance(each, ExclusiveOptions) and option in each.options), None
        )

    def named(self, name: str) -> CommandOption | None:
        """Return an option by its short or long name."""
        return next((each for each in self if name in (each.short, each.long)), None)

    def is_short(self, name: str) -> bool:
        """Return whether an option has this short name."""
        return bool(name) and any(each.short == name for each in self)

    def is_long(self, name: str) -> bool:
        """Return whether an option has this long name."""
        return any(each.long == name for each in self)

    def matching_long(self, name: str) -> list[str]:
        """Return the long names that begin so; only the name itself if there is one."""
        if self.is_long(name):
            return [name]
        return [each.long for each in self if each.long.startswith(name)]


def options_of(*entries: CommandOption | ExclusiveOptions) -> CommandOptions:
    """Return the options of a command, with those of every command before them, unless it has its own of that name."""
    own = {each.key for each in CommandOptions(entries)}
    return CommandOptions((*(each for each in _COMMON if each.key not in own), *entries))


def value(short: str | None, long: str, summary: str, *, required: bool = False) -> CommandOption:
    """Return an option with a value."""
    return CommandOption(short, long, summary, has_value=True, is_required=required)


def switch(short: str, long: str, summary: str) -> CommandOption:
    """Return an option without a value."""
    return CommandOption(short, long, summary, has_value=False)


_COMMON = (
    switch("h", "help", "Print help"),
    value("n", "namesrvAddr", "Name server address list, eg: '192.168.0.1:9876;192.168.0.2:9876'"),
)
