"""Only what others have changed is reported, each change once."""

import pytest
from controller_builders import SET, a_set

from controller.sets.stored_set import StoredSet
from controller.storage.etcd.revisions import KnownRevisions
from controller.storage.store import Kept

ENTRY = StoredSet(broker_set=a_set())


@pytest.fixture
def known():
    return KnownRevisions()


def test_what_others_write_is_reported_once(known):
    assert list(known.heard(SET, Kept(ENTRY, 5))) == [(SET, Kept(ENTRY, 5))]
    assert list(known.heard(SET, Kept(ENTRY, 5))) == []
    assert list(known.heard(SET, Kept(ENTRY, 4))) == []


def test_what_was_read_here_is_no_news(known):
    known.learned(SET, 5)
    known.learned(SET, 3)
    assert list(known.heard(SET, Kept(ENTRY, 5))) == []


def test_an_own_commit_is_no_news_even_if_it_is_heard_of_before_its_answer(known):
    known.begins(SET)
    assert list(known.heard(SET, Kept(ENTRY, 5))) == []
    known.learned(SET, 5)
    assert list(known.ends(SET)) == []


def test_a_commit_of_which_nothing_is_heard_meanwhile_ends_without_news(known):
    known.begins(SET)
    known.learned(SET, 5)
    assert list(known.ends(SET)) == []
    assert list(known.heard(SET, Kept(ENTRY, 6))) == [(SET, Kept(ENTRY, 6))]


def test_what_is_heard_during_a_commit_that_fails_is_reported_afterwards(known):
    known.begins(SET)
    known.begins(SET)
    known.heard(SET, Kept(ENTRY, 5))
    assert list(known.ends(SET)) == []
    assert list(known.ends(SET)) == [(SET, Kept(ENTRY, 5))]


def test_after_a_gap_the_differences_are_reported(known):
    for name in ("same", "changed", "gone"):
        known.heard(name, Kept(ENTRY, 5))
    swept = known.swept({"same": Kept(ENTRY, 5), "changed": Kept(ENTRY, 8), "new": Kept(ENTRY, 9)}, 9)
    assert dict(swept) == {"gone": Kept(StoredSet(), 9), "changed": Kept(ENTRY, 8), "new": Kept(ENTRY, 9)}


def test_what_is_known_to_be_newer_than_a_sweep_stays(known):
    known.learned(SET, 20)
    assert list(known.swept({}, 20)) == []
    assert list(known.swept({SET: Kept(ENTRY, 19)}, 19)) == []


def test_after_a_return_to_an_older_state_everything_is_reported_anew(known):
    known.learned("older", 20)
    known.learned("gone", 21)
    known.doubted()
    swept = dict(known.swept({"older": Kept(ENTRY, 5)}, 6))
    assert swept == {"older": Kept(ENTRY, 5), "gone": Kept(StoredSet(), 6)}
