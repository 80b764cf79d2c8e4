"""Which role addresses peers get, as checks of them find it, and when they are checked."""

import pytest
from builders import BROKER, TOPIC, a_registration, an_address
from route_states import lose_connection, register_broker

from namesrv.core.role_addresses.checks import (
    CHECK_INTERVAL_MS,
    FAILING_AFTER_MS,
    QUICK_CHECKS_MAX,
    QUICK_RETRY_MS,
    RETRY_MS_MIN,
    AddressMove,
    BrokerIdentity,
    CheckState,
    RoleAddressUse,
)
from namesrv.core.role_addresses.documents import rules_of_toml
from namesrv.core.route_state import RouteState
from namesrv.settings.config import NameServerConfig
from remoting.server.response_cache import PreparedResponse
from remoting.server.statistics import Histogram

ROLE, SLAVE_ROLE, PEER = "10.9.0.5:10911", "10.9.0.6:10911", "127.0.0.1:5000"
OTHER = "10.0.0.9:10911"
MASTER, SLAVE = an_address(broker_id=0), an_address(broker_id=1)
RULE = f'[[roleAddress]]\nset = "{BROKER}"\nmaster = "{ROLE}"\n'
WITH_SLAVE = RULE + f'slaves = {{ 1 = "{SLAVE_ROLE}" }}\n'
OF_MASTER, OF_SLAVE = RoleAddressUse(BROKER, 0, ROLE), RoleAddressUse(BROKER, 1, SLAVE_ROLE)


class Checked:
    """A state with rules, whose checks a test answers; time passes as the test says."""

    def __init__(self, rules=RULE, broker_ids=(0, 1), restored=()):
        self.now_ms = 0
        self.state = RouteState(NameServerConfig())
        self.checks = self.state.role_addresses.checks
        self.checks.restore(restored)
        self.replace(rules)
        for broker_id in broker_ids:
            self.register(broker_id)

    def replace(self, rules):
        self.state.role_addresses.replace(rules_of_toml(rules), self.now_ms)

    def register(self, broker_id, **registration):
        register_broker(
            self.state, a_registration(broker_id=broker_id, connection_id=100 + broker_id, **registration), self.now_ms
        )

    def leave(self, broker_id):
        lose_connection(self.state, 100 + broker_id, self.now_ms)

    def due(self, *, count_max=100, without=()):
        return self.checks.due(self.now_ms, count_max, without)

    def answer(self, use=OF_MASTER, **other):
        """Let the broker answer for which the address stands, or another one."""
        own = {"broker_name": BROKER, "broker_id": use.broker_id, "address": an_address(broker_id=use.broker_id)}
        return self.answered(BrokerIdentity(**own | other), use)

    def answered(self, answer, use=OF_MASTER):
        now_ms = self.now_ms
        outcome = self.state.role_addresses.answered(use, answer, now_ms, 1_700_000_000_000 + now_ms)
        self.move = outcome.move
        return outcome.change

    def check(self, use=OF_MASTER):
        rules = self.state.role_addresses.rules.rules
        return next(check for rule in rules for check in self.checks.of_rule(rule) if check.use == use)

    def addresses(self):
        audience = self.state.role_addresses.audience_of(PEER)
        (data,) = self.state.role_addresses.for_audience(self.state.route_of(TOPIC, None), audience).broker_datas
        return data.broker_addrs

    def why_not_applied(self):
        (rule,) = self.state.role_addresses.rules.rules
        return self.state.role_addresses.why_not_applied(rule)


def test_address_is_given_once_it_leads_to_the_master_and_cached_routes_go():
    checked = Checked()
    assert (checked.addresses(), checked.due()) == ({0: MASTER, 1: SLAVE}, [OF_MASTER])
    checked.state.route_cache.keep(TOPIC, "form", PreparedResponse(b"", Histogram(())))
    change = checked.answer()
    assert (change.check.state, change.before) == (CheckState.IN_FORCE, CheckState.WAITING)
    assert checked.state.route_cache.get(TOPIC, "form") is None
    assert (checked.addresses(), checked.why_not_applied()) == ({0: ROLE, 1: SLAVE}, "")
    assert checked.check().checked_unix_ms == 1_700_000_000_000


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ({"broker_name": "broker-b"}, f"broker id 0 of broker-b, which registers with {MASTER}"),
        ({"broker_id": 1}, f"broker id 1 of {BROKER}, which registers with {MASTER}"),
        ({"address": "10.0.0.9:10911"}, f"broker id 0 of {BROKER}, which registers with 10.0.0.9:10911"),
        ({"broker_name": None, "broker_id": None, "address": None}, "broker id None of None"),
    ],
)
def test_address_that_leads_to_another_broker_is_not_given_and_says_whom_it_reached(other, found):
    checked = Checked()
    assert checked.answer(**other).check.state is CheckState.REFUSED
    assert checked.addresses() == {0: MASTER, 1: SLAVE}
    assert checked.why_not_applied().startswith(f"{ROLE} does not lead to a master of {BROKER}: {found}")
    assert f"the one to be reached registers with {MASTER}" in checked.why_not_applied()


def test_refused_address_is_tried_again_with_growing_waits_and_reported_when_the_reason_changes():
    checked = Checked()
    reported, waits = [], []
    for answer in ("connection refused", "connection refused", *["no answer within 3000 ms"] * 5):
        reported.append(checked.answered(answer) is not None)
        waits.append(checked.check().due_ms - checked.now_ms)
        checked.now_ms += waits[-1] - 1
        assert checked.due() == []
        checked.now_ms += 1
        assert checked.due() == [OF_MASTER]
    assert waits == [1_000, 2_000, 4_000, 8_000, 10_000, 10_000, 10_000]
    assert reported == [True, False, True, False, False, False, False]
    assert checked.answer().before is CheckState.REFUSED
    assert checked.addresses()[0] == ROLE


def test_set_without_a_master_is_checked_once_it_has_one():
    checked = Checked(broker_ids=())
    assert checked.due() == []
    assert checked.why_not_applied() == f"{ROLE} is checked as soon as a master of {BROKER} is registered"
    checked.register(1)
    assert checked.due() == []
    checked.register(0)
    assert checked.due() == [OF_MASTER]


def test_new_master_ends_the_wait_of_a_refused_address():
    checked = Checked()
    for _ in range(4):
        checked.answered("connection refused")
    checked.leave(0)
    assert (checked.due(), checked.answer()) == ([], None)
    checked.register(0, address="10.0.0.9:10911")
    assert checked.due() == [OF_MASTER]
    checked.answered("connection refused")
    assert checked.check().due_ms == 1_000


def test_answer_is_compared_with_the_master_of_now_and_counts_neither_way_without_one():
    checked = Checked()
    checked.leave(0)
    assert checked.answer() is None
    assert checked.check().state is CheckState.WAITING
    checked.register(0, address="10.0.0.9:10911")
    assert checked.answer().check.state is CheckState.REFUSED
    assert checked.answered("late", RoleAddressUse(BROKER, 0, "10.9.9.9:1")) is None


def test_address_in_force_stays_when_it_fails_and_is_reported_after_a_while():
    checked = Checked()
    checked.answer()
    checked.now_ms = CHECK_INTERVAL_MS
    assert checked.due() == [OF_MASTER]
    changes = []
    while checked.now_ms < CHECK_INTERVAL_MS + FAILING_AFTER_MS + 10_000:
        changes.append(checked.answered("connection refused"))
        assert checked.addresses()[0] == ROLE
        checked.now_ms = checked.check().due_ms
    assert [change.check.state for change in changes if change] == [CheckState.FAILING]
    assert changes.index(next(filter(None, changes))) == 4
    assert checked.why_not_applied() == ""
    assert checked.check().problem == "connection refused"
    recovered = checked.answer()
    assert (recovered.before, recovered.check.state) == (CheckState.FAILING, CheckState.IN_FORCE)
    assert checked.check().problem == ""


def test_failover_of_a_few_seconds_is_no_failure():
    checked = Checked()
    checked.answer()
    checked.now_ms = CHECK_INTERVAL_MS
    assert checked.answered("no answer within 3000 ms") is None
    checked.leave(0)
    checked.now_ms += 60_000
    assert checked.due() == []
    checked.register(0, address="10.0.0.9:10911")
    assert checked.due() == [OF_MASTER]
    assert checked.answer(address="10.0.0.9:10911") is None
    assert checked.check().failed_since_ms is None


def test_address_that_was_given_before_a_restart_is_given_at_once_while_its_set_fails_over():
    checked = Checked(restored=[OF_MASTER], broker_ids=())
    assert checked.due() == []
    # The first that registers is the master of a failover that is under way; where the address leads now matters not.
    checked.register(0)
    assert checked.addresses() == {0: ROLE}
    assert checked.answered("connection refused") is None
    assert checked.addresses() == {0: ROLE}


def test_restored_address_of_another_rule_is_not_given():
    other = RoleAddressUse(BROKER, 0, "10.9.0.7:10911")
    checked = Checked(restored=[other])
    assert checked.addresses()[0] == MASTER
    checked.replace(RULE.replace(ROLE, other.address))
    assert checked.addresses()[0] == MASTER


def test_restored_addresses_stay_what_a_restart_needs_until_there_are_rules():
    checks = RouteState(NameServerConfig()).role_addresses.checks
    checks.restore([OF_MASTER])
    assert checks.given() == [OF_MASTER]
    checks.replace(rules_of_toml(""), 0)
    assert checks.given() == []


def test_given_addresses_are_what_a_restart_needs():
    checked = Checked(WITH_SLAVE)
    assert checked.checks.given() == []
    checked.answer()
    checked.answer(OF_SLAVE)
    assert checked.checks.given() == [OF_MASTER, OF_SLAVE]
    checked.replace(RULE)
    assert checked.checks.given() == [OF_MASTER]
    checked.replace("")
    checked.replace(RULE)
    assert (checked.checks.given(), checked.addresses()[0]) == ([], MASTER)


def test_slave_has_its_address_only_once_it_leads_to_it():
    checked = Checked(WITH_SLAVE)
    checked.answer()
    assert checked.addresses() == {0: ROLE, 1: SLAVE}
    assert SLAVE_ROLE in checked.why_not_applied()
    checked.answer(OF_SLAVE)
    assert checked.addresses() == {0: ROLE, 1: SLAVE_ROLE}


def test_slave_without_an_address_that_leads_to_it_leaves_that_of_the_master():
    checked = Checked(WITH_SLAVE, broker_ids=(0,))
    assert checked.due() == [OF_MASTER]
    checked.answer()
    checked.register(1)
    assert (checked.due(), checked.addresses()) == ([OF_SLAVE], {0: ROLE, 1: SLAVE})
    checked.answered("connection refused", OF_SLAVE)
    assert checked.addresses() == {0: ROLE, 1: SLAVE}
    assert f"{SLAVE_ROLE} does not lead to broker id 1 of {BROKER}: connection refused" in checked.why_not_applied()


def test_slaves_are_left_out_only_together_with_the_address_of_the_master():
    checked = Checked(RULE + 'slaves = "omit"\n')
    assert checked.addresses() == {0: MASTER, 1: SLAVE}
    checked.answer()
    assert checked.addresses() == {0: ROLE}


def test_rule_that_is_not_to_be_verified_is_in_force_at_once_and_never_checked():
    checked = Checked(WITH_SLAVE + "verify = false\n")
    assert (checked.addresses(), checked.due(), list(checked.checks.states())) == ({0: ROLE, 1: SLAVE_ROLE}, [], [])


def test_new_addresses_are_checked_before_those_that_peers_have_and_none_twice_at_a_time():
    rules = "".join(f'[[roleAddress]]\nset = "broker-{n}"\nmaster = "10.9.1.{n}:10911"\n' for n in range(4))
    uses = [RoleAddressUse(f"broker-{n}", 0, f"10.9.1.{n}:10911") for n in range(4)]
    checked = Checked(rules, broker_ids=(), restored=uses[:3])
    for n in range(4):
        checked.register(0, broker_name=f"broker-{n}", address=f"10.0.1.{n}:10911")
    assert checked.due() == [uses[3], uses[0]]
    checked.now_ms = CHECK_INTERVAL_MS
    assert checked.due() == [uses[3], *uses[:3]]
    assert checked.due(count_max=2) == [uses[3], uses[0]]
    assert checked.due(without={uses[3]}) == uses[:3]
    checked.checks.postpone(uses[0], checked.now_ms)
    checked.checks.postpone(RoleAddressUse("broker-9", 0, ROLE), checked.now_ms)
    assert checked.due() == [uses[3], *uses[1:3]]


def test_address_that_peers_have_is_checked_at_once_when_another_master_registers_until_it_leads_there():
    checked = Checked()
    checked.answer()
    assert checked.move == AddressMove(OF_MASTER, MASTER, None)
    checked.register(0, address=OTHER)
    assert checked.due() == [OF_MASTER]
    checked.answer()
    assert (checked.move, checked.due()) == (None, [])
    checked.now_ms += QUICK_RETRY_MS
    assert checked.due() == [OF_MASTER]
    checked.answer(address=OTHER)
    assert checked.move == AddressMove(OF_MASTER, OTHER, MASTER)
    checked.now_ms = checked.check().due_ms
    assert checked.now_ms == QUICK_RETRY_MS + CHECK_INTERVAL_MS
    checked.answer(address=OTHER)
    assert checked.move is None


def test_address_that_does_not_follow_the_master_is_checked_quickly_for_some_seconds_only():
    checked = Checked()
    checked.answer()
    checked.register(0, address=OTHER)
    waits = []
    for _ in range(QUICK_CHECKS_MAX + 2):
        checked.answered("connection refused")
        waits.append(checked.check().due_ms - checked.now_ms)
        checked.now_ms = checked.check().due_ms
    assert waits == [QUICK_RETRY_MS] * QUICK_CHECKS_MAX + [RETRY_MS_MIN, 2 * RETRY_MS_MIN]


def test_masters_that_take_turns_begin_no_more_quick_checks_within_an_interval():
    checked = Checked()
    checked.answer()
    checked.register(0, address=OTHER)
    quick = 0
    for number in range(2 * QUICK_CHECKS_MAX):
        checked.answered("connection refused")
        quick += checked.check().due_ms - checked.now_ms == QUICK_RETRY_MS
        checked.now_ms += QUICK_RETRY_MS
        checked.register(0, address=OTHER if number % 2 else MASTER)
    assert quick == QUICK_CHECKS_MAX
    checked.now_ms = CHECK_INTERVAL_MS
    checked.answered("connection refused")
    assert checked.check().due_ms == checked.now_ms + QUICK_RETRY_MS


def test_quick_checks_begin_anew_once_the_address_has_led_to_its_broker():
    checked = Checked()
    checked.answer()
    for address in (OTHER, MASTER):
        checked.register(0, address=address)
        assert checked.check().is_quick
        checked.answered("connection refused")
        assert checked.check().due_ms == checked.now_ms + QUICK_RETRY_MS
        checked.answer(address=address)
        assert not checked.checks.is_quick(OF_MASTER)


def test_address_moves_back_to_a_master_that_was_away():
    checked = Checked()
    checked.answer()
    checked.leave(0)
    assert checked.due() == []
    checked.register(0)
    assert checked.due() == [OF_MASTER]
    checked.answer()
    assert checked.move == AddressMove(OF_MASTER, MASTER, MASTER)


def test_registrations_that_leave_the_master_where_it_is_move_no_address():
    checked = Checked()
    checked.answer()
    checked.register(1, address="10.0.0.7:10911")
    assert checked.due() == []
    checked.now_ms = CHECK_INTERVAL_MS
    checked.answer()
    assert checked.move is None


def test_master_that_registers_while_a_new_address_is_refused_is_that_of_its_first_move():
    checked = Checked()
    checked.answered("connection refused")
    checked.register(0, address=OTHER)
    checked.answer(address=OTHER)
    assert checked.move == AddressMove(OF_MASTER, OTHER, MASTER)
    assert checked.check().state is CheckState.IN_FORCE


def test_addresses_of_masters_are_given_while_rules_and_checks_let_peers_have_them():
    unchecked = '[[roleAddress]]\nset = "broker-b"\nmaster = "10.9.0.9:10911"\nverify = false\n'
    checked = Checked(RULE + unchecked)
    assert [rule.master for rule in checked.state.role_addresses.given_of_masters()] == ["10.9.0.9:10911"]
    checked.answer()
    assert [rule.master for rule in checked.state.role_addresses.given_of_masters()] == [ROLE, "10.9.0.9:10911"]
    checked.register(0, broker_name="broker-b", address="10.9.0.9:10911")
    checked.state.role_addresses.tick(0)
    assert [rule.master for rule in checked.state.role_addresses.given_of_masters()] == [ROLE]
