"""Server-sent events as values, as browsers and programs read them (WHATWG HTML, 9.2); imports no web server."""

from collections.abc import AsyncGenerator
from typing import Final, Protocol

from remoting.protocol.addresses import latest_of_largest_network
from remoting.server.connection_limit import network_of

#: Seconds without an event after which a comment is sent: proxies close connections that are silent for long.
HEARTBEAT_S: Final = 15.0
HEARTBEAT: Final = b":\n\n"


class DirectWriter(Protocol):
    """Writes to a client without a turn of the task that serves it, for those that keep up."""

    @property
    def is_free(self) -> bool:
        """Whether all that was written before is on its way."""

    def write(self, chunk: bytes) -> None:
        """Write whole events."""


class EventStream(Protocol):
    """What a view returns whose answer never ends."""

    def attach(self, writer: DirectWriter) -> None:
        """Handle that the head is sent: while `chunks` waits for the next event, it may be written directly."""

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield whole events, one or more at a time; ends to close the stream in order."""

    def close(self, *, is_stalled: bool) -> None:
        """Handle the end of the stream, whatever it was; `is_stalled` if the client read nothing for STALL_S."""


class EndedStream(Protocol):
    """A stream that can be ended for another one."""

    def end(self) -> None:
        """End in order, soon."""


class StreamPlaces:
    """How many streams may be open; once all places are taken, the host with most of them gives one up for another."""

    def __init__(self, places_max: int) -> None:
        self.places_max = places_max
        #: The networks of their clients; the youngest last.
        self._open: dict[EndedStream, str] = {}

    def take(self, stream: EndedStream, client: str) -> bool:
        """Give a stream a place, that of another where there is none; False if no host has more than this client's."""
        network = network_of(client)
        if len(self._open) >= self.places_max:
            youngest = latest_of_largest_network(self._open, network)
            if youngest is None:
                return False
            del self._open[youngest]
            youngest.end()
        self._open[stream] = network
        return True

    def leave(self, stream: EndedStream) -> None:
        self._open.pop(stream, None)


def event_text(name: str, data: bytes, event_id: str | None = None, retry_ms: int | None = None) -> bytes:
    """Return an event as it is sent; `data` is JSON, so it is one line."""
    head = f"id: {event_id}\n" if event_id is not None else ""
    retry = f"retry: {retry_ms}\n" if retry_ms is not None else ""
    return b"%sevent: %s\n%sdata: %s\n\n" % (head.encode(), name.encode(), retry.encode(), data)
