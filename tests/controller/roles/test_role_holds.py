"""Holds of sets end by themselves."""

from fakes.clock import FakeClock

from controller.roles.broker_roles import HOLD_MS_MAX, RoleHolds

SET = "broker-a"


def test_hold_ends_when_it_is_released_or_over():
    clock = FakeClock()
    holds, now_ms = RoleHolds(clock, lambda *_: None), clock.now_ms()
    assert holds.hold(SET, now_ms + 500) == now_ms + 500
    assert holds.held_until_ms(SET, now_ms + 499) is not None
    assert holds.held_until_ms(SET, now_ms + 500) is None
    assert holds.held_until_ms("broker-b", now_ms) is None
    holds.release(SET)
    holds.release(SET)
    assert holds.held_until_ms(SET, now_ms) is None


def test_no_set_is_held_for_longer_than_the_limit():
    clock = FakeClock()
    holds = RoleHolds(clock, lambda *_: None)
    assert holds.hold(SET, clock.now_ms() + 10 * HOLD_MS_MAX) == clock.now_ms() + HOLD_MS_MAX


def test_a_controller_that_leads_no_longer_holds_nothing():
    clock = FakeClock()
    holds = RoleHolds(clock, lambda *_: None)
    holds.hold(SET, clock.now_ms() + 500)
    holds.clear()
    assert holds.held_until_ms(SET, clock.now_ms()) is None


def test_ended_hold_is_reported_once_with_its_duration():
    clock, reported = FakeClock(), []
    holds = RoleHolds(clock, lambda *each: reported.append(each))
    holds.hold(SET, clock.now_ms() + 500)
    holds.hold("broker-b", clock.now_ms() + 5_000)
    clock.pass_ms(300)
    holds.hold(SET, clock.now_ms() + 500)
    clock.pass_ms(2_000)
    holds.release(SET)
    holds.release(SET)
    # It was held for 300 ms, then for 500 more until it ended by itself.
    assert reported == [(SET, 800)]
    holds.clear()
    holds.clear()
    assert reported == [(SET, 800), ("broker-b", 2_300)]
    holds.hold(SET, clock.now_ms() + 500)
    holds.release(SET)
    assert reported[-1] == (SET, 0)
