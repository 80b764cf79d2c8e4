"""Whether looks at messages prove that the end of the old log is lost. Pure.

A broker has one log for all its queues, so one of them proves it for all:

- A saved offset lies behind the old messages of its queue. But where all that the old master had when its table was
  read is in this log, it lay behind the end of its queue there too: some client has committed it, or its topic was made
  anew. So it is where that log had no room for so many messages.
- A new message lies before the end of the log that was read, and nothing of that log lies behind it.
"""

from dataclasses import dataclass
from typing import Final

from controller.offsets.guard.boundaries import Boundary, PlacedMessage
from controller.offsets.guard.queue_view import QueueView

#: A message takes more bytes in the log: its fields without topic, body and addresses.
MESSAGE_BYTES_MIN: Final = 80


@dataclass(slots=True)
class LostTail:
    """What the looks of one run have shown."""

    boundary: Boundary
    #: All that the old master had is in the log.
    has_saved_log: bool
    #: What was in the log that was read, and is in this one, lies before it as far as is known.
    _kept_below: int = 0
    #: The first new message that was seen before the end of the log that was read.
    _new_at: int | None = None
    #: By how many messages a saved offset lies behind the old ones of its queue, at least; None: none does.
    _behind: int | None = None

    @property
    def is_proved(self) -> bool:
        """Whether the tail is lost. Later looks may show that it is not."""
        if self._new_at is not None and self._new_at >= self._kept_below:
            return True
        if self._behind is None or self.has_saved_log:
            return False
        end = self.boundary.log_end
        return end is None or self._behind * MESSAGE_BYTES_MIN <= end - self._kept_below

    def looked(self, message: PlacedMessage | None, saved: int, view: QueueView) -> None:
        """Take a message of a queue, and what is known of the queue with it; `saved` is the highest offset there."""
        if message is not None:
            self._take_place(message)
        # A queue without any message is most often that of a topic that was deleted.
        if view.end_of_old is not None and saved > view.end_of_old and view.max_offset:
            behind = saved - view.end_of_old
            self._behind = behind if self._behind is None else min(behind, self._behind)

    def _take_place(self, message: PlacedMessage) -> None:
        place = message.physical_offset
        if self.boundary.is_former(message):
            self._kept_below = max(self._kept_below, place + 1)
        elif self.boundary.shows_loss(message):
            self._new_at = place if self._new_at is None else min(place, self._new_at)
