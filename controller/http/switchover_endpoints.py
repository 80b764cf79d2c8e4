"""The HTTP paths of switchovers and rolling restarts; part of the table in `endpoints.py`."""

from typing import Final

from controller.http.scaling_shapes import OperatorReason
from controller.http.switchover_shapes import RollingRestartView, SwitchoverListing, SwitchoverView
from controller.http.switchover_views import SwitchoverViews
from controller.switchover.request import SwitchoverRequest
from controller.switchover.rolling_restarts import RestartRequest
from serving.http.endpoints import PAGED, Endpoint, Parameter

_PREFIX: Final = Parameter("prefix", "Only broker sets whose names begin with this.")
_SET: Final = Parameter("name", "The brokerName.")
(_LIMIT,) = (each for each in PAGED if each.name == "limit")

SWITCHOVER_ENDPOINTS: Final = (
    Endpoint(
        path="/v1/broker-sets/{name}/switchover",
        view=SwitchoverViews.switchover,
        summary="The switchover of a set that is under way, or the last one since this controller started.",
        shape=SwitchoverView,
        parts=(_SET,),
        refusals=(400, 404),
    ),
    Endpoint(
        path="/v1/broker-sets/{name}/switchover",
        method="POST",
        view=SwitchoverViews.switch_over,
        summary="Begin a planned switchover: another broker in sync becomes master, without loss.",
        body=SwitchoverRequest,
        shape=SwitchoverView,
        status=202,
        parts=(_SET,),
        refusals=(404, 409),
    ),
    Endpoint(
        path="/v1/switchovers",
        view=SwitchoverViews.switchovers,
        summary="The last switchovers that this controller has begun, the newest first.",
        shape=SwitchoverListing,
        parameters=(_PREFIX, _LIMIT),
        refusals=(400,),
    ),
    Endpoint(
        path="/v1/broker-sets/{name}/rolling-restart",
        view=SwitchoverViews.rolling_restart,
        summary="The rolling restart of a set that is under way, or the last one.",
        shape=RollingRestartView,
        parts=(_SET,),
        refusals=(400, 404, 409, 503),
    ),
    Endpoint(
        path="/v1/broker-sets/{name}/rolling-restart",
        method="POST",
        view=SwitchoverViews.begin_restart,
        summary="Begin a rolling restart: it names each broker when it may be restarted, the master last.",
        body=RestartRequest,
        shape=RollingRestartView,
        status=202,
        parts=(_SET,),
        refusals=(404, 409, 503),
    ),
    Endpoint(
        path="/v1/broker-sets/{name}/rolling-restart/abort",
        method="POST",
        view=SwitchoverViews.abort_restart,
        summary="Abort a rolling restart: no more brokers are named.",
        body=OperatorReason,
        shape=RollingRestartView,
        parts=(_SET,),
        refusals=(404, 409, 503),
    ),
)
