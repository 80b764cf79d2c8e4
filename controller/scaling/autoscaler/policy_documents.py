"""Reads policies from a TOML file, or from JSON of the same shape; mistakes are named, and none is passed over.

[[policy]]
topic = "orders-*"
min = 4
max = 64
step = 2.0
cooldown = "10m"
window = "45s"
behind = "30s"
queueWrites = 8000
brokerWrites = 60000
mode = "propose"
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

from controller.scaling.autoscaler.policies import QUEUES_MAX, PolicyMode, PolicyTable, ScalingPolicy
from remoting.protocol.topic_kinds import TopicKind, kind_of
from serving.config.checks import shortened

POLICIES_MAX: Final = 1_000
DOCUMENT_CHARS_MAX: Final = 1024 * 1024
TOPIC_LENGTH_MAX: Final = 255
#: A step near 1 would have millions of counts between min and max.
STEP_MIN: Final = 1.1
STEP_MAX: Final = 8.0
COOLDOWN_MS_MIN: Final = 60_000
COOLDOWN_MS_MAX: Final = 7 * 86_400_000
WINDOW_MS_MIN: Final = 15_000
WINDOW_MS_MAX: Final = 3_600_000
BEHIND_MS_MIN: Final = 1_000
BEHIND_MS_MAX: Final = 86_400_000
#: Messages a second.
WRITES_MAX: Final = 100_000_000

#: Mistakes of one document that are named.
MISTAKES_MAX: Final = 50
#: Longer integers have too many digits to be shown.
_SHOWN_BITS_MAX: Final = 64

#: The key of the list of policies.
_LIST: Final = "policy"
_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(\d{1,9})(ms|s|m|h|d)")
_TOPIC: Final = re.compile(r"[%|a-zA-Z0-9_*?-]+")
_HEADER: Final = re.compile(r"\s*\[\[\s*[\"']?policy[\"']?\s*\]\]")
_PROPERTY: Final = re.compile(r"\s*[\"']?([\w-]+)[\"']?\s*=")


class PolicyMistake(NamedTuple):
    """What is wrong in a document."""

    #: Line of a file, from 1; None in JSON, or where it cannot be known.
    line: int | None
    #: As in `policy 2: max`.
    place: str
    #: What stands there, and what may.
    problem: str

    def __str__(self) -> str:
        where = self.place if self.line is None else f"line {self.line}, {self.place}"
        return f"{where}: {self.problem}" if where else self.problem


class PoliciesRefused(Exception):
    """A document has mistakes, so none of its policies holds; those before stay in force."""

    def __init__(self, mistakes: Sequence[PolicyMistake]) -> None:
        self.mistakes = tuple(mistakes[:MISTAKES_MAX])
        others = ("there are more of them",) if len(mistakes) > MISTAKES_MAX else ()
        super().__init__("; ".join((*map(str, self.mistakes), *others)))


def policies_of_toml(text: str) -> PolicyTable:
    """Return the policies of a file; raises PoliciesRefused."""
    _check_length(text)
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        # Beside mistakes of TOML: an integer of thousands of digits.
        raise PoliciesRefused([PolicyMistake(None, "", f"no TOML: {error}")]) from error
    return _policies(document, _PolicyLines(text))


def policies_of_json(text: str) -> PolicyTable:
    """Return the policies of a body `{"policy": [{"topic": "orders", ...}]}`; raises PoliciesRefused."""
    _check_length(text)
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise PoliciesRefused([PolicyMistake(None, "", f"no JSON: {error}")]) from error
    return _policies(document, None)


def _check_length(text: str) -> None:
    if len(text) > DOCUMENT_CHARS_MAX:
        problem = f"{len(text)} characters, of at most {DOCUMENT_CHARS_MAX}"
        raise PoliciesRefused([PolicyMistake(None, "", problem)])


class _PolicyLines:
    """Where the policies of a file and their properties stand."""

    def __init__(self, text: str) -> None:
        self._policies: list[dict[str, int]] = []
        for number, line in enumerate(text.split("\n"), start=1):
            if _HEADER.match(line):
                self._policies.append({"": number})
            elif self._policies and (found := _PROPERTY.match(line)):
                self._policies[-1].setdefault(found[1], number)

    def line_of(self, position: int, name: str, count: int) -> int | None:
        """Return the line of a property, else that of its policy; None where text of a value looks like a header."""
        if len(self._policies) != count:
            return None
        there = self._policies[position]
        return there.get(name, there[""])


class _Wrong(Exception):
    """A value of a property is not allowed; the text says what is."""


def _policies(document: Any, lines: _PolicyLines | None) -> PolicyTable:
    rows = document.get(_LIST, []) if isinstance(document, Mapping) else None
    if not isinstance(rows, list) or not isinstance(document, Mapping) or document.keys() - {_LIST}:
        problem = 'the document is a list of policies: [[policy]] in TOML, {"policy": [...]} in JSON'
        raise PoliciesRefused([PolicyMistake(None, "", problem)])
    if len(rows) > POLICIES_MAX:
        raise PoliciesRefused([PolicyMistake(None, "", f"{len(rows)} policies, of at most {POLICIES_MAX}")])
    mistakes: list[PolicyMistake] = []
    policies: list[ScalingPolicy] = []
    first: dict[str, int] = {}
    for position, row in enumerate(rows):
        found = list(islice(_problems(row), MISTAKES_MAX + 1)) or list(_repeated(row, position, first))
        for name, problem in found:
            line = lines.line_of(position, name, len(rows)) if lines else None
            place = f": {shortened(name)}" if name else ""
            mistakes.append(PolicyMistake(line, f"policy {position + 1}{place}", problem))
        if len(mistakes) > MISTAKES_MAX:
            break
        if not found:
            policies.append(_policy(row))
    if mistakes:
        raise PoliciesRefused(mistakes)
    return PolicyTable(policies)


def _repeated(row: Mapping[str, Any], position: int, first: dict[str, int]) -> Iterator[tuple[str, str]]:
    earlier = first.setdefault(row["topic"], position)
    if earlier != position:
        yield "topic", f"{row['topic']!r} is that of policy {earlier + 1} too; one policy per topic or pattern"


def _problems(row: Any) -> Iterator[tuple[str, str]]:
    """Yield the properties of a policy that are wrong, and how."""
    if not isinstance(row, Mapping):
        yield "", f"{_shown(row)} is no policy, but a table of {', '.join(_READERS)} is"
        return
    if "topic" not in row:
        yield "topic", "is missing: the name of a topic, or a pattern with * and ?"
    read: dict[str, Any] = {}
    for name, value in row.items():
        if name not in _READERS:
            yield name, f"is no property of a policy; those are {', '.join(_READERS)}"
            continue
        try:
            read[name] = _READERS[name].read(value)
        except _Wrong as wrong:
            yield name, f"{_shown(value)} is not allowed, but {wrong} is"
    least, most = (read.get(name, getattr(_DEFAULTS, _READERS[name].field)) for name in ("min", "max"))
    if least > most:
        yield "min" if "min" in read else "max", f"min is {least} and max {most}; min may not be larger than max"


def _shown(value: Any) -> str:
    """Return a value as a sentence repeats it: of what is nested or long only what it is."""
    if isinstance(value, list | Mapping):
        return "a list" if isinstance(value, list) else "a table"
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS_MAX:
        return f"an integer of {value.bit_length()} bits"
    return shortened(repr(value))


def _policy(row: Mapping[str, Any]) -> ScalingPolicy:
    return ScalingPolicy(**{_READERS[name].field: _READERS[name].read(value) for name, value in row.items()})


class _PropertyReader(NamedTuple):
    """How a property is read."""

    field: str
    read: Callable[[Any], Any]


def _topic(value: Any) -> str:
    allowed = f"a name of 1 to {TOPIC_LENGTH_MAX} letters, digits, %, |, - and _, or a pattern of them with * and ?"
    if not isinstance(value, str) or len(value) > TOPIC_LENGTH_MAX or not _TOPIC.fullmatch(value):
        raise _Wrong(allowed)
    if kind_of(value) is TopicKind.SYSTEM:
        raise _Wrong("a topic that is not the broker's own")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= QUEUES_MAX:
        raise _Wrong(f"a whole number of queues from 1 to {QUEUES_MAX}")
    return value


def _step(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not STEP_MIN <= value <= STEP_MAX:
        raise _Wrong(f"a factor from {STEP_MIN:g} to {STEP_MAX:g}")
    return float(value)


def _writes(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 1 <= value <= WRITES_MAX:
        raise _Wrong(f"a number of messages a second from 1 to {WRITES_MAX}")
    return float(value)


def _mode(value: Any) -> PolicyMode:
    try:
        return PolicyMode(value)
    except ValueError:
        raise _Wrong(" or ".join(f'"{mode.value}"' for mode in PolicyMode)) from None


def _duration(least_ms: int, most_ms: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        duration_ms = _ms(value)
        if duration_ms is None or not least_ms <= duration_ms <= most_ms:
            raise _Wrong(f'a time such as "90s", "15m", "1d", or a number of ms, from {least_ms} to {most_ms} ms')
        return duration_ms

    return read


def _ms(value: Any) -> int | None:
    if isinstance(value, str) and (found := _DURATION.fullmatch(value)):
        return int(found[1]) * _UNIT_MS[found[2]]
    return value if isinstance(value, int) and not isinstance(value, bool) else None


_DEFAULTS: Final = ScalingPolicy(topic="*")
_READERS: Final[Mapping[str, _PropertyReader]] = {
    "topic": _PropertyReader("topic", _topic),
    "min": _PropertyReader("queues_min", _count),
    "max": _PropertyReader("queues_max", _count),
    "step": _PropertyReader("step", _step),
    "cooldown": _PropertyReader("cooldown_ms", _duration(COOLDOWN_MS_MIN, COOLDOWN_MS_MAX)),
    "window": _PropertyReader("window_ms", _duration(WINDOW_MS_MIN, WINDOW_MS_MAX)),
    "behind": _PropertyReader("behind_ms", _duration(BEHIND_MS_MIN, BEHIND_MS_MAX)),
    "queueWrites": _PropertyReader("queue_writes_max", _writes),
    "brokerWrites": _PropertyReader("broker_writes_max", _writes),
    "mode": _PropertyReader("mode", _mode),
}
