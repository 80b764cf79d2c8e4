"""Every HTTP path with its view, response and parameters; the web server and OpenAPI are made from this table."""

from typing import Final

from namesrv.http.shapes import (
    BrokerListing,
    BrokerSetDetails,
    ClusterListing,
    KvListing,
    KvNamespaceListing,
    TopicListing,
)
from namesrv.http.views import NameServerViews
from remoting.protocol.shapes.route import TopicRouteData
from serving.http.endpoints import CONFIG, PAGED, PROBES, TEXT_TYPE, Endpoint, Parameter

_PREFIX: Final = Parameter("prefix", "Only topics that begin with this.")

ENDPOINTS: Final = (
    *PROBES,
    Endpoint(
        path="/v1/clusters",
        view=NameServerViews.clusters,
        summary="Clusters in numbers.",
        shape=ClusterListing,
        parameters=PAGED,
        refusals=(400,),
    ),
    Endpoint(
        path="/v1/brokers",
        view=NameServerViews.brokers,
        summary="Live brokers.",
        shape=BrokerListing,
        parameters=PAGED,
        refusals=(400,),
    ),
    Endpoint(
        path="/v1/brokers/{name}",
        view=NameServerViews.broker_set,
        summary="One broker set.",
        shape=BrokerSetDetails,
        parts=(Parameter("name", "The brokerName."),),
        refusals=(400, 404),
    ),
    Endpoint(
        path="/v1/topics",
        view=NameServerViews.topics,
        summary="Topics.",
        shape=TopicListing,
        parameters=(_PREFIX, *PAGED),
        refusals=(400,),
    ),
    Endpoint(
        path="/v1/topics/{topic}/route",
        view=NameServerViews.route,
        summary="The route of a topic, as a client without a zone gets it.",
        shape=TopicRouteData,
        parts=(Parameter("topic", "Name of the topic, percent-encoded: %25RETRY%25group for a retry topic."),),
        refusals=(400, 404),
    ),
    Endpoint(
        path="/v1/kv",
        view=NameServerViews.kv_namespaces,
        summary="KV namespaces.",
        shape=KvNamespaceListing,
        parameters=PAGED,
        refusals=(400,),
    ),
    Endpoint(
        path="/v1/kv/{namespace}",
        view=NameServerViews.kv_entries,
        summary="Entries of a KV namespace.",
        shape=KvListing,
        parameters=PAGED,
        parts=(Parameter("namespace", "Name of the namespace."),),
        refusals=(400, 404),
    ),
    CONFIG,
    Endpoint(
        path="/rocketmq/nsaddr",
        view=NameServerViews.nsaddr,
        summary="NameServers for clients that look them up: namesrvAddrList, else this server by the requested host.",
        content_type=TEXT_TYPE,
        parameters=None,
        refusals=(400, 503),
    ),
    Endpoint(
        path="/rocketmq/nsaddr-{unit}",
        view=NameServerViews.nsaddr,
        summary="The same for clients with a unit name; every unit gets the same NameServers.",
        content_type=TEXT_TYPE,
        parameters=None,
        parts=(Parameter("unit", "The unitName of the client."),),
        refusals=(400, 503),
    ),
)
