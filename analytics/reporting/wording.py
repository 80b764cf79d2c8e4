"""Numbers, times and names as people read them."""

import html
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

#: One row of a published result.
Row = Mapping[str, Any]

NOTHING: Final = "-"

#: Instead of a figure that would be taken for more than it is.
TOO_LITTLE: Final = "too little history"

#: From so many seconds on, a unit and its size: 122 s say more than 2.03 min.
_DURATIONS: Final = ((172_800.0, "d", 86_400.0), (7_200.0, "h", 3_600.0), (300.0, "min", 60.0), (1.0, "s", 1.0))
_BYTES: Final = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"))
_THOUSANDS: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))

#: Numbers below it are written out.
_WRITTEN_OUT: Final = 10_000

#: Words that are longer may be broken, after each so many letters.
_WORD: Final = 24


def text(value: object) -> str:
    """Return a value as text of HTML: whatever came over the wire shows, and does nothing."""
    shown = NOTHING if value is None else str(value)
    return " ".join(_breakable(word) for word in shown.split(" "))


def _breakable(word: str) -> str:
    pieces = [word[at : at + _WORD] for at in range(0, len(word), _WORD)]
    return "<wbr>".join(map(html.escape, pieces))


def unix_s(moment: str | None) -> float | None:
    """Return a published time in Unix s."""
    return None if moment is None else datetime.fromisoformat(moment).timestamp()


def between(row: Row, start: str, end: str) -> tuple[float, float]:
    """Return from when to when something lasted, Unix s, by two columns; without an end only its beginning."""
    start_s = unix_s(row[start]) or 0.0
    return start_s, unix_s(row[end]) or start_s


def time_text(moment: str | None) -> str:
    """Return a published time as day and time of day, UTC."""
    at_s = unix_s(moment)
    return NOTHING if at_s is None else f"{datetime.fromtimestamp(at_s, UTC):%m-%d %H:%M:%S}"


def number(value: float | None, digits: int = 0) -> str:
    """Return a number with its thousands apart."""
    return NOTHING if value is None else f"{value:,.{digits}f}"


def brief(value: float | None) -> str:
    """Return a number with three digits that count."""
    if value is None:
        return NOTHING
    for size, letter in _THOUSANDS:
        if abs(value) >= max(size, _WRITTEN_OUT):
            return f"{_digits(value / size)}{letter}"
    return _digits(value)


def share(value: float | None, digits: int = 1) -> str:
    """Return a part of one as a percentage."""
    return NOTHING if value is None else f"{100 * value:.{digits}f} %"


def duration(seconds: float | None) -> str:
    """Return seconds in the unit that fits."""
    if seconds is None:
        return NOTHING
    if seconds == 0:
        return "0 s"
    if abs(seconds) < 1:
        return f"{1000 * seconds:.0f} ms"
    unit, size = next((unit, size) for least, unit, size in _DURATIONS if abs(seconds) >= least)
    return f"{_digits(seconds / size)} {unit}"


def duration_ms(value: float | None) -> str:
    """Return milliseconds in the unit that fits."""
    return duration(None if value is None else value / 1e3)


def bounds(least_s: float | None, most_s: float | None) -> str:
    """Return a duration of which two bounds are known; one figure where they read alike."""
    least, most = duration(least_s), duration(most_s)
    if least_s is None or most_s is None or least == most:
        return most if least_s is None else least
    return f"at least {least} and at most {most}"


def amount(value: float | None) -> str:
    """Return bytes in the unit that fits."""
    if value is None:
        return NOTHING
    for size, unit in _BYTES:
        if abs(value) >= size:
            return f"{_digits(value / size)} {unit}"
    return f"{value:.0f} B"


def counted(n: int, one: str, many: str = "") -> str:
    """Return how many there are: `1 broker`, `2 brokers`."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def broker(row: Row) -> str:
    """Return a broker as `broker-a:0`, or `cluster/broker-a:0`: see `with_clusters`; of a set without an id the set."""
    broker_id = row.get("broker_id")
    return broker_set(row) if broker_id is None else f"{broker_set(row)}:{broker_id}"


def broker_set(row: Row) -> str:
    """Return a set as `broker-a`, or `cluster/broker-a`: see `with_clusters`."""
    return in_cluster(row, str(row["broker_name"]))


def in_cluster(row: Row, name: str, cluster: str = "cluster") -> str:
    """Return a name, distinct from those of other clusters; `cluster`: the column that names its own."""
    return f"{row[cluster]}/{name}" if row.get(_SEVERAL_CLUSTERS) else name


#: A row has it where its result is about more than one cluster: two of them may have brokers of one name.
_SEVERAL_CLUSTERS: Final = "several_clusters"


def with_clusters(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return rows whose brokers are shown with their cluster if there is more than one."""
    clusters = {row.get(column) for row in rows for column in ("cluster", "cluster_b")} - {None}
    return tuple({**row, _SEVERAL_CLUSTERS: True} for row in rows) if len(clusters) > 1 else tuple(rows)


def _digits(value: float) -> str:
    """Return a number with at least three digits that count, unless it is a whole one."""
    if value == round(value):
        return f"{value:,.0f}"
    before = len(str(int(abs(value))))
    return f"{value:,.{max(3 - before, 0)}f}"
