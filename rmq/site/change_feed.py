"""Notices of our NameServers that something has changed, by server-sent events (docs/route-watch.md). The edge.

A thread for each NameServer reads with `http.client`, as everything of the HTTP API here does. A server that has no
such API, as one of Java, gives no notices; it is tried again from time to time, as it may be replaced.
"""

import asyncio
import http.client
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final
from urllib.parse import urlencode

from remoting.transport.http_exchange import connection_to
from rmq.site.settings import SiteSettings

#: A server sends a comment after 15 s without an event.
SILENCE_S_MAX: Final = 40.0
RETRY_S_MIN: Final = 1.0
RETRY_S_MAX: Final = 30.0
#: A route has 16 MiB at most, and an event is one line.
LINE_BYTES_MAX: Final = 17 * 1024 * 1024

_OK: Final = 200
_EVENT: Final = b"event:"
_CLOSING: Final = b"closing"


class ChangeFeed:
    """Calls back when NameServers notify of a change of routes, or of brokers where no topics are given."""

    def __init__(self, settings: SiteSettings, topics: Sequence[str], noticed: Callable[[], None]) -> None:
        """Start to read; `noticed` is called in the event loop, after changes, and as a stream begins or ends."""
        self._settings = settings
        self._target = _target(topics)
        self._noticed = noticed
        self._loop = asyncio.get_running_loop()
        self._live: set[str] = set()
        for url in settings.namesrv_http:
            # Nothing waits for these threads: most of the time they read what does not come.
            threading.Thread(target=self._follow, args=(url,), daemon=True).start()

    @property
    def is_complete(self) -> bool:
        """Whether every NameServer notifies of its changes."""
        urls = self._settings.namesrv_http
        return len(self._live) == len(urls) >= len(self._settings.namesrv)

    def _follow(self, url: str) -> None:
        retry_s = RETRY_S_MIN
        pause = threading.Event()
        while True:
            try:
                for event in self._events(url):
                    retry_s = RETRY_S_MIN
                    self._notify(url, is_live=event != _CLOSING)
            except (OSError, ValueError, http.client.HTTPException):
                # No stream, or no more of it: rows are read every 2 s then, and a failure of that is shown.
                pass
            self._notify(url, is_live=False)
            pause.wait(retry_s)
            retry_s = min(retry_s * 2, RETRY_S_MAX)

    def _events(self, url: str) -> Iterator[bytes]:
        """Yield the names of events until the stream ends; raises OSError, ValueError and HTTPException."""
        connection = connection_to(url, self._settings.timeout_s, self._settings.tls_ca)
        try:
            connection.request("GET", self._target, headers={"Accept": "text/event-stream"})
            if connection.sock is not None:
                connection.sock.settimeout(SILENCE_S_MAX)
            answer = connection.getresponse()
            if answer.status != _OK:
                return
            while line := answer.readline(LINE_BYTES_MAX):
                if line.startswith(_EVENT):
                    yield line.removeprefix(_EVENT).strip()
        finally:
            connection.close()

    def _notify(self, url: str, *, is_live: bool) -> None:
        try:
            self._loop.call_soon_threadsafe(self._note, url, is_live)
        except RuntimeError:
            # The loop is closed: the command ends.
            return

    def _note(self, url: str, is_live: bool) -> None:  # noqa: FBT001  # handed over by position
        was_live = url in self._live
        if is_live:
            self._live.add(url)
        else:
            self._live.discard(url)
        if is_live or was_live:
            self._noticed()


def _target(topics: Sequence[str]) -> str:
    if not topics:
        return "/v1/cluster/watch"
    return f"/v1/routes/watch?{urlencode([('topic', each) for each in topics])}"
