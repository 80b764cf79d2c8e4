"""Rows about offsets: what went back, and what operators changed. Pure.

Each is about one group in one topic on one set. Changes of single queues become sums before they are handed over, so
what waits in memory for the disk is small.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.regressions import Regression, RegressionCause
from history.columns import RowFamily
from history.offset_families import OFFSET_CHANGE_BY_OPERATOR, OFFSET_REGRESSION
from history.rows import BrokerRef, HistoryRow, Moment, RowMaker

#: Characters of a name or a sentence that are recorded.
TEXT_MAX: Final = 500


class OffsetRow(NamedTuple):
    """One row."""

    family: RowFamily
    event_type: str
    broker: BrokerRef
    columns: Mapping[str, object]

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[HistoryRow]:
        """Yield it."""
        yield maker.row(self.family, self.event_type, moment, self.broker, **self.columns)


class ChangedOffset(NamedTuple):
    """One offset of a group in a topic on a set, before and after; None where there was, or is, none."""

    set_name: SetName
    group: str
    topic: str
    before: int | None
    after: int | None
    #: It was to be changed, and was not for certain.
    is_failed: bool = False


class OperatorChange(NamedTuple):
    """Who has changed offsets, how and where."""

    #: An event type of OFFSET_CHANGE_BY_OPERATOR.
    operation: str
    writer: str
    #: `manager` or `broker`.
    target: str
    #: Under which it can be undone; blank: it cannot.
    change_id: str = ""


def regression_rows(regressions: Iterable[Regression]) -> Iterator[OffsetRow]:
    """Yield a row for each group, topic, set and cause, of what one reading or more have shown."""
    by_group: dict[tuple[SetName, str, str, RegressionCause], list[Regression]] = {}
    for each in regressions:
        set_name, key, _ = each.queue
        by_group.setdefault((set_name, key.group, key.topic, each.cause), []).append(each)
    for (set_name, group, topic, cause), mine in by_group.items():
        former, now = mine[-1].former, mine[-1].now
        columns = {
            "group": group,
            "topic": topic,
            "cause": cause.value,
            "queues": len(mine),
            "removed": sum(1 for each in mine if each.to_offset is None),
            "messages_again": sum(each.messages_again or 0 for each in mine),
            "master_epoch": now.run.master_epoch,
            "former_addr": former.run.address,
            "interval_ms": max(0, now.answered_unix_ms - former.requested_unix_ms),
        }
        yield OffsetRow(OFFSET_REGRESSION, "regressed", _broker(set_name, now.run.address), columns)


def managed_changes(changes: Iterable[OffsetChange]) -> Iterator[ChangedOffset]:
    """Yield what was changed in the manager's own store; a deleted offset is none."""
    for each in changes:
        of, before, after = each.key.of, each.before, each.after
        yield ChangedOffset(
            SetName(of.cluster, of.broker_name),
            of.group,
            of.topic,
            None if before is None or before.is_deleted else before.offset,
            None if after is None or after.is_deleted else after.offset,
        )


def change_rows(change: OperatorChange, offsets: Iterable[ChangedOffset]) -> Iterator[OffsetRow]:
    """Yield a row for each group, topic and set."""
    by_group: dict[tuple[SetName, str, str], list[ChangedOffset]] = {}
    for each in offsets:
        by_group.setdefault((each.set_name, each.group, each.topic), []).append(each)
    for (set_name, group, topic), all_of_it in by_group.items():
        mine = [each for each in all_of_it if not each.is_failed]
        moves = [each.after - each.before for each in mine if each.before is not None and each.after is not None]
        columns = {
            "group": group,
            "topic": topic,
            "writer": change.writer[:TEXT_MAX],
            "target": change.target,
            "change_id": change.change_id or None,
            "queues": len(mine),
            "created": sum(1 for each in mine if each.before is None and each.after is not None),
            "removed": sum(1 for each in mine if each.before is not None and each.after is None),
            "messages_again": -sum(each for each in moves if each < 0),
            "messages_skipped": sum(each for each in moves if each > 0),
            "failed": len(all_of_it) - len(mine),
        }
        yield OffsetRow(OFFSET_CHANGE_BY_OPERATOR, change.operation, _broker(set_name), columns)


def _broker(set_name: SetName, address: str | None = None) -> BrokerRef:
    return BrokerRef(set_name.cluster or None, set_name.broker_name, broker_addr=address)
