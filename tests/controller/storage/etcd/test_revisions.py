"""Only what others have changed is reported, each change once."""

import pytest
from controller_builders import SET, a_set

from controller.sets.stored_set import StoredSet
from controller.storage.etcd.revisions import KnownRevisions
from controller.storage.store import VersionedEntry

ENTRY = StoredSet(broker_set=a_set())


@pytest.fixture
def known():
    return KnownRevisions()


def test_what_others_write_is_reported_once(known):
    assert list(known.observed(SET, VersionedEntry(ENTRY, 5))) == [(SET, VersionedEntry(ENTRY, 5))]
    assert list(known.observed(SET, VersionedEntry(ENTRY, 5))) == []
    assert list(known.observed(SET, VersionedEntry(ENTRY, 4))) == []


def test_what_was_read_here_is_no_news(known):
    known.revision_known(SET, 5)
    known.revision_known(SET, 3)
    assert list(known.observed(SET, VersionedEntry(ENTRY, 5))) == []


def test_an_own_commit_is_no_news_even_if_it_is_heard_of_before_its_answer(known):
    known.commit_begins(SET)
    assert list(known.observed(SET, VersionedEntry(ENTRY, 5))) == []
    known.revision_known(SET, 5)
    assert list(known.commit_ends(SET)) == []


def test_a_commit_of_which_nothing_is_heard_meanwhile_ends_without_news(known):
    known.commit_begins(SET)
    known.revision_known(SET, 5)
    assert list(known.commit_ends(SET)) == []
    assert list(known.observed(SET, VersionedEntry(ENTRY, 6))) == [(SET, VersionedEntry(ENTRY, 6))]


def test_what_is_heard_during_a_commit_that_fails_is_reported_afterwards(known):
    known.commit_begins(SET)
    known.commit_begins(SET)
    known.observed(SET, VersionedEntry(ENTRY, 5))
    assert list(known.commit_ends(SET)) == []
    assert list(known.commit_ends(SET)) == [(SET, VersionedEntry(ENTRY, 5))]


def test_after_a_gap_the_differences_are_reported(known):
    for name in ("same", "changed", "gone"):
        known.observed(name, VersionedEntry(ENTRY, 5))
    snapshot = known.snapshot_read(
        {"same": VersionedEntry(ENTRY, 5), "changed": VersionedEntry(ENTRY, 8), "new": VersionedEntry(ENTRY, 9)}, 9
    )
    assert dict(snapshot) == {
        "gone": VersionedEntry(StoredSet(), 9),
        "changed": VersionedEntry(ENTRY, 8),
        "new": VersionedEntry(ENTRY, 9),
    }


def test_what_is_known_to_be_newer_than_a_sweep_stays(known):
    known.revision_known(SET, 20)
    assert list(known.snapshot_read({}, 20)) == []
    assert list(known.snapshot_read({SET: VersionedEntry(ENTRY, 19)}, 19)) == []


def test_after_a_return_to_an_older_state_everything_is_reported_anew(known):
    known.revision_known("older", 20)
    known.revision_known("gone", 21)
    known.invalidate()
    snapshot = dict(known.snapshot_read({"older": VersionedEntry(ENTRY, 5)}, 6))
    assert snapshot == {"older": VersionedEntry(ENTRY, 5), "gone": VersionedEntry(StoredSet(), 6)}
