"""What a request (318, 1009) makes of a configuration: all that it asks for, or a refusal.

Answers to `Configuration.update` and to the black list of `DefaultRequestProcessor`. Unlike there, a value that cannot
be taken refuses the whole request, where Java answers success and changes nothing.
"""

import dataclasses
from collections.abc import Iterable
from typing import Any, Final, Generic

import msgspec

from remoting.codes import ResponseCode
from remoting.errors import RequestRefused
from remoting.properties import PropertiesError, Property, parse
from serving.config import Config, ServerConfig
from serving.config_checks import BadOption, bad_option, conflicts
from serving.config_text import shown_unknown
from serving.options import TEXT_CHARS_MAX, is_one_line
from serving.server_kind import ServerKind

#: How many bad values a remark tells, and how many unknown keys are told for the log.
BAD_SHOWN_MAX: Final = 3
UNKNOWN_SHOWN_MAX: Final = 20

_SOURCE: Final = "request"


class UnreadableUpdate(RequestRefused):
    """The body is no properties text; the remark is Java's."""

    def __init__(self, problem: PropertiesError) -> None:
        self.problem = problem
        super().__init__("string2Properties error")


class ProtectedOptions(RequestRefused):
    """Some properties may not be changed by request; the remark is Java's."""

    code = ResponseCode.NO_PERMISSION

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.keys = keys
        super().__init__("Can not update config in black list.")


class BadUpdate(RequestRefused):
    """Some values cannot be taken, so nothing was changed."""

    code = ResponseCode.SYSTEM_ERROR

    def __init__(self, bad: tuple[BadOption, ...]) -> None:
        self.bad = bad
        told = "; ".join(map(str, bad[:BAD_SHOWN_MAX]))
        more = f"; and {len(bad) - BAD_SHOWN_MAX} more" if len(bad) > BAD_SHOWN_MAX else ""
        super().__init__(f"{told}{more}; nothing was changed")


class ConfigUpdate(msgspec.Struct, Generic[Config], frozen=True):
    """What an update comes to."""

    #: The configuration to store and then to use.
    config: Config
    #: The properties that have another value now.
    changed: tuple[str, ...] = ()
    #: The properties that were asked for and that this server does not have, the first UNKNOWN_SHOWN_MAX of them;
    #: they are left aside, as with Java.
    unknown: tuple[str, ...] = ()


def changes_in(body: bytes) -> list[Property]:
    """Return what the body of a request asks for; raises UnreadableUpdate."""
    try:
        return parse(body)
    except PropertiesError as problem:
        raise UnreadableUpdate(problem) from problem


def updated(kind: ServerKind[Config], config: Config, changes: Iterable[Property]) -> ConfigUpdate[Config]:
    """Return the configuration with all changes, the last one for each key; what cannot be taken refuses them all.

    Raises ProtectedOptions before anything else, and BadUpdate for values that are not allowed, alone or together.
    """
    wanted = {each.key: each.value for each in changes}
    if protected := tuple(sorted(wanted.keys() & _black_list(kind, config))):
        raise ProtectedOptions(protected)
    candidate = dataclasses.replace(config, **_values(kind, wanted), unknown=_unknown_updated(config, wanted))
    if wrong := [
        bad_option(kind.options[name], getattr(candidate, name), _SOURCE, allowed)
        for name, allowed in conflicts(kind, candidate)
    ]:
        raise BadUpdate(tuple(wrong))
    return ConfigUpdate(
        candidate,
        changed=_changed(kind, config, candidate),
        unknown=_left_aside(kind, config, wanted),
    )


def _black_list(kind: ServerKind[Config], config: Config) -> set[str]:
    """Return the properties that no request may change; configBlackList is one of them, so it is that of the start."""
    own = {key for option in kind.options.values() if not option.remote for key in (option.key, *option.also)}
    others = {each.key for each in config.unknown} if config.has_others_properties else set()
    return own | others | {key for each in config.config_black_list.split(";") if (key := each.strip())}


def _values(kind: ServerKind[Config], wanted: dict[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    bad: list[BadOption] = []
    for key, text in wanted.items():
        if key not in kind.field_of_key:
            continue
        name = kind.field_of_key[key]
        option = kind.options[name]
        value = option.kind.value_of(text)
        if value is None:
            bad.append(bad_option(option, text.strip(), _SOURCE))
        else:
            values[name] = value
    if bad:
        raise BadUpdate(tuple(bad))
    return values


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


def _left_aside(kind: ServerKind[Config], config: Config, wanted: dict[str, str]) -> tuple[str, ...]:
    known = kind.field_of_key.keys() | {each.key for each in config.unknown}
    return tuple(sorted(wanted.keys() - known)[:UNKNOWN_SHOWN_MAX])


def _changed(kind: ServerKind[Config], before: Config, after: Config) -> tuple[str, ...]:
    options = [option.key for name, option in kind.options.items() if getattr(before, name) != getattr(after, name)]
    unknown = [new.key for old, new in zip(before.unknown, after.unknown, strict=True) if old != new]
    return tuple(sorted(options + unknown))
