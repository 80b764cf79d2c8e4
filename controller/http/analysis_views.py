"""The HTTP paths of analyses: the newest results of Spark, `results/latest/*.json` (analytics/README.md), read only.

Another machine may write them, so nothing of them is trusted: files have a limit, and one that cannot be read is a
sentence of the listing. Decoding one holds up the event loop even in a thread, and anybody may request it again and
again, so each version of a file is decoded and searched once for as long as it is remembered.
"""

import asyncio
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from serving.config.checks import shortened
from serving.http.paths import Parameter, get
from serving.http.views import HttpRefused, NotFound, Unavailable, ViewRequest, requested_page, view_of
from serving.shapes.controller import AnalysisColumn, AnalysisItem, AnalysisListing, AnalysisRows

#: Below the folder that `rmq-analytics` writes to.
PLACE: Final = "results/latest"
#: Longest file that is read: 10,000 rows have some MiB.
FILE_BYTES_MAX: Final = 8 * 1024 * 1024
#: There is one for each analysis.
FILES_MAX: Final = 64
#: Bytes of files whose rows stay in memory; the file that was read last does in any case.
CACHED_BYTES_MAX: Final = 16 * 1024 * 1024
#: Filters whose rows are remembered.
FILTERED_MAX: Final = 32
_NAME: Final = re.compile(r"[a-z0-9_]{1,64}")


class LatestFile(msgspec.Struct, frozen=True):
    job: str
    name: str
    question: str
    window_start: str
    window_end: str
    finished_at: str
    row_count: int
    columns: list[AnalysisColumn]
    rows: list[msgspec.Raw]

    @property
    def item(self) -> AnalysisItem:
        return view_of(AnalysisItem, self)


class RowFilter(NamedTuple):
    #: Rows of other clusters are left out; those about more than one have none. Blank for all.
    cluster: str
    #: Times as rows have them; rows that are before or after altogether are left out. Blank for no limit.
    start: str
    end: str


class FoundRows(NamedTuple):
    latest: LatestFile
    rows: Sequence[msgspec.Raw]


class ResultUnreadable(Exception):
    """A file is none that `rmq-analytics` writes, or too long; the text is a sentence for people."""


class _FileVersion(NamedTuple):
    mtime_ns: int
    size: int
    inode: int


_decode: Final = msgspec.json.Decoder(LatestFile).decode
_decode_row: Final = msgspec.json.Decoder(dict[str, Any]).decode


class AnalysisFiles:
    """The files of one folder. Its methods read files: call them in a thread, one at a time."""

    def __init__(self, folder: str) -> None:
        """Take the output folder of `rmq-analytics`; blank for none."""
        self.is_configured = bool(folder)
        self._folder = Path(folder).expanduser() / PLACE
        #: What a file had when it was as it is now.
        self._items: dict[Path, tuple[_FileVersion, AnalysisItem]] = {}
        #: Why a file cannot be read as it is now.
        self._refused: dict[Path, tuple[_FileVersion, str]] = {}
        #: Those that were read last, the latest last.
        self._cached: dict[Path, tuple[_FileVersion, LatestFile]] = {}
        #: The numbers of the rows that pass a filter; the latest last.
        self._filtered: dict[tuple[Path, _FileVersion, RowFilter], list[int]] = {}

    def listing(self) -> tuple[list[AnalysisItem], dict[str, str]]:
        """Return what there is, by job, and what cannot be read."""
        if not self.is_configured:
            return [], {}
        found: list[AnalysisItem] = []
        problems: dict[str, str] = {}
        for path in self._paths():
            try:
                found.append(self._item(path))
            except (OSError, ResultUnreadable) as error:
                problems[path.name] = str(error)
        self._items = {path: known for path, known in self._items.items() if path.exists()}
        self._refused = {path: known for path, known in self._refused.items() if path.exists()}
        # A2 before A10.
        return sorted(found, key=lambda each: (len(each.job), each.job)), problems

    def read(self, name: str, wanted: RowFilter) -> FoundRows | None:
        """Return a result with the rows that pass a filter; None if there is none of that name.

        A row lasts from its earliest time to its latest; one without any passes. Raises OSError, and ResultUnreadable.
        """
        if not self.is_configured or not _NAME.fullmatch(name):
            return None
        path = self._folder / f"{name}.json"
        try:
            version, latest = self._read(path)
        except FileNotFoundError:
            return None
        if wanted == RowFilter("", "", ""):
            return FoundRows(latest, latest.rows)
        key = path, version, wanted
        numbers = self._filtered.pop(key, None)
        self._filtered[key] = numbers = _wanted_rows(latest, wanted) if numbers is None else numbers
        while len(self._filtered) > FILTERED_MAX:
            del self._filtered[next(iter(self._filtered))]
        return FoundRows(latest, [latest.rows[each] for each in numbers])

    def _paths(self) -> list[Path]:
        try:
            paths = sorted(each for each in self._folder.iterdir() if each.suffix == ".json")
        except FileNotFoundError:
            # Nothing was analysed yet.
            return []
        return [each for each in paths if _NAME.fullmatch(each.stem)][:FILES_MAX]

    def _item(self, path: Path) -> AnalysisItem:
        version = _version(path)
        known = self._items.get(path)
        if known is not None and known[0] == version:
            return known[1]
        version, latest = self._read(path)
        self._items[path] = version, latest.item
        return latest.item

    def _read(self, path: Path) -> tuple[_FileVersion, LatestFile]:
        version = _version(path)
        refused = self._refused.get(path)
        if refused is not None and refused[0] == version:
            raise ResultUnreadable(refused[1])
        known = self._cached.pop(path, None)
        try:
            latest = known[1] if known is not None and known[0] == version else _read_file(path, version.size)
        except ResultUnreadable as error:
            self._refused[path] = version, str(error)
            raise
        self._cached[path] = version, latest
        while len(self._cached) > 1 and sum(each.size for each, _ in self._cached.values()) > CACHED_BYTES_MAX:
            del self._cached[next(iter(self._cached))]
        return version, latest


def _wanted_rows(latest: LatestFile, wanted: RowFilter) -> list[int]:
    # The window is that of the whole result.
    times = [each.name for each in latest.columns if each.type == "timestamp" and not each.name.startswith("window_")]
    return [number for number, each in enumerate(latest.rows) if _passes(_row_of(each), times, wanted)]


def _passes(row: dict[str, Any], times: Sequence[str], wanted: RowFilter) -> bool:
    if wanted.cluster and row.get("cluster") not in (None, wanted.cluster):
        return False
    present = [each for name in times if isinstance(each := row.get(name), str)]
    if not present:
        return True
    return (not wanted.end or min(present) < wanted.end) and (not wanted.start or max(present) >= wanted.start)


def _row_of(raw: msgspec.Raw) -> dict[str, Any]:
    try:
        return _decode_row(raw)
    except (msgspec.DecodeError, RecursionError):
        return {}


def _version(path: Path) -> _FileVersion:
    status = path.stat()
    return _FileVersion(status.st_mtime_ns, status.st_size, status.st_ino)


def _read_file(path: Path, size: int) -> LatestFile:
    if size > FILE_BYTES_MAX:
        raise ResultUnreadable(f"{path.name} has {size} bytes, and {FILE_BYTES_MAX} are read at most.")
    try:
        return _decode(path.read_bytes())
    except (msgspec.DecodeError, RecursionError) as error:
        raise ResultUnreadable(f"{path.name} is no result of rmq-analytics: {error}.") from None


#: Files are read one at a time; so many requests wait for it.
_WAITING_MAX: Final = 8

#: As the results have times: they compare as text.
_FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"


class AnalysisViews:
    """Files are read one at a time."""

    def __init__(self, folder: str) -> None:
        self._files = AnalysisFiles(folder)
        self._turn = asyncio.Lock()

    @get("/v1/analyses", refusals=(400, 503), concurrent_max=_WAITING_MAX)
    async def listing(self) -> AnalysisListing:
        """The newest results of rmq-analytics in analyticsDir."""
        async with self._turn:
            try:
                items, problems = await asyncio.to_thread(self._files.listing)
            except OSError as error:
                raise Unavailable(f"analyticsDir cannot be read: {error}.") from None
        return AnalysisListing(is_configured=self._files.is_configured, items=items, problems=problems)

    @get(
        "/v1/analyses/{name}",
        parts=(Parameter("name", "The name of the analysis: availability."),),
        parameters=(
            Parameter("cluster", "Only rows about this cluster or about several."),
            Parameter("from", "Only rows that last beyond this time, such as 2026-11-21T20:00:00Z."),
            Parameter("to", "Only rows that begin before this time."),
        ),
        paged=True,
        refusals=(400, 404, 503),
        concurrent_max=_WAITING_MAX,
    )
    async def rows(self, request: ViewRequest) -> AnalysisRows:
        """The rows of one result, at most the 10,000 most important."""
        wanted = RowFilter(request.query.get("cluster", ""), _time(request, "from"), _time(request, "to"))
        name = request.path["name"]
        async with self._turn:
            try:
                found = await asyncio.to_thread(self._files.read, name, wanted)
            except (OSError, ResultUnreadable) as error:
                raise Unavailable(f"The result cannot be read: {error}") from None
        if found is None:
            raise NotFound(f"There is no result {shortened(name)} in analyticsDir; see /v1/analyses.")
        return _page(found, request)


def _page(found: FoundRows, request: ViewRequest) -> AnalysisRows:
    latest, rows = found
    page = requested_page(range(len(rows)), request, int)
    return AnalysisRows(
        result=latest.item,
        columns=latest.columns,
        total=page.total,
        next_cursor=page.next_cursor,
        items=[rows[each] for each in page.keys],
    )


def _time(request: ViewRequest, name: str) -> str:
    text = request.query.get(name, "")
    if not text:
        return ""
    try:
        given = datetime.fromisoformat(text)
        return (given.astimezone(UTC) if given.tzinfo else given.replace(tzinfo=UTC)).strftime(_FORMAT)
    except (ValueError, OverflowError):
        raise HttpRefused(
            f"{name} must be a time such as 2026-11-21T20:00:00Z, not {shortened(text)}; without a zone it is UTC."
        ) from None
