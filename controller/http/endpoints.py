"""Every HTTP path of a controller: its view, its answer, what it takes; the web server and OpenAPI are made from it."""

from typing import Final

from controller.http.analysis_shapes import AnalysisListing, AnalysisRows
from controller.http.callback_shapes import CallbackListing, Redelivery, RedeliveryRequest
from controller.http.master_shapes import MasterListing
from controller.http.master_views import WAIT_MS_MAX
from controller.http.scaling_shapes import (
    DecisionListing,
    GivenUpSet,
    OperationListing,
    OperationView,
    OperatorReason,
    PolicyDocument,
    PolicyListing,
    ProposalListing,
    ProposalView,
    ResizeCommand,
    WaivedGroup,
)
from controller.http.shapes import BrokerSetListing, ControllerListing, ElectionListing, RoleListing, StoredSetView
from controller.http.switchover_endpoints import SWITCHOVER_ENDPOINTS
from controller.http.views import ControllerViews
from controller.scaling.resize.request import ResizePlan, ResizeRequest
from serving.http.endpoints import CONFIG, EVENT_STREAM_TYPE, PAGED, PROBES, Endpoint, Parameter
from serving.http.history_views import PAST_LIFE
from store.documents import DOCUMENT_BYTES_MAX

_PREFIX: Final = Parameter("prefix", "Only broker sets whose names begin with this.")
_TOPIC_PREFIX: Final = Parameter("prefix", "Only topics whose names begin with this.")
_OPERATION: Final = Parameter("id", "The id of the operation.")
_PROPOSAL: Final = Parameter("id", "The id of the proposal.")
(_LIMIT,) = (each for each in PAGED if each.name == "limit")

#: Files are read one at a time; so many requests wait for it.
_ANALYSES_MAX: Final = 8

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
        path="/v1/cluster/watch",
        view=ControllerViews.watch_cluster,
        summary="Server-sent events: which of leader, brokerSets, elections and scaling have changed; read them again.",
        content_type=EVENT_STREAM_TYPE,
        parameters=(Parameter("after", "Id of the last event that was read; as Last-Event-ID."),),
        refusals=(400, 503),
        streams=True,
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
        path="/v1/roles",
        view=ControllerViews.roles,
        summary="Broker sets with the roles of their brokers, as the role check port answers them.",
        shape=RoleListing,
        parameters=(_PREFIX, *PAGED),
        refusals=(400,),
    ),
    Endpoint(
        path="/v1/masters",
        view=ControllerViews.masters,
        summary="The masters of all sets with their epochs, for programs that follow them; only the leader answers.",
        shape=MasterListing,
        parameters=(
            Parameter(
                "after",
                "The revision of an earlier answer: only sets that have changed since then. Without it, or with one "
                "that is not known any more, all sets are answered at once.",
            ),
            Parameter(
                "waitMs",
                "Wait up to so long for a change, if there is none since `after`.",
                {"type": "integer", "minimum": 0, "maximum": WAIT_MS_MAX, "default": 0},
            ),
        ),
        refusals=(400, 409, 503),
        waits=True,
    ),
    *SWITCHOVER_ENDPOINTS,
    Endpoint(
        path="/v1/elections",
        view=ControllerViews.elections,
        summary="The last elections of all controllers with their reasons, the newest first.",
        shape=ElectionListing,
        parameters=(_PREFIX, _LIMIT),
        refusals=(400,),
        has_details=True,
    ),
    Endpoint(
        path="/v1/role-callbacks",
        view=ControllerViews.role_callbacks,
        summary="Changes of masters that onRoleChange has not taken, and why its last call failed.",
        shape=CallbackListing,
        parameters=(_PREFIX, *PAGED),
        refusals=(400, 409),
    ),
    Endpoint(
        path="/v1/role-callbacks/redeliver",
        method="POST",
        view=ControllerViews.redeliver_callbacks,
        summary="Call onRoleChange once more for sets, with their present masters and epochs.",
        body=RedeliveryRequest,
        shape=Redelivery,
        refusals=(409, 503),
    ),
    Endpoint(
        path="/v1/scaling/operations",
        view=ControllerViews.operations,
        summary="Resizes of topics under way, by topic, then those that have ended, the newest first.",
        shape=OperationListing,
        parameters=(_TOPIC_PREFIX, _LIMIT),
        refusals=(400, 409, 503),
    ),
    Endpoint(
        path="/v1/scaling/operations/{id}",
        view=ControllerViews.operation,
        summary="One resize: where it is, what it waits for, and what was seen in each phase.",
        shape=OperationView,
        parts=(_OPERATION,),
        refusals=(400, 404, 409, 503),
    ),
    Endpoint(
        path="/v1/scaling/plan",
        method="POST",
        view=ControllerViews.plan,
        summary="What a resize would do, how long it takes at least, and what is in its way; nothing is changed.",
        body=ResizeRequest,
        shape=ResizePlan,
        refusals=(409,),
    ),
    Endpoint(
        path="/v1/scaling/operations",
        method="POST",
        view=ControllerViews.start,
        summary="Start the resize of a topic.",
        body=ResizeRequest,
        shape=OperationView,
        status=201,
        refusals=(409, 503, 504),
    ),
    Endpoint(
        path="/v1/scaling/operations/{id}/abort",
        method="POST",
        view=ControllerViews.abort,
        summary="Undo a resize; what that leaves behind is in its steps.",
        body=ResizeCommand,
        shape=OperationView,
        parts=(_OPERATION,),
        refusals=(404, 409, 503, 504),
    ),
    Endpoint(
        path="/v1/scaling/operations/{id}/resume",
        method="POST",
        view=ControllerViews.resume,
        summary="Go on with a resize that is BLOCKED, or in CONFLICT.",
        body=ResizeCommand,
        shape=OperationView,
        parts=(_OPERATION,),
        refusals=(404, 409, 503, 504),
    ),
    Endpoint(
        path="/v1/scaling/operations/{id}/waive",
        method="POST",
        view=ControllerViews.waive,
        summary="Give up what a group has not consumed of the queues that a resize drops.",
        body=WaivedGroup,
        shape=OperationView,
        parts=(_OPERATION,),
        refusals=(404, 409, 503, 504),
    ),
    Endpoint(
        path="/v1/scaling/operations/{id}/give-up",
        method="POST",
        view=ControllerViews.give_up,
        summary="Go on without a broker set that does not have the topic any more.",
        body=GivenUpSet,
        shape=OperationView,
        parts=(_OPERATION,),
        refusals=(404, 409, 503, 504),
    ),
    Endpoint(
        path="/v1/scaling/policies",
        view=ControllerViews.policies,
        summary="The policies of the autoscaler that are in force, and where they come from.",
        shape=PolicyListing,
        refusals=(400, 409, 503),
    ),
    Endpoint(
        path="/v1/scaling/policies",
        method="PUT",
        view=ControllerViews.replace_policies,
        summary="Replace all policies of the autoscaler; refused while they come from a file.",
        body=PolicyDocument,
        body_bytes_max=DOCUMENT_BYTES_MAX,
        shape=PolicyListing,
        refusals=(409, 503, 504),
    ),
    Endpoint(
        path="/v1/scaling/decisions",
        view=ControllerViews.decisions,
        summary="What the autoscaler makes of each topic that has a policy, and why; and the last changes of that.",
        shape=DecisionListing,
        parameters=(_TOPIC_PREFIX, _LIMIT),
        refusals=(400, 409, 503),
    ),
    Endpoint(
        path="/v1/scaling/proposals",
        view=ControllerViews.proposals,
        summary="Resizes that wait for an operator, by topic.",
        shape=ProposalListing,
        refusals=(400, 409, 503),
    ),
    Endpoint(
        path="/v1/scaling/proposals/{id}/approve",
        method="POST",
        view=ControllerViews.approve_proposal,
        summary="Start a proposed resize.",
        body=OperatorReason,
        shape=OperationView,
        status=201,
        parts=(_PROPOSAL,),
        refusals=(404, 409, 503, 504),
    ),
    Endpoint(
        path="/v1/scaling/proposals/{id}/dismiss",
        method="POST",
        view=ControllerViews.dismiss_proposal,
        summary="Give up a proposal; the same count is not proposed again for a day.",
        body=OperatorReason,
        shape=ProposalView,
        parts=(_PROPOSAL,),
        refusals=(404, 409, 503),
    ),
    PAST_LIFE,
    Endpoint(
        path="/v1/analyses",
        view=ControllerViews.analyses,
        summary="The newest results of rmq-analytics in analyticsDir.",
        shape=AnalysisListing,
        refusals=(400, 503),
        concurrent_max=_ANALYSES_MAX,
    ),
    Endpoint(
        path="/v1/analyses/{name}",
        view=ControllerViews.analysis,
        summary="The rows of one result, at most the 10,000 that matter most.",
        shape=AnalysisRows,
        parts=(Parameter("name", "The name of the analysis: availability."),),
        parameters=(
            Parameter("cluster", "Only rows of this cluster, and those about more than one."),
            Parameter("from", "Only rows that last beyond this time, such as 2026-11-21T20:00:00Z."),
            Parameter("to", "Only rows that begin before this time."),
            *PAGED,
        ),
        refusals=(400, 404, 503),
        concurrent_max=_ANALYSES_MAX,
    ),
    CONFIG,
)
