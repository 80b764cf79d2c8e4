"""The body of a registration as brokers write it, of which only what differs from the previous one is decoded.

A new text is compared from both ends with the blocks of the broker's last one (`accepted_topics.py`); only the blocks
in between are decoded. That is exact, not a guess: a JSON object whose text is cut between members is the union of what
the pieces say, and each piece was decoded once. Pure: text in, values out.
"""

import re
import zlib
from collections.abc import Collection, Container
from itertools import chain
from typing import Final, NamedTuple

import msgspec

from namesrv.core.registration.accepted_topics import (
    AcceptedTopics,
    Block,
    PreviousRegistration,
    RegistrationBody,
    ReportedTopics,
    check_topic_count,
    table_start,
    text_digest,
    without_time,
)
from namesrv.core.tables.topic_table import TOPICS_MAX, SharedSettings, TopicSettings
from namesrv.core.values.cooperative import CooperativeTask
from namesrv.refusals import NameTooLong
from remoting.protocol.errors import BodyError
from remoting.protocol.plain_text import is_plain
from remoting.protocol.shapes.namesrv import RegisterBrokerBody
from remoting.protocol.shapes.route import UncheckedTopicConfig

#: A block ends with the first topic that ends after so many bytes.
BLOCK_BYTES: Final = 32 * 1024

#: What follows the last topic: the table's end, and in 5.x the mappings of static topics.
_NEXT_KEY: Final = b'}},"topicQueueMapping'
_ENDS_WITH_TABLE: Final = b"}}}}"
#: Where one topic ends and another begins: the next key has an object, which no field of a topic behind another has.
_BETWEEN_TOPICS: Final = re.compile(rb'\},(?="(?>(?:[^"\\]|\\.)*)":\{)', re.DOTALL)
#: What stands behind the table has some hundred bytes as well, or mappings; those of very many are read in pieces.
_TAIL_BYTES_MAX: Final = 64 * 1024
#: A topic ends within so many bytes.
_TOPIC_BYTES_MAX: Final = 64 * 1024
#: Stands for the table while the envelope is decoded, to prove that it was the table.
_PROBE: Final = "?"

_decode_envelope: Final = msgspec.json.Decoder(RegisterBrokerBody).decode
_decode_topics: Final = msgspec.json.Decoder(dict[str, UncheckedTopicConfig]).decode


class TableText(NamedTuple):
    """A registration whose table was read block by block."""

    #: All but the topics.
    envelope: RegisterBrokerBody
    #: All topics, or those in the blocks that differ.
    topics: dict[str, TopicSettings]
    reported: ReportedTopics


def decode_incremental(
    body: bytes, crc32: int, previous: PreviousRegistration | None
) -> CooperativeTask[RegistrationBody | None]:
    """Return what a body reports, or its difference to `previous`; None for one that is not as brokers write it."""
    yield
    table = yield from (read_table(body, crc32, *previous) if previous else read_table(body, crc32))
    if table is None:
        return None
    check_topic_count(table.reported.topics)
    wrapper = table.envelope.topic_config_serialize_wrapper
    if wrapper.data_version is None:
        return None
    accepted = AcceptedTopics(table.topics)
    accepted.add_mappings(wrapper.topic_queue_mapping_info_map)
    return accepted.body(wrapper.data_version, table.envelope.filter_server_list, table.reported)


def read_table(
    body: bytes, crc32: int, before: ReportedTopics | None = None, has: Container[str] = ()
) -> CooperativeTask[TableText | None]:
    """Return what a registration says, or what of it differs from `before`; yields between blocks.

    `has` holds the topics that are known of the broker. None if the text is not as brokers write it; then it has to be
    decoded as a whole. Raises BodyError for more topics than any broker has.
    """
    found = _table_of(body, before)
    if found is None:
        return None
    start, end, envelope = found
    first, last = (0, 0) if before is None else _differing(before, body, start, end)
    blocks_before = before.blocks if before is not None else ()
    kept_after = blocks_before[len(blocks_before) - last :]
    at = start + sum(block.size for block in blocks_before[:first])
    stop = end - sum(block.size for block in kept_after)
    if kept_after and at < stop and body[stop - 1 : stop] != b",":
        return None
    replaced = blocks_before[first : len(blocks_before) - last]
    names_before = [*chain.from_iterable(block.topics for block in replaced)]
    read = yield from _read_blocks(body, at, stop, names_before)
    if read is None:
        return None
    blocks, topics = read
    if before is not None and names_before != [*topics] and any(topic in has for topic in topics.keys() - names_before):
        # Known, and not from there: perhaps it is there twice, and then the later one counts.
        return (yield from read_table(body, crc32))
    yield
    all_blocks = (*blocks_before[:first], *blocks, *kept_after)
    head = body[:start]
    reported = ReportedTopics(
        head=without_time(head),
        tail=body[end:],
        blocks=all_blocks,
        digest=text_digest(memoryview(body)[start:end]),
        crc32=crc32,
        head_crc32=zlib.crc32(head),
        rest_bytes=len(body) - start,
        topics=sum(len(block.topics) for block in all_blocks),
    )
    return TableText(envelope, topics, reported)


def _table_of(body: bytes, before: ReportedTopics | None) -> tuple[int, int, RegisterBrokerBody] | None:
    """Return where the topics begin and end, and the rest decoded; None if that is not certain."""
    start = table_start(body)
    if start is None:
        return None
    end = _table_end(body, start, before)
    if end is None:
        return None
    if len(body) - end > _TAIL_BYTES_MAX:
        return None
    probe = b'%b"%b":{}%b' % (body[:start], _PROBE.encode(), body[end:])
    try:
        envelope = _decode_envelope(probe)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    # What was cut out is the table of the wrapper, and nothing else of that name.
    is_table = list(envelope.topic_config_serialize_wrapper.topic_config_table) == [_PROBE]
    return (start, end, envelope) if is_table else None


def _table_end(body: bytes, start: int, before: ReportedTopics | None) -> int | None:
    if before is not None and body.endswith(before.tail):
        return max(start, len(body) - len(before.tail))
    next_key = body.find(_NEXT_KEY, start)
    if next_key >= 0:
        return next_key + 1
    return len(body) - 3 if body.endswith(_ENDS_WITH_TABLE) else None


def _differing(before: ReportedTopics, body: bytes, start: int, end: int) -> tuple[int, int]:
    """Return how many blocks are the same from the beginning on, and how many of the others from the end."""
    view, blocks = memoryview(body), before.blocks
    first, at = 0, start
    for number, block in enumerate(blocks, 1):
        stop = at + block.size
        # The last block has no comma behind it, so it is the same only as the last.
        fits = stop == end if number == len(blocks) else stop < end
        if not fits or text_digest(view[at:stop]) != block.digest:
            break
        first, at = number, stop
    last, stop = 0, end
    while first + last < len(blocks) and stop - blocks[-1 - last].size >= at:
        block = blocks[-1 - last]
        if text_digest(view[stop - block.size : stop]) != block.digest:
            break
        stop -= block.size
        last += 1
    return first, last


def _read_blocks(
    body: bytes, at: int, stop: int, names_before: list[str]
) -> CooperativeTask[tuple[list[Block], dict[str, TopicSettings]] | None]:
    """Cut the text between `at` and `stop` into blocks and decode them; None if it is not as brokers write it.

    A block includes the comma behind it, so that blocks follow each other without a gap. Only what is kept outlives
    its block, so that the next one is worked on in the same memory, which the processor has at hand.
    """
    view = memoryview(body)
    blocks: list[Block] = []
    topics: dict[str, TopicSettings] = {}
    settings = SharedSettings()
    count = 0
    while at < stop:
        cut = _BETWEEN_TOPICS.search(body, at + BLOCK_BYTES, min(stop, at + BLOCK_BYTES + _TOPIC_BYTES_MAX))
        if cut is None and stop - at > BLOCK_BYTES + _TOPIC_BYTES_MAX:
            return None
        end = stop if cut is None else cut.end()
        text = b"".join((b"{", view[at : end - body.endswith(b",", at, end)], b"}"))
        try:
            names = _read_block(text, names_before, count, topics, settings)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        if names is None:
            return None
        count += len(names)
        if len(topics) > TOPICS_MAX:
            raise BodyError(f"more than {TOPICS_MAX} topics")
        blocks.append(Block(end - at, text_digest(view[at:end]), tuple(names)))
        at = end
        yield
    return blocks, topics


def _read_block(
    text: bytes, names_before: list[str], at: int, topics: dict[str, TopicSettings], settings: SharedSettings
) -> list[str] | None:
    """Add the topics of one block; return their names, None if they are not as brokers write them.

    Names that stand in `names_before` from `at` on are those objects again: they are checked already, take no more
    memory, and are found in the tables without a look at their characters. Raises msgspec.DecodeError or
    UnicodeDecodeError.
    """
    reported = _decode_topics(text)
    names, before = [*reported], names_before[at : at + len(reported)]
    if names == before:
        names = before
    elif not can_be_topics(names):
        return None
    # Neighbours are mostly set alike.
    last, shared = None, TopicSettings(0, 0, 0, 0)
    for topic, config in zip(names, reported.values(), strict=True):
        if config.topic_name != topic:
            return None
        key = config.perm, config.read_queue_nums, config.write_queue_nums, config.topic_sys_flag
        if key != last:
            last, shared = key, settings[key]
        topics[topic] = shared
    return names


def can_be_topics(names: Collection[str]) -> bool:
    """Return whether all of these can be names of topics."""
    return "" not in names and max(map(len, names), default=0) <= NameTooLong.CHARS_MAX and is_plain("".join(names))
