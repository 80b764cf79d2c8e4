"""What was acknowledged against what was consumed: messages lost, delivered twice or out of order. Pure.

Groups are judged one by one. A broadcasting group is as many groups as it has clients: see `by_client`.
"""

from collections import Counter
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Sent:
    """A message as its producer named it; `number` counts the messages of its key."""

    unix_ms: int
    producer: str
    message: str
    key: str
    number: int


@dataclass(frozen=True, slots=True)
class Acknowledged(Sent):
    broker_name: str
    queue: int
    offset: int


@dataclass(frozen=True, slots=True)
class Unacknowledged(Sent):
    """A message that a broker has refused or, after a timeout, may have stored."""

    #: The broker's response code, the client's, or the name of an exception.
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Consumed:
    unix_ms: int
    group: str
    client: str
    message: str
    key: str
    number: int
    broker_name: str
    queue: int
    offset: int
    reconsume_times: int


@dataclass(frozen=True, slots=True)
class Inversion:
    """A message that a group got for the first time after a later one of the same key."""

    key: str
    number: int
    after: int


@dataclass(frozen=True, slots=True)
class GroupDelivery:
    """What one group got."""

    #: Acknowledged messages that it did not get, in the order in which they were sent.
    missing: tuple[Acknowledged, ...]
    #: Ids of messages that it got more than once, with how often.
    repeated: dict[str, int]
    inversions: tuple[Inversion, ...]


def verdict(acknowledged, consumed, groups):
    """Return a `GroupDelivery` for each of `groups`; `consumed` is in the order of time.

    A message without an acknowledgement may be consumed or not. Only messages with a key have an order.
    """
    sent = sorted(acknowledged, key=lambda each: each.unix_ms)
    return {group: _delivery(sent, [each for each in consumed if each.group == group]) for group in groups}


def by_client(consumed):
    """Return `consumed` with a group of its own for each client, named GROUP/CLIENT."""
    return [replace(each, group=f"{each.group}/{each.client}") for each in consumed]


def records_in(lines):
    """Return what the lines of a Traffic record, in their order: acknowledged, unacknowledged, consumed."""
    records = [_READERS[kind](words) for kind, *words in (line.split("\t") for line in lines)]
    return tuple(
        [each for each in records if isinstance(each, kind)] for kind in (Acknowledged, Unacknowledged, Consumed)
    )


def _delivery(sent, got):
    times = Counter(each.message for each in got)
    return GroupDelivery(
        missing=tuple(each for each in sent if each.message not in times),
        repeated={message: count for message, count in times.items() if count > 1},
        inversions=tuple(_inversions(got)),
    )


def _inversions(got):
    seen, latest = set(), {}
    for each in got:
        if each.key == NO_KEY or each.message in seen:
            continue
        seen.add(each.message)
        if each.number < latest.get(each.key, each.number):
            yield Inversion(each.key, each.number, latest[each.key])
        latest[each.key] = max(each.number, latest.get(each.key, each.number))


#: The key of messages that may come in any order.
NO_KEY = "-"


def _acknowledged(words):
    unix_ms, producer, message, key, number, broker_name, queue, offset = words
    return Acknowledged(int(unix_ms), producer, message, key, int(number), broker_name, int(queue), int(offset))


def _unacknowledged(words):
    unix_ms, producer, message, key, number, code, reason = words
    return Unacknowledged(int(unix_ms), producer, message, key, int(number), code, reason)


def _consumed(words):
    unix_ms, group, client, message, key, number, broker_name, *numbers = words
    return Consumed(int(unix_ms), group, client, message, key, int(number), broker_name, *map(int, numbers))


_READERS = {"A": _acknowledged, "F": _unacknowledged, "C": _consumed}
