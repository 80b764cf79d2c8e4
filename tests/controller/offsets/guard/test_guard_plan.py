"""Few messages are looked at, and whatever the offsets are, nothing that is written skips a message."""

from dataclasses import replace

import pytest
from guard_logs import BOOT_MS, READ_MS, SIZE, Queue
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.offsets.guard.boundaries import EpochBoundary, boundary_of_start
from controller.offsets.guard.plan import ROUND_LOOKS_MAX, GuardPlan
from controller.offsets.guard.queue_view import QueueLook
from controller.offsets.guard.rules import Action, LogFacts, OffsetCandidate, OffsetKeeping, Reason, Tail

RECENT = LogFacts(is_recent=True)


def a_candidate(saved, shown, *, group="g", queue_id=0, **options):
    return OffsetCandidate(group=group, topic="t", queue_id=queue_id, saved=saved, shown=shown, **options)


def exact(queue):
    return EpochBoundary(old_below=queue.parts_at, new_from=queue.parts_at)


def a_plan(candidates, boundary, facts):
    plan = GuardPlan(boundary, facts)
    for each in candidates:
        plan.add(each)
    return plan


def performed(plan, *queues):
    """Answer all looks of a plan, and return how many there were."""
    count = 0
    while not plan.is_complete:
        for look in plan.looks():
            plan.looked(look, queues[look.queue_id].look(look.offset))
            count += 1
    return count


def actions(plan):
    return [(decision.action, decision.offset) for _, decision in plan.decisions()]


def test_one_look_decides_for_all_groups_of_a_queue():
    queue = Queue(old=100, new=20)
    groups = [a_candidate(saved, 10, group=f"g{saved}") for saved in (40, 60, 100)]
    plan = a_plan(groups, exact(queue), RECENT)
    assert performed(plan, queue) == 1
    assert actions(plan) == [(Action.PUSH, 40), (Action.PUSH, 60), (Action.PUSH, 100)]


def test_queues_in_which_nothing_matters_are_not_looked_at():
    kept = LogFacts(tail=Tail.KEPT)
    plan = a_plan([a_candidate(40, 40), a_candidate(0, None), a_candidate(None, 9)], exact(Queue(old=50, new=0)), kept)
    assert plan.looks() == []


def test_looks_of_several_queues_go_together():
    queues = [Queue(old=100, new=20), Queue(old=50, new=0)]
    plan = a_plan([a_candidate(40, 10), a_candidate(30, 10, queue_id=1)], exact(queues[0]), LogFacts())
    assert [(look.queue_id, look.offset) for look in plan.looks()] == [(0, 39), (1, 29)]


def test_one_group_in_the_lost_tail_proves_it_for_all_groups_of_the_queue():
    """Their clients may have been there too when the master failed."""
    queue = Queue(old=100, new=50)
    plan = a_plan([a_candidate(120, 60), a_candidate(90, 60, group="slow")], exact(queue), LogFacts(is_recent=True))
    performed(plan, queue)
    assert actions(plan) == [(Action.SET, 100), (Action.SET, 90)]


@pytest.mark.parametrize("tail", [Tail.MAY_BE_LOST, Tail.KEPT])
def test_one_queue_behind_its_end_proves_the_lost_tail_for_all_queues_of_the_broker(tail):
    """A broker has one log. Queue 1 is looked at again, as more matters there now."""
    lost, other = Queue(old=100, new=50), Queue(old=100, new=50)
    candidates = [a_candidate(90, 90, queue_id=1), a_candidate(120, 60), a_candidate(80, 130, queue_id=1, group="h")]
    plan = a_plan(candidates, exact(lost), LogFacts(tail=tail, is_recent=True))
    performed(plan, lost, other)
    assert actions(plan) == [(Action.SET, 90), (Action.SET, 100), (Action.SET, 80)]


def test_new_message_before_the_end_of_the_former_log_proves_the_lost_tail_also_behind_late_ones():
    """Queue 1 has shown a late message by then, and is searched for the first of them."""
    by_start = replace(boundary_of_start(READ_MS, BOOT_MS), log_end=270 * SIZE)
    lost, other = Queue(old=200, late=40, new=50), Queue(old=200, late=40, new=0)
    plan = a_plan([a_candidate(220, 60, queue_id=1), a_candidate(250, 60)], by_start, RECENT)
    assert performed(plan, lost, other) < 30
    assert actions(plan) == [(Action.SET, 200), (Action.SET, 200)]


def test_new_message_behind_the_end_of_the_former_log_proves_nothing():
    by_start = replace(boundary_of_start(READ_MS, BOOT_MS), log_end=110 * SIZE)
    queue = Queue(old=100, late=10, new=50)
    plan = a_plan([a_candidate(105, 130)], by_start, RECENT)
    performed(plan, queue)
    assert actions(plan) == [(Action.REPORT, None)]


def test_broker_is_requested_once_for_each_queue_where_late_messages_begin():
    lost = replace(RECENT, tail=Tail.LOST)
    queue, wrong = Queue(old=1000, late=200, new=100), Queue(old=1000, late=200, new=100)
    plan = a_plan([a_candidate(1250, 60), a_candidate(1250, 60, queue_id=1)], boundary_of_start(READ_MS, BOOT_MS), lost)
    queues, hints, looks = {0: queue, 1: wrong}, {0: 1000, 1: None}, [0, 0]
    while not plan.is_complete:
        for look in plan.looks():
            if plan.hint_ms(look) is not None:
                look = plan.hinted(look, hints.pop(look.queue_id))  # noqa: PLW2901
            plan.looked(look, queues[look.queue_id].look(look.offset))
            looks[look.queue_id] += 1
    assert actions(plan) == [(Action.SET, 1000)] * 2
    assert looks[0] == 3 < looks[1]
    assert hints == {}


def test_queue_that_was_not_looked_at_to_the_end_is_reported_without_proof():
    queue = Queue(old=100, new=50)
    plan = a_plan([a_candidate(90, 60), a_candidate(120, 60, queue_id=1)], exact(queue), RECENT)
    for look in plan.looks():
        plan.looked(look, queue.look(look.offset))
    first, *others = plan.looks()
    assert (first.queue_id, others) == (1, [])
    assert actions(plan) == [(Action.PUSH, 90), (Action.REPORT, None)]


def test_late_messages_are_not_searched_where_no_tail_is_known_to_be_lost():
    queue = Queue(old=100, late=40, new=0)
    plan = a_plan([a_candidate(130, 60)], boundary_of_start(READ_MS, BOOT_MS), RECENT)
    assert performed(plan, queue) == 1
    assert actions(plan) == [(Action.REPORT, None)]


def test_queue_of_an_emptied_store_has_lost_its_tail_whatever_was_expected():
    """A group whose only sign is its commit, behind new messages."""
    facts = LogFacts(tail=Tail.MAY_BE_LOST, is_recent=True, is_emptied=True)
    queue = Queue(old=0, new=60)
    plan = a_plan([a_candidate(None, 50)], exact(queue), facts)
    performed(plan, queue)
    assert actions(plan) == [(Action.ARCHIVE, 0)]


def test_queue_of_a_topic_that_was_deleted_proves_no_lost_tail():
    gone, other = Queue(old=0, new=0), Queue(old=100, new=20)
    plan = a_plan([a_candidate(70, None), a_candidate(40, 10, queue_id=1)], exact(other), RECENT)
    performed(plan, gone, other)
    assert actions(plan) == [(Action.SET, 0), (Action.PUSH, 40)]


@pytest.mark.parametrize("tail", [Tail.MAY_BE_LOST, Tail.KEPT])
def test_offset_that_nobody_has_reached_proves_no_lost_tail_where_all_of_the_saved_log_is_there(tail):
    """A client has committed it, or the topic was made anew: that concerns its own group alone."""
    queues = [Queue(old=100, new=50), Queue(old=100, new=50)]
    candidates = [a_candidate(2**62, 60), a_candidate(90, 90, group="h"), a_candidate(80, 130, queue_id=1, group="h")]
    plan = a_plan(candidates, exact(queues[0]), LogFacts(tail=tail, is_recent=True, has_saved_log=True))
    performed(plan, *queues)
    (_, of_client), *others = plan.decisions()
    assert (of_client.action, of_client.offset) == (Action.SET, 100)
    assert [decision.offset for _, decision in others] == [None, None]


def test_queue_that_is_not_readable_stays_so_where_the_tail_is_proved_to_be_lost():
    queue = Queue(old=100, new=50)
    plan = a_plan(
        [a_candidate(90, 80, queue_id=1), a_candidate(120, 60)], exact(queue), LogFacts(tail=Tail.KEPT, is_recent=True)
    )
    unreadable, look = plan.looks()
    plan.unreadable(unreadable)
    plan.looked(look, queue.look(look.offset))
    performed(plan, queue)
    assert actions(plan) == [(Action.REPORT, None), (Action.SET, 100)]


def test_round_of_a_broker_with_many_queues_is_short():
    queue = Queue(old=100, new=20)
    plan = a_plan([a_candidate(40, 10, queue_id=number) for number in range(1200)], exact(queue), RECENT)
    rounds = []
    while not plan.is_complete:
        rounds.append(plan.looks())
        for look in rounds[-1]:
            plan.looked(look, queue.look(look.offset))
    assert max(len(each) for each in rounds) == ROUND_LOOKS_MAX
    assert sum(len(each) for each in rounds) == 1200


def test_queue_that_the_broker_refuses_to_read_is_reported_and_others_are_not():
    queue = Queue(old=100, new=20)
    plan = a_plan([a_candidate(40, 10), a_candidate(40, 10, queue_id=1)], exact(queue), RECENT)
    first, second = plan.looks()
    plan.unreadable(first)
    plan.looked(second, queue.look(second.offset))
    assert plan.looks() == []
    assert plan.is_complete
    assert actions(plan) == [(Action.REPORT, None), (Action.PUSH, 40)]


def test_broker_that_contradicts_itself_is_not_looked_at_for_ever():
    plan = a_plan([a_candidate(2**63 - 1, 0)], EpochBoundary(old_below=0, new_from=0), LogFacts())
    looks = 0
    while not plan.is_complete:
        for look in plan.looks():
            looks += 1
            plan.looked(look, QueueLook(message=None, min_offset=0, max_offset=2**63 - 1))
    assert looks < 200
    assert actions(plan) == [(Action.REPORT, None)]


OFFSETS = st.integers(0, 400)
MAYBE = st.none() | OFFSETS
CANDIDATES = st.builds(
    a_candidate,
    MAYBE,
    MAYBE,
    group=st.sampled_from("abc"),
    keeping=st.sampled_from([OffsetKeeping.CLUSTERING, OffsetKeeping.CLUSTERING, OffsetKeeping.POP]),
    pulled=MAYBE,
    rewound_from=MAYBE,
)
QUEUES = st.builds(Queue, old=st.integers(0, 200), new=st.integers(0, 200), expired=st.integers(0, 250)).filter(
    lambda queue: queue.expired <= queue.end
)
FACTS = st.builds(
    LogFacts,
    tail=st.sampled_from(Tail),
    is_recent=st.booleans(),
    has_pulls=st.booleans(),
    has_saved_log=st.booleans(),
)


def assert_nothing_is_skipped(queue, candidate, decision):
    """Every message below what is written was read by the group, on the old master or in the log that both have."""
    if decision.safe_offset is not None and candidate.saved is not None:
        assert decision.safe_offset <= candidate.saved, (candidate, decision)
    if decision.offset is None:
        return
    # What is shown may be a copy from before a rewind.
    read = (candidate.shown or 0) if candidate.saved is None else candidate.saved
    skipped = [each for each in range(queue.expired, min(decision.offset, queue.end)) if each >= min(queue.old, read)]
    assert skipped == [], (candidate, decision)


@settings(max_examples=150)
@given(queue=QUEUES, candidates=st.lists(CANDIDATES, min_size=1, max_size=4), facts=FACTS)
def test_nothing_that_is_written_skips_a_message(queue, candidates, facts):
    plan = a_plan(candidates, exact(queue), facts)
    performed(plan, queue)
    for candidate, decision in plan.decisions():
        assert_nothing_is_skipped(queue, candidate, decision)
        assert decision.reason is not Reason.NO_PROOF, "epochs prove everything"


@settings(max_examples=100)
@given(
    queue=QUEUES,
    candidates=st.lists(CANDIDATES, min_size=1, max_size=4),
    facts=FACTS,
    vague=st.tuples(st.integers(0, 200), st.integers(0, 200)),
)
def test_nothing_is_skipped_where_epochs_prove_less(queue, candidates, facts, vague):
    earlier, later = vague
    boundary = EpochBoundary(
        old_below=max(queue.parts_at - earlier * SIZE, 0), new_from=queue.parts_at + later * SIZE if later else None
    )
    plan = a_plan(candidates, boundary, facts)
    performed(plan, queue)
    for candidate, decision in plan.decisions():
        assert_nothing_is_skipped(queue, candidate, decision)
        if decision.safe_offset is not None:
            assert decision.safe_offset <= max(queue.old, queue.expired)


@settings(max_examples=150)
@given(
    queue=QUEUES,
    late=st.integers(0, 50),
    candidates=st.lists(CANDIDATES, min_size=1, max_size=4),
    facts=FACTS,
)
def test_nothing_is_skipped_and_little_is_read_again_where_messages_are_late(queue, late, candidates, facts):
    """Members are sent back to the first message that they are not known to have read."""
    queue.late = late
    plan = a_plan(candidates, boundary_of_start(READ_MS, BOOT_MS), facts)
    performed(plan, queue)
    for candidate, decision in plan.decisions():
        assert_nothing_is_skipped(queue, candidate, decision)
        is_set_back = decision.action is Action.SET and candidate.saved is not None
        if is_set_back and candidate.saved > queue.expired < queue.old:
            assert decision.offset == min(candidate.saved, queue.old)


@settings(max_examples=100)
@given(queue=QUEUES, candidates=st.lists(CANDIDATES, min_size=1, max_size=4), facts=FACTS)
def test_store_times_prove_the_same_as_epochs_where_clocks_agree(queue, candidates, facts):
    by_time = a_plan(candidates, boundary_of_start(READ_MS, BOOT_MS), facts)
    by_epoch = a_plan(candidates, exact(queue), facts)
    performed(by_time, queue)
    performed(by_epoch, queue)
    assert list(by_time.decisions()) == list(by_epoch.decisions())
