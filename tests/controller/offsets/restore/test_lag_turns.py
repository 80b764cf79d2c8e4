"""How often lags are read from brokers, whoever requests them."""

import pytest

from controller.offsets.restore.lag_turns import LAG_EACH_MS, LAGS_MAX, LagsTooOften, LagTurns


def taken(turns, now_ms):
    """Return how many lags are read at this moment."""
    for number in range(10 * LAGS_MAX):
        try:
            turns.take(now_ms)
        except LagsTooOften:
            return number
    raise AssertionError("lags are read without a limit")


def test_lags_come_one_each_second_once_so_many_were_read():
    turns = LagTurns(now_ms=5_000)
    assert taken(turns, 5_000) == LAGS_MAX
    assert taken(turns, 5_000 + LAG_EACH_MS - 1) == 0
    assert taken(turns, 5_000 + 3 * LAG_EACH_MS) == 3


@pytest.mark.parametrize("pause_ms", [LAGS_MAX * LAG_EACH_MS, 86_400_000])
def test_no_pause_saves_up_more_than_so_many(pause_ms):
    turns = LagTurns(now_ms=0)
    taken(turns, 0)
    assert taken(turns, pause_ms) == LAGS_MAX
