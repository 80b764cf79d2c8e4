"""What the paths about readings answer: how each broker set is read, and which offsets jumped."""

from typing import Final

import msgspec

from offsets.readings.jumps import Jump, JumpCause
from offsets.readings.readings import Readings, SetStatus
from serving.http.endpoints import PAGED, Parameter
from serving.http.pages import page_of
from serving.http.paths import get
from serving.http.views import ViewRequest

#: Parameter of a request -> field of a jump.
_FILTERS: Final = {"group": "group", "topic": "topic", "broker": "broker_name", "cause": "cause"}


class ReplicaView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A replica of a broker set."""

    address: str
    #: When it was read last; null: never.
    read_unix_ms: int | None
    #: Whether it copies offsets from its master: those of 5.5.0 do not, 5.5.1 does. null: not known yet.
    copies: bool | None
    #: Why it could not be read last; blank if it could.
    problem: str


class ReadSetView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How a broker set is read."""

    cluster: str
    broker_name: str
    #: `host:port`; null: it has none at present.
    master: str | None
    master_epoch: int | None
    #: When its offsets were read last, from whom and in which epoch; null: never.
    read_unix_ms: int | None
    read_from: str | None
    read_epoch: int | None
    #: The newest reading is not older than three periods.
    fresh: bool
    #: Groups in topics.
    groups: int
    #: Messages that its log is known again by.
    fingerprints: int
    log_end: int | None
    #: The oldest reading that is kept; in the last hour there is one in each period, before that one in each hour.
    oldest_unix_ms: int | None
    #: Why it could not be read last; blank if it could.
    problem: str
    replicas: list[ReplicaView]


class ReadSetListing(msgspec.Struct, frozen=True, rename="camel"):
    """A page of broker sets, by cluster and name."""

    sets: list[ReadSetView]
    total: int
    next_cursor: str | None


class JumpListing(msgspec.Struct, frozen=True, rename="camel"):
    """The last jumps, the newest first."""

    jumps: list[Jump]


class ReadingViews:
    """The views of readings."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    @get("/v1/offsets/sets", paged=True)
    def sets(self, request: ViewRequest) -> ReadSetListing:
        """How the offsets of each broker set are read, and whether its replicas copy them."""
        statuses = {"/".join(status.set_name): status for status in self._readings.statuses()}
        page = page_of(sorted(statuses), request.page, str)
        return ReadSetListing([self._set_view(statuses[name]) for name in page.keys], page.total, page.next_cursor)

    @get(
        "/v1/offsets/jumps",
        parameters=(
            Parameter("group", "Of this group only."),
            Parameter("topic", "In this topic only."),
            Parameter("broker", "On this broker set only."),
            Parameter(
                "cause", "For this cause only.", {"type": "string", "enum": [cause.value for cause in JumpCause]}
            ),
            PAGED[0],
        ),
    )
    def jumps(self, request: ViewRequest) -> JumpListing:
        """Offsets that went back, or forward to where nothing can have been read, by group; the newest first."""
        query = request.query
        wanted = {name: query[key] for key, name in _FILTERS.items() if key in query}
        found = self._readings.jumps(
            request.page.limit, lambda jump: all(getattr(jump, name) == value for name, value in wanted.items())
        )
        return JumpListing(found)

    def _set_view(self, status: SetStatus) -> ReadSetView:
        master, reading = status.master, status.reading
        moments = self._readings.moments(status.set_name)
        return ReadSetView(
            cluster=status.set_name.cluster,
            broker_name=status.set_name.broker_name,
            master=None if master is None else master.address,
            master_epoch=None if master is None else master.master_epoch,
            read_unix_ms=None if reading is None else reading.ended_unix_ms,
            read_from=None if reading is None else reading.master,
            read_epoch=None if reading is None else reading.master_epoch,
            fresh=status.is_fresh,
            groups=status.groups,
            fingerprints=status.fingerprints,
            log_end=None if reading is None else reading.second_end,
            oldest_unix_ms=min(moments, default=None),
            problem=status.problem,
            replicas=[
                ReplicaView(
                    address=replica.address,
                    read_unix_ms=replica.read_unix_ms,
                    copies=replica.copies,
                    problem=replica.problem,
                )
                for replica in status.replicas
            ],
        )
