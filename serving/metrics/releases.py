"""The release of a peer, by the ordinal that it sends as its version (Java's `MQVersion.Version`)."""

from typing import Final

#: What stands for an ordinal that no release from 4.0.0 to 5.9.9 has.
UNKNOWN: Final = "unknown"

_FIRST_SNAPSHOT: Final = 212
_LAST: Final = 611


def release_of(ordinal: int) -> str:
    """Return the release as text, `5.3.1` or `5.4.0-SNAPSHOT`.

    From 4.0.0 on each minor release has ten patch releases, and each of those a snapshot before it.
    """
    if not _FIRST_SNAPSHOT <= ordinal <= _LAST:
        return UNKNOWN
    number, is_release = divmod(ordinal - _FIRST_SNAPSHOT, 2)
    minor, patch = divmod(number, 10)
    name = f"{4 + minor // 10}.{minor % 10}.{patch}"
    return name if is_release else f"{name}-SNAPSHOT"
