"""Changes of masters in the history: who led where before and after, since when, and how long clients were held."""

import pytest
from callback_builders import a_change
from controller_builders import a_set
from fakes.clock import FakeClock
from fakes.recorded_rows import recorded

from controller.recording.role_recorder import RoleRecorder
from controller.roles.holds import RoleHolds


def rows(folder, work):
    written = recorded(folder, "controller", lambda recorder: work(RoleRecorder(recorder)))
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
    def work(recorder):
        recorder.role_changed(a_change())
        recorder.master_serves(a_change(), 230)

    assert rows(tmp_path, work) == [
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
    (row,) = rows(tmp_path, lambda recorder: recorder.role_changed(change))
    whole = {"event_type": "master_changed", **ELECTED}
    assert row == {name: value for name, value in whole.items() if name not in absent}


def test_what_a_new_leader_repeats_is_not_recorded_again(tmp_path):
    def work(recorder):
        repeated = a_change(old=None)._replace(is_repeated=True)
        recorder.role_changed(repeated)
        recorder.master_serves(repeated, 20)

    assert rows(tmp_path, work) == []


def test_hold_is_a_row_once_it_has_ended(tmp_path):
    clock = FakeClock()

    def work(recorder):
        holds = RoleHolds(clock, lambda _, held_ms: recorder.hold_ended(a_set(), held_ms))
        holds.hold("broker-a", clock.now_ms() + 5_000)
        clock.pass_ms(400)
        holds.hold("broker-a", clock.now_ms() + 5_000)
        clock.pass_ms(150)
        holds.release("broker-a")
        holds.release("broker-a")

    assert rows(tmp_path, work) == [
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
