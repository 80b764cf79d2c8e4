"""Names use the words of the field (docs/glossary.md): private words occur in none, and no class name occurs twice."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from documents import ROOT, product_modules

from controller.observability import log_events as controller_events
from controller.observability import metric_catalogue as controller_metrics
from controller.offsets.observability import log_events as offset_manager_events
from controller.offsets.observability import metric_catalogue as offset_manager_metrics
from namesrv.observability import log_events as namesrv_events
from namesrv.observability import metric_catalogue as namesrv_metrics

#: Private word -> the word of the field. A name is taken apart at capitals and underscores; each part is looked up.
PRIVATE: Final = {
    "asked": "requested, queried",
    "asker": "requester, client",
    "beat": "heartbeat",
    "beats": "heartbeats",
    "census": "counts",
    "chore": "background task",
    "chores": "background tasks",
    "dead": "failed",
    "doubted": "failure detection suspended",
    "electorate": "cluster view",
    "elector": "election runner",
    "fate": "failure kind",
    "forgotten": "removed",
    "gone": "failed, lost",
    "greet": "probe",
    "greeted": "probed",
    "heard": "last heartbeat",
    "hurry": "force stop",
    "mourn": "handle failed",
    "namesake": "id conflict",
    "said": "reported",
    "silences": "timeout evidence",
    "standstill": "process pause",
    "stranger": "non-member",
    "strangers": "non-members",
    "surroundings": "runtime",
    "told": "notified, reported, logged",
    "troubles": "failures",
    "unfinished": "partial",
    "unread": "in the response buffer",
    "untold": "unconfirmed",
    "witness": "listener",
}

_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def private_parts(name: str) -> list[str]:
    return [part for part in (part.lower() for part in _PART.findall(name)) if part in PRIVATE]


def names_of(node: ast.AST) -> Iterator[str]:
    """The names that a node gives to a class, a function, an argument or an attribute."""
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
            yield name
        case ast.Attribute(attr=name, ctx=ast.Store()):
            yield name
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def names() -> Iterator[tuple[Path, str]]:
    for path in product_modules():
        where = path.relative_to(ROOT)
        yield from ((where, part) for part in where.with_suffix("").parts)
        tree = ast.parse(path.read_text())
        yield from ((where, name) for node in ast.walk(tree) for name in names_of(node))
        # Constants of the module and of its classes, annotated or not.
        bodies = [tree.body, *(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]
        assigned = (each for body in bodies for each in body if isinstance(each, ast.Assign))
        yield from ((where, target.id) for each in assigned for target in each.targets if isinstance(target, ast.Name))


def test_private_words_are_in_no_name() -> None:
    found = {f"{where}: {name}" for where, name in names() if private_parts(name)}

    assert sorted(found) == []


def test_private_words_are_in_no_metric() -> None:
    families = (*namesrv_metrics.FAMILIES, *controller_metrics.FAMILIES, *offset_manager_metrics.FAMILIES)
    found = {name for family in families for name in (family.name, *family.labels) if private_parts(name)}

    assert sorted(found) == []


def test_private_words_are_in_no_log_event() -> None:
    events = (*namesrv_events.EVENTS, *controller_events.EVENTS, *offset_manager_events.EVENTS)
    found = {f"{event.name} {name}" for event in events for name in (event.name, *event.keys) if private_parts(name)}

    assert sorted(found) == []


def test_no_class_name_is_defined_twice() -> None:
    trees = (ast.parse(path.read_text()) for path in product_modules())
    counted = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))

    assert sorted(name for name, count in counted.items() if count > 1) == []
