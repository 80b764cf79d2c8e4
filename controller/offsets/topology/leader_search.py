"""Which controller is requested next, and after which pause. Pure.

The one that has answered last is requested again; after a refusal or a failure the next one, at once, until all were
requested in vain. Then comes a pause, longer each time: an election of a leader takes a second or more.
"""

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

#: The pauses after rounds in vain, ms; the last one from then on.
PAUSES_MS: Final = (100, 200, 400, 800)


class LeaderSearch:
    """The controllers in their order."""

    def __init__(self, urls: Sequence[str]) -> None:
        """Take the URLs of all controllers, at least one."""
        self._urls = tuple(urls)
        self._at = 0
        #: Requests in vain since the last answer.
        self._failures = 0

    @property
    def url(self) -> str:
        """The one to request now."""
        return self._urls[self._at]

    @property
    def is_searching(self) -> bool:
        """Whether the last request was in vain."""
        return self._failures > 0

    @property
    def is_round_in_vain(self) -> bool:
        """Whether every controller was requested in vain since the last answer."""
        return self._failures >= len(self._urls)

    def answered(self) -> None:
        """Stay with the one that has answered."""
        self._failures = 0

    def failed(self) -> int:
        """Go on to the next one; returns after which pause, ms."""
        self._at = (self._at + 1) % len(self._urls)
        self._failures += 1
        rounds, others = divmod(self._failures, len(self._urls))
        return 0 if others else PAUSES_MS[min(rounds, len(PAUSES_MS)) - 1]


def controller_urls(text: str) -> tuple[str, ...]:
    """Return the URLs in a list with `;` between them, without a path; raises ValueError with what is wrong."""
    urls = tuple(dict.fromkeys(each.strip().rstrip("/") for each in text.split(";") if each.strip()))
    if not urls:
        raise ValueError("it must name at least one controller, as http://10.0.0.1:9881")
    for each in urls:
        if problem := _problem_of(each):
            raise ValueError(f"{problem}; each must be as http://10.0.0.1:9881, with ; between them")
    return urls


def _problem_of(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return f"{url} is no URL: {error}"
    if parts.scheme not in {"http", "https"} or not host:
        return f"{url} is no URL of a host with http or https"
    if "@" in parts.netloc:
        # Not repeated: it would be in the log.
        return f"a URL of {host} has a user or a password"
    if parts.path or parts.query or parts.fragment or not url.isprintable() or " " in url:
        return f"{url} has more than a scheme, a host and a port"
    return ""
