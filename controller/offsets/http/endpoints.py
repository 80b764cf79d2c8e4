"""Every HTTP path of the offset manager: its view, its answer, what it takes; server and OpenAPI are made from it."""

from typing import Final

from controller.offsets.http import shapes
from controller.offsets.http.guard_endpoints import GUARD_ENDPOINTS
from controller.offsets.http.lock_endpoints import LOCK_ENDPOINTS
from controller.offsets.http.manager_views import ManagerViews, of_part
from controller.offsets.http.mirror_endpoints import MIRROR_ENDPOINTS
from controller.offsets.http.restore_endpoints import RESTORE_ENDPOINTS
from controller.offsets.http.views import OffsetViews
from serving.http.endpoints import CONFIG, PAGED, PROBES, Endpoint, Parameter

#: Requests of clients at work at a time; their bodies take 128 MiB at most.
CLIENTS_MAX: Final = 64
#: Flushes that are waited for at a time: each looks at all that is dirty. Clients seldom need one, and another manager
#: that hands its journal over comes again.
FLUSHES_MAX: Final = 4
#: Requests of operators at work at a time.
OPERATORS_MAX: Final = 8
#: 10,000 queues in one freeze.
FREEZE_BYTES_MAX: Final = 4 << 20

_offsets = of_part(lambda parts: parts.offsets)

_SCOPE: Final = (
    Parameter("cluster", "Name of the cluster; DefaultCluster by default."),
    Parameter("namespace", "Namespace; none by default."),
    Parameter("group", "Only offsets of this group."),
    Parameter("topic", "Only offsets in this topic."),
    Parameter("brokerName", "Only offsets on this broker set."),
)

CLIENT_ENDPOINTS: Final = (
    Endpoint(
        path="/v1/offsets/commit",
        view=_offsets(OffsetViews.commit),
        summary="Store what a client has consumed; each entry has its own result. Repeating it is harmless.",
        shape=shapes.CommitAnswer,
        method="POST",
        body=shapes.CommitBody,
        body_bytes_max=shapes.BODY_BYTES_MAX,
        refusals=(409, 429, 503),
        is_for_clients=True,
        concurrent_max=CLIENTS_MAX,
    ),
    Endpoint(
        path="/v1/offsets/read",
        view=_offsets(OffsetViews.read),
        summary="Offsets of queues: ok, not_found or unavailable; a policy for new groups applies only at not_found.",
        shape=shapes.ReadAnswerView,
        method="POST",
        body=shapes.ReadBody,
        body_bytes_max=shapes.BODY_BYTES_MAX,
        refusals=(503,),
        is_for_clients=True,
        concurrent_max=CLIENTS_MAX,
    ),
    Endpoint(
        path="/v1/offsets/flush",
        view=_offsets(OffsetViews.flush),
        summary="Answered once the store has what was acknowledged of a scope before; 4 at a time, beyond it 429.",
        shape=shapes.FlushAnswer,
        method="POST",
        body=shapes.FlushBody,
        refusals=(409, 503),
        is_for_clients=True,
        concurrent_max=FLUSHES_MAX,
    ),
)
OPERATOR_ENDPOINTS: Final = (
    Endpoint(
        path="/v1/offsets/seed",
        view=_offsets(OffsetViews.seed),
        summary="Store offsets of queues that have none; the others are present, and stay.",
        shape=shapes.ChangeAnswer,
        method="POST",
        body=shapes.SeedBody,
        body_bytes_max=shapes.BODY_BYTES_MAX,
        refusals=(409, 503),
        concurrent_max=OPERATORS_MAX,
    ),
    Endpoint(
        path="/v1/offsets/reset",
        view=_offsets(OffsetViews.reset),
        summary="Store offsets, lower ones too, in a new reset epoch; with dryRun only show old and new.",
        shape=shapes.ChangeAnswer,
        method="POST",
        body=shapes.ResetBody,
        body_bytes_max=shapes.BODY_BYTES_MAX,
        refusals=(409, 503),
        concurrent_max=OPERATORS_MAX,
    ),
    Endpoint(
        path="/v1/offsets/clone",
        view=_offsets(OffsetViews.clone),
        summary="Let a group begin where another one is; what is absent there stays absent.",
        shape=shapes.ChangeAnswer,
        method="POST",
        body=shapes.CloneBody,
        body_bytes_max=shapes.BODY_BYTES_MAX,
        refusals=(409, 503),
        concurrent_max=OPERATORS_MAX,
    ),
    Endpoint(
        path="/v1/offsets/delete",
        view=_offsets(OffsetViews.delete),
        summary="Delete the offsets of a group, of a topic, or of a group in a topic.",
        shape=shapes.ChangeAnswer,
        method="POST",
        body=shapes.DeleteBody,
        refusals=(409, 503),
        concurrent_max=OPERATORS_MAX,
    ),
    Endpoint(
        path="/v1/offsets/freeze",
        view=_offsets(OffsetViews.freeze),
        summary="Let nobody but an operation change offsets, or get locks, until it thaws them or its lease ends.",
        shape=shapes.FreezeView,
        method="POST",
        body=shapes.FreezeBody,
        body_bytes_max=FREEZE_BYTES_MAX,
        refusals=(409, 503),
        concurrent_max=OPERATORS_MAX,
    ),
    Endpoint(
        path="/v1/offsets/renew-freeze",
        view=_offsets(OffsetViews.renew_freeze),
        summary="Let the freeze of an operation last for its lease from now on; 409 if it has ended.",
        shape=shapes.FreezeView,
        method="POST",
        body=shapes.OperationBody,
        refusals=(409, 503),
    ),
    Endpoint(
        path="/v1/offsets/thaw",
        view=_offsets(OffsetViews.thaw),
        summary="End the freeze of an operation.",
        shape=shapes.ThawAnswer,
        method="POST",
        body=shapes.OperationBody,
        refusals=(503,),
    ),
)

ENDPOINTS: Final = (
    *PROBES,
    Endpoint(
        path="/v1/manager",
        view=ManagerViews.manager,
        summary="This offset manager: whether it leads, who does, and what the store does not have yet.",
        shape=shapes.ManagerView,
        refusals=(400,),
    ),
    Endpoint(
        path="/v1/offsets",
        view=_offsets(OffsetViews.offsets),
        summary="Stored offsets by group, topic and broker set.",
        shape=shapes.OffsetListing,
        parameters=(*_SCOPE, *PAGED),
        refusals=(400, 409, 503),
    ),
    Endpoint(
        path="/v1/offsets/freezes",
        view=_offsets(OffsetViews.freezes),
        summary="The freezes that last.",
        shape=shapes.FreezeListing,
        refusals=(400, 503),
    ),
    *CLIENT_ENDPOINTS,
    *OPERATOR_ENDPOINTS,
    *RESTORE_ENDPOINTS,
    *LOCK_ENDPOINTS,
    *GUARD_ENDPOINTS,
    *MIRROR_ENDPOINTS,
    CONFIG,
)
