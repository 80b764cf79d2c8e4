"""JSON as fastjson2 writes it: compact, or over several lines with tabs; integers as keys are not quoted. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from rmq.output.printable import printable

JsonValue: TypeAlias = str | int | float | bool | Sequence["JsonValue"] | Mapping[Any, "JsonValue"] | None


def json_text(value: JsonValue) -> str:
    """Return a value on one line."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_key(key)}:{json_text(each)}" for key, each in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ",".join(map(json_text, value)) + "]"
    return printable(msgspec.json.encode(value).decode())


def pretty_json(value: JsonValue, depth: int = 0) -> str:
    """Return a value over several lines."""
    inner, outer = "\n" + "\t" * (depth + 1), "\n" + "\t" * depth
    if isinstance(value, Mapping) and value:
        items = (f"{_key(key)}:{pretty_json(each, depth + 1)}" for key, each in value.items())
        return "{" + inner + f",{inner}".join(items) + outer + "}"
    if isinstance(value, Sequence) and not isinstance(value, str) and value:
        return "[" + inner + f",{inner}".join(pretty_json(each, depth + 1) for each in value) + outer + "]"
    return json_text(value)


def _key(key: str | int) -> str:
    return str(key) if isinstance(key, int) else json_text(key)
