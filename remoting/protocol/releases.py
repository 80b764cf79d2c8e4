"""Names of releases by the number that peers send as their `version`. Pure. Source: docs/protocol/remoting.md 7."""

from typing import Final

_FIRST: Final = 213
_FIRST_MAJOR: Final = 4
_LAST: Final = _FIRST + 20 * 19 + 18


def release_name(version: int) -> str | None:
    """Return the name of a release from 4.0.0 to 5.9.9 as Java has it, such as V5_5_0; None for another number."""
    if not _FIRST <= version <= _LAST:
        return None
    steps, is_snapshot = divmod(version - _FIRST + 1, 2)
    name = f"V{_FIRST_MAJOR + steps // 100}_{steps // 10 % 10}_{steps % 10}"
    return name if is_snapshot else f"{name}_SNAPSHOT"
