"""Rows of the history about what operators changed: one for each group in a topic on a broker set. Pure."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from history.offset_families import OFFSET_CHANGE_BY_OPERATOR
from history.rows import BrokerRef, HistoryRow, Moment, Record, RowMaker
from serving.telemetry.events import Event


class ChangedQueue(NamedTuple):
    broker: BrokerRef
    group: str
    topic: str
    #: Its offsets before and after; None for none.
    old: int | None
    new: int | None
    #: False: it was to be changed, and is not for certain.
    is_done: bool


class Records(NamedTuple):
    """Rows that are made in the recorder's thread, as 100,000 queues may be behind them."""

    make: Callable[[], Iterable[Record]]

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[HistoryRow]:
        return (row for record in self.make() for row in record.rows(maker, moment))


class Recorded(Event, frozen=True, kw_only=True):
    """Something that is only recorded."""

    level = None
    records: Records

    def rows(self) -> tuple[Records]:
        return (self.records,)


def change_by_operator(
    operation: str, writer: str, target: str, queues: Callable[[], Iterable[ChangedQueue]], change_id: str | None = None
) -> Recorded:
    """Return the rows of an operation; `queues` is called in the recorder's thread."""

    def records() -> Iterator[Record]:
        groups: dict[tuple[BrokerRef, str, str], list[ChangedQueue]] = {}
        for queue in queues():
            groups.setdefault((queue.broker, queue.group, queue.topic), []).append(queue)
        for (broker, group, topic), found in groups.items():
            done = [queue for queue in found if queue.is_done]
            moves = [queue.new - queue.old for queue in done if queue.old is not None and queue.new is not None]
            columns = {
                "group": group,
                "topic": topic,
                "writer": writer,
                "target": target,
                "change_id": change_id,
                "queues": len(done),
                "created": sum(queue.old is None for queue in done),
                "removed": sum(queue.new is None for queue in done),
                "messages_again": -sum(move for move in moves if move < 0),
                "messages_skipped": sum(move for move in moves if move > 0),
                "failed": len(found) - len(done),
            }
            yield Record(OFFSET_CHANGE_BY_OPERATOR, operation, broker, columns)

    return Recorded(records=Records(records))
