"""What readings tell: events, what they count, and gauges. Pure."""

from typing import Final

from serving.logging.events import Level
from serving.telemetry.events import Counter, Event, Gauge

READ: Final = Counter("readings", "Readings of masters, by result.", ("result",), known=(("read",), ("failed",)))
SETS_READ: Final = Gauge("readings_sets", "Broker sets with a reading of their master within the last three periods.")
SETS_STALE: Final = Gauge("readings_stale_sets", "Broker sets that have a master, and no such reading.")
REPLICAS_IDLE: Final = Gauge("readings_replicas_without_copies", "Replicas that copy no offsets from their master.")
FILE_BYTES: Final = Gauge("readings_file_bytes", "What the files of readings take.")


class MasterNotRead(Event, frozen=True, kw_only=True):
    """A master cannot be read; told once until it can. A repair after a failover goes by the last reading."""

    level = Level.WARNING
    advice = "Check that the broker answers 28, 43 and 1007 to this manager."
    broker: str
    addr: str
    problem: str


class ReplicaCopiesNothing(Event, frozen=True, kw_only=True):
    """A replica has not copied the offsets of its master for three minutes: after its promotion groups read again.

    Brokers of 5.5.0 cannot read what a master of that release sends.
    """

    level = Level.WARNING
    advice = "Update brokers of 5.5.0 to 5.5.1; of others read the broker's log."
    broker: str
    addr: str


class ReadingsNotKept(Event, frozen=True, kw_only=True):
    """Readings are not stored, as a full disk refuses them; told again once one was stored and the next is not.

    What is in memory goes on: a repair needs the last minute alone, restores to a moment lack these readings.
    """

    level = Level.ERROR
    advice = "Free the disk of `storePath`, or lower `readingsBytesMax`."
    path: str
    problem: str


class ReadingFileSkipped(Event, frozen=True, kw_only=True):
    """A file of readings is damaged, or of another release: it is left alone, and what it has is not known."""

    level = Level.WARNING
    advice = "Remove it. Check the disk if there are more of them."
    path: str
    problem: str
