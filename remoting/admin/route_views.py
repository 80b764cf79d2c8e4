"""Routes, clusters and topics, in the order of the NameServer. Pure.

The other modules read what rules need of the same answers.
"""

from remoting.admin.admin_request import AdminRequest, command, reading
from remoting.protocol.codes import RequestCode
from remoting.protocol.shapes.namesrv import ClusterInfo, GetRouteInfoRequestHeader, TopicList
from remoting.protocol.shapes.route import TopicRouteData


def route_view(topic: str) -> AdminRequest[TopicRouteData]:
    """Request the route of a topic (105); raises Refused with code 17. Source: docs/protocol/namesrv.md 2.6."""
    request = command(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequestHeader(topic=topic))
    return AdminRequest(request, reading(TopicRouteData))


def cluster_view() -> AdminRequest[ClusterInfo]:
    """Request all brokers (106). Source: docs/protocol/namesrv.md 2.7."""
    return AdminRequest(command(RequestCode.GET_BROKER_CLUSTER_INFO), reading(ClusterInfo))


def topics_view() -> AdminRequest[list[str]]:
    """Request the names of all topics (206). Source: docs/protocol/namesrv.md 2.14."""
    request = command(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    return AdminRequest(request, reading(TopicList)).mapped(lambda found: found.topic_list)
