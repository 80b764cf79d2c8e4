"""When another run follows one that has not done all."""

import pytest
from guarded_sets import set_name
from test_guard_occasions import NOW_MS, an_occasion

from controller.offsets.guard_runs.schedule import PAUSE_MS, GuardSchedule, RunEnd


@pytest.mark.parametrize(
    ("end", "is_given_up", "runs_next"),
    [
        (RunEnd.COMPLETE, False, []),
        (RunEnd.FAILED, False, [set_name()]),
        (RunEnd.ROLE_CHANGED, False, [set_name()]),
        # Another one would do no more.
        (RunEnd.GIVEN_UP, True, []),
    ],
)
def test_run_is_repeated_where_another_one_may_do_more(end, is_given_up, runs_next):
    schedule, occasion = GuardSchedule(), an_occasion()
    schedule.add(occasion)
    assert schedule.begin(set_name()) is occasion
    assert schedule.end(occasion, now_ms=NOW_MS, unix_ms=0, end=end) == is_given_up
    assert schedule.names_waiting(NOW_MS + PAUSE_MS, lambda _: True) == runs_next
