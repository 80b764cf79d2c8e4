"""Ids are handed out once, addresses follow their brokers, and cleaning loses no messages unasked."""

import pytest
from controller_builders import CLUSTER, SET, a_set, an_address, replicas
from msgspec.structs import replace

from controller.broker_set import Floor
from controller.decisions.membership import Applicant, Cleaning, apply_id, clean, new_set, register
from controller.events import BrokerAddressChanged, BrokerIdApplied, MasterLost, ReplicasRemoved
from controller.refusals import BrokerIdInvalid, BrokerUnknown, CleaningRefused, ClusterDiffers

APPLICANT = Applicant(cluster=CLUSTER, broker_name=SET, broker_id=4, address="10.0.0.4:1", check_code="10.0.0.4:1;9")


def test_the_next_id_can_be_applied():
    assert apply_id(a_set(), APPLICANT) == BrokerIdApplied(4, "10.0.0.4:1", "10.0.0.4:1;9")


def test_who_did_not_hear_the_answer_asks_again_and_has_the_id():
    after = a_set().apply(apply_id(a_set(), APPLICANT))
    assert apply_id(after, APPLICANT) is None


@pytest.mark.parametrize("broker_id", [1, 3, 5, 1_000_000, 0, -1])
def test_any_other_id_is_refused_with_the_next(broker_id):
    with pytest.raises(BrokerIdInvalid, match="the next is 4"):
        apply_id(a_set(), replace(APPLICANT, broker_id=broker_id))


def test_a_name_that_another_cluster_has_is_refused():
    with pytest.raises(ClusterDiffers, match="of the cluster DefaultCluster, the request says Other"):
        apply_id(a_set(), replace(APPLICANT, cluster="Other"))


def test_a_set_that_was_cleaned_begins_above_what_it_had():
    again = new_set(SET, CLUSTER, Floor(master_epoch=9, next_broker_id=4))
    assert apply_id(again, APPLICANT)
    with pytest.raises(BrokerIdInvalid):
        apply_id(again, replace(APPLICANT, broker_id=1))
    assert (again.master_epoch, again.is_elected) == (9, False)


def test_a_broker_that_starts_where_it_was_changes_nothing():
    assert register(a_set(), 2, an_address(2)) == []


def test_a_broker_that_starts_elsewhere_has_a_new_address():
    assert register(a_set(), 2, "10.0.0.9:1") == [BrokerAddressChanged(2, "10.0.0.9:1")]


def test_a_recorded_master_that_starts_is_no_longer_the_one_that_was_elected():
    assert register(a_set(), 1, an_address(1)) == [MasterLost()]
    assert register(a_set(), 1, "10.0.0.9:1") == [BrokerAddressChanged(1, "10.0.0.9:1"), MasterLost()]


def test_a_broker_without_an_id_has_to_apply_for_one():
    with pytest.raises(BrokerUnknown, match="no broker 9") as refused:
        register(a_set(), 9, an_address(9))
    assert refused.value.code == 2010


def cleaned(*broker_ids, alive=(1, 2), even_living=False, broker_set=None):
    ids = frozenset(broker_ids) if broker_ids else None
    return clean(broker_set or a_set(), Cleaning(broker_name=SET, broker_ids=ids, even_living=even_living), alive)


def test_dead_brokers_can_be_taken_out():
    assert cleaned(3) == ReplicasRemoved(frozenset({3}))
    assert cleaned(2, 3, alive=(1,)) == ReplicasRemoved(frozenset({2, 3}))


def test_ids_are_honoured_also_when_living_brokers_may_be_cleaned():
    assert cleaned(2, even_living=True) == ReplicasRemoved(frozenset({2}))


@pytest.mark.parametrize(
    ("broker_ids", "alive", "said"),
    [
        ((2,), (1, 2), "[2] are alive"),
        ((8,), (), "no brokers [8], but [1, 2, 3]"),
        ((), (), "has the master 1"),
        ((1, 2), (), "only [1, 2] have all messages"),
    ],
)
def test_what_would_hurt_is_refused_with_the_reason(broker_ids, alive, said):
    with pytest.raises(CleaningRefused) as refused:
        cleaned(*broker_ids, alive=alive)
    assert said in str(refused.value)
    assert refused.value.code == 2009


def test_a_set_without_master_can_go_as_a_whole():
    assert cleaned(broker_set=a_set(master=None)) is None
    assert cleaned(even_living=True) is None
    assert cleaned(1, 2, 3, even_living=True) is None


def test_a_set_that_was_never_elected_has_nothing_to_lose():
    young = a_set(replicas=replicas(1, 2), master=None, is_elected=False, sync_state_set=frozenset())
    assert cleaned(1, alive=(), broker_set=young) == ReplicasRemoved(frozenset({1}))
