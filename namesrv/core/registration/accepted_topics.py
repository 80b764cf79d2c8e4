"""What is accepted of a registration body, whichever form it has, and what is kept of its text to know it again.

Brokers repeat all their topics every 30 s, and nearly always nothing has changed but a time that no NameServer reads
(`mappingDataVersion`). So the text of the topic table is kept as the digests of blocks that begin and end between two
topics. The digest is xxh3 of 128 bits; a broker that finds two texts of one digest fools itself.
"""

import re
import zlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple

import msgspec
import xxhash

from namesrv.core.tables.topic_table import TOPICS_MAX, SharedSettings, TopicSettings
from namesrv.refusals import NameTooLong
from remoting.protocol.addresses import is_address, is_name
from remoting.protocol.errors import BodyError
from remoting.protocol.plain_text import is_plain
from remoting.protocol.shapes.route import DataVersion, TopicConfig, TopicQueueMappingInfo

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
    #: Digest of the whole table, checksums of the whole text and of that before the table, length of table and tail.
    digest: bytes
    crc32: int
    head_crc32: int
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
        # CRC-32 is linear: how far the checksum of the head moved tells how far that of the whole text did.
        moved = zlib.crc32(head) ^ self.head_crc32
        return not crc32 or crc32 == combined_crc32(moved, self.crc32, self.rest_bytes) & 0x7FFFFFFF


def table_start(body: bytes) -> int | None:
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


#: Filter servers of one broker; brokers before 5.0 have some for each processor at most.
FILTER_SERVERS_MAX: Final = 16
#: All their addresses together: they are in every route of the broker.
FILTER_SERVERS_CHARS_MAX: Final = 1024


class RegistrationBody(NamedTuple):
    """A decoded registration body, in fields of `Registration`."""

    data_version: DataVersion
    topics: dict[str, TopicSettings]
    mappings: dict[str, TopicQueueMappingInfo]
    #: None = keep what is stored.
    filter_servers: tuple[str, ...] | None
    #: What was left out because it cannot be a broker's: topics, mappings, filter servers.
    ignored_topics: int = 0
    #: How to know it again; None where that is not possible.
    reported: ReportedTopics | None = None


class PreviousRegistration(NamedTuple):
    """A broker's previous registration, while it still holds."""

    reported: ReportedTopics
    #: The topics that are known of it.
    topics: Mapping[str, object]


def check_topic_count(topics: int) -> None:
    """Raise BodyError if a registration has more topics and mappings than any broker."""
    if topics > TOPICS_MAX:
        raise BodyError(f"{topics} topics and mappings are over the limit of {TOPICS_MAX}")


class AcceptedTopics:
    """What is accepted of a registration body: what can be a broker's; the rest is counted."""

    def __init__(self, topics: dict[str, TopicSettings] | None = None) -> None:
        self.topics = {} if topics is None else topics
        self.mappings: dict[str, TopicQueueMappingInfo] = {}
        self.ignored = 0
        self._shared = SharedSettings()

    def add_topics(self, table: Mapping[str, TopicConfig]) -> None:
        """Add the settings of topics whose names are valid."""
        self._check_count(len(table))
        for key, config in table.items():
            self.add_topic(config.topic_name or key, config)

    def add_topic(self, name: str, config: TopicConfig) -> None:
        """Add the settings of one topic if its name is valid."""
        if not _is_topic_name(name):
            self.ignored += 1
            return
        self.topics[name] = self._shared[
            config.perm, config.read_queue_nums, config.write_queue_nums, config.topic_sys_flag
        ]

    def add_mappings(self, table: Mapping[str, TopicQueueMappingInfo]) -> None:
        """Add the mappings of static topics whose texts may be sent to clients."""
        self._check_count(len(table))
        for topic, mapping in table.items():
            if _is_topic_name(topic) and _is_valid_mapping(mapping):
                self.mappings[topic] = mapping
            else:
                self.ignored += 1

    def body(
        self, data_version: DataVersion, filter_servers: Iterable[str] | None, reported: ReportedTopics | None = None
    ) -> RegistrationBody:
        """Return the decoded body, with the first of the filter servers that are addresses; None keeps those stored."""
        accepted = None
        if filter_servers is not None:
            every = list(filter_servers)
            chars = accumulate(len(server) for server in every)
            accepted = tuple(
                server
                for server, sum_chars in zip(every, chars, strict=True)
                if is_address(server) and sum_chars <= FILTER_SERVERS_CHARS_MAX
            )[:FILTER_SERVERS_MAX]
            self.ignored += len(every) - len(accepted)
        return RegistrationBody(data_version, self.topics, self.mappings, accepted, self.ignored, reported)

    def _check_count(self, more: int) -> None:
        check_topic_count(len(self.topics) + len(self.mappings) + self.ignored + more)


def _is_topic_name(name: str) -> bool:
    return 0 < len(name) <= NameTooLong.CHARS_MAX and is_plain(name)


def _is_valid_mapping(mapping: TopicQueueMappingInfo) -> bool:
    """Return whether the names in a mapping, which every client of the topic gets, are valid."""
    names = [text for text in (mapping.bname, mapping.scope) if isinstance(text, str)]
    return all(map(is_name, names)) and not (isinstance(mapping.topic, str) and not _is_topic_name(mapping.topic))
