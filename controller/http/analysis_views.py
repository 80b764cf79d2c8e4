"""What the HTTP paths of analyses answer: the files that `rmq-analytics` has published, read only."""

import asyncio
from datetime import UTC, datetime
from typing import Final

from controller.http.analysis_files import AnalysisFiles, FoundRows, ResultUnreadable, RowFilter
from serving.config.checks import shortened
from serving.http.endpoints import Parameter
from serving.http.paths import get
from serving.http.views import HttpRefused, NotFound, Unavailable, ViewRequest, requested_page
from serving.shapes.controller import AnalysisListing, AnalysisRows

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
            Parameter("cluster", "Only rows of this cluster, and those about more than one."),
            Parameter("from", "Only rows that last beyond this time, such as 2026-11-21T20:00:00Z."),
            Parameter("to", "Only rows that begin before this time."),
        ),
        paged=True,
        refusals=(400, 404, 503),
        concurrent_max=_WAITING_MAX,
    )
    async def rows(self, request: ViewRequest) -> AnalysisRows:
        """The rows of one result, at most the 10,000 that matter most."""
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
