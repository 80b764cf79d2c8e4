"""Which role addresses lead to the broker for which they stand, as connecting to them shows. Time is an argument.

An address is given to peers from the first time on that it led there. Later failures are reported and change nothing:
while a set fails over, an address leads nowhere for a moment, and to give peers other addresses then would undo what it
is for. Nothing here connects; `namesrv/app/role_addresses.py` does.
"""

from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from namesrv.core.role_addresses.rules import RoleAddressRule, RoleAddressRules, SlaveAddresses
from namesrv.core.tables.broker_table import BrokerTable
from remoting.protocol.shapes.route import MASTER_ID

#: Time between two checks of an address that peers get.
CHECK_INTERVAL_MS: Final = 30_000
#: The wait after a first failed check; it doubles with each further one.
RETRY_MS_MIN: Final = 1_000
RETRY_MS_MAX: Final = 10_000
#: A failover takes less, and is no reason for an alarm.
FAILING_AFTER_MS: Final = 15_000
#: Addresses of a file that are checked: so many connections are opened in each interval.
CHECKED_MAX: Final = 2_000
#: Once another broker has the role, the address is checked so often at first: when it leads there is recorded.
QUICK_RETRY_MS: Final = 250
#: So often: most failovers take no longer. Only after the address has led to its broker, or CHECK_INTERVAL_MS, so often
#: again: brokers that come and go must not make more connections.
QUICK_CHECKS_MAX: Final = 20


class RoleAddressUse(msgspec.Struct, frozen=True, cache_hash=True, rename={"set_name": "set", "broker_id": "brokerId"}):
    """An address, and for which broker it stands; as the file of given addresses has it."""

    set_name: str
    broker_id: int
    address: str


class BrokerIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Which broker answers at an address, by its own options; None for what it does not report."""

    broker_name: str | None
    broker_id: int | None
    #: The "host:port" with which it registers.
    address: str | None

    def __str__(self) -> str:
        return f"broker id {self.broker_id} of {self.broker_name}, which registers with {self.address}"


class CheckState(StrEnum):
    """What checks of an address found so far."""

    #: Not checked yet, as no broker is registered for which it stands; peers do not get it.
    WAITING = "waiting"
    #: It never led to its broker; peers do not get it.
    REFUSED = "refused"
    #: It led to its broker; peers get it.
    IN_FORCE = "in_force"
    #: It did, and has not for some time; peers get it.
    FAILING = "failing"

    @property
    def is_given(self) -> bool:
        return self in {CheckState.IN_FORCE, CheckState.FAILING}


class AddressCheck(msgspec.Struct):
    """One address, and what became of its checks."""

    use: RoleAddressUse
    state: CheckState
    #: Not to be checked before.
    due_ms: int
    #: What the last check found wrong; blank if nothing was, and before the first one.
    problem: str = ""
    #: When the last check ended, Unix ms; None before the first one.
    checked_unix_ms: int | None = None
    #: When the first of the checks failed that have failed since without a break; None if the last one did not.
    failed_since_ms: int | None = None
    #: The wait after the next failure.
    retry_ms: int = RETRY_MS_MIN
    #: With which "host:port" the broker registered last to which it is to lead; None before the first one.
    target: str | None = None
    #: That of the broker before, or of the same one if it was away; None if this process knew none.
    former: str | None = None
    #: No check has reached the target yet.
    is_moving: bool = True
    #: The target has left, and no other one came.
    is_vacant: bool = False
    #: How many failures are followed by a check after QUICK_RETRY_MS.
    quick_checks: int = 0
    #: When those began; None since the address led to its broker.
    quick_since_ms: int | None = None
    #: Another broker has registered since the last check ended.
    has_new_target: bool = False

    @property
    def is_quick(self) -> bool:
        """Whether the address is likely to lead to another broker within seconds."""
        return self.has_new_target or self.quick_checks > 0

    @property
    def why_not_given(self) -> str:
        """Why peers do not get the address; blank if they do."""
        if self.state.is_given:
            return ""
        use, name = self.use, self.use.set_name
        broker = f"a master of {name}" if use.broker_id == MASTER_ID else f"broker id {use.broker_id} of {name}"
        if self.state is CheckState.WAITING:
            return f"{use.address} is checked as soon as {broker} is registered"
        return f"{use.address} does not lead to {broker}: {self.problem}"


class CheckChange(NamedTuple):
    check: AddressCheck
    before: CheckState


class AddressMove(NamedTuple):
    """A check reached the broker to which an address is to lead, the first since it registered."""

    use: RoleAddressUse
    #: "host:port" with which it registers.
    target: str
    #: That of the broker before; None if this process knew none.
    former: str | None


class CheckOutcome(NamedTuple):
    #: None: nothing of the state.
    change: CheckChange | None = None
    move: AddressMove | None = None


class RoleAddressChecks:
    """The checked addresses of the rules in force."""

    def __init__(self, brokers: BrokerTable) -> None:
        self._brokers = brokers
        self._checks: dict[RoleAddressUse, AddressCheck] = {}
        #: Addresses that peers got before this process started; None once there were rules.
        self._restored: tuple[RoleAddressUse, ...] | None = ()
        #: Broker name -> its checks.
        self._of_set: dict[str, list[AddressCheck]] = {}

    def restore(self, given: Iterable[RoleAddressUse]) -> None:
        """Take addresses that peers got before a restart: they get them again, though a set may be failing over now."""
        self._restored = tuple(given)

    def replace(self, rules: RoleAddressRules, now_ms: int) -> None:
        """Follow other rules: what stays is in its state, what is new has to be checked before peers get it."""
        uses = list(dict.fromkeys(use for rule in rules.rules for use in checked_uses(rule)))
        restored = frozenset(self._restored or ())
        # Those that peers get are checked one after another, not all at once.
        spread_ms = CHECK_INTERVAL_MS / max(len(uses), 1)
        self._checks = {
            use: self._checks.get(use) or _new_check(use, now_ms, round(number * spread_ms), is_given=use in restored)
            for number, use in enumerate(uses)
        }
        self._restored = None
        self._of_set = {}
        for use, check in self._checks.items():
            self._of_set.setdefault(use.set_name, []).append(check)

    # Queries

    def applicable(self, rule: RoleAddressRule) -> RoleAddressRule | None:
        """Return the part of a rule that peers get; None if the address of its master is not among it."""
        if not rule.is_verified:
            return rule
        given = {use.broker_id: use.address for use in checked_uses(rule) if self._is_given(use)}
        if rule.master is not None and MASTER_ID not in given:
            return None
        slaves = {broker_id: address for broker_id, address in given.items() if broker_id != MASTER_ID}
        if len(slaves) == len(rule.slaves.by_id):
            return rule
        return msgspec.structs.replace(rule, slaves=SlaveAddresses(slaves, rule.slaves.are_omitted))

    def of_rule(self, rule: RoleAddressRule) -> list[AddressCheck]:
        return [self._checks[use] for use in checked_uses(rule)]

    def states(self) -> Iterator[CheckState]:
        return (check.state for check in self._checks.values())

    def given(self) -> list[RoleAddressUse]:
        """Return the checked addresses that peers get, for `restore`; before there are rules, what was restored."""
        if self._restored is not None:
            return list(self._restored)
        return [use for use, check in self._checks.items() if check.state.is_given]

    def due(self, now_ms: int, count_max: int, without: Collection[RoleAddressUse]) -> list[RoleAddressUse]:
        """Return what is to be checked now; addresses that peers wait for first, then the longest overdue.

        Nothing is checked while no broker is registered for which the address stands.
        """
        due = [
            check
            for use, check in self._checks.items()
            if check.due_ms <= now_ms and use not in without and self._registered(use) is not None
        ]
        due.sort(key=lambda check: (check.state is not CheckState.WAITING, check.due_ms))
        return [check.use for check in due[:count_max]]

    # What changes

    def answered(self, use: RoleAddressUse, answer: BrokerIdentity | str, now_ms: int, unix_ms: int) -> CheckOutcome:
        """Take who answered at an address, or why nobody did; return what changed of it.

        It is compared with the broker that is registered now, as that may have changed while the check was under way;
        without one it counts neither way.
        """
        check, registered = self._checks.get(use), self._registered(use)
        if check is None or registered is None:
            return CheckOutcome()
        before, problem_before = check.state, check.problem
        check.checked_unix_ms = unix_ms
        check.problem = _difference(use, registered, answer)
        move = None
        if check.problem:
            _fail(check, now_ms)
        else:
            move = _succeed(check, registered, now_ms)
        is_new_refusal = check.state is CheckState.REFUSED and check.problem != problem_before
        is_change = check.state is not before or is_new_refusal
        return CheckOutcome(CheckChange(check, before) if is_change else None, move)

    def set_changed(self, broker_name: str) -> None:
        """Check the addresses of a broker set at once that peers do not get, or that are to lead to another broker."""
        for check in self._of_set.get(broker_name, ()):
            is_moving = _follow(check, self._registered(check.use))
            if not check.state.is_given:
                check.due_ms, check.retry_ms = 0, RETRY_MS_MIN
            elif is_moving:
                check.due_ms, check.has_new_target = 0, True

    def is_quick(self, use: RoleAddressUse) -> bool:
        """Return whether an address is likely to lead to another broker within seconds."""
        check = self._checks.get(use)
        return check is not None and check.is_quick

    def postpone(self, use: RoleAddressUse, now_ms: int) -> None:
        """Check an address again later: this host could not connect to any."""
        if (check := self._checks.get(use)) is not None:
            check.due_ms = now_ms + CHECK_INTERVAL_MS

    def _is_given(self, use: RoleAddressUse) -> bool:
        check = self._checks.get(use)
        return check is not None and check.state.is_given

    def _registered(self, use: RoleAddressUse) -> str | None:
        """Return the address with which the broker registers for which an address stands."""
        broker_set = self._brokers.get(use.set_name)
        member = None if broker_set is None else broker_set.members.get(use.broker_id)
        return None if member is None else member.address


def checked_uses(rule: RoleAddressRule) -> Iterator[RoleAddressUse]:
    """Yield the addresses of a rule that are checked before peers get them."""
    if not rule.is_verified:
        return
    if rule.master is not None:
        yield RoleAddressUse(rule.set_name, MASTER_ID, rule.master)
    for broker_id, address in rule.slaves.by_id.items():
        yield RoleAddressUse(rule.set_name, broker_id, address)


def _new_check(use: RoleAddressUse, now_ms: int, later_ms: int, *, is_given: bool) -> AddressCheck:
    if is_given:
        return AddressCheck(use, CheckState.IN_FORCE, now_ms + later_ms)
    return AddressCheck(use, CheckState.WAITING, now_ms)


def _follow(check: AddressCheck, registered: str | None) -> bool:
    """Note with which address the broker registers to which one is to lead; returns whether it has to move there.

    It has not for the first broker that this process knows: after a restart all sets register within seconds.
    """
    if registered is None:
        check.is_vacant = True
        return False
    if registered == check.target and not check.is_vacant:
        return False
    check.former, check.target = check.target, registered
    check.is_moving, check.is_vacant = True, False
    return check.former is not None


def _succeed(check: AddressCheck, registered: str, now_ms: int) -> AddressMove | None:
    """Take a check that reached its broker; returns the move that it ends."""
    check.state, check.failed_since_ms, check.retry_ms = CheckState.IN_FORCE, None, RETRY_MS_MIN
    check.due_ms, check.quick_checks = now_ms + CHECK_INTERVAL_MS, 0
    check.quick_since_ms, check.has_new_target = None, False
    # A broker that registered before there was a rule.
    _follow(check, registered)
    if not check.is_moving:
        return None
    check.is_moving = False
    return AddressMove(check.use, registered, check.former)


def _fail(check: AddressCheck, now_ms: int) -> None:
    if check.failed_since_ms is None:
        check.failed_since_ms = now_ms
    if not check.state.is_given:
        check.state = CheckState.REFUSED
    elif now_ms - check.failed_since_ms >= FAILING_AFTER_MS:
        check.state = CheckState.FAILING
    if check.has_new_target:
        _begin_quick_checks(check, now_ms)
    if check.quick_checks:
        check.quick_checks -= 1
        check.due_ms = now_ms + QUICK_RETRY_MS
        return
    check.due_ms = now_ms + check.retry_ms
    check.retry_ms = min(2 * check.retry_ms, RETRY_MS_MAX)


def _begin_quick_checks(check: AddressCheck, now_ms: int) -> None:
    check.has_new_target = False
    if check.quick_since_ms is None or now_ms - check.quick_since_ms >= CHECK_INTERVAL_MS:
        check.quick_checks, check.quick_since_ms = QUICK_CHECKS_MAX, now_ms


def _difference(use: RoleAddressUse, registered: str, answer: BrokerIdentity | str) -> str:
    """Return why an answer is not that of the broker for which an address stands; blank if it is."""
    if isinstance(answer, str):
        return answer
    if (answer.broker_name, answer.broker_id, answer.address) == (use.set_name, use.broker_id, registered):
        return ""
    return f"{answer} answered there, and the one to be reached registers with {registered}"
