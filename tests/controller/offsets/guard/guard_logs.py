"""Logs of brokers as lists: which message is where, in an old log and in a new one that parts from it."""

from dataclasses import dataclass

from controller.offsets.guard.boundaries import PlacedMessage
from controller.offsets.guard.queue_view import QueueLook

BOOT_MS = 1_700_000_000_000
#: When the mirror read the offsets.
READ_MS = BOOT_MS - 30_000
#: When the old messages were stored.
OLD_MS = BOOT_MS - 60_000
#: When the new ones were stored: after the margin for clocks.
NEW_MS = BOOT_MS + 6_000
#: Bytes of a message.
SIZE = 100


def message(*, physical=0, stored=None):
    return PlacedMessage(physical, stored)


@dataclass
class Queue:
    """One queue that is alone in its log: `old` messages up to the promotion, then `new` ones; some have expired.

    Between them are `late` ones, which were stored as the mirror read the offsets.
    """

    old: int
    new: int
    expired: int = 0
    late: int = 0

    @property
    def end(self):
        return self.old + self.late + self.new

    @property
    def parts_at(self):
        """Where in the log the new messages begin."""
        return self.old * SIZE

    def look(self, offset):
        is_there = self.expired <= offset < self.end
        is_late = self.old <= offset < self.old + self.late
        stored = OLD_MS if offset < self.old else READ_MS if is_late else NEW_MS
        return QueueLook(
            message=PlacedMessage(offset * SIZE, stored) if is_there else None,
            min_offset=self.expired,
            max_offset=self.end,
        )
