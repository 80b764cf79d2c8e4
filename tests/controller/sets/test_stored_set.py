"""What is stored after a decision: the set after its events, or the floor that a set leaves behind."""

import pytest
from controller_builders import CLUSTER, SET, a_set, an_address

from controller.sets.broker_set import BrokerIdApplied, BrokerSet, Floor, MasterElected, MasterEpochRaised
from controller.sets.stored_set import SetDecision, StoredSet

FLOOR = Floor(master_epoch=3, next_broker_id=2)


def test_decision_without_events_leaves_the_stored_set_unchanged():
    entry = StoredSet(broker_set=a_set(), floor=FLOOR)
    assert SetDecision(reply=None).after(entry) == entry
    assert SetDecision(reply=None).after(StoredSet()) == StoredSet()


def test_events_apply_in_their_order():
    decision = SetDecision(reply=None, events=(MasterEpochRaised(9), MasterElected(2)))
    after = decision.after(StoredSet(broker_set=a_set(), floor=FLOOR))
    assert (after.broker_set.master, after.broker_set.master_epoch) == (2, 10)
    assert after.floor == FLOOR


def test_first_event_applies_to_the_new_set():
    begins = BrokerSet(broker_name=SET, cluster=CLUSTER)
    decision = SetDecision(reply=None, events=(BrokerIdApplied(1, an_address(1), "x"),), begins=begins)
    assert set(decision.after(StoredSet(floor=FLOOR)).broker_set.replicas) == {1}


def test_known_set_is_not_replaced_by_a_new_one():
    decision = SetDecision(
        reply=None,
        events=(BrokerIdApplied(4, an_address(4), "x"),),
        begins=BrokerSet(broker_name=SET, cluster=CLUSTER),
    )
    assert set(decision.after(StoredSet(broker_set=a_set())).broker_set.replicas) == {1, 2, 3, 4}


def test_removed_set_leaves_its_epoch_and_next_broker_id():
    after = SetDecision(reply=None, ends=True).after(StoredSet(broker_set=a_set(), floor=FLOOR))
    assert after == StoredSet(broker_set=None, floor=Floor(master_epoch=5, next_broker_id=4))


def test_removal_without_a_set_changes_nothing():
    assert SetDecision(reply=None, ends=True).after(StoredSet(floor=FLOOR)) == StoredSet(floor=FLOOR)


def test_event_without_a_set_is_an_assertion_error():
    with pytest.raises(AssertionError, match="events happen to a set"):
        SetDecision(reply=None, events=(MasterElected(2),)).after(StoredSet())
