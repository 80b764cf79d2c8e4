"""What is stored after a decision: the set after its events, or the floor that a set leaves behind."""

import pytest
from controller_builders import CLUSTER, SET, a_set, an_address

from controller.sets.broker_set import BrokerSet, Floor
from controller.sets.events import BrokerIdApplied, MasterElected, MasterEpochRaised
from controller.sets.stored_set import Decision, Entry

FLOOR = Floor(master_epoch=3, next_broker_id=2)


def test_a_decision_without_events_stores_what_was_stored():
    entry = Entry(broker_set=a_set(), floor=FLOOR)
    assert Decision(reply=None).after(entry) == entry
    assert Decision(reply=None).after(Entry()) == Entry()


def test_events_happen_in_their_order():
    decision = Decision(reply=None, events=(MasterEpochRaised(9), MasterElected(2)))
    after = decision.after(Entry(broker_set=a_set(), floor=FLOOR))
    assert (after.broker_set.master, after.broker_set.master_epoch) == (2, 10)
    assert after.floor == FLOOR


def test_the_first_event_of_a_set_happens_to_the_set_that_begins():
    begins = BrokerSet(broker_name=SET, cluster=CLUSTER)
    decision = Decision(reply=None, events=(BrokerIdApplied(1, an_address(1), "x"),), begins=begins)
    assert set(decision.after(Entry(floor=FLOOR)).broker_set.replicas) == {1}


def test_a_set_that_is_known_does_not_begin_again():
    decision = Decision(
        reply=None,
        events=(BrokerIdApplied(4, an_address(4), "x"),),
        begins=BrokerSet(broker_name=SET, cluster=CLUSTER),
    )
    assert set(decision.after(Entry(broker_set=a_set())).broker_set.replicas) == {1, 2, 3, 4}


def test_a_set_that_ends_leaves_its_epoch_and_its_next_id():
    after = Decision(reply=None, ends=True).after(Entry(broker_set=a_set(), floor=FLOOR))
    assert after == Entry(broker_set=None, floor=Floor(master_epoch=5, next_broker_id=4))


def test_where_there_is_no_set_its_end_changes_nothing():
    assert Decision(reply=None, ends=True).after(Entry(floor=FLOOR)) == Entry(floor=FLOOR)


def test_nothing_happens_to_a_set_that_is_not_there():
    with pytest.raises(AssertionError, match="events happen to a set"):
        Decision(reply=None, events=(MasterElected(2),)).after(Entry())
