"""The usage of a command, as `HelpFormatter` of commons-cli prints it with a width of 110. Pure."""

from collections.abc import Iterable, Iterator
from typing import Final

from rmq.mqadmin.java.options import CommandOption, CommandOptions, ExclusiveOptions

_WIDTH: Final = 110
_PREFIX: Final = "usage: "
_GAP: Final = "   "


def usage_of(command: str, options: CommandOptions) -> str:
    """Return the lines of `mqadmin COMMAND -h`."""
    synopsis = f"{_PREFIX}mqadmin {command} {' '.join(_synopsis(options))}"
    return _wrapped(synopsis, len(_PREFIX)) + "\n" + "\n".join(_descriptions(options)) + "\n"


def _sorted(options: Iterable[CommandOption]) -> list[CommandOption]:
    return sorted(options, key=lambda each: each.key.lower())


def _synopsis(options: CommandOptions) -> Iterator[str]:
    seen: set[ExclusiveOptions] = set()
    for option in _sorted(options):
        group = options.group_of(option)
        if group is None:
            yield _word(option) if option.is_required else f"[{_word(option)}]"
            continue
        # Where the group was before, commons-cli leaves the blank that would be before it.
        text = "" if group in seen else " | ".join(_word(each) for each in _sorted(group.options))
        yield text if group.is_required or not text else f"[{text}]"
        seen.add(group)


def _word(option: CommandOption) -> str:
    return f"{option.flag} <arg>" if option.has_value else option.flag


def _descriptions(options: CommandOptions) -> Iterator[str]:
    names = {each: _names(each) for each in _sorted(options)}
    width = max(map(len, names.values()))
    for option, text in names.items():
        yield _wrapped(text.ljust(width) + _GAP + option.summary, width + len(_GAP))


def _names(option: CommandOption) -> str:
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
