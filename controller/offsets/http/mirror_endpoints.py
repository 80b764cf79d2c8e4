"""The HTTP paths about the mirror, as `endpoints.py` has those about offsets."""

from typing import Final

from controller.offsets.http import mirror_shapes as shapes
from controller.offsets.http.manager_views import of_part
from controller.offsets.http.mirror_views import MirrorViews
from controller.offsets.mirror.regressions import RegressionCause
from serving.http.endpoints import PAGED, Endpoint, Parameter

#: Each looks through the keys of all offsets.
_GROUP_LISTS_MAX: Final = 2

_mirror = of_part(lambda parts: parts.mirror)

MIRROR_ENDPOINTS: Final = (
    Endpoint(
        path="/v1/offsets/mirror",
        view=_mirror(MirrorViews.mirrored_sets),
        summary="How old the mirror of each broker set is, and since when its offsets are kept.",
        shape=shapes.MirrorListing,
        parameters=PAGED,
        refusals=(400, 409),
    ),
    Endpoint(
        path="/v1/offsets/groups",
        view=_mirror(MirrorViews.topic_groups),
        summary="Groups that have offsets in a topic, from the newest reading of each broker set.",
        shape=shapes.TopicGroupListing,
        parameters=(Parameter("topic", "The topic; must be given."), *PAGED),
        refusals=(400, 409),
        concurrent_max=_GROUP_LISTS_MAX,
    ),
    Endpoint(
        path="/v1/offsets/regressions",
        view=_mirror(MirrorViews.regressions),
        summary="Offsets at brokers that went back, the newest first: when, by how much, and why.",
        shape=shapes.RegressionListing,
        parameters=(
            Parameter("group", "Only offsets of this group."),
            Parameter("topic", "Only offsets in this topic."),
            Parameter("brokerName", "Only offsets on this broker set."),
            Parameter(
                "cause",
                "Only those with this cause: role_change, restart and disk_replaced, which nobody wanted, or "
                "operator_reset, guard, guard_or_rewind, rewind and deleted.",
                {"type": "string", "enum": [each.value for each in RegressionCause]},
            ),
            PAGED[0],
        ),
        refusals=(400, 409),
    ),
)
