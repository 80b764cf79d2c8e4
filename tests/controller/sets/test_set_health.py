"""How a set is, at a glance: its words stand in the HTTP views and label metrics."""

import pytest
from controller_builders import a_set

from controller.sets.broker_set import SetHealth, health_of

ALL = frozenset({1, 2, 3})


@pytest.mark.parametrize(
    ("values", "alive", "state"),
    [
        ({"sync_state_set": ALL}, ALL, SetHealth.HEALTHY),
        ({"sync_state_set": ALL}, {1, 2, 3, 99}, SetHealth.HEALTHY),
        ({"sync_state_set": frozenset({1, 2})}, ALL, SetHealth.UNDER_REPLICATED),
        ({"sync_state_set": ALL}, {1, 2}, SetHealth.UNDER_REPLICATED),
        ({"sync_state_set": ALL}, {2, 3}, SetHealth.NO_MASTER),
        ({"sync_state_set": ALL, "master": None}, ALL, SetHealth.NO_MASTER),
        ({"sync_state_set": ALL}, set(), SetHealth.NO_MASTER),
    ],
    ids=[
        "everybody lives and is in sync",
        "a stranger lives too",
        "one is not in sync",
        "one that is in sync is dead",
        "the master is dead",
        "nobody is master",
        "nobody lives",
    ],
)
def test_health_of_a_set_follows_its_brokers(values, alive, state):
    assert health_of(a_set(**values), alive) is state
