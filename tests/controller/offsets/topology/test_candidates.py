"""Candidates that NameServers show take turns, those of known sets first, and never more than there are places."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.offsets.topology.candidates import CandidateTurns, ShownCandidates


@pytest.fixture
def turns():
    return CandidateTurns()


def test_candidates_of_known_sets_come_first(turns):
    shown = ShownCandidates({"z"}, {"a", "b"})
    assert turns.next(shown, set(), 1) == {"z"}
    assert turns.next(shown, set(), 2) == {"z", "a"}
    assert turns.next(shown, set(), 2) == {"z", "b"}


def test_those_that_are_under_way_hold_their_places(turns):
    shown = ShownCandidates(set(), {"a", "b", "c"})
    assert turns.next(shown, set(), 2) == {"a", "b"}
    assert turns.next(shown, {"a", "b"}, 2) == {"a", "b"}
    assert turns.next(shown, {"b"}, 2) == {"b", "c"}


def test_candidate_that_is_shown_no_more_is_not_waited_for_and_holds_its_place_while_it_hangs(turns):
    assert turns.next(ShownCandidates(set(), {"a"}), {"gone"}, 1) == set()
    assert turns.next(ShownCandidates(set(), {"a"}), set(), 1) == {"a"}


@settings(max_examples=50)
@given(st.integers(1, 30), st.integers(1, 5))
def test_everybody_has_a_turn(count, limit):
    turns, shown, seen = CandidateTurns(), ShownCandidates(set(), {str(each) for each in range(count)}), set()
    for _ in range(-(-count // limit)):
        chosen = turns.next(shown, set(), limit)
        assert len(chosen) <= limit
        seen |= chosen
    assert seen == shown.others
