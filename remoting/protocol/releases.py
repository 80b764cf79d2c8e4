"""Names of releases by the number that peers send as their `version`. Pure. Source: docs/protocol/remoting.md 7."""

from typing import Final

_FIRST_SNAPSHOT: Final = 212
_FIRST_MAJOR: Final = 4
_LAST: Final = 611


def release_name(version: int) -> str | None:
    """Return the name of a release up to 5.9.9 as Java has it, such as V5_5_0; None for another number."""
    if not _FIRST_SNAPSHOT <= version <= _LAST:
        return None
    steps, is_release = divmod(version - _FIRST_SNAPSHOT, 2)
    name = f"V{_FIRST_MAJOR + steps // 100}_{steps // 10 % 10}_{steps % 10}"
    return name if is_release else f"{name}_SNAPSHOT"
