"""A small valid example of every signal; a test writes only what it is about."""

from controller.scaling.autoscaler.signals import BrokerLoad, GroupSignals, QueueProgress, SetSignals, TopicSignals
from controller.scaling.resize.observation import GroupKind

NOW_MS = 1_772_409_600_000


def a_group(kind=GroupKind.CONCURRENT, clients=12, queues=8, lag=500, trend=40.0, consumed=100.0, *, holders=None):
    """A group of which each queue has this lag, trend and rate."""
    return GroupSignals(
        kind=kind,
        clients=None if clients is None else frozenset(f"client-{each}" for each in range(clients)),
        holders=None if holders is None else frozenset(f"client-{each}" for each in range(holders)),
        queues=tuple(QueueProgress("broker-a", each, lag, trend, consumed) for each in range(queues)),
    )


def a_set(queues=8, write_tps=140.0, **load):
    rates = write_tps if isinstance(write_tps, tuple) else (write_tps,) * queues
    return SetSignals(read_queues=queues, write_queues=queues, write_tps=rates, load=BrokerLoad(**load))


def a_topic(*, sets=None, groups=None, is_ordered=False, is_static=False, unix_ms=NOW_MS):
    return TopicSignals(
        topic="orders",
        unix_ms=unix_ms,
        sets={"broker-a": a_set()} if sets is None else sets,
        groups={"billing": a_group()} if groups is None else groups,
        is_ordered=is_ordered,
        is_static=is_static,
    )
