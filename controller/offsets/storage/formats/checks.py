"""Refuses what files and etcd cannot take before it is written: one such change would fail others with it. Pure.

What queue ids and offsets have to be is in `commits/entry_checks.py` alone. Names have two rules: rows of the manager's
own begin with a control character, so that no request can name them, and stores take these.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.commits.entry_checks import problem_of_offset, problem_of_queue
from controller.offsets.values import DELETED, NAME_CHARACTERS_MAX, GroupTopic, StoredOffset
from store.store import StoreError

_LONG_MAX: Final = 2**63 - 1
#: A writer in JSON: QUEUES_MAX of them fit into one request. 255 characters take more only where they are emoji, or
#: cannot be shown.
WRITER_BYTES_MAX: Final = 765


class ChangeRefused(StoreError):
    """A change has a value that no store takes; nothing of its batch is stored."""

    def __init__(self, change: OffsetChange, why: str) -> None:
        self.change = change
        of, queue_id = change.key
        super().__init__(f"group {of.group!r}, topic {of.topic!r}, broker {of.broker_name!r}, queue {queue_id}: {why}")


def check_changes(changes: Iterable[OffsetChange]) -> None:
    """Raise ChangeRefused for the first change that cannot be stored."""
    #: Names are the same in most changes of a batch.
    rows: set[GroupTopic] = set()
    writers: set[str] = set()
    for change in changes:
        (of, queue_id), _, after = change
        if of not in rows:
            for name in of:
                _refuse(change, _fault_of_name(name))
            rows.add(of)
        _refuse(change, problem_of_queue(queue_id))
        if after is None:
            continue
        if after.writer not in writers:
            _refuse(change, _fault_of_name(after.writer) or _fault_of_writer(after.writer))
            writers.add(after.writer)
        _refuse(change, _fault_of(after))


def _refuse(change: OffsetChange, fault: str) -> None:
    if fault:
        raise ChangeRefused(change, fault)


def _fault_of(each: StoredOffset) -> str:
    if each.offset != DELETED and (problem := problem_of_offset(each.offset)):
        return problem
    if not (0 <= each.reset_epoch <= _LONG_MAX and 0 <= each.token <= _LONG_MAX and 0 <= each.unix_ms <= _LONG_MAX):
        return f"epoch, token and time have to be between 0 and {_LONG_MAX}"
    return ""


def _fault_of_name(name: str) -> str:
    if len(name) > NAME_CHARACTERS_MAX:
        return f"the name {name[:20]!r}... has {len(name)} characters; shorten it to {NAME_CHARACTERS_MAX}"
    if name.isascii():
        return ""
    try:
        name.encode()
    except UnicodeEncodeError:
        return f"the name {name!r} has characters that UTF-8 cannot encode; leave them out"
    return ""


def _fault_of_writer(writer: str) -> str:
    if writer.isascii() and writer.isprintable():
        return ""
    size = len(msgspec.json.encode(writer)) - len('""')
    if size <= WRITER_BYTES_MAX:
        return ""
    return f"the writer {writer[:20]!r}... takes {size} bytes; shorten it to {WRITER_BYTES_MAX}"
