"""Every HTTP path with its view, response and parameters; the web server and OpenAPI are made from this table."""

from typing import Final

from namesrv.http import shapes
from namesrv.http.views import NameServerViews
from remoting.protocol.shapes.route import TopicRouteData
from serving.http.endpoints import CONFIG, EVENT_STREAM_TYPE, PAGED, PROBES, TEXT_TYPE, Endpoint, Parameter
from serving.http.history_views import PAST_LIFE, PAST_ROUTES

_PREFIX: Final = Parameter("prefix", "Only topics that begin with this.")
_TOPIC: Final = Parameter("topic", "Name of the topic, percent-encoded: %25RETRY%25group for a retry topic.")
_WATCHED_TOPIC: Final = Parameter(
    "topic",
    "Name of a topic, known or not; once for each topic.",
    {"type": "array", "items": {"type": "string"}, "minItems": 1},
    is_repeated=True,
)
_AFTER: Final = Parameter("after", "Id of the last event that was read, to miss none after it; as Last-Event-ID.")

ENDPOINTS: Final = (
    *PROBES,
    Endpoint(
        "/v1/clusters",
        NameServerViews.clusters,
        "Clusters in numbers.",
        shapes.ClusterListing,
        parameters=PAGED,
        refusals=(400,),
    ),
    Endpoint(
        "/v1/brokers",
        NameServerViews.brokers,
        "Live brokers.",
        shapes.BrokerListing,
        parameters=(Parameter("brokerName", "Only brokers of this set."), *PAGED),
        refusals=(400,),
    ),
    Endpoint(
        "/v1/brokers/{name}",
        NameServerViews.broker_set,
        "One broker set.",
        shapes.BrokerSetDetails,
        parts=(Parameter("name", "The brokerName."),),
        refusals=(400, 404),
    ),
    Endpoint(
        "/v1/broker-sets/away",
        NameServerViews.away_sets,
        "Broker sets that had topics, or were registered for 30 s, and of which no broker is now; at most 1,000.",
        shapes.AwaySetListing,
        parameters=PAGED,
        refusals=(400,),
    ),
    Endpoint(
        "/v1/broker-sets/away/{name}",
        NameServerViews.forget_away_set,
        "Forgets a broker set that will not come back.",
        shapes.DroppedAwaySet,
        parts=(Parameter("name", "The brokerName."),),
        refusals=(404,),
        method="DELETE",
    ),
    Endpoint(
        "/v1/topics",
        NameServerViews.topics,
        "Topics.",
        shapes.TopicListing,
        parameters=(_PREFIX, *PAGED),
        refusals=(400,),
    ),
    Endpoint(
        "/v1/topics/{topic}/route",
        NameServerViews.route,
        "The route of a topic, as a client without a zone gets it; always with the brokers' own addresses.",
        TopicRouteData,
        parts=(_TOPIC,),
        refusals=(400, 404),
    ),
    Endpoint(
        "/v1/routes/watch",
        NameServerViews.watch_routes,
        "Server-sent events: the routes of these topics as /v1/topics/{topic}/route has them, now and at each change.",
        content_type=EVENT_STREAM_TYPE,
        parameters=(_WATCHED_TOPIC, _AFTER),
        refusals=(400, 503),
        streams=True,
    ),
    Endpoint(
        "/v1/cluster/watch",
        NameServerViews.watch_cluster,
        "Server-sent events: brokers that register or leave, and new masters; /v1/brokers has what there is.",
        content_type=EVENT_STREAM_TYPE,
        parameters=(_AFTER,),
        refusals=(400, 503),
        streams=True,
    ),
    Endpoint(
        "/v1/topics/{topic}/route-fetches",
        NameServerViews.route_fetches,
        "Who fetched the route of a topic since it is watched (request 20105), and whether it was the present one.",
        shapes.RouteFetchListing,
        parameters=PAGED,
        parts=(_TOPIC,),
        refusals=(400, 404),
    ),
    Endpoint(
        "/v1/role-addresses",
        NameServerViews.role_addresses,
        "Rules of role addresses in force (roleAddressFile), their digest, and what is wrong with the newest file.",
        shapes.RoleAddressListing,
        refusals=(400,),
    ),
    Endpoint(
        "/v1/kv",
        NameServerViews.kv_namespaces,
        "KV namespaces.",
        shapes.KvNamespaceListing,
        parameters=PAGED,
        refusals=(400,),
    ),
    Endpoint(
        "/v1/kv/{namespace}",
        NameServerViews.kv_entries,
        "Entries of a KV namespace.",
        shapes.KvListing,
        parameters=PAGED,
        parts=(Parameter("namespace", "Name of the namespace."),),
        refusals=(400, 404),
    ),
    *PAST_ROUTES,
    PAST_LIFE,
    CONFIG,
    Endpoint(
        "/rocketmq/nsaddr",
        NameServerViews.nsaddr,
        "NameServers for clients that look them up: namesrvAddrList, else this server by the requested host.",
        content_type=TEXT_TYPE,
        parameters=None,
        refusals=(400, 503),
        is_lookup=True,
    ),
    Endpoint(
        "/rocketmq/nsaddr-{unit}",
        NameServerViews.nsaddr,
        "The same for clients with a unit name; every unit gets the same NameServers.",
        content_type=TEXT_TYPE,
        parameters=None,
        parts=(Parameter("unit", "The unitName of the client."),),
        refusals=(400, 503),
        is_lookup=True,
    ),
)
