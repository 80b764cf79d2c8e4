"""Many histories as one, so that Spark plans once for all of them: each with servers and clusters of its own."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from synthetic.generator import History

Row = dict[str, Any]

#: Columns that name a server, a cluster or a broker, or begin with one.
_NAMES = (
    "ns_id",
    "boot_id",
    "event_id",
    "cluster",
    "set_cluster",
    "cause_event_id",
    "former_boot_id",
    "snapshot_id",
    "failover_id",
    "broker_name",
)
#: Those of results.
_NAMING = ("cluster", "cluster_b", "broker_name", "broker_a", "broker_b")


def together(histories: Mapping[int, History]) -> dict[str, list[Row]]:
    """Return the rows of all histories, each with its number before its names."""
    found: dict[str, list[Row]] = {}
    for number, history in histories.items():
        for family, rows in history.rows.items():
            found.setdefault(family, []).extend(_named(row, f"{number}:") for row in rows)
    return found


def _named(row: Row, prefix: str) -> Row:
    names = {name: prefix + row[name] for name in _NAMES if row.get(name) is not None}
    for name in ("set_clusters", "broker_names"):
        if row.get(name) is not None:
            names[name] = [prefix + each for each in row[name]]
    return row | names


def apart(reported: Iterable[Row]) -> dict[int, list[Row]]:
    """Return what was told of each history, without its number; what is about two of them is left out."""
    found: dict[int, list[Row]] = {}
    for row in reported:
        numbers = {row[name].partition(":")[0] for name in _NAMING if row.get(name) is not None}
        if len(numbers) == 1:
            number = numbers.pop()
            found.setdefault(int(number), []).append({name: _bare(value, number) for name, value in row.items()})
    return found


def _bare(value: Any, number: str) -> Any:
    """Return a name, a list of names, or words with a name in them, without the number of their history."""
    if isinstance(value, list):
        return [_bare(each, number) for each in value]
    return re.sub(rf"(^| ){number}:", r"\1", value) if isinstance(value, str) else value
