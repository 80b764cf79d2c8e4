"""Families of the offset manager: offsets that jumped, what repairs and operators changed, and locks.

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

#: Causes of a jump that nobody has wanted.
UNWANTED_CAUSES: Final = ("failover", "restart", "lost")

OFFSET_JUMP: Final = RowFamily(
    "offset_jump",
    (
        _GROUP,
        _TOPIC,
        Column(
            "cause",
            Type.STRING,
            "failover; restart; lost: the same, and the log had lost its end; reset or deleted: somebody did that",
        ),
        Column("queues", Type.LONG, "queues whose offset jumped, those without one afterwards too"),
        Column("removed", Type.LONG, "queues of these that have no offset any more"),
        Column(
            "messages_again", Type.LONG, "messages that are read again if all are still there; without removed queues"
        ),
        Column("messages_skipped", Type.LONG, "messages that were passed faster than any group reads"),
        _EPOCH,
        Column("former_addr", Type.STRING, "host:port of the broker that was read before"),
        Column("interval_ms", Type.LONG, "ms between the two readings: it jumped within that time"),
    ),
    MappingProxyType({"jumped": "offsets of a group in a topic went back, or further forward than a group reads"}),
)

OFFSET_CHANGE_BY_OPERATOR: Final = RowFamily(
    "offset_change_by_operator",
    (
        _GROUP,
        _TOPIC,
        Column("writer", Type.STRING, "who requested it"),
        Column("target", Type.STRING, "where it was changed: manager (its own store) or broker"),
        Column("change_id", Type.STRING, "what `undo` takes back; repair: the run; null where there is none"),
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
            "restore": "offsets of a reading were written to brokers",
            "undo": "a restore, an import or an undo was taken back",
            "repair": "a repair that was only reported was applied",
            "delete": "offsets were deleted",
            "import": "offsets of a file were stored",
        }
    ),
)

OFFSET_REPAIR: Final = RowFamily(
    "offset_repair",
    (
        _GROUP,
        _TOPIC,
        Column("run", Type.LONG, "the run: `rmq offsets repairs RUN`"),
        Column("cause", Type.STRING, "what happened to the master: found, gained, moved or restarted"),
        _EPOCH,
        Column("queues", Type.LONG, "run: queues that were looked at; repaired: those that were not right already"),
        Column("pushed", Type.LONG, "queues that were raised to an offset that is proved"),
        Column("set_back", Type.LONG, "queues that were set to where the logs part, or below"),
        Column("would_change", Type.LONG, "queues that `rmq offsets repair RUN` would write"),
        Column("not_proved", Type.LONG, "queues in which nothing proves where the group should go on"),
        Column("failed", Type.LONG, "queues that were to be written, and were not for certain"),
        Column("messages_spared", Type.LONG, "messages that are not read again, as offsets were pushed"),
        Column("messages_again", Type.LONG, "messages that are read again, over queues that would change or failed"),
        Column("messages_skipped", Type.LONG, "messages that may be skipped, over the same queues"),
        Column("reasons", Type.STRINGS, "outcomes and why, with counts: `pushed 12`"),
        Column("duration_ms", Type.LONG, "run: ms that it took"),
        Column("problem", Type.STRING, "run: why nothing, or not all, was decided; null: all was"),
    ),
    MappingProxyType(
        {
            "repaired": "a group in a topic after a change of the master, unless it was right already",
            "run": "the offsets of a set after a change of its master",
        }
    ),
)

LOCK_EVENT: Final = RowFamily(
    "lock_event",
    (
        _GROUP,
        _TOPIC,
        Column("queue_id", Type.LONG, "overlaps: the queue"),
        _EPOCH,
        Column("queues", Type.LONG, "replayed: queues with a holder, which are the sum of those that follow"),
        Column("granted", Type.LONG, "replayed: queues that the new master has locked for their holder"),
        Column("held_by_another", Type.LONG, "replayed: queues that somebody else had locked there before"),
        Column("unanswered", Type.LONG, "replayed: queues of which the master's answer did not come in time"),
        Column("unconfirmed", Type.LONG, "replayed: queues that were not sent, as their holder did not confirm them"),
        Column("duration_ms", Type.LONG, "replayed: from the promotion to the last lock; overlap_ended: how long"),
        Column("clients", Type.STRINGS, "overlaps: the two clients"),
        Column("reason", Type.STRING, "overlap_ended: why: released, expired or lost"),
    ),
    MappingProxyType(
        {
            "replayed": "a new master got the locks of a group in a topic",
            "overlap_began": "two clients were proved to hold one queue at the same time",
            "overlap_ended": "one of them does not any more",
        }
    ),
)
