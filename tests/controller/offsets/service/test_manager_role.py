import pytest
from fakes.clock import FakeClock

from controller.offsets.service.manager_role import ManagerNotLeading, ManagerRole, StillLoading
from store.store import ControllerMember

OTHER = ControllerMember(id="m2", address="10.0.0.2:9883")


class Role:
    def __init__(self):
        self.clock = FakeClock()
        self.terms, self.deposed = [], 0
        self.role = ManagerRole(self.clock, self.terms.append, self._count)

    def _count(self):
        self.deposed += 1


@pytest.fixture
def led():
    return Role()


def test_each_election_is_a_term_and_renewals_are_none(led):
    now_ms = led.clock.now_ms()
    led.role.leads(now_ms + 1000)
    led.role.leads(now_ms + 2000)
    led.role.follows(OTHER)
    led.role.follows(None)
    led.role.leads(now_ms + 3000)
    assert led.terms == [1, 2]
    assert led.deposed == 1


def test_a_lead_ends_at_its_time_though_nobody_said_so(led):
    led.role.leads(led.clock.now_ms() + 1000)
    led.role.loaded(1)
    led.clock.pass_ms(999)
    led.role.check_serves()
    led.clock.pass_ms(1)
    with pytest.raises(ManagerNotLeading):
        led.role.check_serves()


def test_nothing_is_served_before_all_is_loaded(led):
    led.role.leads(None)
    led.role.check_leads()
    with pytest.raises(StillLoading):
        led.role.check_serves()
    assert led.role.loaded(1)
    led.role.check_serves()


def test_what_a_former_term_has_loaded_does_not_count(led):
    led.role.leads(None)
    led.role.follows(None)
    led.role.leads(None)
    assert not led.role.loaded(1)
    assert not led.role.is_serving


def test_who_leads_is_named(led):
    led.role.follows(OTHER)
    with pytest.raises(ManagerNotLeading) as raised:
        led.role.check_leads()
    assert raised.value.leader_address == OTHER.address
