"""The HTTP paths about the guard, as `endpoints.py` has those about offsets."""

from typing import Final

from controller.offsets.http import guard_shapes as shapes
from controller.offsets.http.guard_views import GuardViews
from controller.offsets.http.manager_views import of_part
from serving.http.endpoints import PAGED, Endpoint, Parameter

_guard = of_part(lambda parts: parts.guard)

GUARD_ENDPOINTS: Final = (
    Endpoint(
        path="/v1/offsets/guard",
        view=_guard(GuardViews.guard_runs),
        summary="What the guard did after brokers became master or started again, of this process: its last runs.",
        shape=shapes.GuardListing,
        refusals=(400,),
    ),
    Endpoint(
        path="/v1/offsets/guard/{run}",
        view=_guard(GuardViews.guard_run),
        summary="The offsets that one run of the guard has written, or reports, by group, topic and queue.",
        shape=shapes.GuardRunOffsets,
        parameters=PAGED,
        parts=(Parameter("run", "Number of the run.", {"type": "integer"}),),
        refusals=(400, 404),
    ),
)
