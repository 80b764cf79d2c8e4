"""Every event that is logged of the mirror of brokers' offsets; part of the catalogue in `log_events.py`."""

from typing import Final

from serving.logging.events import Level, LogEvent

MIRROR_LOADED: Final = LogEvent(
    name="offset_mirror_loaded",
    level=Level.INFO,
    keys=("sets", "entries", "regressions", "duration_ms"),
    meaning="The mirror of brokers' offsets was read from `mirror.db`: so many broker sets, groups in topics, and "
    "regressions of before. Masters are read from here on.",
)
MIRROR_MOVED_ASIDE: Final = LogEvent(
    name="offset_mirror_moved_aside",
    level=Level.ERROR,
    keys=("error",),
    meaning="`mirror.db` could not be read and is `mirror.db.moved-aside` now; it replaces an earlier one. The "
    "mirror begins anew with what masters have now. What was lost: offsets of earlier moments, the list of "
    "regressions, and after a start what went back while no manager ran.",
    advice="Check the disk.",
)
MIRROR_BEGAN_WITHOUT_FILE: Final = LogEvent(
    name="offset_mirror_began_without_file",
    level=Level.ERROR,
    keys=(),
    meaning="`mirror.db` could not be opened for 30 s, for what `offset_mirror_store_failed` says. The mirror begins "
    "with what masters have now: what went back while no manager ran is not found, and until the file is open the "
    "guard sets nothing right that an earlier process had read. The file is tried again, at least once a minute; what "
    "it has counts from then on (`offset_mirror_loaded`).",
    advice="Do what `error` of `offset_mirror_store_failed` says; nothing else is needed, no restart either.",
)
MIRROR_STORE_FAILED: Final = LogEvent(
    name="offset_mirror_store_failed",
    level=Level.ERROR,
    keys=("error",),
    meaning="The mirror could not be written to `mirror.db`, or opened at the start; logged once until it can. In "
    "memory the mirror goes on, at a start after 30 s (`offset_mirror_began_without_file`), but earlier moments are "
    "not kept, and a start would know older offsets.",
    advice="Do what `error` says.",
)
MIRROR_STORED_AGAIN: Final = LogEvent(
    name="offset_mirror_stored_again",
    level=Level.INFO,
    keys=("failures",),
    meaning="The mirror is written again, with all that is new, after so many attempts that failed.",
)
MIRROR_CLOCK_SET_BACK: Final = LogEvent(
    name="offset_mirror_clock_set_back",
    level=Level.WARNING,
    keys=("sets",),
    meaning="The clock of this process was set back by more than an hour. Of so many broker sets `mirror.db` had "
    "moments that are still to come: they are not kept any more; earlier ones and the newest offsets are.",
    advice="Check what sets this machine's clock; one that steps breaks more than this.",
)
MIRROR_CLOCK_LEAPT: Final = LogEvent(
    name="offset_mirror_clock_leapt",
    level=Level.WARNING,
    keys=("leap_ms",),
    meaning="The clock of this machine went ahead by so much more than time has passed, or the machine was suspended. "
    "Offsets of earlier moments stay in `mirror.db` for as long as without it; moments from now on have the new time.",
    advice="Correct the clock if it is wrong: moments that are still to come by it are left out then.",
)
MIRROR_STALE: Final = LogEvent(
    name="offset_mirror_stale",
    level=Level.WARNING,
    keys=("broker", "cluster", "addr", "failures", "error"),
    meaning="The offsets of a master could not be read so many times in a row; logged once until they can. Its mirror "
    "grows old: after a failover only these older offsets could be restored.",
    advice="Check that the broker answers at `addr`, and with ACL that this manager's user may send 43, 28 and 1007.",
)
MIRROR_FRESH: Final = LogEvent(
    name="offset_mirror_fresh",
    level=Level.INFO,
    keys=("broker", "cluster", "failures"),
    meaning="The offsets of that master are read again, after so many attempts that failed.",
)
OFFSETS_WENT_BACK: Final = LogEvent(
    name="offsets_went_back",
    level=Level.WARNING,
    keys=("broker", "cluster", "cause", "queues", "messages_again", "groups", "topics"),
    meaning="Offsets of so many queues went back, or are gone, and nobody wanted that: another master had older ones "
    "(`role_change`), the master has started with an older file (`restart`), or its log ends earlier than before "
    "(`disk_replaced`). `messages_again` would be read again if they are all still there; `groups` and `topics` name "
    "up to ten.",
    advice="See `/v1/offsets/regressions`.",
)
OFFSETS_SET_BACK: Final = LogEvent(
    name="offsets_set_back",
    level=Level.INFO,
    keys=("broker", "cluster", "cause", "queues", "messages_again", "groups", "topics"),
    meaning="Somebody has set offsets back: a client or a tool that talks to brokers (`rewind`), the guard (`guard`), "
    "either of them "
    "(`guard_or_rewind` where another manager leads and the master is new), an operator by this manager "
    "(`operator_reset`), or they were deleted (`deleted`). They are not restored.",
)
OFFSETS_REFUSED: Final = LogEvent(
    name="broker_offsets_unusable",
    level=Level.WARNING,
    keys=("broker", "cluster", "entries", "first", "error"),
    meaning="A master shows entries that are no offsets of a group in a topic; `first` is one. The mirror keeps what "
    "they were before. Logged when they become so.",
    advice="Find out who has committed them; the broker removes an entry with its group or topic.",
)
MIRRORED_SET_DROPPED: Final = LogEvent(
    name="mirrored_set_dropped",
    level=Level.WARNING,
    keys=("broker", "cluster", "absent_since_unix_ms"),
    meaning="Nobody has shown this broker set for 14 days, or too many others have vanished since: its offsets are not "
    "kept any more.",
)
EARLIER_RESETS_UNKNOWN: Final = LogEvent(
    name="earlier_resets_unknown",
    level=Level.ERROR,
    keys=("operations", "error"),
    meaning="At the start so many operations of `offset-operations.db`, or the file as a whole, could not be read: "
    "`error` says what is wrong with the newest one. Nobody knows which queues they have set back. Where the mirror "
    "has read no offsets of a broker set since then, the guard reports all its queues after a failover "
    "(`may_be_reset`), and writes none.",
    advice="Do what `error` says, then restart the manager.",
)

MIRROR: Final = (
    MIRROR_LOADED,
    MIRROR_MOVED_ASIDE,
    MIRROR_BEGAN_WITHOUT_FILE,
    MIRROR_STORE_FAILED,
    MIRROR_STORED_AGAIN,
    MIRROR_CLOCK_SET_BACK,
    MIRROR_CLOCK_LEAPT,
    MIRROR_STALE,
    MIRROR_FRESH,
    OFFSETS_WENT_BACK,
    OFFSETS_SET_BACK,
    OFFSETS_REFUSED,
    MIRRORED_SET_DROPPED,
    EARLIER_RESETS_UNKNOWN,
)
