"""What can be watched over HTTP: routes and brokers, with one limit for all watchers."""

from secrets import token_hex
from typing import Final

from namesrv.core.route_state import RouteState
from namesrv.http.cluster_watch import ClusterWatch
from namesrv.http.route_watch import RouteWatch
from namesrv.http.watch_streams import WatcherObserver, WatchStreams
from namesrv.settings.durable_settings import DurableSettings
from remoting.clock import Clock
from serving.http.server_sent_events import StreamPlaces

_BOOT_ID_BYTES: Final = 8


class Watches:
    """All watches of a NameServer."""

    def __init__(
        self, state: RouteState, settings: DurableSettings, watchers_max: int, clock: Clock, observer: WatcherObserver
    ) -> None:
        """Follow the routes of `state` from now on; `cluster.record` has to be given the events."""
        # Another one after each start: what happened in between is not known.
        boot_id = token_hex(_BOOT_ID_BYTES)
        places = StreamPlaces(watchers_max)
        self.routes = RouteWatch(boot_id, state, settings, places, clock, observer)
        self.cluster = ClusterWatch(boot_id, state.tables, settings.config, places, clock, observer)
        state.route_cache.observe(self.routes)

    @property
    def streams(self) -> tuple[WatchStreams, ...]:
        """The open watchers of each kind."""
        return self.routes.streams, self.cluster.streams

    def close(self) -> None:
        """End all streams in order, and take no more: their clients go to other servers."""
        for each in self.streams:
            each.close()
