"""Who fetched the routes of watched topics, and in which version; of all other topics nothing is known.

A topic is watched while somebody waits until no producer has an old route. Requests are not authenticated, so
everything has a limit, and a watch ends unless it is prolonged (docs/protocol/namesrv.md 2.23).
"""

from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from namesrv.refusals import TooManyWatchedTopics
from remoting.protocol.addresses import latest_of_largest_network
from remoting.protocol.shapes.route import PERM_WRITE, TopicRouteData
from remoting.protocol.shapes.route_fetches import RouteFetch, RouteVersion

WATCHED_TOPICS_MAX: Final = 64
#: Connections of one watched topic; as many as one NameServer has clients.
CONNECTIONS_PER_TOPIC_MAX: Final = 10_000
#: Connections of all watched topics together, each counted once per topic; 250 bytes each.
FETCHES_MAX: Final = 50_000
KEEP_MS_MIN: Final = 1000
KEEP_MS_MAX: Final = 60 * 60 * 1000


class WatchedTopic:
    """The fetches of one topic's route since the watch began."""

    def __init__(self, watch_id: str, present: RouteVersion, now_ms: int, keep_ms: int, network: str = "") -> None:
        self.watch_id = watch_id
        #: The host that began the watch.
        self.network = network
        self.since_unix_ms = present.since_unix_ms
        #: Monotonic, as all times but those of Unix: a clock that is set must not make a watch or a close older.
        self._since_ms = now_ms
        self.ends_ms = now_ms + keep_ms
        self.present = present
        #: How long the watch lasted when the present version came.
        self.before_ms = 0
        #: By connection id.
        self.fetches: dict[int, RouteFetch] = {}
        self._closed_ms: dict[int, int] = {}
        self.is_complete = True

    def observe(self, route: TopicRouteData | None, now_ms: int, unix_ms: int) -> None:
        """Take the present route, None if no broker has the topic; called before any of it is sent."""
        former, self.present = self.present, version_after(self.present, route, unix_ms)
        if self.present is not former:
            self.before_ms = now_ms - self._since_ms

    def close(self, connection_id: int, now_ms: int) -> None:
        if connection_id in self.fetches:
            self._closed_ms.setdefault(connection_id, now_ms)

    def fetch(self, connection_id: int, now_ms: int) -> RouteFetch:
        fetch, closed_ms = self.fetches[connection_id], self._closed_ms.get(connection_id)
        return fetch if closed_ms is None else replace(fetch, closed_for_ms=now_ms - closed_ms)


class RouteFetches:
    """Topic -> its fetches, for the topics that are watched."""

    def __init__(self) -> None:
        self._watched: dict[str, WatchedTopic] = {}
        #: The watched topic, None for any other; most often there is none at all.
        self.get = self._watched.get

    def __len__(self) -> int:
        return len(self._watched)

    def begin(self, topic: str, watched: WatchedTopic) -> None:
        """Watch one more topic, in the place of the latest of the host with most; raises TooManyWatchedTopics."""
        if len(self._watched) >= WATCHED_TOPICS_MAX:
            networks = {name: other.network for name, other in self._watched.items()}
            latest = latest_of_largest_network(networks, watched.network)
            if latest is None:
                raise TooManyWatchedTopics(WATCHED_TOPICS_MAX)
            del self._watched[latest]
        self._watched[topic] = watched

    def end_overdue(self, now_ms: int) -> None:
        for topic in [topic for topic, watched in self._watched.items() if watched.ends_ms < now_ms]:
            del self._watched[topic]

    def note(self, watched: WatchedTopic, connection_id: int, fetch: RouteFetch) -> None:
        """Keep the fetch of a connection; one too many makes the topic's fetches incomplete."""
        fetches = watched.fetches
        if connection_id not in fetches and (
            len(fetches) >= CONNECTIONS_PER_TOPIC_MAX
            or sum(len(each.fetches) for each in self._watched.values()) >= FETCHES_MAX
        ):
            watched.is_complete = False
            return
        fetches[connection_id] = fetch

    def close(self, connection_id: int, now_ms: int) -> None:
        """Note that a connection is closed: its client may have gone to another NameServer with the route it has."""
        for watched in self._watched.values():
            watched.close(connection_id, now_ms)


def first_version(route: TopicRouteData, unix_ms: int) -> RouteVersion:
    return RouteVersion(
        number=1,
        since_unix_ms=unix_ms,
        write_queue_nums=_write_queue_nums(route),
        order_topic_conf=_order_topic_conf(route),
    )


def version_after(former: RouteVersion, route: TopicRouteData | None, unix_ms: int) -> RouteVersion:
    """Return the next version if producers read other queues in `route` than in the former one, else the former."""
    queues, order_topic_conf = _write_queue_nums(route), _order_topic_conf(route)
    if (queues, order_topic_conf) == (former.write_queue_nums, former.order_topic_conf):
        return former
    return RouteVersion(
        number=former.number + 1, since_unix_ms=unix_ms, write_queue_nums=queues, order_topic_conf=order_topic_conf
    )


def _write_queue_nums(route: TopicRouteData | None) -> dict[str, int]:
    if route is None:
        return {}
    return {data.broker_name: data.write_queue_nums if data.perm & PERM_WRITE else 0 for data in route.queue_datas}


def _order_topic_conf(route: TopicRouteData | None) -> str | None:
    return None if route is None or route.order_topic_conf is UNSET else route.order_topic_conf
