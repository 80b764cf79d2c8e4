"""Events of a RouteState whose steps are carried out at once, as no other event comes in between."""

from namesrv.core.values.cooperative import run_to_completion


def register_broker(state, request, now_ms):
    return run_to_completion(state.registration_steps(request, lambda: now_ms, lambda: request.is_late))


def unregister_broker(state, cluster, key, connection_id, now_ms):
    return run_to_completion(state.unregistration_steps(cluster, key, connection_id, now_ms))


def lose_connection(state, connection_id, now_ms):
    return run_to_completion(state.connection_loss_steps(connection_id, now_ms))


def expire(state, now_ms):
    return run_to_completion(state.expiry_steps(now_ms))


def remove_topics(table, broker_name, topics):
    """Remove topics of a set from a table of queues or mappings."""
    table.discard(run_to_completion(table.prepare_removal(broker_name, dict.fromkeys(topics))))
