"""What the guard does after histories in which the mirror has missed a part: no message is skipped."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_guard_log_facts import a_runtime
from test_guard_plan import a_candidate, a_plan, performed

from controller.offsets.guard.boundaries import CLOCK_MARGIN_MS, PlacedMessage
from controller.offsets.guard.log_facts import MasterLog, SavedMoment, boundary_of, facts_of
from controller.offsets.guard.queue_view import QueueLook
from controller.offsets.guard.rules import Action, Tail
from remoting.admin.log_epochs import LogEpoch, LogEpochs

READ_MS = 1_700_000_000_000
SIZE = 100


@dataclass
class History:
    """A queue that is alone in the log of a broker, and how it came to be; `epochs` as (epoch, first message)."""

    #: When each message was stored.
    stored: list
    boot_ms: int
    epochs: tuple = ()
    was_restarted: bool = False
    #: When the run that was read had started; None: at another address.
    former_boot_ms: int | None = None
    #: How many messages the log had when it was read; None: not requested.
    read_count: int | None = None

    @property
    def log(self):
        listed = tuple(LogEpoch(epoch=epoch, start_offset=first * SIZE) for epoch, first in self.epochs)
        end = len(self.stored) * SIZE
        runtime = a_runtime(boot=self.boot_ms, end=end)
        epochs = LogEpochs(broker_name="b", broker_id=0, epochs=listed, max_offset=end) if listed else None
        return MasterLog(runtime=runtime, epochs=epochs, latest_unix_ms=self.boot_ms + 30_000)

    def look(self, offset):
        is_there = 0 <= offset < len(self.stored)
        message = PlacedMessage(offset * SIZE, self.stored[offset]) if is_there else None
        return QueueLook(message, 0, len(self.stored))

    def decision(self, saved, shown, *, tail=Tail.MAY_BE_LOST, is_recent=True, hints=False):
        """Decide for a group whose saved offset was read at READ_MS."""
        moment = SavedMoment(
            epoch=self.epochs[0][0] if self.epochs else None,
            unix_ms=READ_MS,
            was_restarted=self.was_restarted,
            log_end=None if self.read_count is None else self.read_count * SIZE,
            boot_unix_ms=self.former_boot_ms,
        )
        facts = facts_of(moment, self.log, tail, is_recent=is_recent, has_pulls=False)
        plan = a_plan([a_candidate(saved, shown)], boundary_of(moment, self.log), facts)
        answered(plan, self, hints=hints)
        ((_, decision),) = plan.decisions()
        return decision


def answered(plan, *queues, hints):
    """Answer all looks of a plan; with `hints` at a broker that is searched by time."""
    if not hints:
        performed(plan, *queues)
    while not plan.is_complete:
        for look in plan.looks(1):
            wanted = look
            if (unix_ms := plan.hint_ms(look)) is not None:
                wanted = plan.hinted(look, first_since(queues[look.queue_id], unix_ms))
            plan.looked(wanted, queues[wanted.queue_id].look(wanted.offset))


def first_since(queue, unix_ms):
    """Return what a broker finds that halves its queue, whether store times rise or not."""
    first, end = 0, queue.look(0).max_offset
    while first < end:
        middle = (first + end) // 2
        first, end = (middle + 1, end) if queue.look(middle).message.store_unix_ms < unix_ms else (first, middle)
    return first


def run(begin_ms, count):
    """Return when so many messages were stored, one each 10 ms."""
    return [begin_ms + 10 * number for number in range(count)]


def of_two_restarts(kept, unread, last, **options):
    """The first run was read and kept `kept` messages; the second was not read, and the third runs now."""
    middle, now = READ_MS + 60_000, READ_MS + 600_000
    stored = run(READ_MS - 60_000, kept) + run(middle + 10_000, unread) + run(now + 10_000, last)
    return History(stored=stored, boot_ms=now, **options)


def test_messages_of_a_run_that_nobody_read_are_not_skipped():
    history = of_two_restarts(kept=800, unread=300, last=100)
    assert history.decision(990, 700).action is Action.REPORT
    pushed = history.decision(790, 700)
    assert (pushed.action, pushed.offset) == (Action.PUSH, 790)


def test_lost_tail_of_the_first_run_does_not_set_groups_behind_what_the_second_one_stored():
    history = of_two_restarts(kept=800, unread=190, last=100)
    assert history.decision(1200, 700, tail=Tail.LOST).action is Action.REPORT


def of_older_copy(kept, lost, last, *, boot_ms, **options):
    """A broker that was killed right after it was read, and started with a copy that lacks its last messages.

    The copy ends before the run that was read had started.
    """
    former_boot_ms = READ_MS - 20_000
    stored = run(former_boot_ms - 10 * kept - 2000, kept) + run(boot_ms + 1, last)
    return History(stored=stored, boot_ms=boot_ms, former_boot_ms=former_boot_ms, read_count=kept + lost, **options)


@pytest.mark.parametrize("after_ms", [-4000, 100, 3000, 30_000])
@pytest.mark.parametrize(
    ("saved", "shown", "offset"),
    [
        # The copy's own table, a position of a member in what is gone, and what a member has committed since.
        (1200, 700, 800),
        (1200, 1210, 800),
        (1200, 850, 800),
        (1200, None, 800),
        # A slow group.
        (780, 700, 780),
        (780, 850, 780),
    ],
)
def test_copy_of_a_disk_that_is_put_back_at_once_sends_all_members_back(saved, shown, offset, after_ms):
    history = of_older_copy(kept=800, lost=500, last=300, boot_ms=READ_MS + after_ms)
    decision = history.decision(saved, shown)
    assert (decision.action, decision.offset) == (Action.SET, offset)


def test_copy_whose_log_has_grown_beyond_the_former_one_is_still_known_by_its_new_messages():
    history = of_older_copy(kept=800, lost=500, last=900, boot_ms=READ_MS + 2000)
    for saved, shown in ((1200, 700), (1200, 1250), (1200, 1600)):
        decision = history.decision(saved, shown)
        assert (decision.action, decision.offset) == (Action.SET, 800)


@dataclass
class SharedLog:
    """A log that several queues share: the queue of each message, and when it was stored."""

    messages: list

    def __post_init__(self):
        self.queues = {}
        for place, (queue_id, stored) in enumerate(self.messages):
            self.queues.setdefault(queue_id, []).append(PlacedMessage(place * SIZE, stored))

    def end_of(self, queue_id, count):
        """Return how many messages a queue has among the first ones of the log."""
        return sum(each == queue_id for each, _ in self.messages[:count])

    def decisions(self, candidates, *, boot_ms, log_end=None, is_recent=True, hints=False):
        """Decide for groups, of a broker at the address that it had when it was read at READ_MS.

        With `hints` it is searched by time.
        """
        moment = SavedMoment(
            epoch=None,
            unix_ms=READ_MS,
            was_restarted=False,
            log_end=None if log_end is None else log_end * SIZE,
            boot_unix_ms=READ_MS - 36_000_000,
        )
        runtime = a_runtime(boot=boot_ms, end=len(self.messages) * SIZE)
        log = MasterLog(runtime=runtime, epochs=None, latest_unix_ms=boot_ms + 20_000)
        facts = facts_of(moment, log, Tail.MAY_BE_LOST, is_recent=is_recent, has_pulls=False)
        plan = a_plan(candidates, boundary_of(moment, log), facts)
        answered(plan, *(SharedQueue(self.queues.get(each, [])) for each in range(3)), hints=hints)
        return [decision for _, decision in plan.decisions()]


@dataclass
class SharedQueue:
    """One queue of a shared log."""

    messages: list

    def look(self, offset):
        is_there = 0 <= offset < len(self.messages)
        return QueueLook(self.messages[offset] if is_there else None, 0, len(self.messages))


def of_clock_ahead(ahead_ms, *, step_ms, count, last=0):
    """A broker with one busy queue, whose clock was ahead until it was started at READ_MS + 3 s."""
    boot_ms = READ_MS + 3000
    busy = [(0, READ_MS + ahead_ms - step_ms * (count - number)) for number in range(count)]
    return SharedLog(busy + [(0, boot_ms + 1 + 10 * number) for number in range(last)]), boot_ms


@pytest.mark.parametrize("last", [0, 50])
def test_quiet_queue_whose_clock_was_ahead_sends_back_no_group_of_another_one(last):
    """All stamps of the last hour are later than the start; the last message of queue 1 looks like one of just now."""
    log, boot_ms = of_clock_ahead(3_600_000, step_ms=1000, count=7200, last=last)
    log = SharedLog([*log.messages[:3605], (1, boot_ms + 4000), *log.messages[3605:]])
    quiet, others = a_candidate(1, 0, queue_id=1), [a_candidate(7190, 7100), a_candidate(7190, 7199, group="h")]
    for order in ([quiet, *others], [*others, quiet]):
        found = log.decisions(order, boot_ms=boot_ms, log_end=7201)
        of_others = [decision.action for each, decision in zip(order, found, strict=True) if each is not quiet]
        assert of_others == [Action.REPORT] * 2


@pytest.mark.parametrize("hour", [3_600_000, 24 * 3_600_000])
@pytest.mark.parametrize("last", [0, 5])
def test_lost_end_of_a_broker_whose_clock_was_ahead_sends_nobody_back_by_hours(hour, last):
    """The broker names the first message by its stamps, which is hours old. Five messages are lost."""
    log, boot_ms = of_clock_ahead(hour, step_ms=hour // 3600, count=7200, last=last)
    candidates = [a_candidate(7190, 7100), a_candidate(7204, 7199, group="h")]
    for decision in log.decisions(candidates, boot_ms=boot_ms, log_end=7205 + last, hints=True):
        assert decision.action is Action.REPORT


def test_store_times_that_have_come_meanwhile_send_nobody_back_by_half_an_hour():
    """The clock was ahead by 30 min, and the broker was down for 35 min; it lacks its last messages."""
    boot_ms = READ_MS + 35 * 60_000
    stored = [(0, READ_MS + 30 * 60_000 - 100 * (36_000 - number)) for number in range(35_900)]
    for last in (0, 20):
        log = SharedLog(stored + [(0, boot_ms + 1 + number) for number in range(last)])
        for hints in (True, False):
            (decision,) = log.decisions([a_candidate(35_930, 35_000)], boot_ms=boot_ms, log_end=36_000, hints=hints)
            assert decision.action is Action.REPORT


def test_clock_that_was_set_right_long_before_costs_nothing_where_the_broker_names_the_time_before_it():
    """It was ahead by 3 h until 2 h ago. A broker that halves its queue finds the messages of then."""
    hour, boot_ms = 3_600_000, READ_MS + 2000
    ahead = [(0, READ_MS - 2 * hour + 3 * hour - 1000 * (14_400 - number)) for number in range(14_400)]
    right = [(0, READ_MS - 1000 * (7200 - number)) for number in range(7195)]
    log = SharedLog([*ahead, *right])
    for hints in (True, False):
        (decision,) = log.decisions([a_candidate(21_600, 21_000)], boot_ms=boot_ms, log_end=21_600, hints=hints)
        assert decision.offset is None or decision.offset >= 21_595 - 10


def test_new_messages_behind_late_ones_do_not_hide_that_these_are_of_half_an_hour():
    boot_ms = READ_MS + 3000
    stored = [(0, READ_MS + 30 * 60_000 - 1000 * (7200 - number)) for number in range(7195)]
    log = SharedLog(stored + [(0, boot_ms + 1 + number) for number in range(2500)])
    (decision,) = log.decisions([a_candidate(7200, 9600)], boot_ms=boot_ms, log_end=12_000, hints=True)
    assert decision.action is Action.REPORT


def test_clean_start_after_a_clock_that_was_ahead_sends_nobody_back_where_others_show_it():
    """A group is an hour behind; its last message looks like one of just now."""
    log, boot_ms = of_clock_ahead(3_600_000, step_ms=1000, count=7200)
    candidates = [a_candidate(3606, 3500), a_candidate(7190, 7199, group="h"), a_candidate(1, 0, queue_id=1)]
    log = SharedLog([(1, READ_MS - 10_000_000), *log.messages])
    for order in (candidates, candidates[::-1]):
        found = log.decisions(order, boot_ms=boot_ms, log_end=7201, hints=True)
        assert {each.action for each in found} <= {Action.REPORT, Action.PUSH}


def test_clock_that_was_ahead_by_seconds_costs_seconds():
    log, boot_ms = of_clock_ahead(20_000, step_ms=5, count=20_000, last=100)
    (decision,) = log.decisions([a_candidate(20_050, 19_000)], boot_ms=boot_ms, log_end=20_200, hints=True)
    assert decision.offset is None or decision.offset >= 20_000 - 30_000 // 5


@pytest.mark.parametrize(
    ("stale", "others"),
    [
        # A topic that was made anew: with an end like that of before, and far beyond anything.
        (5000, None),
        (10**6, None),
        # It may have been there: a few messages of this queue are lost with the end.
        (110, 1900),
    ],
)
def test_offset_behind_its_queue_sends_all_groups_back_only_where_the_log_had_room_for_it(stale, others):
    """Queue 1 is quiet and old; the log was read up to 2,000, and 60 messages later it was started again."""
    boot_ms = READ_MS + 10_000
    kept = 2060 if others is None else 1900
    stored = [(1, READ_MS - 7_200_000 + number) for number in range(100)]
    stored += [(0, READ_MS - 10 * (2000 - number)) for number in range(100, kept)]
    stored += [(0, boot_ms + 1 + number) for number in range(300)]
    log = SharedLog(stored)
    candidates = [a_candidate(stale, stale, queue_id=1), a_candidate(1800, 1850)]
    for order in (candidates, candidates[::-1]):
        found = log.decisions(order, boot_ms=boot_ms, log_end=2000)
        busy = found[order.index(candidates[1])]
        assert (busy.offset is None) == (others is None), busy


@pytest.mark.parametrize(
    ("saved", "shown", "extra"), [(260, 240, 0), (260, 270, 0), (310, 300, 60), (255, 310, 0), (295, 240, 0)]
)
def test_message_with_a_wrong_store_time_makes_no_others_old(saved, shown, extra):
    """The clock was set back by 13 s, 5 s after the start of an older copy."""
    boot_ms = READ_MS + 2000
    stored = [(number % 2, READ_MS - 60_000 + number) for number in range(400)]
    stored += [(1, boot_ms + 10 + number) for number in range(100)]
    stored.append((0, boot_ms + 5000 - 13_000))
    stored += [(1, boot_ms + 200 + number) for number in range(extra)]
    log = SharedLog(stored)
    candidates = [a_candidate(201, 190), a_candidate(saved, shown, queue_id=1)]
    for order in (candidates, candidates[::-1]):
        found = log.decisions(order, boot_ms=boot_ms, log_end=900, hints=True)
        busy = found[order.index(candidates[1])]
        assert busy.offset is None or busy.offset <= 200


def test_epoch_of_a_master_whose_clock_was_ahead_sends_nobody_back_by_an_hour():
    """It was started again unseen, and a replica that was not in sync was elected."""
    hour = 3_600_000
    stored = [READ_MS + hour - 1000 * (7200 - number) for number in range(7195)] + run(READ_MS + 10_000, 30)
    history = History(stored=stored, boot_ms=READ_MS, epochs=((1, 0), (2, 7195)), was_restarted=True)
    for saved, shown in ((7200, 7100), (7200, 7210), (7190, 7100)):
        assert history.decision(saved, shown, tail=Tail.LOST, hints=True).action is Action.REPORT


def of_lost_end(kept, lost, last):
    """A broker that was read, killed, and started with a log that lacks its very last messages."""
    stored = run(READ_MS - 10 * kept + 500, kept) + run(READ_MS + 3001, last)
    return History(
        stored=stored,
        boot_ms=READ_MS + 3000,
        former_boot_ms=READ_MS - 3_600_000,
        read_count=kept + lost,
    )


def test_lost_end_of_a_second_sends_members_to_what_was_stored_when_they_were_read():
    """5 s of messages are late: a group reads those again, and skips none of those that have taken their places."""
    history = of_lost_end(kept=2000, lost=90, last=80)
    for saved, shown in ((1950, 1900), (1950, 2070), (2060, 2040)):
        decision = history.decision(saved, shown)
        assert (decision.action, decision.offset) == (Action.SET, 1450)


def test_lost_end_that_was_refilled_is_known_by_new_messages_in_its_place():
    history = of_lost_end(kept=2000, lost=90, last=100)
    for saved, shown in ((2060, 2040), (1950, 2080)):
        decision = history.decision(saved, shown)
        assert (decision.action, decision.offset) == (Action.SET, 1450)


def test_clock_that_was_ahead_and_was_set_right_at_a_start_sends_nobody_back():
    """All messages of the last hour are later than the start; nothing was lost."""
    hour = 3_600_000
    stored = run(READ_MS + hour - 20_000, 2000) + run(READ_MS + 3001, 50)
    history = History(stored=stored, boot_ms=READ_MS + 3000, former_boot_ms=READ_MS - 10 * hour, read_count=2000)
    for saved, shown in ((1950, 1900), (1950, 1990), (1950, None)):
        assert history.decision(saved, shown).action is Action.REPORT


def test_start_without_a_loss_leaves_groups_where_they_are():
    history = of_lost_end(kept=2000, lost=0, last=100)
    assert history.decision(1950, 1980).action is Action.REPORT
    pushed = history.decision(1400, 1300)
    assert (pushed.action, pushed.offset) == (Action.PUSH, 1400)
    assert history.decision(1400, 1400).action is Action.LEAVE


def test_start_within_the_epoch_and_then_a_failover_skip_nothing():
    epochs = ((1, 0), (2, 1100))
    history = of_two_restarts(kept=800, unread=300, last=100, epochs=epochs, was_restarted=True)
    assert history.decision(990, 700).action is Action.REPORT
    pushed = history.decision(790, 700)
    assert (pushed.action, pushed.offset) == (Action.PUSH, 790)


def test_slave_that_is_promoted_without_a_start_sends_no_group_back_to_where_it_was_started():
    """Without epochs: it was started an hour before the offsets were read, and the group has read what came since."""
    stored = run(READ_MS - 7_200_000, 100) + run(READ_MS - 1_800_000, 400)
    history = History(stored=stored, boot_ms=READ_MS - 3_600_000)
    for saved, shown in ((480, 450), (490, 500), (520, 500)):
        assert history.decision(saved, shown, tail=Tail.LOST).action is Action.REPORT


@settings(max_examples=100)
@given(
    kept=st.integers(0, 300),
    unread=st.integers(0, 300),
    last=st.integers(0, 300),
    saved=st.integers(0, 900),
    shown=st.none() | st.integers(0, 900),
    tail=st.sampled_from(Tail),
    is_recent=st.booleans(),
    has_epochs=st.booleans(),
)
def test_nothing_is_written_behind_the_first_message_that_nobody_can_have_read(
    *, kept, unread, last, saved, shown, tail, is_recent, has_epochs
):
    epochs = ((1, 0), (2, kept + unread)) if has_epochs else ()
    history = of_two_restarts(kept, unread, last, epochs=epochs, was_restarted=True)
    decision = history.decision(saved, shown, tail=tail, is_recent=is_recent)
    if decision.offset is not None:
        assert decision.offset <= min(kept, saved), "what is shown may be a copy from before a rewind"


@settings(max_examples=150)
@given(
    copied=st.integers(0, 300),
    kept=st.integers(0, 300),
    last=st.integers(0, 300),
    lost=st.integers(0, 300),
    saved=st.integers(0, 900),
    shown=st.none() | st.integers(0, 900),
    tail=st.sampled_from(Tail),
    is_recent=st.booleans(),
    after_ms=st.integers(-6000, 20_000),
)
def test_start_right_after_the_reading_writes_nothing_behind_what_can_have_been_read(
    *, copied, kept, last, lost, saved, shown, tail, is_recent, after_ms
):
    """The log has messages of the run that was read, or not; the clock of the broker is ahead, or behind."""
    boot_ms, former_boot_ms = READ_MS + after_ms, READ_MS - 10_000
    # The last ones of the former run are at most as late as its end.
    end_ms = min(READ_MS, boot_ms) - 1
    stored = run(former_boot_ms - 10 * copied - 1000, copied) + run(end_ms - 10 * kept, kept) + run(boot_ms + 1, last)
    history = History(stored=stored, boot_ms=boot_ms, former_boot_ms=former_boot_ms, read_count=copied + kept + lost)
    decision = history.decision(saved, shown, tail=tail, is_recent=is_recent)
    if decision.offset is not None:
        assert decision.offset <= min(copied + kept, saved)
    if lost > last and is_recent and after_ms > -CLOCK_MARGIN_MS:
        assert decision.action is not Action.REPORT


@settings(max_examples=150)
@given(
    kept=st.lists(st.integers(0, 2), max_size=150),
    last=st.lists(st.integers(0, 2), max_size=100),
    lost=st.integers(0, 80),
    offsets=st.lists(st.tuples(st.integers(0, 120), st.none() | st.integers(0, 120)), min_size=3, max_size=3),
    step_ms=st.sampled_from([1, 40, 400]),
    after_ms=st.integers(100, 20_000),
    ahead_ms=st.integers(-5000, 5000),
    is_recent=st.booleans(),
    hints=st.booleans(),
)
def test_queues_of_one_log_skip_nothing(*, kept, last, lost, offsets, step_ms, after_ms, ahead_ms, is_recent, hints):
    """The clock of the broker is up to 5 s ahead of that of the manager, or behind."""
    end_ms, boot_ms = READ_MS + ahead_ms, READ_MS + after_ms + ahead_ms
    stored = [(queue_id, end_ms - step_ms * (len(kept) - number)) for number, queue_id in enumerate(kept)]
    stored += [(queue_id, boot_ms + 1 + 10 * number) for number, queue_id in enumerate(last)]
    log = SharedLog(stored)
    candidates = [a_candidate(saved, shown, queue_id=number) for number, (saved, shown) in enumerate(offsets)]
    found = log.decisions(candidates, boot_ms=boot_ms, log_end=len(kept) + lost, is_recent=is_recent, hints=hints)
    for number, decision in enumerate(found):
        if decision.offset is not None:
            assert decision.offset <= min(log.end_of(number, len(kept)), offsets[number][0])
