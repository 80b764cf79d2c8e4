"""The HTTP paths about locks, as `endpoints.py` has those about offsets."""

from typing import Final

from controller.offsets.http import holder_shapes
from controller.offsets.http import lock_shapes as shapes
from controller.offsets.http.holder_views import HolderPages
from controller.offsets.http.lock_views import LockViews
from controller.offsets.http.manager_views import of_part
from serving.http.endpoints import PAGED, Endpoint, Parameter

#: Requests at work at a time.
_AT_A_TIME: Final = 64
_BYTES_MAX: Final = 1 << 20

_locks, _holders = of_part(lambda parts: parts.locks), of_part(lambda parts: parts.holders)

_GROUP: Final = (
    Parameter("group", "The group; must be given."),
    Parameter("cluster", "Name of the cluster; DefaultCluster by default."),
    Parameter("namespace", "Namespace; none by default."),
)

LOCK_ENDPOINTS: Final = (
    Endpoint(
        path="/v1/locks",
        view=_locks(LockViews.locks),
        summary="The locks of a group: holders, tokens and how long their sessions last.",
        shape=shapes.LockListing,
        parameters=(*_GROUP, *PAGED),
        refusals=(400, 503),
    ),
    Endpoint(
        path="/v1/locks/holders",
        view=_holders(HolderPages.holders),
        summary="Who holds the queues of a declared group at brokers, by the last answers of its clients.",
        shape=holder_shapes.HolderListing,
        parameters=(*_GROUP, *PAGED),
        refusals=(400, 409, 503),
    ),
    Endpoint(
        path="/v1/locks/overlaps",
        view=_holders(HolderPages.overlaps),
        summary="Queues that two clients hold at brokers at the same time; of declared groups.",
        shape=holder_shapes.OverlapListing,
        parameters=PAGED,
        refusals=(400, 409, 503),
    ),
    Endpoint(
        path="/v1/locks/sessions",
        view=_locks(LockViews.open_session),
        summary="Open a session for a client of a group that is declared orderly; it lasts as long as it is renewed.",
        shape=shapes.SessionAnswer,
        method="POST",
        body=shapes.SessionBody,
        refusals=(409, 429, 503),
        status=201,
        is_for_clients=True,
        concurrent_max=_AT_A_TIME,
    ),
    Endpoint(
        path="/v1/locks/renew",
        view=_locks(LockViews.renew_session),
        summary="Begin the lease of a session again; answers which queues it still holds. 409 if it has ended.",
        shape=shapes.SessionAnswer,
        method="POST",
        body=shapes.SessionIdBody,
        refusals=(409, 503),
        is_for_clients=True,
    ),
    Endpoint(
        path="/v1/locks/acquire",
        view=_locks(LockViews.acquire),
        summary="Grant those queues that are free; each has its own result.",
        shape=shapes.AcquireAnswer,
        method="POST",
        body=shapes.AcquireBody,
        body_bytes_max=_BYTES_MAX,
        refusals=(409, 429, 503),
        is_for_clients=True,
        concurrent_max=_AT_A_TIME,
    ),
    Endpoint(
        path="/v1/locks/release",
        view=_locks(LockViews.release),
        summary="Commit the final offsets, then give the queues up. Repeating it is harmless.",
        shape=shapes.ReleaseAnswer,
        method="POST",
        body=shapes.ReleaseBody,
        body_bytes_max=_BYTES_MAX,
        refusals=(409, 429, 503),
        is_for_clients=True,
        concurrent_max=_AT_A_TIME,
    ),
    Endpoint(
        path="/v1/locks/close",
        view=_locks(LockViews.close_session),
        summary="End a session; its queues are free. Commit before.",
        shape=shapes.CloseAnswer,
        method="POST",
        body=shapes.SessionIdBody,
        refusals=(429, 503),
        is_for_clients=True,
        concurrent_max=_AT_A_TIME,
    ),
    Endpoint(
        path="/v1/locks/transfer",
        view=_locks(LockViews.transfer),
        summary="Commit the final offset and give a queue to another client of the group, in one step.",
        shape=shapes.TokenAnswer,
        method="POST",
        body=shapes.TransferBody,
        refusals=(409, 429, 503),
        is_for_clients=True,
        concurrent_max=_AT_A_TIME,
    ),
    Endpoint(
        path="/v1/locks/force-release",
        view=_locks(LockViews.force_release),
        summary="Take a queue from its holder, whose commits are fenced from then on.",
        shape=shapes.TokenAnswer,
        method="POST",
        body=shapes.ForceReleaseBody,
        refusals=(409, 503),
    ),
    Endpoint(
        path="/v1/locks/declare-orderly",
        view=_locks(LockViews.declare_orderly),
        summary="Let a group have locks: all its consumers are orderly.",
        shape=shapes.OrderlyAnswer,
        method="POST",
        body=shapes.GroupBody,
        refusals=(409, 503),
    ),
    Endpoint(
        path="/v1/locks/withdraw-orderly",
        view=_locks(LockViews.withdraw_orderly),
        summary="Let a group have no locks any more; 409 while one is held.",
        shape=shapes.OrderlyAnswer,
        method="POST",
        body=shapes.GroupBody,
        refusals=(409, 503),
    ),
)
