"""What is done with one offset, line by line of the table, and never so that a message is skipped."""

import pytest
from guard_logs import BOOT_MS, READ_MS, Queue
from test_guard_queue_view import searched

from controller.offsets.guard.boundaries import EpochBoundary, boundary_of_start
from controller.offsets.guard.rules import (
    Action,
    GuardDecision,
    LogFacts,
    OffsetCandidate,
    OffsetKeeping,
    Reason,
    Tail,
    decide,
    matters,
)

#: 100 old messages, of which the first ten have expired, and 50 new ones.
QUEUE = Queue(old=100, new=50, expired=10)
KEPT = LogFacts(tail=Tail.KEPT, is_recent=True)
MAY_BE_LOST = LogFacts(tail=Tail.MAY_BE_LOST, is_recent=True)
LONG_AGO = LogFacts(tail=Tail.MAY_BE_LOST)
LOST = LogFacts(tail=Tail.LOST, is_recent=True)
LOST_LONG_AGO = LogFacts(tail=Tail.LOST)


def a_candidate(saved, shown, **options):
    return OffsetCandidate(group="g", topic="t", queue_id=0, saved=saved, shown=shown, **options)


def decided(candidate, facts=MAY_BE_LOST, queue=QUEUE):
    highest = matters(candidate, facts)
    view = searched(queue, highest)[0] if highest else None
    return decide(candidate, view, facts)


def does(action, reason, offset=None, safe_offset=None):
    return GuardDecision(action=action, reason=reason, offset=offset, safe_offset=safe_offset)


@pytest.mark.parametrize("facts", [KEPT, MAY_BE_LOST])
def test_newer_saved_offset_is_pushed(facts):
    assert decided(a_candidate(80, 60), facts) == does(Action.PUSH, Reason.BEHIND, 80)


def test_offset_at_the_very_end_of_the_old_messages_is_pushed():
    assert decided(a_candidate(100, 60)) == does(Action.PUSH, Reason.BEHIND, 100)


@pytest.mark.parametrize("shown", [80, 90, 100])
def test_offset_that_the_new_master_has_already_is_left(shown):
    assert decided(a_candidate(80, shown)) == does(Action.LEAVE, Reason.UP_TO_DATE)


def test_group_without_an_offset_gets_the_saved_one_so_that_it_does_not_begin_at_the_end():
    assert decided(a_candidate(80, None)) == does(Action.PUSH, Reason.ABSENT, 80)
    assert decided(a_candidate(0, None)) == does(Action.PUSH, Reason.ABSENT, 0)
    assert decided(a_candidate(5, None)) == does(Action.PUSH, Reason.ABSENT, 5)


def test_offset_that_was_never_saved_is_left():
    assert decided(a_candidate(None, 60)) == does(Action.LEAVE, Reason.NOT_SAVED)


def test_offset_before_the_beginning_of_the_queue_is_left_to_the_broker():
    assert decided(a_candidate(7, 5)) == does(Action.LEAVE, Reason.HEAD_EXPIRED)


@pytest.mark.parametrize("saved", [101, 130, 150, 151, 4000])
def test_offset_in_a_lost_tail_goes_to_the_max_at_the_promotion_however_far_new_messages_have_refilled_it(saved):
    assert decided(a_candidate(saved, 60)) == does(Action.SET, Reason.TAIL_LOST, 100)
    assert decided(a_candidate(saved, 100)) == does(Action.SET, Reason.TAIL_LOST, 100)
    assert decided(a_candidate(saved, None)) == does(Action.SET, Reason.TAIL_LOST, 100)


@pytest.mark.parametrize(("saved", "offset"), [(None, 100), (80, 80), (100, 100), (130, 100), (4000, 100)])
def test_offset_beyond_the_end_is_a_position_of_the_lost_tail_or_a_copy_from_before_a_rewind(saved, offset):
    """Of a rewind before the mirror began nothing shows which: what was saved was read in either case."""
    assert decided(a_candidate(saved, 151)) == does(Action.SET, Reason.BEYOND_END, offset)


@pytest.mark.parametrize(("saved", "safe"), [(80, 80), (100, 100), (130, 100), (4000, 100)])
@pytest.mark.parametrize("shown", [101, 150])
def test_commit_behind_new_messages_is_reported_where_it_may_be_a_position_of_the_lost_tail(saved, safe, shown):
    assert decided(a_candidate(saved, shown)) == does(Action.REPORT, Reason.MAY_HAVE_SKIPPED, safe_offset=safe)


def test_commit_behind_new_messages_is_genuine_where_no_tail_can_be_lost():
    assert decided(a_candidate(80, 130), KEPT) == does(Action.LEAVE, Reason.UP_TO_DATE)
    # Also where the queue was looked at for another group.
    looked_at = decide(a_candidate(80, 130), searched(QUEUE, 150)[0], KEPT)
    assert looked_at == does(Action.LEAVE, Reason.UP_TO_DATE)


def test_commit_of_a_group_that_has_never_pulled_from_the_new_master_is_taken_back():
    facts = LogFacts(has_pulls=True, is_recent=True)
    assert decided(a_candidate(80, 130), facts) == does(Action.SET, Reason.NEVER_PULLED, 80)
    assert decided(a_candidate(120, 130), facts) == does(Action.SET, Reason.NEVER_PULLED, 100)
    pulled = a_candidate(80, 130, pulled=135)
    assert decided(pulled, facts) == does(Action.REPORT, Reason.MAY_HAVE_SKIPPED, safe_offset=80)
    # An operator may have set it forward since.
    assert decided(a_candidate(80, 130), LogFacts(has_pulls=True)).reason is Reason.MAY_HAVE_SKIPPED
    # The broker pops for the group, or may: it does not pull.
    popped = a_candidate(80, 130, keeping=OffsetKeeping.POP)
    assert decided(popped, facts) == does(Action.REPORT, Reason.MAY_HAVE_SKIPPED, safe_offset=80)


@pytest.mark.parametrize(("saved", "shown"), [(80, 60), (60, 80), (80, None)])
def test_where_the_tail_is_lost_clients_are_sent_to_what_was_saved(saved, shown):
    """Not to a greater one that is shown: it may be a copy from before a rewind that nobody here knows of."""
    assert decided(a_candidate(saved, shown), LOST) == does(Action.SET, Reason.POSITIONS_LOST, saved)


def test_where_the_tail_is_lost_clients_of_a_group_that_was_set_back_are_sent_back_too():
    set_back = a_candidate(20, 90, rewound_from=95)
    assert decided(set_back, LOST) == does(Action.SET, Reason.POSITIONS_LOST, 20)
    # Where it was set to has expired: the group begins with the first message that there is, as without a failure.
    expired = a_candidate(5, 90, rewound_from=95)
    assert decided(expired, LOST) == does(Action.SET, Reason.POSITIONS_LOST, 5)


@pytest.mark.parametrize(
    ("shown", "reason"), [(1200, Reason.POSITIONS_LOST), (1550, Reason.POSITIONS_LOST), (1800, Reason.BEYOND_END)]
)
def test_members_are_sent_back_where_what_was_saved_has_expired(shown, reason):
    """Or they would go on from positions in the lost tail, and skip what fills it again."""
    queue = Queue(old=1500, new=100, expired=1000)
    assert decided(a_candidate(5, shown), LOST, queue) == does(Action.SET, reason, 5)


@pytest.mark.parametrize(
    ("saved", "shown", "offset"), [(5, 7, 5), (7, 5, 5), (7, None, 7), (10, 10, 10), (10, None, 10)]
)
def test_client_is_not_sent_to_the_beginning_as_what_lies_before_may_still_be_in_tiered_storage(saved, shown, offset):
    sent = does(Action.SET, Reason.POSITIONS_LOST, offset)
    assert decided(a_candidate(saved, shown), LOST, Queue(old=10, new=140, expired=10)) == sent


def test_no_offset_is_raised_to_the_end_of_old_messages_that_have_expired():
    queue = Queue(old=100, new=50, expired=120)
    assert decided(a_candidate(130, 60), MAY_BE_LOST, queue) == does(Action.SET, Reason.TAIL_LOST, 60)
    assert decided(a_candidate(80, 4000), MAY_BE_LOST, queue) == does(Action.SET, Reason.BEYOND_END, 80)
    assert decided(a_candidate(None, 4000), MAY_BE_LOST, queue) == does(Action.SET, Reason.BEYOND_END, 120)
    expired = does(Action.REPORT, Reason.HEAD_EXPIRED, safe_offset=120)
    assert decided(a_candidate(130, None), MAY_BE_LOST, queue) == expired
    # The first message of the queue is an old one.
    assert decided(a_candidate(130, 60), MAY_BE_LOST, Queue(old=100, new=50, expired=99)).offset == 100


def test_commit_behind_new_messages_is_taken_back_soon_after_a_lost_tail_and_reported_later():
    assert decided(a_candidate(110, 130), LOST) == does(Action.SET, Reason.POSITIONS_LOST, 100)
    assert decided(a_candidate(80, 130), LOST) == does(Action.SET, Reason.POSITIONS_LOST, 80)
    reported = does(Action.REPORT, Reason.POSITIONS_LOST, safe_offset=80)
    assert decided(a_candidate(80, 130), LOST_LONG_AGO) == reported


@pytest.mark.parametrize("facts", [LONG_AGO, LOST_LONG_AGO, LogFacts(tail=Tail.KEPT)])
def test_long_after_the_promotion_no_offset_is_raised_as_somebody_may_have_reset_it(facts):
    assert decided(a_candidate(80, 60), facts) == does(Action.REPORT, Reason.MAY_BE_RESET, safe_offset=80)
    assert decided(a_candidate(130, 60), facts) == does(Action.REPORT, Reason.MAY_BE_RESET, safe_offset=100)
    rewound = decided(a_candidate(20, 90, rewound_from=90), facts)
    assert rewound == does(Action.REPORT, Reason.REWOUND, safe_offset=20)
    assert decided(a_candidate(60, 80), facts) == does(Action.LEAVE, Reason.UP_TO_DATE)
    assert decided(a_candidate(80, None), facts) == does(Action.PUSH, Reason.ABSENT, 80)
    assert decided(a_candidate(130, 100), facts) == does(Action.SET, Reason.TAIL_LOST, 100)


@pytest.mark.parametrize("shown", [None, 40, 60, 80, 130, 170])
def test_queue_that_an_operator_has_reset_since_is_reported_whatever_is_shown(shown):
    reported = does(Action.REPORT, Reason.MAY_BE_RESET, safe_offset=40)
    assert decided(a_candidate(80, shown, reset_to=40)) == reported
    # Where it was set lies in the lost tail.
    assert decided(a_candidate(150, shown, reset_to=120)).safe_offset == 100


def test_rewind_of_the_old_master_is_not_undone_by_an_older_copy():
    assert decided(a_candidate(20, 90, rewound_from=90)) == does(Action.PUSH, Reason.REWOUND, 20)
    assert decided(a_candidate(20, 90, rewound_from=90), KEPT) == does(Action.PUSH, Reason.REWOUND, 20)
    # Read again already, beyond where it was before.
    assert decided(a_candidate(20, 95, rewound_from=90)) == does(Action.LEAVE, Reason.UP_TO_DATE)


def test_rewind_counts_where_the_older_copy_lies_beyond_the_end():
    assert decided(a_candidate(20, 170, rewound_from=170)) == does(Action.SET, Reason.BEYOND_END, 20)
    behind_new = a_candidate(20, 130, rewound_from=140)
    assert decided(behind_new, KEPT) == does(Action.REPORT, Reason.MAY_HAVE_SKIPPED, safe_offset=20)


@pytest.mark.parametrize("facts", [KEPT, MAY_BE_LOST, LOST, LONG_AGO])
@pytest.mark.parametrize("shown", [60, 90, 130, 151])
def test_offset_that_was_deleted_and_that_a_slave_has_kept_is_reported_and_stays(facts, shown):
    reported = does(Action.REPORT, Reason.REWOUND)
    assert decided(a_candidate(None, shown, rewound_from=160), facts) == reported
    # Also where the queue was looked at for another group.
    assert decide(a_candidate(None, shown, rewound_from=160), searched(QUEUE, 150)[0], facts) == reported
    # The group has begun anew, and has gone past where it was.
    assert decided(a_candidate(None, shown, rewound_from=shown - 1), facts) != reported


@pytest.mark.parametrize("shown", [None, 0])
@pytest.mark.parametrize("new", [0, 300])
def test_offset_of_an_emptied_store_is_archived_and_zero_is_set(shown, new):
    facts = LogFacts(is_emptied=True, is_recent=True)
    archived = decided(a_candidate(80, shown), facts, Queue(old=0, new=new))
    assert archived == does(Action.ARCHIVE, Reason.STORE_EMPTIED, 0)


def test_position_from_before_an_emptied_store_is_archived_once_it_lies_beyond_the_end():
    facts = LogFacts(is_emptied=True)
    assert decided(a_candidate(80, 70), facts, Queue(old=0, new=60)) == does(Action.ARCHIVE, Reason.STORE_EMPTIED, 0)
    reported = decided(a_candidate(80, 50), facts, Queue(old=0, new=60))
    assert reported == does(Action.REPORT, Reason.MAY_HAVE_SKIPPED, safe_offset=0)


def test_group_that_may_pop_is_never_raised_and_is_reported():
    """What was popped and not acknowledged lies below its offset; also where the whole log is there."""
    for facts in (MAY_BE_LOST, LogFacts(has_saved_log=True, is_recent=True)):
        for saved, shown, why in (80, 60, Reason.POPS), (130, 60, Reason.POPS), (80, None, Reason.LEFT_ABSENT):
            popped = a_candidate(saved, shown, keeping=OffsetKeeping.POP)
            assert decided(popped, facts) == does(Action.REPORT, why)


@pytest.mark.parametrize("keeping", [OffsetKeeping.BROADCAST, OffsetKeeping.LMQ])
def test_offsets_of_broadcasting_groups_and_of_light_queues_are_left(keeping):
    for saved, shown in ((80, 60), (80, None), (80, 4000)):
        assert decided(a_candidate(saved, shown, keeping=keeping)) == does(Action.LEAVE, Reason.NOT_GUARDED)


def test_nothing_is_written_where_nothing_is_proved():
    unreadable = decide(a_candidate(80, 60), None, MAY_BE_LOST)
    assert unreadable == does(Action.REPORT, Reason.NO_PROOF)
    assert decide(a_candidate(80, 60, is_readable=False), None, MAY_BE_LOST) == does(Action.REPORT, Reason.UNREADABLE)


def test_report_without_proof_names_the_offset_up_to_which_all_is_proved():
    vague = EpochBoundary(old_below=50 * 100, new_from=120 * 100)
    for saved, shown in ((80, 60), (80, 90), (130, 60), (None, 70)):
        view, _ = searched(QUEUE, max(saved or 0, shown), boundary=vague)
        decision = decide(a_candidate(saved, shown), view, MAY_BE_LOST)
        assert (decision.action, decision.reason, decision.offset) == (Action.REPORT, Reason.NO_PROOF, None)
        assert decision.safe_offset <= 50


def decided_before_late(candidate, facts):
    """Decide in a queue with 100 old messages, 20 late ones and 30 new ones; the first 10 have expired."""
    queue, boundary = Queue(old=100, late=20, new=30, expired=10), boundary_of_start(READ_MS, BOOT_MS)
    highest = matters(candidate, facts)
    view = searched(queue, highest, boundary=boundary, is_late_enough=not facts.sends_back)[0] if highest else None
    return decide(candidate, view, facts)


@pytest.mark.parametrize(
    ("saved", "shown", "reason", "offset"),
    [
        # The late messages are those of the last seconds that the group was read.
        (115, 60, Reason.TAIL_LOST, 100),
        (115, None, Reason.TAIL_LOST, 100),
        (130, 100, Reason.TAIL_LOST, 100),
        (130, 110, Reason.POSITIONS_LOST, 100),
        (130, 145, Reason.POSITIONS_LOST, 100),
        (None, 145, Reason.POSITIONS_LOST, 100),
        (130, 400, Reason.BEYOND_END, 100),
        # Not beyond what was saved.
        (80, 145, Reason.POSITIONS_LOST, 80),
        (5, 145, Reason.POSITIONS_LOST, 5),
        (100, 60, Reason.POSITIONS_LOST, 100),
    ],
)
def test_where_the_tail_is_lost_clients_are_sent_before_messages_of_which_nobody_knows_whether_they_are_old(
    saved, shown, reason, offset
):
    assert decided_before_late(a_candidate(saved, shown), LOST) == does(Action.SET, reason, offset)


@pytest.mark.parametrize("facts", [MAY_BE_LOST, LONG_AGO, LOST_LONG_AGO])
@pytest.mark.parametrize(("saved", "shown"), [(115, 60), (130, 145), (None, 115)])
def test_nobody_is_sent_before_late_messages_without_a_lost_tail_or_long_after(saved, shown, facts):
    decision = decided_before_late(a_candidate(saved, shown), facts)
    assert (decision.action, decision.reason) == (Action.REPORT, Reason.NO_PROOF)
    assert decision.safe_offset <= 100


def test_group_that_may_pop_is_not_sent_before_late_messages():
    popped = a_candidate(130, 145, keeping=OffsetKeeping.POP)
    assert decided_before_late(popped, LOST).reason is Reason.NO_PROOF
    popped = a_candidate(130, 60, keeping=OffsetKeeping.POP)
    assert decided_before_late(popped, LOST) == does(Action.REPORT, Reason.POPS)


def test_nothing_matters_of_offsets_that_no_old_master_can_have_raised():
    assert matters(a_candidate(80, 60), KEPT) == 80
    assert matters(a_candidate(80, 130), KEPT) == 0
    assert matters(a_candidate(80, 130), MAY_BE_LOST) == 130
    assert matters(a_candidate(None, None), MAY_BE_LOST) == 0
