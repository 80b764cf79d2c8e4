"""Who holds which queues, as operators see it."""

from lock_builders import GROUP, Locks, a_session, queues
from offset_builders import a_queue

from controller.offsets.locks.sessions.lock_views import read_locks


def test_holders_are_shown_with_tokens_and_leases():
    locks = Locks(a_session("a"))
    locks.acquire("a", a_queue(1))
    (view,) = read_locks(locks.table, GROUP, 20_000).locks
    assert (view.key, view.token, view.client_id, view.remaining_ms) == (a_queue(1), 1, "client-of-a", 40_000)


def test_queue_taken_from_its_holder_is_shown_without_a_client():
    locks = Locks(a_session("a"))
    locks.acquire("a")
    locks.force_release()
    (view,) = read_locks(locks.table, GROUP, 0).locks
    assert (view.token, view.client_id, view.remaining_ms) == (2, "", -1)


def test_each_lock_is_on_one_page_in_the_order_of_queues():
    locks = Locks(a_session("a"))
    locks.acquire("a", *queues(4, 2, 0, 3, 1))
    shown, after = [], None
    while True:
        page = read_locks(locks.table, GROUP, 0, after, locks_max=2)
        shown += [each.key.queue_id for each in page.locks]
        after = page.next_after
        if after is None:
            break
    assert shown == [0, 1, 2, 3, 4]


def test_group_without_locks_has_one_empty_page():
    page = read_locks(Locks().table, GROUP._replace(group="audit"), 0)
    assert (page.locks, page.next_after) == ((), None)
