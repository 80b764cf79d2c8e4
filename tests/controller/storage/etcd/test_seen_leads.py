"""Whether others may have led since a member led last, where etcd may have gone back."""

import pytest

from controller.storage.etcd.lease_state_machine import Holder
from controller.storage.etcd.seen_leads import SeenLeads
from controller.storage.store import ControllerMember


def lead_of(run, token):
    return Holder(member=ControllerMember(id=run, address=f"{run}:9880"), run=run, token=token, lease_id=token)


def new_leads(*steps):
    """Return how many leads are counted after one of `me` at 7; "back" puts the store back."""
    seen = SeenLeads("me")
    seen.see(lead_of("other", 3))
    seen.see(lead_of("me", 7))
    before = seen.count
    for step in steps:
        if step == "back":
            seen.went_back()
        else:
            seen.see(step and lead_of(*step))
    return seen.count - before


@pytest.mark.parametrize(
    "steps",
    [
        (("me", 7), None, ("me", 7)),
        ("back", None, ("me", 5)),
        ("back", ("other", 3), ("me", 5)),
        ("back", ("me", 7), None, ("me", 8)),
        ("back", ("me", 5), "back", ("me", 6)),
    ],
)
def test_lead_goes_on_where_the_store_went_back_and_nobody_else_has_led(steps):
    assert new_leads(*steps) == 0


@pytest.mark.parametrize(
    "steps",
    [
        (("other", 8),),
        (None, ("me", 9)),
        ("back", ("other", 5), None, ("me", 6)),
        ("back", ("me", 5), None, ("me", 6)),
        (("other", 9), "back", ("me", 5)),
        ("back", "back", ("other", 5), ("me", 6)),
    ],
)
def test_another_one_may_have_led_in_between(steps):
    assert new_leads(*steps) > 0
