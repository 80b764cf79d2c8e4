"""Every event that is logged of restores, undoes and imports; part of the catalogue in `log_events.py`."""

from typing import Final

from serving.logging.events import Level, LogEvent

RESTORE_BEGAN: Final = LogEvent(
    name="restore_began",
    level=Level.INFO,
    keys=("operation_id", "kind", "writer", "queues", "messages_again", "messages_skipped", "undoes", "pulls"),
    meaning="An operator's request writes the offsets of `queues` queues at brokers: a `restore` from the mirror, an "
    "`import` of a file, or the `undo` of an operation. As far as it is known, groups read so many messages again, and "
    "do not read so many. With `pulls` the operator has said that the groups pull, whatever their members show.",
)
RESTORE_ENDED: Final = LogEvent(
    name="restore_ended",
    level=Level.INFO,
    keys=("operation_id", "kind", "writer", "restored", "others", "reasons"),
    meaning="It has ended: brokers show the offsets of `restored` queues. What became of the `others` that were to be "
    "written is counted in `reasons`, and was answered for each queue.",
    advice="For `unverified` and `not_reached` repeat the request: what is written already is left.",
)
OPERATION_NOT_KEPT: Final = LogEvent(
    name="operation_not_kept",
    level=Level.ERROR,
    keys=("kind", "error"),
    meaning="Offsets of this manager were reset or imported, and what undoes that could not be written to "
    "`offset-operations.db`: its answer has no operation id. Or they were written at brokers, and what became of them "
    "could not be kept: its id undoes it all the same.",
    advice="Check the disk; to undo it without an id, reset to the `old` offsets of its answer.",
)

RESTORES: Final = (RESTORE_BEGAN, RESTORE_ENDED, OPERATION_NOT_KEPT)
