"""What is recorded of brokers that are turned away because another holds their broker id with a newer state."""

import pytest
from builders import a_broker_set, a_data_version, a_live_key, a_registration
from route_states import register_broker

from history.rows import Moment, RowMaker
from namesrv.core.route_state import RouteState
from namesrv.recording.rows import SetsChanged, is_recorded
from namesrv.settings.config import NameServerConfig

MOMENT = Moment(1_700_000_000_000_000, 1)
MASTER, SLAVE, SECOND_SLAVE = (a_live_key(broker_id=broker_id).address for broker_id in range(3))
STRANGER = "stranger:10911"


@pytest.fixture
def state():
    """A set of three members whose state is newer than that of who comes next."""
    state = RouteState(NameServerConfig())
    for broker_id in range(3):
        register_broker(
            state, a_registration(broker_id=broker_id, data_version=a_data_version(state_version=2)), now_ms=0
        )
    state.records_changes = True
    return state


def recorded(state, **values):
    """What becomes of a registration, as columns of rows."""
    outcome = register_broker(state, a_registration(**values), now_ms=4)
    happening = SetsChanged([event for event in outcome.events if is_recorded(event)], state.take_changes())
    return [row.columns for row in happening.rows(RowMaker("host_9876", 1, "namesrv"), MOMENT)]


def test_conflict_alone_does_not_record_the_set(state):
    (row,) = recorded(state, address=STRANGER)
    assert (row["event_type"], row["broker_id"], row["broker_addr"]) == ("conflict", 0, STRANGER)
    assert "set_ids" not in row
    assert "silent_ms" not in row
    assert state.tables.brokers.get("broker-a") == a_broker_set(broker_ids=range(3))


def test_member_removed_by_a_conflict_is_recorded_with_its_set(state):
    refused, left = recorded(state, address=SECOND_SLAVE)
    assert (refused["event_type"], refused["broker_id"]) == ("conflict", 0)
    assert "set_ids" not in refused
    assert (left["event_type"], left["broker_id"], left["silent_ms"]) == ("conflict", 2, 4)
    assert (left["set_ids"], left["set_addrs"]) == ((0, 1), (MASTER, SLAVE))
