"""When an election of a set is tried again."""

from types import SimpleNamespace

import pytest
from controller_builders import a_set
from fakes.clock import FakeClock

from controller.failover import election_starter
from controller.failover.election_log import Cause, Trigger
from controller.failover.election_starter import ElectionStarter

A_SET = a_set(broker_name="a")


class Starter(ElectionStarter):
    """Begins elections that take for ever, and keeps the sets that it looks at."""

    def __init__(self):
        self.looked_at = []
        state = SimpleNamespace(
            store=SimpleNamespace(get={"a": A_SET}.get),
            group=SimpleNamespace(is_leader=True),
            fences=SimpleNamespace(awaited=lambda *_: ()),
            clock=FakeClock(),
            start=lambda work: work.close(),
        )
        elections = SimpleNamespace(is_running=lambda _: False)
        super().__init__(state, elections, lambda broker_set, _: self.looked_at.append(broker_set))
        self.now_ms = state.clock.now_ms()


@pytest.fixture
def starter():
    return Starter()


def begin(starter):
    starter.begin(A_SET, Cause(trigger=Trigger.NO_MASTER, why="there is none"))


def test_failed_election_is_tried_again_after_a_second(starter):
    begin(starter)
    starter.drop_ended_pauses(starter.now_ms + 999)
    assert starter.is_paused("a")
    starter.drop_ended_pauses(starter.now_ms + 1_000)
    assert not starter.is_paused("a")


def test_election_that_waits_for_a_broker_is_tried_again_soon_for_five_seconds(starter):
    assert starter.try_soon("a", 0)
    starter.drop_ended_pauses(200)
    assert not starter.is_paused("a")
    assert starter.try_soon("a", 4_999)
    assert not starter.try_soon("a", 5_000)


def test_ended_wait_counts_anew(starter):
    assert starter.try_soon("a", 0)
    starter.end_wait("a")
    assert starter.try_soon("a", 60_000)


def test_deposed_controller_forgets_all_waits(starter):
    starter.try_soon("a", 0)
    starter.clear()
    assert starter.try_soon("a", 60_000)


def test_only_so_many_sets_are_tried_soon_at_a_time(starter, monkeypatch):
    monkeypatch.setattr(election_starter, "_SOON_SETS_MAX", 1)
    assert starter.try_soon("a", 0)
    assert not starter.try_soon("b", 0)
    starter.end_wait("a")
    assert starter.try_soon("b", 1)


def test_broker_that_answered_lets_its_set_elect_at_once(starter):
    begin(starter)
    starter._try_now("a")
    assert not starter.is_paused("a")
    assert starter.looked_at == [A_SET]
