"""Policies: within which limits the queues of a topic may be resized, and who decides on it. Values only.

Of several policies that match a topic, one holds: that with its exact name, else that with the longest pattern, counted
without `*` and `?`; of equally long ones the first.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import Any, Final

from msgspec import Struct

from remoting.protocol.topic_kinds import TopicKind, kind_of
from serving.config.name_patterns import NamePattern, is_pattern, literal_length
from serving.config.table_documents import (
    Problem,
    PropertyReader,
    TableKind,
    TableLines,
    WrongValue,
    duration,
    json_document,
    read_properties,
    tables_of,
    toml_document,
)

#: Queues of a topic on one broker set: no policy allows more.
QUEUES_MAX: Final = 1024

#: Topics whose policies are remembered; beyond it all are looked up anew.
MATCHES_MAX: Final = 20_000


class PolicyMode(StrEnum):
    """Who decides on a resize; the values are those of the property `mode`."""

    #: It is shown, and changes nothing.
    PROPOSE = "propose"
    #: It waits for an operator.
    APPROVE = "approve"
    #: It is carried out.
    AUTO = "auto"


class ScalingPolicy(Struct, frozen=True, kw_only=True):
    """How the queues of some topics may be resized; counts are those of each broker set."""

    #: The name of a topic, or a pattern of names: `*` stands for any characters, `?` for one.
    topic: str
    queues_min: int = 4
    queues_max: int = 128
    #: A resize multiplies or divides the count by this, as many times as are needed.
    step: float = 2.0
    #: So long after the end of a resize there is no other.
    cooldown_ms: int = 10 * 60_000
    #: So long a finding must hold before there is a resize.
    window_ms: int = 45_000
    #: A group that is so far behind needs help.
    behind_ms: int = 30_000
    #: Messages a second that a queue, and a broker with all its topics, were measured to take at most; None: unknown.
    queue_writes_max: float | None = None
    broker_writes_max: float | None = None
    mode: PolicyMode = PolicyMode.PROPOSE

    @property
    def is_pattern(self) -> bool:
        return is_pattern(self.topic)


class PolicyTable:
    """All policies that are in force; new ones make another table."""

    def __init__(self, policies: Sequence[ScalingPolicy] = ()) -> None:
        self.policies = tuple(policies)
        self._exact = {each.topic: each for each in policies if not each.is_pattern}
        patterns = sorted((each for each in policies if each.is_pattern), key=lambda each: -literal_length(each.topic))
        self._patterns = [(NamePattern(each.topic), each) for each in patterns]
        self._matches: dict[str, ScalingPolicy | None] = {}

    def policy_of(self, topic: str) -> ScalingPolicy | None:
        """Return the policy of a topic. Patterns never match retry, dead-letter and system topics."""
        if topic not in self._matches:
            if len(self._matches) >= MATCHES_MAX:
                self._matches.clear()
            self._matches[topic] = self._looked_up(topic)
        return self._matches[topic]

    def _looked_up(self, topic: str) -> ScalingPolicy | None:
        if topic in self._exact or kind_of(topic, ()) is not TopicKind.NORMAL:
            return self._exact.get(topic)
        return next((policy for pattern, policy in self._patterns if pattern.matches(topic)), None)


POLICIES_MAX: Final = 1_000
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

_TOPIC: Final = re.compile(r"[%|a-zA-Z0-9_*?-]+")


def policies_of_toml(text: str) -> PolicyTable:
    return _policies(toml_document(text), TableLines(text, _KIND.name))


def policies_of_json(text: str) -> PolicyTable:
    """Return the policies of a body `{"policy": [{"topic": "orders", ...}]}`; raises TablesRefused."""
    return _policies(json_document(text), None)


def _policies(document: Any, lines: TableLines | None) -> PolicyTable:
    first: dict[str, int] = {}

    def problems_of(row: Any, position: int) -> Iterator[Problem]:
        problems = _problems(row)
        found = next(problems, None)
        return _repeated(row, position, first) if found is None else chain((found,), problems)

    rows = tables_of(document, _KIND, lines, problems_of)
    return PolicyTable([ScalingPolicy(**_KIND.values(row)) for row in rows])


def _repeated(row: Mapping[str, Any], position: int, first: dict[str, int]) -> Iterator[Problem]:
    earlier = first.setdefault(row["topic"], position)
    if earlier != position:
        yield "topic", f"{row['topic']!r} is that of policy {earlier + 1} too; one policy per topic or pattern"


def _problems(row: Any) -> Iterator[Problem]:
    if isinstance(row, Mapping) and "topic" not in row:
        yield "topic", "is missing: the name of a topic, or a pattern with * and ?"
    read, problems = read_properties(row, _KIND)
    yield from problems
    if not isinstance(row, Mapping):
        return
    least, most = (read.get(name, getattr(_DEFAULTS, _READERS[name].field)) for name in ("min", "max"))
    if least > most:
        yield "min" if "min" in read else "max", f"min is {least} and max {most}; min may not be larger than max"


def _topic(value: Any) -> str:
    allowed = f"a name of 1 to {TOPIC_LENGTH_MAX} letters, digits, %, |, - and _, or a pattern of them with * and ?"
    if not isinstance(value, str) or len(value) > TOPIC_LENGTH_MAX or not _TOPIC.fullmatch(value):
        raise WrongValue(allowed)
    if kind_of(value, ()) is TopicKind.SYSTEM:
        raise WrongValue("a topic that is not the broker's own")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= QUEUES_MAX:
        raise WrongValue(f"a whole number of queues from 1 to {QUEUES_MAX}")
    return value


def _number(what: str, least: float, most: float) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
            raise WrongValue(f"a {what} from {least:.12g} to {most:.12g}")
        return float(value)

    return read


def _mode(value: Any) -> PolicyMode:
    try:
        return PolicyMode(value)
    except ValueError:
        raise WrongValue(" or ".join(f'"{mode.value}"' for mode in PolicyMode)) from None


_WRITES: Final = _number("number of messages a second", 1, WRITES_MAX)
_DEFAULTS: Final = ScalingPolicy(topic="*")
_READERS: Final[Mapping[str, PropertyReader]] = {
    "topic": PropertyReader("topic", _topic),
    "min": PropertyReader("queues_min", _count),
    "max": PropertyReader("queues_max", _count),
    "step": PropertyReader("step", _number("factor", STEP_MIN, STEP_MAX)),
    "cooldown": PropertyReader("cooldown_ms", duration(COOLDOWN_MS_MIN, COOLDOWN_MS_MAX)),
    "window": PropertyReader("window_ms", duration(WINDOW_MS_MIN, WINDOW_MS_MAX)),
    "behind": PropertyReader("behind_ms", duration(BEHIND_MS_MIN, BEHIND_MS_MAX)),
    "queueWrites": PropertyReader("queue_writes_max", _WRITES),
    "brokerWrites": PropertyReader("broker_writes_max", _WRITES),
    "mode": PropertyReader("mode", _mode),
}
_KIND: Final = TableKind("policy", "policies", POLICIES_MAX, _READERS)
