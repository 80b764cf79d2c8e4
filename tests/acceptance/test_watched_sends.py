"""Limits by which soak tests judge what they watched."""

import pytest
from watched_sends import restarts_max


@pytest.mark.parametrize(("runs", "slaves"), [(1, 1), (20, 1), (50, 1), (51, 2), (200, 4)])
def test_one_slave_in_fifty_runs_may_be_restarted_by_hand(runs, slaves):
    assert restarts_max(runs) == slaves
