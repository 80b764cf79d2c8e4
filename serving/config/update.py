"""What a request (318, 1009) makes of a configuration: all of its changes, or a refusal.

Answers to `Configuration.update` and to the black list of `DefaultRequestProcessor`. Unlike there, a value that cannot
be taken refuses the whole request, where Java answers success and changes nothing.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Final, Generic

import msgspec

from remoting.protocol.codes import ResponseCode
from remoting.protocol.errors import RequestRefused
from remoting.protocol.properties import PropertiesError, Property, parse
from serving.config.checks import BadOption, bad_option, conflicts, listed_keys, read_values
from serving.config.options import TEXT_CHARS_MAX, Closed, Fixed, Kind, Within, is_one_line, text_of
from serving.config.server_config import Config, ServerConfig
from serving.config.server_kind import ServerKind, shown_unknown

#: Longest part of a key that a remark repeats.
_KEY_SHOWN_CHARS_MAX: Final = 80
#: How many bad values a remark lists, and how many unknown keys a log line.
BAD_SHOWN_MAX: Final = 3
UNKNOWN_SHOWN_MAX: Final = 20

#: Properties of one server that decide what it runs or where it sends: the file may be another server's too, to which
#: they are unknown, and unknown ones may be changed.
OF_THE_FILE_ALONE: Final = frozenset({"onRoleChange", "onRoleChangeSets", "onRoleChangeTokenFile"})
_RUN_ELSEWHERE: Final = "it decides what a controller runs, or where it sends requests; change the file"

_SOURCE: Final = "request"
_BLACK_LISTED: Final = "configBlackList names it"


class UnreadableUpdate(RequestRefused):
    """The body is no properties text; the remark is Java's."""

    def __init__(self, problem: PropertiesError) -> None:
        self.problem = problem
        super().__init__("string2Properties error")


class Protected(msgspec.Struct, frozen=True):
    """A property that a request may not change, or not to this value."""

    key: str
    #: Why, and what to do instead; follows "because".
    why: str


class ProtectedOptions(RequestRefused):
    """Some properties may not be changed by request; the remark begins as Java's."""

    code = ResponseCode.NO_PERMISSION

    def __init__(self, protected: tuple[Protected, ...]) -> None:
        self.keys = tuple(each.key for each in protected)
        listed = "; ".join(f"{each.key[:_KEY_SHOWN_CHARS_MAX]}: {each.why}" for each in protected[:BAD_SHOWN_MAX])
        more = f"; and {len(protected) - BAD_SHOWN_MAX} more" if len(protected) > BAD_SHOWN_MAX else ""
        super().__init__(f"Can not update config in black list. {listed}{more}")


class BadUpdate(RequestRefused):
    """Some values cannot be taken, so nothing was changed."""

    code = ResponseCode.SYSTEM_ERROR

    def __init__(self, bad: tuple[BadOption, ...]) -> None:
        self.bad = bad
        listed = "; ".join(map(str, bad[:BAD_SHOWN_MAX]))
        more = f"; and {len(bad) - BAD_SHOWN_MAX} more" if len(bad) > BAD_SHOWN_MAX else ""
        super().__init__(f"{listed}{more}; nothing was changed")


class ConfigUpdate(msgspec.Struct, Generic[Config], frozen=True):
    #: The configuration to store and then to use.
    config: Config
    #: The properties that have another value now.
    changed: tuple[str, ...] = ()
    #: The properties of the request that this server does not have, the first UNKNOWN_SHOWN_MAX of them;
    #: they are ignored, as with Java.
    unknown: tuple[str, ...] = ()


def changes_in(body: bytes) -> list[Property]:
    """Return the properties in the body of a request; raises UnreadableUpdate."""
    try:
        return parse(body)
    except PropertiesError as problem:
        raise UnreadableUpdate(problem) from problem


def updated(kind: ServerKind[Config], config: Config, changes: Iterable[Property]) -> ConfigUpdate[Config]:
    """Return the configuration with all changes, the last one for each key; what cannot be taken refuses them all.

    Raises ProtectedOptions before anything else, and BadUpdate for values that are not allowed, alone or together.
    """
    wanted = {each.key: each.value for each in changes}
    if protected := tuple(_protected(kind, config, wanted)):
        raise ProtectedOptions(protected)
    fields = kind.field_of_key
    values, bad = read_values(kind, [(fields[key], text, _SOURCE) for key, text in wanted.items() if key in fields])
    if bad:
        raise BadUpdate(tuple(bad))
    candidate = dataclasses.replace(config, **values, unknown=_unknown_updated(config, wanted))
    candidate = dataclasses.replace(candidate, stored=_stored_updated(kind, config, candidate))
    if wrong := [
        bad_option(kind.options[name], getattr(candidate, name), _SOURCE, allowed)
        for name, allowed in conflicts(kind, candidate)
    ]:
        raise BadUpdate(tuple(wrong))
    return ConfigUpdate(candidate, changed=_changed(kind, config, candidate), unknown=_left_aside(kind, config, wanted))


def _protected(kind: ServerKind[Config], config: Config, wanted: dict[str, str]) -> Iterator[Protected]:
    """Yield what may not be changed so. No request changes the two lists, so they are those of the start."""
    black, white = (_names(kind, listed) for listed in (config.config_black_list, config.config_white_list))
    others = config.others_keys | ({each.key for each in config.unknown} if config.has_others_properties else set())
    for key in sorted(wanted):
        name = kind.field_of_key.get(key, key)
        if key in others:
            yield Protected(key, "it is not this server's")
        elif name not in kind.options:
            if name in black:
                yield Protected(key, _BLACK_LISTED)
            elif name in OF_THE_FILE_ALONE:
                yield Protected(key, _RUN_ELSEWHERE)
        elif why := _why_not(kind, name, wanted[key], is_closed=name in black, is_opened=name in white):
            yield Protected(key, why)


def _names(kind: ServerKind[Config], listed: str) -> set[str]:
    """Return the fields that a list names, under whatever name, and the keys of it that are no options."""
    return {kind.field_of_key.get(key, key) for key in listed_keys(listed)}


def _why_not(kind: ServerKind[Config], name: str, text: str, *, is_closed: bool, is_opened: bool) -> str:
    """Return why a request may not set this value; blank if it may, or if no source may, which is refused elsewhere."""
    option = kind.options[name]
    at_start = f"set it at the start, by {option.argument}, {kind.variable(option)} or the configuration file"
    openable = f"{at_start}, or name it in configWhiteList there"
    match option.by_request:
        case Fixed(why):
            return f"{why}; {at_start}"
        case _ if is_closed:
            return f"{_BLACK_LISTED}; {at_start}"
        case Closed(why) if not is_opened:
            return f"{why}; {openable}"
        case Within(some, why) if not is_opened and _takes(option.kind, text) and not _takes(some, text):
            return f"a request may set it to {some.allowed}: {why}; {openable}"
        case _:
            return ""


def _takes(kind: Kind, text: str) -> bool:
    return kind.value_of(text) is not None


def _unknown_updated(config: ServerConfig, wanted: dict[str, str]) -> tuple[Property, ...]:
    """Return what the file holds beyond the options, changed; as with Java, a request adds nothing to it."""
    changed = tuple(msgspec.structs.replace(each, value=wanted.get(each.key, each.value)) for each in config.unknown)
    allowed = f"text of at most {TEXT_CHARS_MAX} characters without control characters"
    bad = tuple(
        BadOption(each.key, shown_unknown(each.key, each.value), _SOURCE, allowed)
        for each in changed
        if each.key in wanted and not is_one_line(each.value)
    )
    if bad:
        raise BadUpdate(bad)
    return changed


def _stored_updated(kind: ServerKind[Config], before: Config, after: Config) -> tuple[Property, ...]:
    """Return what the file gives of the options when the changes are in it; all other lines stay as they are.

    What command line, environment or defaults give is not written: it may be a secret, and is given again.
    """
    changed = {name for name in kind.options if getattr(before, name) != getattr(after, name)}
    kept = [each for each in before.stored if kind.field_of_key[each.key] not in changed]
    new = [Property(kind.options[name].key, text_of(getattr(after, name))) for name in kind.options if name in changed]
    return (*kept, *new)


def _left_aside(kind: ServerKind[Config], config: Config, wanted: dict[str, str]) -> tuple[str, ...]:
    known = kind.field_of_key.keys() | {each.key for each in config.unknown}
    return tuple(sorted(wanted.keys() - known)[:UNKNOWN_SHOWN_MAX])


def _changed(kind: ServerKind[Config], before: Config, after: Config) -> tuple[str, ...]:
    options = [option.key for name, option in kind.options.items() if getattr(before, name) != getattr(after, name)]
    unknown = [new.key for old, new in zip(before.unknown, after.unknown, strict=True) if old != new]
    return tuple(sorted(options + unknown))
