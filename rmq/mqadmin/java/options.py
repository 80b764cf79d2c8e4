"""Options and usage of a command: `Options`, `DefaultParser` and `HelpFormatter` of commons-cli 1.5. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

_QUOTE = '"'
_WIDTH: Final = 110
_PREFIX: Final = "usage: "
_GAP: Final = "   "


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
        return f"-{self.short}" if self.short else f"--{self.long}"


class ExclusiveOptions(NamedTuple):
    options: tuple[CommandOption, ...]

    @property
    def text(self) -> str:
        return f"[{', '.join(f'{each.flag} {each.summary}' for each in self.options)}]"


@dataclass(frozen=True, slots=True)
class CommandOptions:
    """The options of a command, in the order in which mqadmin adds them."""

    entries: tuple[CommandOption | ExclusiveOptions, ...]

    def __iter__(self) -> Iterator[CommandOption]:
        for entry in self.entries:
            yield from entry.options if isinstance(entry, ExclusiveOptions) else (entry,)

    def group_of(self, option: CommandOption) -> ExclusiveOptions | None:
        return next(
            (each for each in self.entries if isinstance(each, ExclusiveOptions) and option in each.options), None
        )

    def named(self, name: str) -> CommandOption | None:
        return next((each for each in self if name in (each.short, each.long)), None)

    def is_short(self, name: str) -> bool:
        return bool(name) and any(each.short == name for each in self)

    def is_long(self, name: str) -> bool:
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


def either(*options: CommandOption) -> ExclusiveOptions:
    """Return options of which one has to be given, and only one."""
    return ExclusiveOptions(options)


def value(short: str | None, long: str, summary: str, *, required: bool = False) -> CommandOption:
    return CommandOption(short, long, summary, has_value=True, is_required=required)


def switch(short: str, long: str, summary: str) -> CommandOption:
    return CommandOption(short, long, summary, has_value=False)


_COMMON = (
    switch("h", "help", "Print help"),
    value("n", "namesrvAddr", "Name server address list, eg: '192.168.0.1:9876;192.168.0.2:9876'"),
)


class OptionsError(Exception):
    """The words cannot be read; the text is that of commons-cli."""


class CommandLine:
    def __init__(self, values: dict[str, str | None]) -> None:
        self._values = values

    def has(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str) -> str | None:
        """Return the value of an option without blanks around it; None if it was not given."""
        found = self._values.get(name)
        return None if found is None else found.strip()

    def needed(self, name: str) -> str:
        found = self.text(name)
        assert found is not None, "a line without a required option is not read"
        return found


def read_words(options: CommandOptions, words: Sequence[str]) -> CommandLine:
    """Return what the words of a command line give; raises OptionsError."""
    reader = _WordReader(options)
    for word in words:
        reader.take(word)
    return reader.end()


class _WordReader:
    def __init__(self, options: CommandOptions) -> None:
        self._options = options
        self._values: dict[str, str | None] = {}
        #: The option whose value comes next.
        self._open: CommandOption | None = None
        self._chosen: dict[ExclusiveOptions, CommandOption] = {}
        self._only_words = False

    def take(self, word: str) -> None:
        if self._only_words:
            return
        if word == "--":
            self._only_words = True
        elif self._open is not None and self._is_value(word):
            self._give(_unquoted(word))
        elif word.startswith("--"):
            self._long(word)
        elif word.startswith("-") and word != "-":
            self._short_or_long(word)

    def end(self) -> CommandLine:
        self._check_value()
        missing = [
            entry.text if isinstance(entry, ExclusiveOptions) else entry.key
            for entry in self._options.entries
            if (isinstance(entry, ExclusiveOptions) or entry.is_required) and not self._is_given(entry)
        ]
        if missing:
            raise OptionsError(f"Missing required option{'s' if len(missing) > 1 else ''}: {', '.join(missing)}")
        return CommandLine(self._values)

    def _is_given(self, entry: CommandOption | ExclusiveOptions) -> bool:
        return entry in self._chosen if isinstance(entry, ExclusiveOptions) else entry.key in self._values

    def _is_value(self, word: str) -> bool:
        return not self._is_option(word) or _is_negative_number(word)

    def _is_option(self, word: str) -> bool:
        if not word.startswith("-") or word == "-":
            return False
        name = word.lstrip("-").partition("=")[0]
        short = word[1:].partition("=")[0]
        return (
            bool(self._options.matching_long(name))
            or (not word.startswith("--") and self._long_prefix(name) is not None)
            or self._options.is_short(short)
            or self._options.is_short(short[:1])
        )

    def _long(self, word: str) -> None:
        name, equals, given = _hyphenless(word).partition("=")
        option = self._matching(word, name)
        if equals and not option.has_value:
            raise _unknown(word)
        self._open_option(option)
        if equals:
            self._give(given)

    def _matching(self, word: str, name: str) -> CommandOption:
        matching = self._options.matching_long(name)
        if not matching:
            raise _unknown(word)
        if len(matching) > 1:
            texts = ", ".join(f"'{each}'" for each in matching)
            raise OptionsError(f"Ambiguous option: '{word.partition('=')[0]}'  (could be: {texts})")
        option = self._options.named(matching[0])
        assert option is not None, "a long name that matches is that of an option"
        return option

    def _short_or_long(self, word: str) -> None:
        text = _hyphenless(word)
        name, equals, given = text.partition("=")
        if equals:
            self._with_equals(word, name, given)
        elif self._options.is_short(text):
            self._open_option(self._named(text))
        elif len(text) > 1 and self._options.matching_long(text):
            self._long(word)
        elif len(text) > 1 and (prefix := self._long_prefix(text)) is not None and self._named(prefix).has_value:
            self._open_option(self._named(prefix))
            self._give(text[len(prefix) :])
        elif len(text) > 1:
            self._joined(word)
        else:
            raise _unknown(word)

    def _with_equals(self, word: str, name: str, given: str) -> None:
        if len(name) > 1:
            self._long(word)
            return
        option = self._options.named(name)
        if option is None or not option.has_value:
            raise _unknown(word)
        self._open_option(option)
        self._give(given)

    def _joined(self, word: str) -> None:
        """Read several letters: options without value, and at last one with the rest as its value."""
        for at in range(1, len(word)):
            option = self._options.named(word[at])
            if option is None:
                raise _unknown(word)
            self._open_option(option)
            if self._open is not None and at + 1 < len(word):
                self._give(_unquoted(word[at + 1 :]))
                return

    def _named(self, name: str) -> CommandOption:
        option = self._options.named(name)
        assert option is not None, "the name is known to be that of an option"
        return option

    def _long_prefix(self, text: str) -> str | None:
        return next((text[:end] for end in range(len(text) - 2, 1, -1) if self._options.is_long(text[:end])), None)

    def _open_option(self, option: CommandOption) -> None:
        self._check_value()
        group = self._options.group_of(option)
        if group is not None:
            chosen = self._chosen.setdefault(group, option)
            if chosen != option:
                raise OptionsError(
                    f"The option '{option.key}' was specified but an option from this group has already been selected: "
                    f"'{chosen.key}'"
                )
        self._values.setdefault(option.key, None)
        self._open = option if option.has_value else None

    def _give(self, text: str) -> None:
        assert self._open is not None, "only an option with a value is given one"
        # Of an option that comes twice the first value counts.
        if self._values[self._open.key] is None:
            self._values[self._open.key] = text
        self._open = None

    def _check_value(self) -> None:
        if self._open is not None:
            raise OptionsError(f"Missing argument for option: {self._open.key}")


def _unknown(word: str) -> OptionsError:
    return OptionsError(f"Unrecognized option: {word}")


def _hyphenless(word: str) -> str:
    return word[2:] if word.startswith("--") else word.removeprefix("-")


def _unquoted(text: str) -> str:
    inner = text[1:-1]
    is_quoted = len(text) > 1 and text[0] == text[-1] == _QUOTE and _QUOTE not in inner
    return inner if is_quoted else text


def _is_negative_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def usage_of(command: str, options: CommandOptions) -> str:
    """Return the lines of `mqadmin COMMAND -h`."""
    synopsis = f"{_PREFIX}mqadmin {command} {' '.join(_synopsis(options))}"
    return _wrapped(synopsis, len(_PREFIX)) + "\n" + "\n".join(_descriptions(options)) + "\n"


def _by_key(options: Iterable[CommandOption]) -> list[CommandOption]:
    return sorted(options, key=lambda each: each.key.lower())


def _synopsis(options: CommandOptions) -> Iterator[str]:
    seen: set[ExclusiveOptions] = set()
    for option in _by_key(options):
        group = options.group_of(option)
        if group is None:
            yield _word(option) if option.is_required else f"[{_word(option)}]"
            continue
        # Where the group was before, commons-cli leaves the blank that would be before it.
        yield "" if group in seen else " | ".join(_word(each) for each in _by_key(group.options))
        seen.add(group)


def _word(option: CommandOption) -> str:
    return f"{option.flag} <arg>" if option.has_value else option.flag


def _descriptions(options: CommandOptions) -> Iterator[str]:
    names = {each: _flags(each) for each in _by_key(options)}
    width = max(map(len, names.values()))
    for option, text in names.items():
        yield _wrapped(text.ljust(width) + _GAP + option.summary, width + len(_GAP))


def _flags(option: CommandOption) -> str:
    names = f" {option.flag},--{option.long}" if option.short else f"    --{option.long}"
    return f"{names} <arg>" if option.has_value else names


def _wrapped(text: str, indent: int) -> str:
    lines = []
    at = _line_end(text)
    while at is not None:
        lines.append(text[:at].rstrip())
        text = " " * indent + text[at:].strip()
        at = _line_end(text)
        if at == indent - 1 and len(text) > _WIDTH:
            at = _WIDTH
    return "\n".join([*lines, text.rstrip() if not lines else text])


def _line_end(text: str) -> int | None:
    """Return where the line has to end; None if all of the text fits into it."""
    if len(text) <= _WIDTH:
        return None
    blank = text.rfind(" ", 0, _WIDTH + 1)
    return blank if blank > 0 else _WIDTH
