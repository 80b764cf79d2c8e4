"""Only what others have changed is reported, each change once."""

import pytest
from controller_builders import SET, a_set

from controller.sets.stored_set import StoredSet
from store.etcd.revisions import KnownRevisions
from store.store import VersionedEntry

ENTRY = StoredSet(broker_set=a_set())


@pytest.fixture
def known():
    return KnownRevisions()


def test_entry_written_by_others_is_reported_once(known):
    assert list(known.observed(SET, VersionedEntry(ENTRY, 5))) == [(SET, VersionedEntry(ENTRY, 5))]
    assert list(known.observed(SET, VersionedEntry(ENTRY, 5))) == []
    assert list(known.observed(SET, VersionedEntry(ENTRY, 4))) == []


def test_entry_read_here_is_not_reported(known):
    known.revision_known(SET, 5)
    known.revision_known(SET, 3)
    assert list(known.observed(SET, VersionedEntry(ENTRY, 5))) == []


def test_own_commit_is_not_reported_even_if_watched_before_its_response(known):
    known.commit_begins(SET)
    assert list(known.observed(SET, VersionedEntry(ENTRY, 5))) == []
    known.revision_known(SET, 5)
    assert list(known.commit_ends(SET)) == []


def test_commit_without_watched_change_reports_nothing(known):
    known.commit_begins(SET)
    known.revision_known(SET, 5)
    assert list(known.commit_ends(SET)) == []
    assert list(known.observed(SET, VersionedEntry(ENTRY, 6))) == [(SET, VersionedEntry(ENTRY, 6))]


def test_change_watched_during_a_failed_commit_is_reported_afterwards(known):
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


def test_revision_newer_than_a_snapshot_stays(known):
    known.revision_known(SET, 20)
    assert list(known.snapshot_read({}, 20)) == []
    assert list(known.snapshot_read({SET: VersionedEntry(ENTRY, 19)}, 19)) == []


def test_after_a_return_to_an_older_state_everything_is_reported_anew(known):
    known.revision_known("older", 20)
    known.revision_known("gone", 21)
    known.invalidate()
    snapshot = dict(known.snapshot_read({"older": VersionedEntry(ENTRY, 5)}, 6))
    assert snapshot == {"older": VersionedEntry(ENTRY, 5), "gone": VersionedEntry(StoredSet(), 6)}
