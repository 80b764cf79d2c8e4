"""Families of the offset manager: offsets that went back, what operators and the guard changed, and locks.

A row is about one group in one topic on one broker set, with counts of its queues: a failover of a set with 10,000
queues of groups writes some thousand rows. Single queues are not recorded.
Imports nothing but the standard library, as `schemas.py`.
"""

from types import MappingProxyType
from typing import Final

from history.columns import Column, RowFamily, Type

_GROUP: Final = Column("group", Type.STRING, "the consumer group")
_TOPIC: Final = Column("topic", Type.STRING, "the topic")
_EPOCH: Final = Column("master_epoch", Type.LONG, "master epoch of the set then; null where no controller elects")

#: Causes of a regression that nobody has wanted.
UNWANTED_CAUSES: Final = ("role_change", "restart", "disk_replaced")

OFFSET_REGRESSION: Final = RowFamily(
    "offset_regression",
    (
        _GROUP,
        _TOPIC,
        Column(
            "cause",
            Type.STRING,
            "why: role_change, restart, disk_replaced; operator_reset, guard, guard_or_rewind, rewind or deleted, "
            "which somebody has wanted",
        ),
        Column("queues", Type.LONG, "queues whose offset went back, those without one afterwards too"),
        Column("removed", Type.LONG, "queues of these that have no offset any more"),
        Column(
            "messages_again", Type.LONG, "messages that are read again if all are still there; without removed queues"
        ),
        _EPOCH,
        Column("former_addr", Type.STRING, "host:port of the broker that was read before"),
        Column("interval_ms", Type.LONG, "ms between the two readings: it went back within that time"),
    ),
    MappingProxyType({"regressed": "offsets of a group in a topic were smaller than at the reading before"}),
)

OFFSET_CHANGE_BY_OPERATOR: Final = RowFamily(
    "offset_change_by_operator",
    (
        _GROUP,
        _TOPIC,
        Column("writer", Type.STRING, "who requested it"),
        Column("target", Type.STRING, "where it was changed: manager (its own store) or broker"),
        Column("change_id", Type.STRING, "the change that `undo` takes back; null where there is none"),
        Column("queues", Type.LONG, "queues that were changed"),
        Column("created", Type.LONG, "queues of these that had no offset before"),
        Column("removed", Type.LONG, "queues that have none from then on"),
        Column("messages_again", Type.LONG, "messages between the offsets, over the queues that were put back"),
        Column("messages_skipped", Type.LONG, "messages between them, over the queues that were put forward"),
        Column("failed", Type.LONG, "queues that were to be changed, and were not for certain"),
    ),
    MappingProxyType(
        {
            "reset": "an operator set offsets",
            "restore": "offsets of the mirror were written to brokers",
            "undo": "a reset or a restore was taken back",
            "seed": "offsets were stored where there were none",
            "clone": "a group got the offsets of another one",
            "delete": "offsets were deleted",
            "import": "offsets of a file were stored",
        }
    ),
)

GUARD_OUTCOME: Final = RowFamily(
    "guard_outcome",
    (
        _GROUP,
        _TOPIC,
        _EPOCH,
        Column("queues", Type.LONG, "queues that were looked at"),
        Column("pushed", Type.LONG, "queues whose saved offset was stored again"),
        Column("set_to_max", Type.LONG, "queues that were set to their max at the promotion, or to 0"),
        Column("left", Type.LONG, "queues in which nothing had to be done, or the group had moved on"),
        Column("reported", Type.LONG, "queues in which nothing is certain: an operator decides"),
        Column("failed", Type.LONG, "queues whose offset was not stored, or not for certain"),
        Column("messages_spared", Type.LONG, "messages that are not read again, as offsets were pushed"),
        Column(
            "messages_at_risk", Type.LONG, "messages between shown and saved offset, over reported and failed queues"
        ),
        Column("reasons", Type.STRINGS, "what was decided and why, with counts: `push behind 12`"),
        Column("duration_ms", Type.LONG, "run: ms that it took"),
        Column("problem", Type.STRING, "run: why nothing, or not all, was decided; null: all was"),
    ),
    MappingProxyType(
        {"guarded": "a group in a topic after a role change or a restart", "run": "the guard went through a set"}
    ),
)

LOCK_EVENT: Final = RowFamily(
    "lock_event",
    (
        _GROUP,
        _TOPIC,
        Column("queue_id", Type.LONG, "overlaps and forced_release: the queue"),
        _EPOCH,
        Column("queues", Type.LONG, "replayed: queues with a holder, which are the sum of those that follow"),
        Column("granted", Type.LONG, "replayed: queues that the new master has locked for their holder"),
        Column("held_by_another", Type.LONG, "replayed: queues that somebody else had locked there before"),
        Column("unanswered", Type.LONG, "replayed: queues of which the master's answer did not come in time"),
        Column("unconfirmed", Type.LONG, "replayed: queues that were not sent, as their holder did not confirm them"),
        Column("duration_ms", Type.LONG, "replayed: from the promotion to the last lock; overlap_ended: how long"),
        Column("clients", Type.STRINGS, "overlaps: the two clients"),
        Column("reason", Type.STRING, "overlap_ended: why: released, expired or lost"),
        Column("writer", Type.STRING, "forced_release: who requested it"),
        Column("sessions", Type.LONG, "session_expired: sessions that were not renewed"),
    ),
    MappingProxyType(
        {
            "replayed": "a new master got the locks of a group in a topic",
            "overlap_began": "two clients were proved to hold one queue at the same time",
            "overlap_ended": "one of them does not any more",
            "forced_release": "an operator took a queue from its holder",
            "session_expired": "sessions of the lock service ended, as clients did not renew them",
        }
    ),
)
