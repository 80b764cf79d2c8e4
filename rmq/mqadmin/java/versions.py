"""Names of releases by their number in clients' heartbeats, as `MQVersion` has them. Pure."""

from collections.abc import Iterator
from functools import cache
from typing import Final

_FIRST: Final = (
    "V3_0_0_SNAPSHOT V3_0_0_ALPHA1 V3_0_0_BETA1 V3_0_0_BETA2 V3_0_0_BETA3 V3_0_0_BETA4 V3_0_0_BETA5 "
    "V3_0_0_BETA6_SNAPSHOT V3_0_0_BETA6 V3_0_0_BETA7_SNAPSHOT V3_0_0_BETA7 V3_0_0_BETA8_SNAPSHOT V3_0_0_BETA8 "
    "V3_0_0_BETA9_SNAPSHOT V3_0_0_BETA9 V3_0_0_FINAL"
)
_LAST: Final = "HIGHER_VERSION"
#: Of 3.0 to 3.2, and of every minor release after them, the first and last patch.
_PATCHES: Final = {(3, 0): (1, 15), (3, 1): (0, 9), (3, 2): (0, 9)}
_PATCHES_OF_3: Final = (1, 9)
_PATCHES_LATER: Final = (0, 9)


def version_text(number: int) -> str:
    """Return the name of a release; a number beyond all of them is HIGHER_VERSION."""
    names = _names()
    return names[number] if 0 <= number < len(names) else _LAST


@cache
def _names() -> tuple[str, ...]:
    return (*_FIRST.split(), *_regular(), _LAST)


def _regular() -> Iterator[str]:
    for major, minor in ((major, minor) for major in (3, 4, 5) for minor in range(10)):
        first, last = _PATCHES.get((major, minor), _PATCHES_LATER if major > 3 else _PATCHES_OF_3)  # noqa: PLR2004  # the release
        for patch in range(first, last + 1):
            yield from (f"V{major}_{minor}_{patch}_SNAPSHOT", f"V{major}_{minor}_{patch}")
