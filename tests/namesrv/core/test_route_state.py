"""What happens while a long registration or departure rests between its steps; the rest is in `test_route_model.py`."""

import msgspec
import pytest
from builders import BROKER, CLUSTER, READ_ONLY, RELEASE, a_live_key, a_registration, text_of, topic_configs
from route_states import lose_connection, register_broker

from namesrv.core.registration.body import decode_registration
from namesrv.core.route_state import RouteState
from namesrv.core.values.cooperative import run_to_completion
from namesrv.core.values.effects import CloseConnection, HeartbeatKind
from namesrv.settings.config import NameServerConfig
from remoting.protocol.topic_kinds import TopicKind

MASTER = a_live_key()


@pytest.fixture
def state():
    return RouteState(NameServerConfig())


#: So many that they are taken in slices.
MANY = topic_configs(*(f"t{number}" for number in range(10_000)))


def registration_steps(state, request):
    return state.registration_steps(request, lambda: 0, lambda: False)


def register(state, **values):
    return register_broker(state, a_registration(**values), now_ms=0)


def test_topics_that_are_registered_alike_share_one_value_so_that_a_million_cost_little(state):
    register(state, topics=topic_configs("A", "B"))
    topics = state.tables.topics.of_broker(BROKER)
    assert topics["A"] is topics["B"]


def test_broker_that_registers_over_a_younger_connection_while_it_unregisters_stays(state):
    register(state, topics=MANY, connection_id=6)
    steps = state.unregistration_steps(CLUSTER, MASTER, 7, 0)
    next(steps)
    register(state, topics=MANY, connection_id=8)
    register(state, topics=MANY, connection_id=6)
    assert run_to_completion(steps).events == ()
    assert state.tables.live.get(MASTER)


def test_a_registration_in_slices_ends_however_much_others_change(state):
    steps = registration_steps(state, a_registration(topics=MANY))
    rests = 0
    for _ in steps:
        rests += 1
        register(state, broker_name=f"other-{rests}", connection_id=2)
    assert len(state.tables.topics.of_broker(BROKER)) == len(MANY)
    assert 0 < rests < 50


def test_a_departure_in_slices_shows_nothing_before_its_end(state):
    register(state, topics=MANY)
    steps = state.connection_loss_steps(1, 0)
    next(steps)
    assert state.tables.brokers.get(BROKER)
    assert len(state.tables.topics) == len(MANY)
    assert [event.set_removed for event in run_to_completion(steps).events] == [True]
    assert (len(state.tables.brokers), len(state.tables.topics), state.topic_counts.counts()) == (0, 0, {})


def test_broker_that_registers_while_its_departure_is_prepared_stays(state):
    request = a_registration(topics=MANY)
    run_to_completion(registration_steps(state, request))
    steps = state.connection_loss_steps(1, 0)
    next(steps)
    run_to_completion(registration_steps(state, msgspec.structs.replace(request, connection_id=2)))
    assert run_to_completion(steps).events == ()
    assert len(state.tables.topics.of_broker(BROKER)) == len(MANY)
    lose_connection(state, 2, now_ms=0)
    assert len(state.tables.topics) == 0


def test_a_departure_in_slices_takes_what_happened_meanwhile_into_account(state):
    register(state, topics=MANY)
    steps = state.unregistration_steps(CLUSTER, MASTER, 1, 0)
    next(steps)
    register(state, broker_name="broker-b", connection_id=2, topics=topic_configs("t1", "t2"))
    run_to_completion(steps)
    assert sorted(state.tables.topics.topics()) == ["t1", "t2"]
    assert state.topic_counts.counts()[CLUSTER][TopicKind.NORMAL] == 2


def registered_with(state, topics, *, counter=1, connection_id=1):
    """Return a registration as it is decoded from a broker's text: the difference to what it said before."""
    request = a_registration(topics={}, connection_id=connection_id)
    before = state.previous_registration(request)
    text = text_of({topic: settings.perm for topic, settings in topics.items()}, counter=counter)
    body = run_to_completion(
        decode_registration(text, crc32=0, compressed=False, version=RELEASE, unix_ms=0, previous=before)
    )
    return msgspec.structs.replace(
        request, data_version=body.data_version, topics=body.topics, reported=body.reported, base=before
    )


def changed_a_little(topics):
    return topics | topic_configs("t1", perm=READ_ONLY)


def test_difference_is_not_applied_to_a_broker_that_lost_its_topics(state):
    run_to_completion(registration_steps(state, registered_with(state, MANY)))
    steps = registration_steps(state, registered_with(state, changed_a_little(MANY), counter=2, connection_id=2))
    next(steps)
    lose_connection(state, 1, now_ms=0)
    assert run_to_completion(steps) is None
    assert len(state.tables.topics) == 0


def test_nor_to_a_broker_one_of_whose_topics_was_deleted(state):
    run_to_completion(registration_steps(state, registered_with(state, MANY)))
    steps = registration_steps(state, registered_with(state, changed_a_little(MANY), counter=2))
    next(steps)
    state.delete_topic("t5", None)
    assert run_to_completion(steps) is None


def test_expired_brokers_leave_in_steps_unless_they_send_a_heartbeat_meanwhile(state):
    register(state, topics=MANY)
    register(state, broker_name="broker-b", connection_id=2)
    steps = state.expiry_steps(120_001)
    next(steps)
    state.heartbeat(CLUSTER, a_live_key(broker_name="broker-b"), HeartbeatKind.HEARTBEAT, 120_001)
    outcome = run_to_completion(steps)
    assert [event.broker_name for event in outcome.events] == [BROKER]
    assert outcome.effects == (CloseConnection(1),)


def test_heartbeat_does_not_keep_a_broker_that_unregisters(state):
    register(state, topics=MANY)
    steps = state.unregistration_steps(CLUSTER, MASTER, 1, 0)
    next(steps)
    state.heartbeat(CLUSTER, MASTER, HeartbeatKind.HEARTBEAT, 5)
    run_to_completion(steps)
    assert state.tables.brokers.get(BROKER) is None
