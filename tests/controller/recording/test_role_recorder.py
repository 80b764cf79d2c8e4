"""Changes of masters in the history: who led where before and after, since when, and how long clients were held."""

import pytest
from callback_builders import a_change
from controller_builders import a_set
from fakes.clock import FakeClock
from fakes.recorded_rows import recorded_events

from controller.roles.broker_roles import RoleHolds
from controller.roles.events import HoldEnded, MasterChanged, MasterServes


def rows(folder, *events):
    written = recorded_events(folder, "controller", events)
    envelope = {"schema_version", "event_id", "event_time", "mono_us", "ns_id", "boot_id", "source"}
    return [{name: value for name, value in row.items() if name not in envelope} for row in written]


ELECTED = {
    "cluster": "DefaultCluster",
    "broker_name": "broker-a",
    "broker_id": 2,
    "broker_addr": "10.0.0.2:30911",
    "failover_id": "DefaultCluster/broker-a/6",
    "master_epoch": 6,
    "old_master": 1,
    "new_master": 2,
    "former_addr": "10.0.0.1:30911",
}


def test_change_of_a_master_is_a_row_with_both_addresses_and_its_end_another(tmp_path):
    changed = MasterChanged(change=a_change(), ago_ms=0)
    assert rows(tmp_path, changed, MasterServes(change=a_change(), after_ms=230)) == [
        {"event_type": "master_changed", **ELECTED},
        {"event_type": "master_serves", **ELECTED, "duration_ms": 230},
    ]


@pytest.mark.parametrize(
    ("change", "absent"),
    [
        (a_change(old=None), {"old_master", "former_addr"}),
        (a_change(new=None), {"new_master", "broker_id", "broker_addr"}),
    ],
)
def test_row_without_a_master_before_or_after_has_no_such_columns(tmp_path, change, absent):
    (row,) = rows(tmp_path, MasterChanged(change=change, ago_ms=0))
    whole = {"event_type": "master_changed", **ELECTED}
    assert row == {name: value for name, value in whole.items() if name not in absent}


def test_what_a_new_leader_repeats_is_not_recorded_again(tmp_path):
    repeated = a_change(old=None)._replace(is_repeated=True)
    changed = MasterChanged(change=repeated, ago_ms=0)
    assert rows(tmp_path, changed, MasterServes(change=repeated, after_ms=20)) == []


def test_hold_is_a_row_once_it_has_ended(tmp_path):
    clock = FakeClock()
    told = []
    holds = RoleHolds(clock, lambda _, held_ms: told.append(HoldEnded(broker_set=a_set(), held_ms=held_ms)))
    holds.hold("broker-a", clock.now_ms() + 5_000)
    clock.pass_ms(400)
    holds.hold("broker-a", clock.now_ms() + 5_000)
    clock.pass_ms(150)
    holds.release("broker-a")
    holds.release("broker-a")
    assert rows(tmp_path, *told) == [
        {
            "event_type": "hold_ended",
            "cluster": "DefaultCluster",
            "broker_name": "broker-a",
            "broker_id": 1,
            "broker_addr": "10.0.0.1:30911",
            "master_epoch": 5,
            "new_master": 1,
            "duration_ms": 550,
        }
    ]
