"""When which master is read."""

from itertools import pairwise

from controller.offsets.mirror.masters import MirroredMaster, SetName
from controller.offsets.mirror.polling_plan import SETS_MAX, PollingPlan

PERIOD_MS = 5000


def a_master(number=0, address=None, epoch=1):
    return MirroredMaster(SetName("c", f"broker-{number}"), address or f"10.0.0.{number}:10911", epoch)


def a_plan(count=1, *, polls_max=64, failing_max=2, now_ms=0):
    plan = PollingPlan(PERIOD_MS, polls_max, failing_max)
    plan.keep([a_master(number) for number in range(count)], now_ms)
    return plan


def run(plan, from_ms, to_ms, *, ends=lambda master: True):
    """Return when each set was read; `ends` says whether a reading comes to its end, None if it hangs."""
    times = {}
    for now_ms in range(from_ms, to_ms, 50):
        for master in plan.begin(now_ms):
            times.setdefault(master.set_name, []).append(now_ms)
            if (is_read := ends(master)) is not None:
                plan.ended(master.set_name, is_read=is_read)
    return times


def test_each_master_is_read_once_in_a_period():
    times = run(a_plan(100), 0, 10 * PERIOD_MS)
    # What has its part at the very end of the period is read at its end.
    assert {len(each) for each in times.values()} <= {9, 10}
    assert {later - earlier for each in times.values() for earlier, later in pairwise(each)} <= {
        PERIOD_MS - 50,
        PERIOD_MS,
        PERIOD_MS + 50,
    }


def test_readings_are_spread_over_the_period():
    times = run(a_plan(100), 0, PERIOD_MS)
    per_half_second = [sum(500 * part <= each[0] < 500 * (part + 1) for each in times.values()) for part in range(10)]
    assert max(per_half_second) <= 20


def test_set_keeps_its_part_of_the_period_in_another_process():
    (first,) = run(a_plan(1), 0, PERIOD_MS).values()
    (second,) = run(a_plan(1, now_ms=7 * PERIOD_MS), 7 * PERIOD_MS, 8 * PERIOD_MS).values()
    assert second == [first[0] + 7 * PERIOD_MS]


def test_master_that_hangs_is_not_read_twice_at_a_time():
    assert [len(each) for each in run(a_plan(1), 0, 4 * PERIOD_MS, ends=lambda _: None).values()] == [1]


def test_what_was_missed_is_not_made_up_for():
    plan = a_plan(1)
    assert len(list(plan.begin(10 * PERIOD_MS))) == 1
    plan.ended(a_master().set_name, is_read=True)
    assert list(plan.begin(10 * PERIOD_MS)) == []
    assert len(list(plan.begin(11 * PERIOD_MS))) == 1


def test_masters_that_fail_take_nothing_from_those_that_answer():
    """Fifty of a hundred hang for good: from the second period on, only two of them are tried at a time."""
    plan = a_plan(100, polls_max=50, failing_max=2)
    failing = {a_master(number).set_name for number in range(50)}
    hanging = {}
    times = {}
    for now_ms in range(0, 10 * PERIOD_MS, 50):
        for name in [name for name, since in hanging.items() if now_ms - since >= 3000]:
            del hanging[name]
            plan.ended(name, is_read=False)
        for master in plan.begin(now_ms):
            times.setdefault(master.set_name, []).append(now_ms)
            if master.set_name in failing:
                hanging[master.set_name] = now_ms
            else:
                plan.ended(master.set_name, is_read=True)
        if now_ms > 2 * PERIOD_MS:
            assert len(hanging) <= 2
    assert {len(each) for name, each in times.items() if name not in failing} <= {9, 10}


def test_master_that_answers_again_has_its_turn_among_those_that_answer():
    plan = a_plan(1, failing_max=0)
    run(plan, 0, PERIOD_MS, ends=lambda _: False)
    assert run(plan, PERIOD_MS, 3 * PERIOD_MS) == {}
    plan.keep([a_master(0, "10.9.9.9:10911", epoch=2)], 3 * PERIOD_MS)
    assert run(plan, 3 * PERIOD_MS, 4 * PERIOD_MS).keys() == {a_master().set_name}


def test_further_readings_wait_while_as_many_as_allowed_are_under_way():
    plan = a_plan(10, polls_max=3)
    begun = list(plan.begin(PERIOD_MS))
    assert len(begun) == 3
    plan.ended(begun[0].set_name, is_read=True)
    assert len(list(plan.begin(PERIOD_MS))) == 1


def test_set_that_is_gone_is_read_no_more():
    plan = a_plan(2)
    plan.keep([a_master(1)], 0)
    assert run(plan, 0, PERIOD_MS).keys() == {a_master(1).set_name}


def test_set_that_goes_while_it_is_read_is_forgotten_with_it():
    plan = a_plan(1)
    (master,) = plan.begin(PERIOD_MS)
    plan.keep([], PERIOD_MS)
    plan.ended(master.set_name, is_read=False)
    assert list(plan.begin(3 * PERIOD_MS)) == []


def test_only_the_present_master_in_the_present_epoch_is_the_master():
    plan = a_plan(1)
    plan.keep([a_master(epoch=2)], 0)
    assert plan.is_master(a_master(epoch=2))
    assert not plan.is_master(a_master(epoch=1))
    assert not plan.is_master(a_master(7))


def test_next_time_is_that_of_the_next_set():
    plan = a_plan(1)
    (first,) = run(a_plan(1), 0, PERIOD_MS).values()
    assert first[0] - 50 < plan.next_ms(0) <= first[0]
    assert PollingPlan(PERIOD_MS, 1, 1).next_ms(7) == PERIOD_MS + 7


def test_sets_above_the_limit_are_counted():
    plan = a_plan(SETS_MAX + 3)
    assert plan.left_out == 3
    plan.keep([a_master()], 0)
    assert plan.left_out == 0
