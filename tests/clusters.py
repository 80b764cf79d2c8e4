"""State that is filled with registrations."""

from builders import a_registration
from route_states import register_broker


def register(state, broker_name="broker-a", broker_id=0, now_ms=0, **values):
    """Register a broker and return what came of it."""
    return register_broker(state, a_registration(broker_name=broker_name, broker_id=broker_id, **values), now_ms)
