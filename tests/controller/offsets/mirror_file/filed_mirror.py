"""A mirror of one set whose readings go into a file, each in an update of its own."""

from mirror_builders import SET, a_reading

from controller.offsets.mirror.broker_mirror import BrokerMirror
from controller.offsets.mirror_file.mirror_file import open_mirror
from controller.offsets.mirror_file.updates import MirrorUpdate, SetUpdate

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
#: The first minute of an hour, after some days.
BEGIN_MS = 500_000 * HOUR_MS


class FiledMirror:
    """Stores what is read; `folder` takes the file."""

    def __init__(self, folder, clock, set_name=SET):
        self.set_name = set_name
        self._folder, self._clock = folder, clock
        self.mirror = BrokerMirror(set_name)
        self.opened = open_mirror(folder, clock)
        self.file = self.opened.file

    def read(self, table, **read):
        """Read a table, and store what has changed."""
        self.file.store(self.update(table, **read))

    def update(self, table, *, at_ms=BEGIN_MS, **read):
        """Read a table, and return what is to be stored of it."""
        changes = self.mirror.take(a_reading(table, unix_ms=at_ms, **read))
        runs = None if changes.is_same_run else self.mirror.former_runs
        update = SetUpdate(saved=self.mirror.saved, changes=[changes], former_runs=runs)
        return MirrorUpdate(sets={self.set_name: update})

    def offset_at(self, unix_ms, queue=0):
        """Return the offset of t@g at a moment."""
        past = self.file.at(self.set_name, unix_ms)
        ((_, offsets),) = past.entries()
        return offsets[queue]

    def reopened(self):
        """Return the file as the next process finds it."""
        self.file.close()
        return FiledMirror(self._folder, self._clock, self.set_name)
