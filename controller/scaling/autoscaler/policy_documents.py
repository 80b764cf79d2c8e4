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
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

from controller.scaling.autoscaler.policies import QUEUES_MAX, PolicyMode, PolicyTable, ScalingPolicy
from remoting.protocol.topic_kinds import TopicKind, kind_of
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
    """Return the policies of a file; raises TablesRefused."""
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
    """Yield the properties of a policy that are wrong, and how."""
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


def _step(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not STEP_MIN <= value <= STEP_MAX:
        raise WrongValue(f"a factor from {STEP_MIN:g} to {STEP_MAX:g}")
    return float(value)


def _writes(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 1 <= value <= WRITES_MAX:
        raise WrongValue(f"a number of messages a second from 1 to {WRITES_MAX}")
    return float(value)


def _mode(value: Any) -> PolicyMode:
    try:
        return PolicyMode(value)
    except ValueError:
        raise WrongValue(" or ".join(f'"{mode.value}"' for mode in PolicyMode)) from None


_DEFAULTS: Final = ScalingPolicy(topic="*")
_READERS: Final[Mapping[str, PropertyReader]] = {
    "topic": PropertyReader("topic", _topic),
    "min": PropertyReader("queues_min", _count),
    "max": PropertyReader("queues_max", _count),
    "step": PropertyReader("step", _step),
    "cooldown": PropertyReader("cooldown_ms", duration(COOLDOWN_MS_MIN, COOLDOWN_MS_MAX)),
    "window": PropertyReader("window_ms", duration(WINDOW_MS_MIN, WINDOW_MS_MAX)),
    "behind": PropertyReader("behind_ms", duration(BEHIND_MS_MIN, BEHIND_MS_MAX)),
    "queueWrites": PropertyReader("queue_writes_max", _writes),
    "brokerWrites": PropertyReader("broker_writes_max", _writes),
    "mode": PropertyReader("mode", _mode),
}
_KIND: Final = TableKind("policy", "policies", POLICIES_MAX, _READERS)
