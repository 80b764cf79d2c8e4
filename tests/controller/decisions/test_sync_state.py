"""A SyncStateSet changes only as its master reports it, from the present one, to brokers that are known and alive."""

import pytest
from controller_builders import SET, a_set
from msgspec.structs import replace

from controller.decisions.sync_state import WantedSyncStateSet, alter
from controller.events import SyncStateSetAltered
from controller.refusals import (
    NotTheMaster,
    ReplicasInvalid,
    ReplicasNotAlive,
    StaleMasterEpoch,
    StaleSyncStateSetEpoch,
    SyncStateSetRefused,
)

ALIVE = {1, 2, 3}
WANTED = WantedSyncStateSet(
    broker_name=SET, master=1, master_epoch=5, members=frozenset({1, 2, 3}), sync_state_set_epoch=7
)


def wanted(**values):
    return replace(WANTED, **values)


def test_what_the_master_reports_becomes_the_sync_state_set():
    assert alter(a_set(), WANTED, ALIVE) == SyncStateSetAltered(frozenset({1, 2, 3}))


@pytest.mark.parametrize(
    ("broker_set", "sent", "alive", "refusal", "code", "said"),
    [
        (a_set(), wanted(members=frozenset({1, 2})), ALIVE, SyncStateSetRefused, 2013, "[1, 2] already"),
        (a_set(), wanted(master=2), ALIVE, NotTheMaster, 2002, "the master is 1, not 2"),
        (a_set(master=None), WANTED, ALIVE, NotTheMaster, 2002, "the master is none, not 1"),
        (a_set(), wanted(master_epoch=4), ALIVE, StaleMasterEpoch, 2000, "epoch 5, the request says 4"),
        (a_set(), wanted(master_epoch=6), ALIVE, StaleMasterEpoch, 2000, "epoch 5, the request says 6"),
        (a_set(), wanted(sync_state_set_epoch=6), ALIVE, StaleSyncStateSetEpoch, 2001, "epoch 7, the request says 6"),
        (a_set(), wanted(members=frozenset({1, 8, 9})), ALIVE, ReplicasInvalid, 2003, "no brokers [8, 9]"),
        (a_set(), WANTED, {1, 2}, ReplicasNotAlive, 2006, "[3] are not alive"),
        (a_set(), WANTED, {2, 3}, ReplicasNotAlive, 2006, "[1] are not alive"),
        (a_set(), wanted(members=frozenset({2, 3})), ALIVE, SyncStateSetRefused, 2013, "lacks its master"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_was_sent_and_what_is(broker_set, sent, alive, refusal, code, said):
    with pytest.raises(refusal) as refused:
        alter(broker_set, sent, alive)
    assert refused.value.code == code
    assert said in str(refused.value)


def test_the_first_check_that_fails_is_told():
    everything_wrong = wanted(master=2, master_epoch=1, sync_state_set_epoch=1, members=frozenset({9}))
    with pytest.raises(NotTheMaster):
        alter(a_set(), everything_wrong, set())
