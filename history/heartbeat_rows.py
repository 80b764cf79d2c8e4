"""Heartbeats as rows of the history: one for each that is worth it, or for all of a minute. Pure."""

from collections.abc import Iterator
from typing import NamedTuple

from history.heartbeats import NotedBeat, Summary
from history.rows import Moment, Row, RowMaker
from history.schemas import HEARTBEAT, HEARTBEAT_SUMMARY


class BeatRow(NamedTuple):
    """A beat or a summary as something that happened."""

    noted: NotedBeat | Summary

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[Row]:
        """Yield one row; it knows its moment itself."""
        assert moment == moment_of(self.noted), "a beat is of its moment"
        noted = self.noted
        yield _summary_row(maker, noted) if isinstance(noted, Summary) else _beat_row(maker, noted)


def moment_of(noted: NotedBeat | Summary) -> Moment:
    """Return when a beat came, or a summary was made."""
    return noted.moment if isinstance(noted, Summary) else noted.beat.moment


def _beat_row(maker: RowMaker, noted: NotedBeat) -> Row:
    beat = noted.beat
    counter, timestamp, state_version = beat.data_version or (None, None, None)
    return maker.row(
        HEARTBEAT,
        noted.event_type,
        beat.moment,
        beat.who,
        kind=beat.kind,
        interval_ms=beat.interval_ms,
        period_ms=noted.period_ms,
        timeout_ms=beat.timeout_ms,
        dv_counter=counter,
        dv_timestamp=timestamp,
        dv_state_version=state_version,
        max_offset=beat.max_offset,
        epoch=beat.epoch,
    )


def _summary_row(maker: RowMaker, summary: Summary) -> Row:
    intervals_ms = summary.intervals_ms
    return maker.row(
        HEARTBEAT_SUMMARY,
        "summary",
        summary.moment,
        summary.who,
        minute=summary.minute_us,
        kind=summary.kind,
        period_ms=summary.period_ms,
        timeout_ms=summary.timeout_ms,
        n=len(intervals_ms),
        missed=summary.missed,
        late=summary.late,
        interval_min_ms=min(intervals_ms),
        interval_max_ms=max(intervals_ms),
        interval_sum_ms=sum(intervals_ms),
        interval_sumsq_ms2=sum(each * each for each in intervals_ms),
        hist=summary.hist,
    )
