"""Tells open pages when to load again: one stream of events for each page, whatever it shows.

The servers of the console are watched once for all pages, and only while a page is open: ten consoles cost a NameServer
one watcher. A page gets no data here, only that something at a server has changed; what it shows it loads itself.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from typing import Final, Literal, NamedTuple

import aiohttp
import msgspec
from aiohttp import hdrs, web
from yarl import URL

from remoting.background_tasks import start_task
from serving.http.console.peers import NumberedPeer, new_session
from serving.http.console.shapes import LiveView, PeerChange, WatchedPeer
from serving.http.paths import EVENT_STREAM_TYPE
from serving.http.server_sent_events import DirectWriter, event_text
from serving.http.views import TooManyRequests, Unavailable

#: Longest part of a line that is looked at, in bytes; of a longer one, the rest is data of no interest.
LINE_BYTES_MAX: Final = 512


class EventHead(NamedTuple):
    """An event without its data."""

    name: str
    #: Blank if it has none.
    id: str


class EventHeads:
    """Takes the bytes of a stream as they come (WHATWG HTML, 9.2.6); this project's servers end lines with LF."""

    def __init__(self) -> None:
        self._line = bytearray()
        #: Of the event that is not complete.
        self._fields: dict[str, str] = {}

    def take(self, chunk: bytes) -> list[EventHead]:
        """Return the events that are complete with these bytes."""
        found: list[EventHead] = []
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            self._add(part)
            line = self._line.decode(errors="replace").removesuffix("\r")
            self._line.clear()
            if line:
                field, _, value = line.partition(":")
                value = value.removeprefix(" ")
                # The id is sent back in a header, which takes no control characters.
                if field == "event" or (field == "id" and value.isprintable()):
                    self._fields[field] = value
                continue
            if name := self._fields.get("event"):
                found.append(EventHead(name, self._fields.get("id", "")))
            self._fields.clear()
        self._add(rest)
        return found

    def _add(self, part: bytes) -> None:
        self._line += part[: LINE_BYTES_MAX - len(self._line)]


#: Pages that are open at one time.
PAGES_MAX: Final = 64
#: Topics whose routes all pages together follow: each takes a stream at each NameServer.
TOPICS_MAX: Final = 16
#: Seconds without an event after which a page gets a `ping`: one that gets none takes the stream for cut.
PING_S: Final = 2.0
#: Seconds in which changes that follow each other are one event.
GATHER_S: Final = 0.1
#: Seconds after which a stream of a page ends: it connects again, for which its session has to be open still.
STREAM_S: Final = 600.0
#: Seconds until a server is connected to again, and until one that cannot be watched is.
RETRY_S: Final = 1.0
UNWATCHED_RETRY_S: Final = 5.0
#: Seconds for which servers are watched after the last page has closed: a view that is changed opens another stream.
LINGER_S: Final = 10.0
#: Seconds after which a stream of a server without a single byte ends: they send a comment each 15 s.
IDLE_S: Final = 20

_CLUSTER: Final = "cluster/watch"
#: Kinds of servers that can be watched.
_WATCHED_KINDS: Final = ("namesrv", "controller")
_BOOT_ID_BYTES: Final = 8

_encode: Final = msgspec.json.Encoder().encode

#: `unwatched`: nothing announces its changes, so pages load again and again; not yet, or not at all.
WatchState = Literal["watched", "unreachable", "unwatched"]


class PeerWatch:
    """One stream of one server, for as long as somebody needs it."""

    def __init__(self, live: "LiveChanges", peer: NumberedPeer, path: str) -> None:
        self.peer = peer
        self.state: WatchState = "unwatched"
        #: Streams of pages that need it.
        self.pages = 0
        self._live = live
        self._url = URL(f"{peer.url}/v1/{path}", encoded=True)
        self._last_id = ""
        self._task = start_task(self._follow())

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _follow(self) -> None:
        while True:
            try:
                state: WatchState = await self._read()
            except (TimeoutError, aiohttp.ClientError, OSError):
                state = "unreachable"
            except Exception as error:  # noqa: BLE001  # whatever a server sends, it is watched again
                state, self._last_id = "unwatched", ""
                report = {"message": f"{self.peer.address} cannot be watched", "exception": error}
                asyncio.get_running_loop().call_exception_handler(report)
            self._become(state)
            await asyncio.sleep(UNWATCHED_RETRY_S if state == "unwatched" else RETRY_S)

    async def _read(self) -> WatchState:
        """Read events until the stream ends; returns what the server is then."""
        headers: dict[str, str] = {hdrs.ACCEPT: EVENT_STREAM_TYPE, hdrs.ACCEPT_ENCODING: "identity"}
        if self._last_id:
            headers["Last-Event-ID"] = self._last_id
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=RETRY_S, sock_read=IDLE_S)
        async with self._live.client().get(
            self._url, headers=headers, timeout=timeout, allow_redirects=False
        ) as answer:
            if answer.status != web.HTTPOk.status_code or answer.content_type != EVENT_STREAM_TYPE:
                # Of an older release, or it stops, or has as many watchers as it takes.
                return "unwatched"
            self._become("watched")
            heads = EventHeads()
            async for chunk in answer.content.iter_any():
                for event in heads.take(chunk):
                    self._last_id = event.id or self._last_id
                    if event.name != "closing":
                        self._live.changed(self.peer)
        return "unreachable"

    def _become(self, state: WatchState) -> None:
        if state != self.state:
            self.state = state
            self._live.changed(self.peer)


class LiveChanges:
    """The pages that are open, and what is watched for them."""

    def __init__(self, peers: Iterable[NumberedPeer]) -> None:
        self._peers = [each for each in peers if each.kind in _WATCHED_KINDS]
        # Another one after each start: what happened in between is not known.
        self._boot_id = secrets.token_hex(_BOOT_ID_BYTES)
        self._number = 0
        self._pages: set[LiveStream] = set()
        self._watches: dict[tuple[NumberedPeer, str], PeerWatch] = {}
        self._client: aiohttp.ClientSession | None = None
        self._ending: asyncio.TimerHandle | None = None
        self._is_closing = False

    @property
    def event_id(self) -> str:
        return f"{self._boot_id}-{self._number}"

    def client(self) -> aiohttp.ClientSession:
        if self._client is None:
            self._client = new_session(0)
        return self._client

    def open(self, topics: Sequence[str], last_id: str) -> "LiveStream":
        """Return the stream of a page that shows the routes of these topics; raises TooManyRequests, Unavailable.

        Of routes beyond TOPICS_MAX the page learns that they are not watched, and loads them again and again.
        """
        if self._is_closing:
            raise Unavailable("This server is stopping.")
        if len(self._pages) >= PAGES_MAX:
            raise TooManyRequests(f"{PAGES_MAX} pages of the console are open, which is the limit.", 10)
        wanted = [(peer, path) for peer in self._peers for path in _paths(peer, topics)]
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        if len(self._followed().union(path for _, path in wanted if path != _CLUSTER)) > TOPICS_MAX:
            self._end_unneeded(wanted)
        watches = [each for each in (self._watch(peer, path) for peer, path in wanted) if each is not None]
        unwatched = {each: None for each, path in wanted if (each, path) not in self._watches}
        stream = LiveStream(self, watches, list(unwatched), is_current=last_id == self.event_id)
        self._pages.add(stream)
        return stream

    def changed(self, peer: NumberedPeer) -> None:
        """Note that something at a server has changed, or whether it is watched."""
        self._number += 1
        for page in self._pages:
            page.note(peer)

    def ended(self, stream: "LiveStream") -> None:
        """Forget a page; what nobody needs is watched for LINGER_S more."""
        if stream not in self._pages:
            return
        self._pages.remove(stream)
        for each in stream.watches:
            each.pages -= 1
        if self._ending is None and not self._is_closing:
            self._ending = asyncio.get_running_loop().call_later(LINGER_S, self._end_unneeded)

    def end_pages(self) -> None:
        """End the streams of all pages in order: the server stops."""
        self._is_closing = True
        for each in self._pages:
            each.end()

    async def close(self) -> None:
        self.end_pages()
        if self._ending is not None:
            self._ending.cancel()
        for each in self._watches.values():
            await each.close()
        if self._client is not None:
            await self._client.close()

    def _followed(self) -> set[str]:
        return {path for _, path in self._watches if path != _CLUSTER}

    def _watch(self, peer: NumberedPeer, path: str) -> PeerWatch | None:
        watch = self._watches.get((peer, path))
        if watch is None:
            if path != _CLUSTER and len(self._followed() | {path}) > TOPICS_MAX:
                return None
            watch = self._watches[peer, path] = PeerWatch(self, peer, path)
        watch.pages += 1
        return watch

    def _end_unneeded(self, wanted: Collection[tuple[NumberedPeer, str]] = ()) -> None:
        self._ending = None
        for key in [key for key, each in self._watches.items() if not each.pages and key not in wanted]:
            start_task(self._watches.pop(key).close())


class LiveStream:
    """What one page gets; an `EventStream`."""

    def __init__(
        self, live: LiveChanges, watches: Sequence[PeerWatch], unwatched: Sequence[NumberedPeer], *, is_current: bool
    ) -> None:
        self.watches = watches
        #: Servers with routes that are not watched for it.
        self._unwatched = unwatched
        self._live = live
        self._awake = asyncio.Event()
        self._is_ending = False
        self._changed: dict[NumberedPeer, None] = {}
        #: The page has seen all that happened before.
        self._is_current = is_current

    def attach(self, _: DirectWriter) -> None:
        """Write nothing directly: each change is an event of all pages, some ms later or earlier."""

    def note(self, peer: NumberedPeer) -> None:
        self._changed[peer] = None
        self._awake.set()

    def end(self) -> None:
        self._is_ending = True
        self._awake.set()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield what is watched, then changes as they come, and a `ping` when there was none for PING_S."""
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + STREAM_S
        yield self._event("live", is_current=self._is_current)
        while not self._is_ending and loop.time() < ends_s:
            if not await self._is_woken():
                yield event_text("ping", b"{}")
            elif not self._is_ending:
                await asyncio.sleep(GATHER_S)
                yield self._event("changed", is_current=False)
        yield event_text("closing", b"{}", retry_ms=1000)

    async def _is_woken(self) -> bool:
        """Wait until there is something to send; False after PING_S."""
        try:
            async with asyncio.timeout(PING_S):
                return await self._awake.wait()
        except TimeoutError:
            return False

    def close(self, *, is_stalled: bool) -> None:  # noqa: ARG002  # of EventStream; a stalled page just ends
        self._live.ended(self)

    def _event(self, name: str, *, is_current: bool) -> bytes:
        changed, self._changed = self._changed, {}
        self._awake.clear()
        view = LiveView(
            is_current=is_current,
            watched=[
                *(WatchedPeer(each.peer.kind, each.peer.number, each.state) for each in self.watches),
                *(WatchedPeer(each.kind, each.number, "unwatched") for each in self._unwatched),
            ],
            changed=[PeerChange(each.kind, each.number) for each in changed],
        )
        return event_text(name, _encode(view), self._live.event_id)


def _paths(peer: NumberedPeer, topics: Sequence[str]) -> list[str]:
    """Return what is watched at a server: its brokers and sets, and at NameServers the routes of topics."""
    if peer.kind != "namesrv":
        return [_CLUSTER]
    routes = [str(URL.build(path="routes/watch", query={"topic": each})) for each in dict.fromkeys(topics)]
    return [_CLUSTER, *routes]
