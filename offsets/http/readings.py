"""What the paths about readings answer: how each broker set is read, and which offsets jumped."""

from typing import Final

from offsets.readings.readings import Readings
from serving.http.paths import LIMIT, Parameter, get
from serving.http.views import HttpRefused, ViewRequest, requested_page
from serving.shapes.offsets import JumpCause, JumpListing, ReadSetListing

#: Parameter of a request -> field of a jump.
_FILTERS: Final = {"group": "group", "topic": "topic", "broker": "broker_name", "cause": "cause"}


class ReadingViews:
    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    @get("/v1/offsets/sets", paged=True)
    def sets(self, request: ViewRequest) -> ReadSetListing:
        """How the offsets of each broker set are read, and whether its replicas copy them."""
        statuses = {f"{status.cluster}/{status.broker_name}": status for status in self._readings.statuses()}
        page = requested_page(sorted(statuses), request, str)
        return ReadSetListing([statuses[name] for name in page.keys], page.total, page.next_cursor)

    @get(
        "/v1/offsets/jumps",
        parameters=(
            Parameter("group", "Only this group."),
            Parameter("topic", "Only this topic."),
            Parameter("broker", "Only this broker set."),
            Parameter("cause", "Only this cause.", {"type": "string", "enum": [cause.value for cause in JumpCause]}),
            LIMIT,
        ),
        refusals=(400,),
    )
    def jumps(self, request: ViewRequest) -> JumpListing:
        """Offsets that went back, or further forward than can have been read, by group; the newest first."""
        query = request.query
        if query.get("cause") not in (None, *JumpCause):
            raise HttpRefused(f"cause must be one of {', '.join(JumpCause)}.")
        wanted = {name: query[key] for key, name in _FILTERS.items() if key in query}
        found = self._readings.jumps(
            request.page.limit, lambda jump: all(getattr(jump, name) == value for name, value in wanted.items())
        )
        return JumpListing(found)
