"""Fetches the broker sets from the controller that leads, over its HTTP API: the edge.

Whatever answers there is not trusted: it can cost neither more time nor more memory than the limits here, and each
name and address of it is checked before it is written anywhere.
"""

import http.client
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from remoting.clock import SystemClock
from remoting.protocol.addresses import is_address, is_name
from remoting.transport.http_exchange import HttpMessage, connection_to, exchange
from rmq.haproxy_config.frontends import KnownSets, NotConfigurable
from serving.shapes.controller import RoleListing, SetRolesView

#: How long one page, and all pages of a controller, may take.
TIMEOUT_S: Final = 3.0
ALL_PAGES_S: Final = 10.0
#: Of all pages; a set with three brokers has 400 bytes.
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
_PAGE: Final = 1_000
_OK: Final = 200
#: Characters of a wrong text that a complaint shows.
_SHOWN: Final = 100


def known_sets(controllers: Iterable[str]) -> KnownSets:
    """Return all broker sets by name, from the first of these URLs whose controller leads.

    Raises NotConfigurable if none does.
    """
    problems = []
    for url in controllers:
        try:
            return _sets_of(url)
        except NotConfigurable as error:
            problems.append(str(error))
    raise NotConfigurable("no leading controller was reached: " + "; ".join(problems))


def _sets_of(url: str) -> KnownSets:
    found: dict[str, Mapping[int, str]] = {}
    for page in _pages(url):
        if not page.is_leader:
            raise NotConfigurable(f"{url} does not lead")
        known = len(found)
        for broker_set in page.broker_sets:
            _check(url, broker_set)
            brokers = sorted((broker.broker_id, broker.address) for broker in broker_set.roles)
            found[broker_set.broker_name] = dict(brokers)
        if page.next_cursor is not None and len(found) == known:
            raise NotConfigurable(f"{url} does not answer as a controller: a page has no set that is new")
    return found


def _check(url: str, broker_set: SetRolesView) -> None:
    name = broker_set.broker_name
    wrong = [] if is_name(name) else [name]
    wrong += [broker.address for broker in broker_set.roles if not is_address(broker.address)]
    if wrong:
        raise NotConfigurable(f"{url} does not answer as a controller: {wrong[0][:_SHOWN]!r} is no name or address")


def _pages(url: str) -> Iterator[RoleListing]:
    clock, room = SystemClock(), ANSWER_BYTES_MAX
    ends_ms = clock.now_ms() + ALL_PAGES_S * 1000
    cursor: str | None = ""
    while cursor is not None:
        left_s = (ends_ms - clock.now_ms()) / 1000
        if left_s <= 0:
            raise NotConfigurable(f"{url} does not answer as a controller: no end of pages within {ALL_PAGES_S:g} s")
        body = _answer(url, cursor, min(TIMEOUT_S, left_s), room)
        room -= len(body)
        try:
            page = msgspec.json.decode(body, type=RoleListing)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise NotConfigurable(f"{url} does not answer as a controller: {error}") from None
        yield page
        cursor = page.next_cursor


def _answer(url: str, cursor: str, timeout_s: float, bytes_max: int) -> bytes:
    query = {"limit": str(_PAGE)} | ({"cursor": cursor} if cursor else {})
    target = f"{urllib.parse.urlsplit(url).path.rstrip('/')}/v1/roles?{urllib.parse.urlencode(query)}"
    connection = connection_to(url, timeout_s)
    try:
        connection.connect()
        status, body = exchange(connection, HttpMessage("GET", target, {}), timeout_s, bytes_max)
    except (OSError, UnicodeError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or f"no answer within {timeout_s:.1f} s"
        raise NotConfigurable(f"{url} does not answer as a controller: {reason}") from None
    finally:
        connection.close()
    if status != _OK:
        raise NotConfigurable(f"{url} answers {status}")
    if len(body) > bytes_max:
        raise NotConfigurable(f"{url} does not answer as a controller: more than {ANSWER_BYTES_MAX} bytes")
    return body
