"""Whether a manager leads: by its listener and the monotonic clock."""

import pytest
from fakes.clock import FakeClock

from offsets.lead import Lead, ManagerFollows, ManagerLeads, NotLeading
from store.store import ControllerMember

ME = ControllerMember(id="a", address="10.0.0.1:9883")
OTHER = ControllerMember(id="b", address="10.0.0.2:9883")


class Elected(Lead):
    """Stands, and is told by the test who leads."""

    def start(self, me):
        self.me = me


@pytest.fixture
def told():
    return []


@pytest.fixture
def lead(told):
    lead = Elected(FakeClock(), told.append)
    lead.start(ME)
    return lead


def test_a_manager_with_its_own_store_leads_for_ever(told):
    lead = Lead(FakeClock(), told.append)
    assert not lead.is_leading()
    lead.start(ME)
    lead._clock.pass_ms(10**9)
    lead.check()
    assert (lead.is_leading(), lead.leader, lead.number) == (True, ME, 0)
    assert told == [ManagerLeads()]


def test_a_paused_leader_does_not_lead_once_its_lease_has_ended_although_nobody_told_it(lead):
    lead.leads(lead._clock.now_ms() + 4_000)
    lead.check()
    lead._clock.pass_ms(3_999)
    assert lead.is_leading()
    lead._clock.pass_ms(1)
    assert not lead.is_leading()
    with pytest.raises(NotLeading) as refused:
        lead.check()
    assert refused.value.leader_address == ""


def test_listeners_are_told_when_a_lead_begins_and_ends_and_not_at_renewals(lead, told):
    begun = []
    lead.listeners.append(begun.append)
    lead.leads(4_000)
    lead.leads(5_500)
    assert (begun, lead.term, told) == ([True], 1, [ManagerLeads()])
    lead.follows(OTHER)
    lead.follows(OTHER)
    assert begun == [True, False]
    assert told[1:] == [ManagerFollows(leader=OTHER.address)]
    lead.leads(9_000)
    assert (begun, lead.term) == ([True, False, True], 2)


def test_a_follower_names_the_leader(lead):
    lead.follows(OTHER)
    with pytest.raises(NotLeading, match=r"send requests to the one at 10.0.0.2:9883") as refused:
        lead.check()
    assert (refused.value.status, refused.value.code, refused.value.leader_address) == (
        503,
        "not_leader",
        OTHER.address,
    )
    lead.follows(None)
    with pytest.raises(NotLeading, match="repeat the request in a second"):
        lead.check()
