"""How well the mirror of a broker set knows it. Pure."""

from dataclasses import dataclass

from controller.offsets.mirror.changes import ReadState
from controller.offsets.mirror.masters import SetName


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorStatus:
    """How well the mirror of a broker set knows it."""

    set_name: SetName
    #: Of the newest reading, which may be one of an earlier process; None if there was none.
    read: ReadState | None
    #: How long ago it was requested; None without one of this process.
    age_ms: int | None
    is_stale: bool
    entries: int
    #: Why the last reading failed; None if it did not.
    error: str | None
