"""When servers were watching."""

from itertools import pairwise

import pytest
from hand_tables import HOUR_US, MINUTE_US, SECOND_US, days, row, tables

from analytics.shared.job import Span
from analytics.shared.observation import observed_pieces, observed_times
from history.server_rows import HEARTBEATS_MISSING, STATES_MISSING

START = days(1).start_us


def ticks(first_us, last_us, *, ns="ns-1", boot="ns-1-1", born_us=0):
    """One each 10 s; `born_us` is when the process was started."""
    return [
        row("tick", at_us, ns_id=ns, boot_id=boot, mono_us=at_us - born_us, interval_ms=10_000)
        for at_us in range(first_us, last_us + 1, 10 * SECOND_US)
    ]


def an_event(what, at_us, *, boot="ns-1-1", born_us=0, **values):
    return row(what, at_us, boot_id=boot, mono_us=at_us - born_us, **values)


def a_history():
    """A process that is killed, one that cannot record for a while, and a server that stood still for 40 s."""
    second = {"boot": "ns-1-2", "born_us": 20 * MINUTE_US}
    lifecycle = [
        an_event("started", 0),
        an_event("started", 20 * MINUTE_US, **second),
        an_event(
            "recording_resumed",
            40 * MINUTE_US + 4 * SECOND_US,
            unobserved_from=START + 30 * MINUTE_US,
            reason=STATES_MISSING,
            **second,
        ),
        # Of that nothing is missing but heartbeats.
        an_event(
            "recording_resumed",
            45 * MINUTE_US + 4 * SECOND_US,
            unobserved_from=START + 42 * MINUTE_US,
            reason=HEARTBEATS_MISSING,
            **second,
        ),
        an_event("stopping", 50 * MINUTE_US + 3 * SECOND_US, **second),
    ]
    watched = [
        *ticks(10 * SECOND_US, 10 * MINUTE_US),
        # Ticks came through while rows about brokers did not.
        *ticks(20 * MINUTE_US + 10 * SECOND_US, 50 * MINUTE_US, **second),
        *ticks(10 * SECOND_US, 30 * MINUTE_US, ns="ns-2", boot="ns-2-1"),
        *ticks(30 * MINUTE_US + 40 * SECOND_US, 60 * MINUTE_US - 10 * SECOND_US, ns="ns-2", boot="ns-2-1"),
    ]
    return {"ns_tick": watched, "ns_lifecycle": lifecycle}


EXPECTED = [
    ("ns-1", 0, 10 * MINUTE_US),
    ("ns-1", 20 * MINUTE_US, 30 * MINUTE_US),
    ("ns-1", 40 * MINUTE_US + 4 * SECOND_US, 50 * MINUTE_US + 3 * SECOND_US),
    ("ns-2", 0, 30 * MINUTE_US),
    ("ns-2", 30 * MINUTE_US + 40 * SECOND_US, 60 * MINUTE_US - 10 * SECOND_US),
]


@pytest.mark.parametrize("cuts_us", [(), (5 * MINUTE_US, 25 * MINUTE_US + 5 * SECOND_US, 35 * MINUTE_US)])
def test_time_is_observed_where_ticks_and_lifecycle_prove_it_however_it_is_cut(spark, cuts_us):
    inputs = tables(spark, **a_history())
    edges = [0, *cuts_us, HOUR_US]
    pieces = [observed_pieces(inputs, Span(START + low, START + high)) for low, high in pairwise(edges)]
    together = pieces[0]
    for piece in pieces[1:]:
        together = together.unionByName(piece)
    found = observed_times(together, Span(START, START + HOUR_US)).collect()
    assert sorted((each.ns_id, each.start_us - START, each.end_us - START) for each in found) == EXPECTED
