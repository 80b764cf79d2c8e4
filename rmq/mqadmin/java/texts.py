"""Texts as Java prints them: `String.format`, dates, objects, JSON, names of releases. Pure."""

import re
import time
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from typing import Any, Final, TypeAlias

import msgspec

from remoting.protocol.releases import release_name
from rmq.output.printable import printable

_SPECIFIER: Final = re.compile(r"%(-?)(0?)(\d*)(?:\.(\d+))?([sdfn])")
_PERMS: Final = ((4, "R"), (2, "W"), (1, "X"))
#: Between these doubles have no exponent.
_PLAIN_MIN: Final = 1e-3
_PLAIN_MAX: Final = 1e7
Value = str | int | float | bool | None
JsonValue: TypeAlias = str | int | float | bool | Sequence["JsonValue"] | Mapping[Any, "JsonValue"] | None
_FIRST: Final = (
    "V3_0_0_SNAPSHOT V3_0_0_ALPHA1 V3_0_0_BETA1 V3_0_0_BETA2 V3_0_0_BETA3 V3_0_0_BETA4 V3_0_0_BETA5 "
    "V3_0_0_BETA6_SNAPSHOT V3_0_0_BETA6 V3_0_0_BETA7_SNAPSHOT V3_0_0_BETA7 V3_0_0_BETA8_SNAPSHOT V3_0_0_BETA8 "
    "V3_0_0_BETA9_SNAPSHOT V3_0_0_BETA9 V3_0_0_FINAL"
)
_LAST: Final = "HIGHER_VERSION"
#: The first and last patch of 3.0, 3.1 and 3.2; of the other minor releases of 3 it is 1 to 9.
_PATCHES: Final = {0: (1, 15), 1: (0, 9), 2: (0, 9)}


def java_format(form: str, *values: Value) -> str:
    """Return a text by a format of Java: `%s`, `%d` and `%.2f` with widths, `%n` for a line end."""
    rest = iter(values)

    def text_of(found: re.Match[str]) -> str:
        left, zeros, width, digits, kind = found.groups()
        if kind == "n":
            return "\n"
        value = next(rest)
        text = fixed(value, int(digits or 6)) if kind == "f" and isinstance(value, int | float) else java_text(value)
        if zeros:
            return text.zfill(int(width or 0))
        return text.ljust(int(width or 0)) if left else text.rjust(int(width or 0))

    return _SPECIFIER.sub(text_of, form)


def java_text(value: Value) -> str:
    """Return a value as Java's `%s` prints it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return java_double(value)
    return printable(value) if isinstance(value, str) else str(value)


def fixed(number: float, digits: int) -> str:
    """Return a number with so many digits, rounded half up as Java rounds its shortest decimal form."""
    return str(Decimal(repr(float(number))).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP))


def java_double(number: float) -> str:
    """Return `Double.toString`: with an exponent from 10 million on and below a thousandth."""
    if number == 0 or _PLAIN_MIN <= abs(number) < _PLAIN_MAX:
        return repr(float(number))
    mantissa, _, exponent = f"{Decimal(repr(float(number))).normalize():E}".partition("E")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def front(text: str | None, size: int) -> str | None:
    """Return at most so many characters from the beginning of a text."""
    return None if text is None else text[:size]


def time_text(unix_ms: int) -> str:
    """Return `timeMillisToHumanString2`: local time with milliseconds."""
    return f"{_local('%Y-%m-%d %H:%M:%S', unix_ms)},{unix_ms % 1000:03d}"


def date_text(unix_ms: int) -> str:
    """Return local time as `yyyy-MM-dd HH:mm:ss`."""
    return _local("%Y-%m-%d %H:%M:%S", unix_ms)


def map_text(entries: Mapping[str, Value] | Mapping[int, Value]) -> str:
    """Return `Map.toString` of entries in their order."""
    return "{" + ", ".join(f"{java_text(key)}={java_text(value)}" for key, value in entries.items()) + "}"


def perm_text(perm: int) -> str:
    """Return `PermName.perm2String`."""
    return "".join(letter if perm & bit else "-" for bit, letter in _PERMS)


def _local(form: str, unix_ms: int) -> str:
    try:
        return time.strftime(form, time.localtime(unix_ms // 1000))
    except (OverflowError, OSError, ValueError):
        # Beyond Java's own times: what answers is no server of RocketMQ.
        return str(unix_ms)


def json_text(value: JsonValue) -> str:
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_key(key)}:{json_text(each)}" for key, each in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ",".join(map(json_text, value)) + "]"
    return printable(msgspec.json.encode(value).decode())


def pretty_json(value: JsonValue, depth: int = 0) -> str:
    inner, outer = "\n" + "\t" * (depth + 1), "\n" + "\t" * depth
    if isinstance(value, Mapping) and value:
        items = (f"{_key(key)}:{pretty_json(each, depth + 1)}" for key, each in value.items())
        return "{" + inner + f",{inner}".join(items) + outer + "}"
    if isinstance(value, Sequence) and not isinstance(value, str) and value:
        return "[" + inner + f",{inner}".join(pretty_json(each, depth + 1) for each in value) + outer + "]"
    return json_text(value)


def _key(key: str | int) -> str:
    return str(key) if isinstance(key, int) else json_text(key)


def version_text(number: int) -> str:
    """Return the name of a release; a number beyond all of them is HIGHER_VERSION."""
    names = _names_of_3()
    return names[number] if 0 <= number < len(names) else release_name(number) or _LAST


@cache
def _names_of_3() -> tuple[str, ...]:
    patches = ((minor, range(first, last + 1)) for minor in range(10) for first, last in [_PATCHES.get(minor, (1, 9))])
    names = (f"V3_{minor}_{patch}" for minor, found in patches for patch in found)
    return (*_FIRST.split(), *(each for name in names for each in (f"{name}_SNAPSHOT", name)), "V4_0_0_SNAPSHOT")
