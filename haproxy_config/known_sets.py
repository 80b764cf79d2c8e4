"""Fetches the broker sets from the controller that leads, over its HTTP API: the edge."""

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from typing import Final

import msgspec

from haproxy_config.frontends import KnownSet, NotConfigurable

#: How long one answer may take.
TIMEOUT_S: Final = 3.0
_PAGE: Final = 1_000


class _Page(msgspec.Struct, frozen=True, rename="camel"):
    is_leader: bool
    broker_sets: list[KnownSet]
    next_cursor: str | None


def known_sets(controllers: Iterable[str]) -> dict[str, KnownSet]:
    """Return all broker sets by name, from the first of these URLs whose controller leads.

    Raises NotConfigurable if none does.
    """
    problems = []
    for url in controllers:
        try:
            return _sets_of(url)
        except NotConfigurable as error:
            problems.append(str(error))
    raise NotConfigurable("no controller that leads was reached: " + "; ".join(problems))


def _sets_of(url: str) -> dict[str, KnownSet]:
    found: dict[str, KnownSet] = {}
    cursor: str | None = ""
    while cursor is not None:
        page = _page(url, cursor)
        if not page.is_leader:
            raise NotConfigurable(f"{url} does not lead")
        found.update((each.broker_name, each) for each in page.broker_sets)
        cursor = page.next_cursor
    return found


def _page(url: str, cursor: str) -> _Page:
    query = {"limit": str(_PAGE)} | ({"cursor": cursor} if cursor else {})
    target = f"{url.rstrip('/')}/v1/roles?{urllib.parse.urlencode(query)}"
    try:
        with urllib.request.urlopen(target, timeout=TIMEOUT_S) as response:  # noqa: S310  # command.py checks the scheme
            return msgspec.json.decode(response.read(), type=_Page)
    except urllib.error.HTTPError as error:
        raise NotConfigurable(f"{url} answers {error.code}") from None
    except (OSError, http.client.HTTPException, msgspec.DecodeError, json.JSONDecodeError) as error:
        reason = getattr(error, "reason", None) or error
        raise NotConfigurable(f"{url} does not answer as a controller: {reason}") from None
