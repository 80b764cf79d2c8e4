"""Registrations with a valid default for every value, and state that is filled with them."""

from namesrv.registration import Registration
from remoting.shapes.route import DataVersion, TopicConfig

CLUSTER = "DefaultCluster"


def topics(*names, **settings):
    return {name: TopicConfig(topic_name=name, **settings) for name in names}


def a_registration(broker_name="broker-a", broker_id=0, **values):
    defaults = {
        "cluster": CLUSTER,
        "address": f"{broker_name}-{broker_id}:10911",
        "connection_id": 1,
        "version": 513,
        "data_version": DataVersion(1, 0, 1_700_000_000_000),
        "topics": topics("TopicTest", broker_name),
    }
    return Registration(broker_name=broker_name, broker_id=broker_id, **(defaults | values))


def register(state, broker_name="broker-a", broker_id=0, now_ms=0, **values):
    """Register a broker and return what came of it."""
    return state.register_broker(a_registration(broker_name, broker_id, **values), now_ms)
