"""Every event that is logged of locks at brokers; part of the catalogue in `log_events.py`."""

from typing import Final

from serving.logging.events import Level, LogEvent

BROKER_LOCK_OVERLAP: Final = LogEvent(
    name="broker_lock_overlap",
    level=Level.WARNING,
    keys=("cluster", "group", "topic", "broker", "queue_id", "clients"),
    meaning="Two clients of an orderly group hold the same queue at the same time, so both may consume it: messages "
    "come twice, and out of order.",
    advice="After a failover it ends by itself within 30 s, and `lockReplay` prevents it. Otherwise look for two "
    "clients with one id, and for somebody who unlocks queues of others. See `/v1/locks/overlaps`.",
)
BROKER_LOCK_OVERLAP_ENDED: Final = LogEvent(
    name="broker_lock_overlap_ended",
    level=Level.INFO,
    keys=("cluster", "group", "topic", "broker", "queue_id", "clients", "reason", "duration_ms"),
    meaning="One of the two does not hold the queue any more: it `released` it, its lock `expired`, or it is `lost`.",
)
BROKER_LOCKS_REPLAYED: Final = LogEvent(
    name="broker_locks_replayed",
    level=Level.INFO,
    keys=(
        "cluster",
        "broker",
        "addr",
        "granted",
        "held_by_another",
        "unanswered",
        "unconfirmed",
        "late",
        "duration_ms",
    ),
    meaning="A broker set has a new master, and it got the locks of their holders. `held_by_another`: another client "
    "was faster; `unanswered`: the master did not answer, so the lock may be taken or not; `unconfirmed`: the client "
    "did not confirm in time that it holds the queue; `late`: granted later than 500 ms after the promotion.",
)
BROKER_LOCKS_RELEASED: Final = LogEvent(
    name="broker_locks_released",
    level=Level.INFO,
    keys=("cluster", "group", "client", "broker", "queues"),
    meaning="Locks at a master were given up for a client that is lost, or that lost the queues after a replay.",
)
ORDERLY_GROUPS_LEFT_OUT: Final = LogEvent(
    name="orderly_groups_left_out",
    level=Level.WARNING,
    keys=("groups",),
    meaning="So many groups that are declared orderly are not polled, so no lock of theirs is replayed and no overlap "
    "found: 5,000 pairs of a group and a master are the limit of a cluster, and 16 clusters.",
    advice="Withdraw groups that are not in use (`/v1/locks/withdraw-orderly`).",
)

HOLDING: Final = (
    BROKER_LOCK_OVERLAP,
    BROKER_LOCK_OVERLAP_ENDED,
    BROKER_LOCKS_REPLAYED,
    BROKER_LOCKS_RELEASED,
    ORDERLY_GROUPS_LEFT_OUT,
)
