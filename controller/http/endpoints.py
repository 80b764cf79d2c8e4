"""Every HTTP path of a controller: its view, its answer, what it takes; the web server and OpenAPI are made from it."""

from typing import Final

from controller.http.shapes import BrokerSetListing, ControllerListing, ElectionListing, StoredSetView
from controller.http.views import ControllerViews
from serving.http.endpoints import CONFIG, PAGED, PROBES, Endpoint, Parameter

_PREFIX: Final = Parameter("prefix", "Only broker sets whose names begin with this.")
(_LIMIT,) = (each for each in PAGED if each.name == "limit")

ENDPOINTS: Final = (
    *PROBES,
    Endpoint(
        path="/v1/controllers",
        view=ControllerViews.controllers,
        summary="The controllers, and which of them leads.",
        shape=ControllerListing,
        refusals=(400,),
    ),
    Endpoint(
        path="/v1/broker-sets",
        view=ControllerViews.broker_sets,
        summary="Broker sets with their masters and SyncStateSets.",
        shape=BrokerSetListing,
        parameters=(_PREFIX, *PAGED),
        refusals=(400,),
    ),
    Endpoint(
        path="/v1/broker-sets/{name}",
        view=ControllerViews.broker_set,
        summary="One broker set.",
        shape=StoredSetView,
        parts=(Parameter("name", "The brokerName."),),
        refusals=(400, 404),
    ),
    Endpoint(
        path="/v1/elections",
        view=ControllerViews.elections,
        summary="The last elections of this controller with their reasons, the newest first.",
        shape=ElectionListing,
        parameters=(_PREFIX, _LIMIT),
        refusals=(400,),
    ),
    CONFIG,
)
