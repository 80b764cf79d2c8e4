"""Names that an operator may have meant. Pure."""

import difflib
from collections.abc import Iterable
from typing import Final

NAMES_MAX: Final = 3
#: Of more names only those that contain the wanted one are found: comparing takes 20 us a name.
COMPARED_MAX: Final = 5_000
_LIKENESS_MIN: Final = 0.6


def nearest_names(wanted: str, names: Iterable[str]) -> list[str]:
    """Return at most NAMES_MAX names that are like the wanted one, the likest first."""
    by_lower = {each.lower(): each for each in names}
    key = wanted.lower()
    if key in by_lower:
        return [by_lower[key]]
    contained = sorted((each for each in by_lower if key in each), key=lambda each: (len(each), each))
    compared = list(by_lower) if len(by_lower) <= COMPARED_MAX else []
    like = difflib.get_close_matches(key, compared, NAMES_MAX, _LIKENESS_MIN)
    return [by_lower[each] for each in dict.fromkeys([*like, *contained])][:NAMES_MAX]


def unknown_sentence(what: str, wanted: str, names: Iterable[str]) -> str:
    """Return the sentence for a topic, a broker or an option that nobody has, with what may have been meant."""
    found = nearest_names(wanted, names)
    return f"no {what} {wanted}" + (f"; did you mean {', '.join(found)}?" if found else "")
