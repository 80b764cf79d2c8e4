"""Which producers may still have the old route, by what NameServers of this product know.

No list is proof: a producer that is cut off from all NameServers is in none. The proof is the check after read numbers
are lowered. Source: docs/protocol/namesrv.md 2.23.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.scaling.resize.observation import StaleProducers
from remoting.admin.route_fetches import ClientFetch, ClientFetches

#: Longest poll interval of clients that is usual.
POLL_MS: Final = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredWrites:
    """To which numbers writes were lowered."""

    #: By broker name.
    write_queue_nums: Mapping[str, int]
    #: How long a producer may use a route of which nothing is known.
    fixed_wait_ms: int


def stale_producers(
    lowered: LoweredWrites, answers: Sequence[ClientFetches | None], hosts: Collection[str] | None
) -> StaleProducers:
    """Return who is waited for, and whether that is everybody.

    `answers` has one entry of each NameServer, None where it cannot tell; `hosts` are those of all producers that
    brokers know, None if a broker did not tell: hosts of others are not waited for. It is everybody only if the watch
    began a poll interval before the numbers were lowered, and no client comes through a proxy.
    """
    known = [each for each in answers if each is not None]
    fetches = [fetch for each in known for fetch in each.fetches]
    stale = {each.host for each in fetches if _is_stale(each, lowered.fixed_wait_ms)}
    fresh = {each.host for each in fetches if each.is_present}
    is_complete = (
        hosts is not None
        and len(known) == len(answers)
        and all(_is_usable(each, lowered) for each in known)
        and not any(each.has_proxy for each in fetches)
        and set(hosts) <= fresh
    )
    if hosts is not None:
        stale &= set(hosts)
    return StaleProducers(is_complete=is_complete, addresses=tuple(sorted(stale)))


def _is_stale(fetch: ClientFetch, fixed_wait_ms: int) -> bool:
    if fetch.is_present:
        return False
    # A client whose connection has closed may use the old route until it has connected to another NameServer.
    return fetch.closed_ms is None or fetch.closed_ms < fixed_wait_ms


def _is_usable(answer: ClientFetches, lowered: LoweredWrites) -> bool:
    return (
        answer.is_complete
        and answer.watched_before_ms >= POLL_MS
        and all(answer.write_queue_nums.get(name) == number for name, number in lowered.write_queue_nums.items())
    )
