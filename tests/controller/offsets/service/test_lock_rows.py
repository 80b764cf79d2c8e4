"""Locks as rows: what is stored is what is loaded, whatever the names are."""

from hypothesis import given
from hypothesis import strategies as st

from controller.offsets.locks.sessions.lock_table import LockTable
from controller.offsets.locks.sessions.values import (
    NOBODY,
    LockChange,
    LockChanges,
    LockGroup,
    LockSession,
    OrderlyChange,
    QueueLock,
    SessionChange,
)
from controller.offsets.service.lock_rows import changes_of, loaded_locks
from controller.offsets.storage.remote import RemoteRow
from controller.offsets.values import GroupTopic, QueueKey, is_lock_row

UNIX_MS = 1_800_000_000_000
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
groups = st.builds(LockGroup, names, st.just("") | names, names)


@st.composite
def lock_changes(draw):
    group = draw(groups)
    sessions = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    queue_ids = draw(st.lists(st.integers(0, 100), max_size=6, unique=True))
    opened = tuple(
        SessionChange(each, None, LockSession(session_id=each, group=group, client_id="c", opened_unix_ms=UNIX_MS))
        for each in sessions
    )
    locks = tuple(
        LockChange(
            QueueKey(GroupTopic(*group, draw(names), "b"), queue_id),
            None,
            QueueLock(token=token, session_id=draw(st.sampled_from([NOBODY, *sessions])), since_unix_ms=UNIX_MS),
        )
        for token, queue_id in enumerate(queue_ids, 1)
    )
    groups_declared = (OrderlyChange(group, before=False, after=True),)
    return LockChanges(sessions=opened, locks=locks, groups=groups_declared, last_token=len(queue_ids))


def stored(*changes):
    """Return the rows that a store has after these changes."""
    rows = {}
    for change in changes:
        row = rows.setdefault(change.key.of, {})
        if change.after is None:
            del row[change.key.queue_id]
        else:
            row[change.key.queue_id] = change.after
    return {of: RemoteRow(queues, 1) for of, queues in rows.items() if queues}


@given(lock_changes())
def test_what_is_stored_is_loaded(changes):
    rows = stored(*changes_of(changes, 0, UNIX_MS))
    assert all(map(is_lock_row, rows))
    loaded, wanted = loaded_locks(rows, 0, 0), LockTable()
    wanted.apply(changes, 0)
    (group,) = wanted.orderly_groups
    assert set(loaded.orderly_groups) == {group}
    assert loaded.sessions == wanted.sessions
    assert loaded.locks_of(group) == wanted.locks_of(group)
    assert loaded.last_token == wanted.last_token


@given(lock_changes())
def test_what_was_undone_is_gone(changes):
    undone = LockChanges(
        sessions=tuple(SessionChange(each.session_id, each.after, None) for each in changes.sessions),
        locks=tuple(LockChange(each.key, each.after, None) for each in changes.locks),
        groups=tuple(OrderlyChange(each.group, before=True, after=False) for each in changes.groups),
    )
    rows = stored(*changes_of(changes, 0, UNIX_MS), *changes_of(undone, changes.last_token, UNIX_MS))
    loaded = loaded_locks(rows, 0, 0)
    assert (loaded.count, len(loaded.sessions), len(loaded.orderly_groups)) == (0, 0, 0)
    assert loaded.last_token == changes.last_token


def test_tokens_go_on_above_the_highest_of_any_offset():
    assert loaded_locks({}, 41, 0).last_token == 41
