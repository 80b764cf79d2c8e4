"""Ids are handed out once, addresses follow their brokers, and cleaning loses no messages unasked."""

import pytest
from controller_builders import CLUSTER, SET, a_set, an_address, last_heartbeat, replicas, view
from msgspec.structs import replace

from controller.decisions.election import ElectionRequest, decide_election
from controller.decisions.membership import (
    ADOPTED_EPOCH_MAX,
    REPLICAS_MAX,
    Applicant,
    Cleaning,
    Registrant,
    apply_id,
    clean,
    decide_adoption,
    decide_cleaning,
    decide_id,
    decide_registration,
    never_led,
    new_set,
    register,
)
from controller.refusals import (
    BrokerIdInvalid,
    BrokerUnknown,
    CleaningRefused,
    ClusterDiffers,
    EpochsUsedUp,
    LimitReached,
    SetUnknown,
)
from controller.sets.broker_set import (
    RAISED_EPOCH_MAX,
    RECOVERY_MARGIN,
    BrokerAddressChanged,
    BrokerIdApplied,
    Floor,
    MasterEpochRaised,
    MasterLost,
    RebuildingBegun,
    Replica,
    ReplicaAdopted,
    ReplicasRemoved,
)
from controller.sets.stored_set import StoredSet

APPLICANT = Applicant(cluster=CLUSTER, broker_name=SET, broker_id=4, address="10.0.0.4:1", check_code="10.0.0.4:1;9")


def test_next_broker_id_can_be_applied_for():
    assert apply_id(a_set(), APPLICANT) == BrokerIdApplied(4, "10.0.0.4:1", "10.0.0.4:1;9")


def test_repeated_application_for_an_applied_id_changes_nothing():
    after = a_set().apply(apply_id(a_set(), APPLICANT))
    assert apply_id(after, APPLICANT) is None


@pytest.mark.parametrize("broker_id", [1, 3, 5, 1_000_000, 0, -1])
def test_application_for_another_id_is_refused_with_the_next_one(broker_id):
    with pytest.raises(BrokerIdInvalid, match="the next is 4"):
        apply_id(a_set(), replace(APPLICANT, broker_id=broker_id))


def test_application_with_another_cluster_is_refused():
    with pytest.raises(ClusterDiffers, match="of the cluster DefaultCluster, the request says Other"):
        apply_id(a_set(), replace(APPLICANT, cluster="Other"))


def test_cleaned_set_begins_at_its_last_epoch_and_next_broker_id():
    again = new_set(SET, CLUSTER, Floor(master_epoch=9, next_broker_id=4))
    assert apply_id(again, APPLICANT)
    with pytest.raises(BrokerIdInvalid):
        apply_id(again, replace(APPLICANT, broker_id=1))
    assert (again.master_epoch, again.is_elected) == (9, False)


def test_registration_from_the_same_address_changes_nothing():
    assert register(a_set(), 2, an_address(2)) == []


def test_registration_from_another_address_changes_the_address():
    assert register(a_set(), 2, "10.0.0.9:1") == [BrokerAddressChanged(2, "10.0.0.9:1")]


def test_registration_of_the_recorded_master_ends_its_mastership():
    assert register(a_set(), 1, an_address(1)) == [MasterLost()]
    assert register(a_set(), 1, "10.0.0.9:1") == [BrokerAddressChanged(1, "10.0.0.9:1"), MasterLost()]


def full_set(**values):
    members = {i: Replica(f"10.0.0.1:{i}", f"10.0.0.1:{i};1") for i in range(1, REPLICAS_MAX + 1)}
    return a_set(replicas=members, next_broker_id=REPLICAS_MAX + 1, **values)


def test_application_to_a_full_set_is_refused():
    entry = StoredSet(broker_set=full_set())
    with pytest.raises(LimitReached, match="broker-a has 1000 brokers, 1000 are allowed; clean those that are gone"):
        decide_id(entry, replace(APPLICANT, broker_id=REPLICAS_MAX + 1))
    with pytest.raises(LimitReached) as refused:
        decide_adoption(entry, registrant(REPLICAS_MAX + 1), epoch=5)
    assert refused.value.code == 2005


def test_members_of_a_full_set_can_still_apply_and_register():
    entry = StoredSet(broker_set=full_set())
    again = replace(APPLICANT, broker_id=3, address="10.0.0.1:3", check_code="10.0.0.1:3;1")
    assert decide_id(entry, again).events == ()
    assert decide_adoption(entry, registrant(2), epoch=5).events == (BrokerAddressChanged(2, an_address(2)),)


def cleaned(*broker_ids, alive=(1, 2), even_living=False, broker_set=None):
    ids = frozenset(broker_ids) if broker_ids else None
    return clean(broker_set or a_set(), Cleaning(broker_name=SET, broker_ids=ids, even_living=even_living), alive)


def test_broker_that_may_live_without_a_heartbeat_yet_is_not_cleaned():
    wanted = Cleaning(broker_name=SET, broker_ids=frozenset({3}), even_living=False)
    with pytest.raises(CleaningRefused, match=r"the brokers \[3\] may be alive: this controller has not run long"):
        clean(a_set(), wanted, (1, 2), awaited=(3,))
    assert clean(a_set(), replace(wanted, even_living=True), (1, 2), awaited=(3,))


def test_failed_and_listed_living_brokers_and_those_of_a_set_that_never_had_a_master_can_be_cleaned():
    young = a_set(replicas=replicas(1, 2), master=None, is_elected=False, sync_state_set=frozenset())
    assert cleaned(3) == ReplicasRemoved(frozenset({3}))
    assert cleaned(2, 3, alive=(1,)) == ReplicasRemoved(frozenset({2, 3}))
    assert cleaned(2, even_living=True) == ReplicasRemoved(frozenset({2}))
    assert cleaned(1, alive=(), broker_set=young) == ReplicasRemoved(frozenset({1}))


@pytest.mark.parametrize(
    ("broker_ids", "alive", "reason"),
    [
        ((2,), (1, 2), "[2] are alive"),
        ((8,), (), "no brokers [8]; it has [1, 2, 3]"),
        ((), (), "has the master 1"),
        ((1, 2), (), "only [1, 2] have all messages"),
    ],
)
def test_cleaning_that_loses_a_living_broker_or_messages_is_refused_with_the_reason(broker_ids, alive, reason):
    with pytest.raises(CleaningRefused) as refused:
        cleaned(*broker_ids, alive=alive)
    assert reason in str(refused.value)
    assert refused.value.code == 2009


def test_whole_set_without_master_can_be_cleaned():
    assert cleaned(broker_set=a_set(master=None)) is None
    assert cleaned(even_living=True) is None
    assert cleaned(1, 2, 3, even_living=True) is None


# What is stored


def registrant(broker_id, cluster=CLUSTER):
    return Registrant(cluster=cluster, broker_name=SET, broker_id=broker_id, address=an_address(broker_id))


def after(entry, decision):
    return decision.after(entry).broker_set


def test_application_for_the_first_id_creates_a_set_without_master():
    first = replace(APPLICANT, broker_id=1)
    began = after(StoredSet(), decide_id(StoredSet(), first))
    assert (began.cluster, set(began.replicas), began.next_broker_id) == (CLUSTER, {1}, 2)
    assert (began.master, began.master_epoch, began.sync_state_set, began.is_elected) == (None, 0, frozenset(), False)


def test_application_for_another_id_creates_no_set():
    with pytest.raises(BrokerIdInvalid, match="id 4 is not free, the next is 1") as refused:
        decide_id(StoredSet(), APPLICANT)
    assert refused.value.code == 2014


@pytest.mark.parametrize(
    ("entry", "who", "reason"),
    [
        (StoredSet(), registrant(1), "there is no set broker-a"),
        (
            StoredSet(broker_set=a_set()),
            registrant(1, "Other"),
            "of the cluster DefaultCluster, the request says Other",
        ),
        (StoredSet(broker_set=a_set()), registrant(9), "no broker 9"),
    ],
)
def test_registration_of_an_unknown_broker_or_set_is_refused_with_2010(entry, who, reason):
    with pytest.raises((SetUnknown, BrokerUnknown), match=reason) as refused:
        decide_registration(entry, who)
    assert refused.value.code == 2010


def test_blank_cluster_matches_any_cluster():
    entry = StoredSet(broker_set=a_set())
    assert decide_registration(entry, registrant(2, "")).events == ()


# Adoption


def test_adopted_brokers_keep_their_ids_and_get_a_master_above_every_epoch():
    entry = StoredSet()
    for broker_id in (2, 1, 3):
        entry = decide_adoption(entry, registrant(broker_id), epoch=5).after(entry)
    rebuilt = entry.broker_set
    assert (set(rebuilt.replicas), rebuilt.next_broker_id) == ({1, 2, 3}, 4)
    assert (rebuilt.sync_state_set, rebuilt.master, rebuilt.master_epoch) == ({1, 2, 3}, None, 6 + RECOVERY_MARGIN)
    known = view({1: last_heartbeat(max_offset=900), 2: last_heartbeat(), 3: last_heartbeat(max_offset=950)})
    led = after(entry, decide_election(SET, entry, known, ElectionRequest()))
    assert (led.master, led.master_epoch, led.sync_state_set) == (2, 7 + RECOVERY_MARGIN, {2})


def test_adopted_broker_with_a_higher_epoch_raises_that_of_its_rebuilding_set():
    entry = StoredSet()
    entry = decide_adoption(entry, registrant(1), epoch=5).after(entry)
    higher = 7 + RECOVERY_MARGIN
    decision = decide_adoption(entry, registrant(2), epoch=higher)
    raised = MasterEpochRaised(higher + RECOVERY_MARGIN)
    assert decision.events == (ReplicaAdopted(2, an_address(2)), raised, MasterLost())
    assert after(entry, decision).master_epoch == higher + RECOVERY_MARGIN + 1


def test_master_of_a_rebuilt_set_has_an_epoch_above_a_log_adopted_later():
    # 1 led at epoch 5, 2 at epoch 6 from 1000 on; 1 comes first, and is master again from 1000 on.
    entry = decide_adoption(StoredSet(), registrant(1), epoch=5).after(StoredSet())
    entry = decide_election(SET, entry, view({1: last_heartbeat(max_offset=1000)}), ElectionRequest()).after(entry)
    assert (entry.broker_set.master, entry.broker_set.master_epoch) == (1, 7 + RECOVERY_MARGIN)
    decision = decide_adoption(entry, registrant(2), epoch=6)
    assert decision.events == (ReplicaAdopted(2, an_address(2)),)


def test_adoption_into_a_new_set_makes_it_a_rebuilding_set():
    entry = StoredSet()
    entry = decide_id(entry, replace(APPLICANT, broker_id=1)).after(entry)
    decision = decide_adoption(entry, registrant(2), epoch=7)
    raised = MasterEpochRaised(7 + RECOVERY_MARGIN)
    assert decision.events == (RebuildingBegun(), ReplicaAdopted(2, an_address(2)), raised, MasterLost())
    rebuilt = after(entry, decision)
    assert (rebuilt.is_rebuilding, rebuilt.sync_state_set, rebuilt.next_broker_id) == (True, {1, 2}, 3)
    logs = view({1: last_heartbeat(epoch=-1, max_offset=0), 2: last_heartbeat(epoch=7)})
    led = after(
        StoredSet(broker_set=rebuilt),
        decide_election(SET, StoredSet(broker_set=rebuilt), logs, ElectionRequest(broker_id=1)),
    )
    assert (led.master, led.master_epoch) == (2, 9 + RECOVERY_MARGIN)


def test_adoption_at_an_epoch_near_the_largest_is_refused():
    last = after(StoredSet(), decide_adoption(StoredSet(), registrant(1), epoch=ADOPTED_EPOCH_MAX))
    assert last.master_epoch == RAISED_EPOCH_MAX + 1
    for claim in (ADOPTED_EPOCH_MAX + 1, 2**31 - 1):
        with pytest.raises(EpochsUsedUp, match=f"is at master epoch {claim}, too near the highest"):
            decide_adoption(StoredSet(), registrant(1), epoch=claim)


def test_rebuilt_set_begins_above_its_floor():
    entry = StoredSet(floor=Floor(master_epoch=20, next_broker_id=4))
    rebuilt = after(entry, decide_adoption(entry, registrant(1), epoch=5))
    assert (rebuilt.master_epoch, rebuilt.next_broker_id) == (20, 4)


def test_broker_adopted_into_a_known_set_is_out_of_sync():
    entry = StoredSet(broker_set=a_set())
    decision = decide_adoption(entry, registrant(9), epoch=99)
    assert decision.events == (ReplicaAdopted(9, an_address(9)),)
    assert after(entry, decision).sync_state_set == {1, 2}


def test_adoption_of_a_known_broker_is_a_registration():
    entry = StoredSet(broker_set=a_set())
    assert decide_adoption(entry, registrant(1), epoch=5) == decide_registration(entry, registrant(1))


@pytest.mark.parametrize("broker_id", [0, -1, 2**31, 2**63 - 1])
def test_broker_with_an_impossible_id_is_not_adopted(broker_id):
    with pytest.raises(BrokerUnknown):
        decide_adoption(StoredSet(), registrant(broker_id), epoch=5)


def test_broker_of_another_cluster_is_not_adopted():
    with pytest.raises(SetUnknown, match="the request says Other"):
        decide_adoption(StoredSet(broker_set=a_set()), registrant(9, "Other"), epoch=5)


# Cleaning


def cleaning(*broker_ids, cluster="", even_living=False):
    ids = frozenset(broker_ids) if broker_ids else None
    return Cleaning(broker_name=SET, cluster=cluster, broker_ids=ids, even_living=even_living)


@pytest.mark.parametrize(
    ("entry", "wish", "reason"),
    [
        (StoredSet(), cleaning(1), "there is no set broker-a"),
        (StoredSet(broker_set=a_set()), cleaning(3, cluster="Other"), "DefaultCluster, the request says Other"),
    ],
)
def test_cleaning_of_an_unknown_set_or_cluster_is_refused(entry, wish, reason):
    with pytest.raises(CleaningRefused, match=reason) as refused:
        decide_cleaning(entry, wish, ())
    assert refused.value.code == 2009


def test_cleaning_with_an_empty_list_of_ids_is_refused():
    nobody = Cleaning(broker_name=SET, broker_ids=frozenset(), even_living=True)
    with pytest.raises(CleaningRefused, match="the list of ids is empty"):
        decide_cleaning(StoredSet(broker_set=a_set()), nobody, ())


def test_cleaned_set_leaves_its_epoch_and_next_broker_id_as_floor():
    entry = StoredSet(broker_set=a_set(master=None))
    assert decide_cleaning(entry, cleaning(cluster=CLUSTER), ()).after(entry) == StoredSet(
        floor=Floor(master_epoch=5, next_broker_id=4)
    )


def test_cleaned_master_loses_its_role_and_leaves_the_sync_state_set():
    entry = StoredSet(broker_set=a_set())
    cleaned_set = after(entry, decide_cleaning(entry, cleaning(1, even_living=True), {1, 2, 3}))
    assert (cleaned_set.master, cleaned_set.master_epoch) == (None, 6)
    assert (cleaned_set.sync_state_set, cleaned_set.sync_state_set_epoch, cleaned_set.next_broker_id) == ({2}, 8, 4)


# Sets that may be forgotten


@pytest.mark.parametrize(
    ("broker_set", "floor", "is_one"),
    [
        (a_set(master=None, master_epoch=0, is_elected=False), Floor(), True),
        (a_set(master=None, master_epoch=0, is_elected=True), Floor(), False),
        (a_set(master=None, master_epoch=0, is_elected=False, is_rebuilding=True), Floor(), False),
        (a_set(master=None, master_epoch=1, is_elected=False), Floor(), False),
        (a_set(master=None, master_epoch=0, is_elected=False), Floor(next_broker_id=3), False),
        (None, Floor(), False),
    ],
)
def test_set_never_led_only_if_neither_it_nor_a_cleaned_one_had_a_master_or_an_epoch(broker_set, floor, is_one):
    assert never_led(StoredSet(broker_set=broker_set, floor=floor)) is is_one
