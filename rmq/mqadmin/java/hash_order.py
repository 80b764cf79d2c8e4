"""The order in which Java's hash maps and sets list what is in them: the output of mqadmin has it. Pure.

Buckets with 8 entries and more are trees in Java, and may come in another order here.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeVar

Key = TypeVar("Key")

_BITS: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF
_CAPACITY: Final = 16


class QueueLike(Protocol):
    @property
    def topic(self) -> str:
        """Its topic."""

    @property
    def broker_name(self) -> str:
        """Its broker set."""

    @property
    def queue_id(self) -> int:
        """Its number there."""


def string_hash(text: str) -> int:
    """Return `String.hashCode`."""
    hashed = 0
    units = text.encode("utf-16-le", "surrogatepass")
    for at in range(0, len(units), 2):
        hashed = 31 * hashed + int.from_bytes(units[at : at + 2], "little") & _BITS
    return hashed


def queue_hash(queue: QueueLike) -> int:
    """Return `MessageQueue.hashCode`."""
    return 31 * (31 * (31 + string_hash(queue.broker_name)) + queue.queue_id) + string_hash(queue.topic) & _BITS


def long_hash(number: int) -> int:
    """Return `Long.hashCode`."""
    return (number ^ number >> 32) & _BITS


def hash_map_order(keys: Iterable[Key], hash_of: Callable[[Key], int], capacity: int = _CAPACITY) -> list[Key]:
    """Return keys in the order of a `HashMap` or `HashSet` that got them in theirs."""
    unique = list(dict.fromkeys(keys))
    while 4 * len(unique) > 3 * capacity:
        capacity *= 2
    return sorted(unique, key=lambda key: _spread(hash_of(key)) & capacity - 1)


def string_order(keys: Iterable[str], capacity: int = _CAPACITY) -> list[str]:
    """Return texts in the order of a `HashMap` or `HashSet` that got them in theirs."""
    return hash_map_order(keys, string_hash, capacity)


def copied_capacity(count: int) -> int:
    """Return the capacity of an empty `HashMap` after `putAll` of so many entries."""
    wanted = int(count / 0.75 + 1)
    return 1 << max(wanted - 1, 0).bit_length()


def concurrent_order(keys: Iterable[str]) -> list[str]:
    """Return texts in the order of a `ConcurrentHashMap`, as `Properties` has one, that got them in theirs."""
    table: list[list[str]] = [[] for _ in range(_CAPACITY)]
    for count, key in enumerate(dict.fromkeys(keys), start=1):
        table[_spread(string_hash(key)) & _POSITIVE & len(table) - 1].append(key)
        if 4 * count >= 3 * len(table):
            table = _doubled(table)
    return [key for bucket in table for key in bucket]


def _spread(hashed: int) -> int:
    return hashed ^ hashed >> 16


def _doubled(table: list[list[str]]) -> list[list[str]]:
    low, high = [], []
    for bucket in table:
        below, above = _split(bucket, len(table))
        low.append(below)
        high.append(above)
    return low + high


def _split(bucket: list[str], bit: int) -> tuple[list[str], list[str]]:
    """Split a bucket as `transfer` does: the last run that goes to one side stays, the others go before it."""
    is_high = [bool(_spread(string_hash(key)) & bit) for key in bucket]
    run = len(bucket)
    while run and is_high[run - 1] == is_high[-1]:
        run -= 1
    halves: tuple[list[str], list[str]] = ([], [])
    if bucket:
        halves[is_high[-1]].extend(bucket[run:])
    for key, goes_high in zip(bucket[:run], is_high, strict=False):
        halves[goes_high].insert(0, key)
    return halves
