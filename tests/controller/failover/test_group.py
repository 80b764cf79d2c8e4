"""Which controller leads, as one of them knows it: what it says to brokers, and when it may answer for the sets."""

from functools import partial

import pytest
from fakes.clock import FakeClock

from controller.failover.group import ControllerRole, Group
from controller.refusals import NotLeader
from store.store import ControllerMember, VersionedEntry

ME = ControllerMember(id="n0", address="10.0.0.1:9878")
OTHER = ControllerMember(id="n1", address="10.0.0.2:9878")
LEASE_MS = 5_000


class Happened(list):
    """What a group hands on, in order."""

    def entry_changed(self, name, kept):
        self.append((name, kept))


class AGroup(Group):
    """A group with its clock and what it handed on."""

    def __init__(self):
        self.clock, self.happened = FakeClock(), Happened()
        elected, deposed = (partial(self.happened.append, each) for each in ("elected", "deposed"))
        super().__init__("g", ME, self.clock, self.happened, elected, deposed)

    def lease(self):
        self.leads(self.clock.now_ms() + LEASE_MS)


@pytest.fixture
def group():
    return AGroup()


def refusal(group):
    with pytest.raises(NotLeader) as refused:
        group.check_leads()
    return str(refused.value)


# Roles


def test_controller_without_a_known_leader_is_candidate(group):
    assert (group.role, group.is_leader, group.known_leader) == (ControllerRole.CANDIDATE, False, None)
    assert refusal(group) == "no controller leads at present"
    assert group.members == (ME,)


def test_follower_names_the_leader(group):
    group.follows(OTHER)
    assert (group.role, group.is_leader, group.known_leader) == (ControllerRole.FOLLOWER, False, OTHER)
    assert refusal(group) == "the leader is n1 at 10.0.0.2:9878"


def test_controller_leads_only_after_it_has_loaded_the_store(group):
    group.lease()
    assert (group.role, group.is_leader) == (ControllerRole.CANDIDATE, False)
    # Brokers are sent here all the same: nobody else will answer them.
    assert group.known_leader == ME
    assert refusal(group) == "no controller leads at present"
    group.ready(group.term)
    assert (group.role, group.is_leader, group.known_leader) == (ControllerRole.LEADER, True, ME)
    group.check_leads()


def test_role_numbers_are_those_of_the_java_metric():
    assert [(each.name, each.value) for each in ControllerRole] == [
        ("UNKNOWN", 0),
        ("CANDIDATE", 1),
        ("FOLLOWER", 2),
        ("LEADER", 3),
    ]


def test_controller_deposed_while_loading_does_not_lead_afterwards(group):
    group.lease()
    group.follows(OTHER)
    group.ready(group.term)
    assert (group.role, group.is_leader) == (ControllerRole.FOLLOWER, False)


def test_new_term_requires_loading_again(group):
    group.lease()
    group.ready(group.term)
    group.follows(OTHER)
    group.lease()
    assert (group.role, group.is_leader) == (ControllerRole.CANDIDATE, False)
    group.ready(group.term)
    assert group.is_leader


def test_load_of_an_earlier_term_does_not_make_the_present_one_ready(group):
    group.lease()
    first = group.term
    assert group.leads_in(first)
    group.follows(OTHER)
    assert not group.leads_in(first)
    group.lease()
    assert not group.leads_in(first)
    group.ready(first)
    assert not group.is_leader
    assert group.leads_in(group.term)
    group.lease()
    group.ready(first + 1)
    assert group.is_leader


# The lease


def test_leadership_ends_with_the_lease(group):
    group.lease()
    group.ready(group.term)
    group.clock.pass_ms(LEASE_MS)
    assert group.is_leader
    group.clock.pass_ms(1)
    assert (group.is_leader, group.role, group.known_leader) == (False, ControllerRole.CANDIDATE, None)
    # Nobody said so: it is the clock that is looked at each time.
    assert refusal(group) == "no controller leads at present"
    assert group.happened == ["elected"]


def test_renewed_lease_continues_leadership_without_loading_again(group):
    group.lease()
    group.ready(group.term)
    for _ in range(3):
        group.clock.pass_ms(LEASE_MS - 1)
        group.lease()
    assert group.is_leader
    assert group.happened == ["elected"]
    assert group.leader_changes == 1


def test_controller_of_an_embedded_store_leads_without_a_deadline(group):
    group.leads(None)
    group.ready(group.term)
    group.clock.pass_ms(10**9)
    assert (group.is_leader, group.known_leader) == (True, ME)


# What is handed on


def test_beginning_and_end_of_leadership_are_reported_once(group):
    group.lease()
    group.lease()
    group.follows(OTHER)
    group.follows(None)
    assert group.happened == ["elected", "deposed"]


def test_change_of_the_leader_does_not_depose_a_follower(group):
    group.follows(OTHER)
    group.follows(None)
    assert group.happened == []


def test_each_change_of_the_leader_is_counted_once(group):
    counted = []
    for leader in (OTHER, OTHER, None, OTHER):
        group.follows(leader)
        counted.append(group.leader_changes)
    group.lease()
    counted.append(group.leader_changes)
    assert counted == [1, 1, 2, 3, 4]


def test_leader_with_a_new_address_is_named_with_it(group):
    group.follows(OTHER)
    moved = ControllerMember(id="n1", address="10.0.0.9:9878")
    group.follows(moved)
    assert group.known_leader == moved


def test_members_and_entries_of_other_controllers_are_applied(group):
    group.members_changed((ME, OTHER))
    group.entry_changed("broker-a", VersionedEntry(revision=7))
    assert group.members == (ME, OTHER)
    assert group.happened == [("broker-a", VersionedEntry(revision=7))]


def test_leader_leads_for_what_is_left_of_its_lease(group):
    group.lease()
    assert not group.leads_for(0)
    group.ready(group.term)
    assert group.leads_for(LEASE_MS)
    assert not group.leads_for(LEASE_MS + 1)
    group.clock.pass_ms(1_000)
    assert group.leads_for(LEASE_MS - 1_000)
    assert not group.leads_for(LEASE_MS - 999)
    group.lease()
    assert group.leads_for(LEASE_MS)
    group.follows(OTHER)
    assert not group.leads_for(0)


def test_leader_that_nobody_else_can_replace_leads_for_any_time(group):
    group.leads(None)
    group.ready(group.term)
    assert group.leads_for(10**12)
