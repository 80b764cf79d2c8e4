"""Files, options, metrics and log events that the documents name exist, and every document is in the index."""

import re
from pathlib import Path
from typing import Final

import pytest
from documents import ROOT, files

from controller.observability.log_events import EVENTS as OF_CONTROLLERS
from namesrv.observability.log_events import EVENTS as OF_NAME_SERVERS
from offsets.catalogues import EVENTS as OF_OFFSET_MANAGERS

#: A file or folder of the repository in a document: in a sentence, a table or a picture.
_FILE: Final = re.compile(
    r"(?<![\w/.{<*\[-])(?:remoting|serving|console|history|namesrv|controller|offsets|store|analytics|role_agent|rmq|dashboards|docs|tests|helm|benchmarks|demo)"
    r"/[\w.-]*\w(?:/[\w.-]*\w)*(?![\w{*…])"
)
#: Documents that speak of today's code; results of measurements speak of their day.
_OF_TODAY: Final = [path for path in files(".md") if path.parent != ROOT / "benchmarks"]
#: Made by those who follow the document, or served under that name by a running server.
_MADE: Final = re.compile(
    r"test_topic_count\.py|/aNN_name|test_aNN_name|^(?:namesrv|controller|history)/(?:v1|[a-z]+\.(?:conf|properties|json|mark))"
)


@pytest.mark.parametrize("document", _OF_TODAY, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_a_document_names_exist(document: Path) -> None:
    named = {found for found in _FILE.findall(document.read_text()) if not _MADE.search(found)}
    roots = (ROOT, document.parent)

    assert sorted(name for name in named if not any((root / name).exists() for root in roots)) == []


#: `historyBytesMax`, `broker_failed`, `rocketmq_controller_role`.
_NAME: Final = re.compile(r"`([a-z][a-z0-9]*(?:[A-Z][A-Za-z0-9]*)+|[a-z0-9]+(?:_[a-z0-9]+)+)`")
_AFFIXES: Final = re.compile(
    r"^rocketmq_(?:(?:namesrv|controller|history|role_agent|offset_manager)_)?|(?:_total|_bucket|_count|_sum)$"
)

#: Properties of brokers, commands of mqadmin, metrics of etcd.
_OF_OTHERS: Final = frozenset(
    {"deleteSubGroup", "etcd_disk_wal_fsync_duration_seconds", "fileReservedTime", "haStatus", "slaveTimeout"}
)


@pytest.fixture(scope="module")
def words() -> set[str]:
    """Every word of the code, of the chart and its rules, and of what peers send; events of a class have its name."""
    sources = (*files(".py", ".yaml", ".json", ".java", ".toml"), *(ROOT / "docs" / "protocol").glob("*.md"))
    events = {event.name for event in (*OF_CONTROLLERS, *OF_NAME_SERVERS, *OF_OFFSET_MANAGERS)}
    return _OF_OTHERS.union(events, *(re.findall(r"\w+", path.read_text()) for path in sources))


@pytest.mark.parametrize("document", _OF_TODAY, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_that_a_document_uses_are_in_the_code(document: Path, words: set[str]) -> None:
    named = set(_NAME.findall(document.read_text()))

    assert sorted(name for name in named if name not in words and _AFFIXES.sub("", name) not in words) == []


def test_every_word_of_the_glossary_is_there_once_in_order_of_the_alphabet() -> None:
    rows = re.findall(r"^\| ([^|]+?) \|", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    words = [row.lower() for row in rows if row != "word"]

    assert words == sorted(set(words))


def test_every_document_is_in_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / target).resolve() for target in re.findall(r"\]\(([^)#]+)\)", index.read_text())}
    runbooks = ROOT / "dashboards" / "runbooks"

    assert [
        str(each) for each in files(".md") if each not in linked and each != index and each.parent != runbooks
    ] == []
