"""Whether others may have led since a member led last, where etcd may have gone back."""

import pytest

from store.etcd.lease import SeenLeads
from store.etcd.lease_state_machine import Holder
from store.store import ControllerMember


def lead_of(run, token, lease_id=1):
    return Holder(member=ControllerMember(id=run, address=f"{run}:9880"), run=run, token=token, lease_id=lease_id)


def new_leads(*steps):
    """Return how many leads are counted after one of `me` at 7; a number puts the store back to that revision."""
    seen = SeenLeads("me")
    seen.see(lead_of("other", 3))
    seen.see(lead_of("me", 7))
    before = seen.count
    for step in steps:
        if isinstance(step, int):
            seen.went_back(step)
        else:
            seen.see(step and lead_of(*step))
    return seen.count - before


@pytest.mark.parametrize(
    "steps",
    [
        (("me", 7), None, ("me", 7)),
        (4, None, ("me", 5)),
        (4, ("other", 3), ("me", 5)),
        (7, ("me", 7), None, ("me", 8)),
        (4, ("me", 5), 4, ("me", 6)),
    ],
)
def test_lead_goes_on_where_the_store_went_back_and_nobody_else_has_led(steps):
    assert new_leads(*steps) == 0


@pytest.mark.parametrize(
    "steps",
    [
        (("other", 8),),
        (None, ("me", 9)),
        (4, ("other", 5), None, ("me", 6)),
        (4, ("me", 5), None, ("me", 6)),
        (("other", 9), 4, ("me", 5)),
        (4, 4, ("other", 5), ("me", 6)),
    ],
)
def test_another_one_may_have_led_in_between(steps):
    assert new_leads(*steps) > 0


@pytest.mark.parametrize("revision", [2, 6], ids=["seen at once", "seen after others have written"])
def test_lead_that_another_one_gains_again_at_the_same_revision_is_a_new_one(revision):
    """The one at 3 was seen before the store went back behind it; A's own next lead does not go on then."""
    assert new_leads(revision, ("other", 3, 2), None, ("me", 5)) == 2


def test_lead_that_is_gone_counts_again_whatever_its_lease():
    assert new_leads(2, ("other", 3), None, ("me", 5)) == 2
