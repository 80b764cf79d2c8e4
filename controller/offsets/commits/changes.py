"""What a decision changes in the offsets: rows as they were and as they become. Pure.

A change is stored first and applied then, so nobody reads an offset that a crash would take back.
"""

from typing import NamedTuple

from controller.offsets.values import QueueKey, StoredOffset


class OffsetChange(NamedTuple):
    """One row before and after a decision; `before` undoes what `after` did.

    Two changes of one key are stored in the order in which they were decided. Storing a change again changes nothing.
    """

    key: QueueKey
    #: What the decision was made on; None if the queue never had an offset.
    before: StoredOffset | None
    #: None: nothing is kept of it. A deleted offset is a value too, so that nothing from before comes again.
    after: StoredOffset | None
