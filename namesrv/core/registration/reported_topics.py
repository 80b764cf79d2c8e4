"""A broker's last reported topics, kept as digests of its text: enough to know what a new text changes.

Brokers repeat all their topics every 30 s, and nearly always nothing has changed but a time that no NameServer reads
(`mappingDataVersion`). So the text of the topic table is kept as the digests of blocks that begin and end between two
topics.

Pure: text in, values out. The digest is xxh3 of 128 bits; a broker that finds two texts of one digest fools itself.
"""

import re
import zlib
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec
import xxhash

_TABLE: Final = b'"topicConfigTable":{'
#: The envelope before the table has some hundred bytes; a longer one is not looked through for the time.
_HEAD_BYTES_MAX: Final = 4096
_TIME: Final = re.compile(rb'("mappingDataVersion":\{"counter":-?\d+,"stateVersion":-?\d+,"timestamp":)\d+(?=\})')

text_digest: Final = xxhash.xxh3_128_digest


class Block(NamedTuple):
    """Some neighbouring topics of a table."""

    size: int
    digest: bytes
    topics: tuple[str, ...]


class ReportedTopics(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The text of one registration in digests."""

    #: The text before the table without the time in it, and the text after it.
    head: bytes
    tail: bytes
    blocks: tuple[Block, ...]
    #: Digest of the whole table, and checksum and length of table and tail.
    digest: bytes
    crc32: int
    rest_bytes: int
    topics: int

    def is_unchanged(self, body: bytes, crc32: int) -> bool:
        """Return whether a body reports the same again, and has the announced checksum (0 = any)."""
        start = table_start(body)
        if start is None or len(body) - start != self.rest_bytes or not body.endswith(self.tail):
            return False
        head = body[:start]
        if without_time(head) != self.head:
            return False
        view = memoryview(body)
        if text_digest(view[start : len(body) - len(self.tail)]) != self.digest:
            return False
        return not crc32 or crc32 == combined_crc32(zlib.crc32(head), self.crc32, self.rest_bytes) & 0x7FFFFFFF


def table_start(body: bytes) -> int | None:
    """Return where the first topic of the table begins."""
    found = body.find(_TABLE, 0, _HEAD_BYTES_MAX)
    return None if found < 0 else found + len(_TABLE)


def without_time(head: bytes) -> bytes:
    """Return the text before the table without the one time that changes in each registration."""
    return _TIME.sub(rb"\1", head, count=1)


def combined_crc32(first: int, second: int, second_bytes: int) -> int:
    """Return the CRC-32 of two texts one after the other from those of each and the length of the second."""
    matrix = _zeros_operator(second_bytes)
    shifted = 0
    for bit in range(32):
        if first >> bit & 1:
            shifted ^= matrix[bit]
    return shifted ^ second


@lru_cache(maxsize=1024)
def _zeros_operator(count: int) -> tuple[int, ...]:
    """Return what appending `count` zero bytes makes of each bit of a CRC-32: a linear map, squared along `count`."""
    power = [0xEDB88320, *(1 << bit for bit in range(31))]  # one zero bit
    for _ in range(3):
        power = _after(power, power)
    result = [1 << bit for bit in range(32)]
    while count:
        if count & 1:
            result = _after(power, result)
        power = _after(power, power)
        count >>= 1
    return tuple(result)


def _after(second: list[int], first: list[int]) -> list[int]:
    """Return one linear map of 32 bits after another."""
    columns = []
    for column in first:
        image = 0
        for bit in range(32):
            if column >> bit & 1:
                image ^= second[bit]
        columns.append(image)
    return columns
