"""A SyncStateSet changes only as its master reports it, from the present one, to brokers that are known and alive."""

import pytest
from controller_builders import SET, a_set
from msgspec.structs import replace

from controller.decisions.membership import WantedSyncStateSet, alter, decide_alteration
from controller.refusals import (
    NotTheMaster,
    ReplicasInvalid,
    ReplicasNotAlive,
    StaleMasterEpoch,
    StaleSyncStateSetEpoch,
    SyncStateSetRefused,
)
from controller.sets.broker_set import SyncStateSetAltered
from controller.sets.stored_set import StoredSet

ALIVE = {1, 2, 3}
WANTED = WantedSyncStateSet(
    broker_name=SET, master=1, master_epoch=5, members=frozenset({1, 2, 3}), sync_state_set_epoch=7
)


def wanted(**values):
    return replace(WANTED, **values)


def test_report_of_the_master_becomes_the_sync_state_set():
    assert alter(a_set(), WANTED, ALIVE) == SyncStateSetAltered(frozenset({1, 2, 3}))


@pytest.mark.parametrize(
    ("broker_set", "sent", "alive", "refusal", "code", "reason"),
    [
        (a_set(), wanted(members=frozenset({1, 2})), ALIVE, SyncStateSetRefused, 2013, "[1, 2] already"),
        (a_set(), wanted(master=2), ALIVE, NotTheMaster, 2002, "the master is 1, not 2"),
        (a_set(master=None), WANTED, ALIVE, NotTheMaster, 2002, "the master is none, not 1"),
        (a_set(), wanted(master_epoch=4), ALIVE, StaleMasterEpoch, 2000, "epoch 5, the request says 4"),
        (a_set(), wanted(master_epoch=6), ALIVE, StaleMasterEpoch, 2000, "epoch 5, the request says 6"),
        (a_set(), wanted(sync_state_set_epoch=6), ALIVE, StaleSyncStateSetEpoch, 2001, "epoch 7, the request says 6"),
        (
            a_set(),
            wanted(members=frozenset({1, 8, 9})),
            ALIVE,
            ReplicasInvalid,
            2003,
            "no brokers [8, 9]; it has [1, 2, 3]",
        ),
        (a_set(), WANTED, {1, 2}, ReplicasNotAlive, 2006, "[3] are not alive"),
        (a_set(), WANTED, {2, 3}, ReplicasNotAlive, 2006, "[1] are not alive"),
        (a_set(), wanted(members=frozenset({2, 3})), ALIVE, SyncStateSetRefused, 2013, "lacks its master"),
    ],
)
def test_refused_report_names_sent_and_current_values(broker_set, sent, alive, refusal, code, reason):
    with pytest.raises(refusal) as refused:
        alter(broker_set, sent, alive)
    assert refused.value.code == code
    assert reason in str(refused.value)


def test_refusal_names_the_first_check_that_fails():
    everything_wrong = wanted(master=2, master_epoch=1, sync_state_set_epoch=1, members=frozenset({9}))
    with pytest.raises(NotTheMaster):
        alter(a_set(), everything_wrong, set())


def test_checks_of_a_report_have_the_order_of_java():
    # Each wish has one fault less than the one before: the first that is left is told.
    wishes = [
        (wanted(members=frozenset({1, 2}), master=2), SyncStateSetRefused),
        (wanted(master=2, master_epoch=1, sync_state_set_epoch=1, members=frozenset({9})), NotTheMaster),
        (wanted(master_epoch=1, sync_state_set_epoch=1, members=frozenset({9})), StaleMasterEpoch),
        (wanted(sync_state_set_epoch=1, members=frozenset({9})), StaleSyncStateSetEpoch),
        (wanted(members=frozenset({3, 9})), ReplicasInvalid),
        (wanted(members=frozenset({3})), ReplicasNotAlive),
    ]
    for wish, refusal in wishes:
        with pytest.raises(refusal):
            alter(a_set(), wish, {1, 2})
    with pytest.raises(SyncStateSetRefused, match="lacks its master"):
        alter(a_set(), wanted(members=frozenset({3})), ALIVE)


def test_refused_report_is_answered_with_sync_state_set_epoch_0():
    with pytest.raises(StaleMasterEpoch) as refused:
        alter(a_set(), wanted(master_epoch=4), ALIVE)
    assert refused.value.ext_fields == {"newSyncStateSetEpoch": "0"}


def test_sync_state_set_is_stored_with_the_next_epoch():
    entry = StoredSet(broker_set=a_set())
    after = decide_alteration(entry, WANTED, ALIVE).after(entry).broker_set
    assert (after.sync_state_set, after.sync_state_set_epoch, after.master_epoch) == ({1, 2, 3}, 8, 5)


def test_report_for_an_unknown_set_is_refused():
    with pytest.raises(SyncStateSetRefused, match="there is no set broker-a") as refused:
        decide_alteration(StoredSet(), WANTED, ALIVE)
    assert refused.value.code == 2013
