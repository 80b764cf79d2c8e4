"""State that is filled with registrations."""

from builders import a_registration


def register(state, broker_name="broker-a", broker_id=0, now_ms=0, **values):
    """Register a broker and return what came of it."""
    return state.register_broker(a_registration(broker_name=broker_name, broker_id=broker_id, **values), now_ms)
