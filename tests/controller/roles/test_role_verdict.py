"""The verdict on the role of a broker: only what is certain is answered, and in doubt nobody changes anything."""

import pytest
from controller_builders import a_set

from controller.roles.verdict import RoleAnswer, RoleFacts, RoleVerdict, verdict_of

MASTER, SLAVE, STRANGER = 1, 2, 9


def verdict(broker_id, **facts):
    defaults = {
        "broker_set": a_set(master=MASTER, master_epoch=12),
        "leads": True,
        "is_held": False,
        "judges": True,
        "is_behind": False,
        "has_failed": False,
        "is_trusted": True,
        "is_confirmed": True,
    }
    return verdict_of(broker_id, RoleFacts(**(defaults | facts)))


def test_confirmed_master_serves_and_others_are_superseded():
    assert verdict(MASTER) == RoleAnswer(RoleVerdict.SERVES, 12)
    assert verdict(SLAVE) == RoleAnswer(RoleVerdict.SUPERSEDED, 12)


def test_failed_master_is_answered_while_its_election_is_under_way():
    assert verdict(MASTER, has_failed=True) == RoleAnswer(RoleVerdict.FAILED, 12)
    nobody = a_set(master=None, master_epoch=13)
    assert verdict(MASTER, broker_set=nobody, has_failed=True) == RoleAnswer(RoleVerdict.SUPERSEDED, 13)


@pytest.mark.parametrize("broker_id", [MASTER, SLAVE])
def test_held_set_has_nobody_to_send_to(broker_id):
    assert verdict(broker_id, is_held=True) == RoleAnswer(RoleVerdict.HELD, 12)


@pytest.mark.parametrize("broker_id", [MASTER, SLAVE])
@pytest.mark.parametrize(
    "facts",
    [
        {"leads": False},
        {"leads": False, "is_held": True},
        {"leads": False, "has_failed": True},
        {"broker_set": None},
        {"broker_set": None, "is_held": True},
        {"is_behind": True},
        {"is_behind": True, "has_failed": True},
        {"broker_set": a_set(master=None)},
    ],
)
def test_in_doubt_nothing_is_answered_for_any_broker(broker_id, facts):
    answer = verdict(broker_id, **facts)
    assert answer.verdict is RoleVerdict.UNKNOWN
    assert answer.doubt


@pytest.mark.parametrize(
    "facts", [{"is_trusted": False}, {"is_confirmed": False}, {"judges": False}, {"judges": False, "has_failed": True}]
)
def test_doubt_about_the_master_leaves_it_and_still_excludes_slaves(facts):
    assert verdict(MASTER, **facts).verdict is RoleVerdict.UNKNOWN
    assert verdict(SLAVE, **facts).verdict is RoleVerdict.SUPERSEDED


LED_BEFORE = a_set(master=None, master_epoch=13, is_elected=True)
NEVER_LED = a_set(master=None, master_epoch=0, is_elected=False)


@pytest.mark.parametrize(
    ("facts", "wanted"),
    [
        ({}, RoleVerdict.SUPERSEDED),
        # It was the master, and was cleaned: nobody is sent there while its successor is elected.
        ({"broker_set": LED_BEFORE}, RoleVerdict.SUPERSEDED),
        ({"is_held": True}, RoleVerdict.HELD),
        # The store was lost and new brokers come first: the master of before may lead.
        ({"broker_set": NEVER_LED}, RoleVerdict.UNKNOWN),
        ({"is_behind": True}, RoleVerdict.UNKNOWN),
        ({"leads": False}, RoleVerdict.UNKNOWN),
    ],
)
def test_broker_that_belongs_to_a_set_no_more_is_superseded_unless_it_may_lead(facts, wanted):
    assert verdict(STRANGER, **facts).verdict is wanted
