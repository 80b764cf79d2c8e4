"""Small tables that are kept of each day beside the rows: which files count stands in one manifest for all days."""

from collections.abc import Mapping
from typing import Final, Generic, TypeVar

import msgspec

from analytics.spark.storage import ManifestMissing, Storage, UnreadableFile


class KeptDay(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of one day; each kind of tables adds what they were made of."""

    paths: tuple[str, ...]


Kept = TypeVar("Kept", bound=KeptDay)


class KeptDays(Generic[Kept]):
    """The days of one family, or of one analysis: their tables in `folder`, and a manifest that is replaced whole."""

    def __init__(self, storage: Storage, kind: type[dict[str, Kept]], place: str, key: str, name: str) -> None:
        self.folder: Final = f"{place}/{key}={name}"
        self._storage, self._kind, self._manifest = storage, kind, f"{place}/_manifest/{name}.json"

    def load(self) -> dict[str, Kept]:
        """Return what is kept, by day; raises UnreadableFile."""
        content = self._storage.read(self._manifest)
        try:
            return msgspec.json.decode(content, type=self._kind) if content is not None else {}
        except msgspec.DecodeError as why:
            raise UnreadableFile(self._manifest, why) from why

    def save(self, kept: Mapping[str, Kept]) -> None:
        """Let these days count, and no others."""
        self._storage.write(self._manifest, msgspec.json.encode(dict(sorted(kept.items()))))

    def prepare(self) -> None:
        """Make a manifest before the first tables, by which is known what a first run leaves that is killed.

        Raises ManifestMissing if there are tables, and no manifest of them.
        """
        if not self._storage.exists(self._manifest):
            if self._storage.files(self.folder):
                raise ManifestMissing(self._manifest, self.folder)
            self.save({})

    def sweep(self, kept: Mapping[str, Kept]) -> None:
        """Delete what runs have left that were killed."""
        counting = {path for day in kept.values() for path in day.paths}
        for file in self._storage.files(self.folder):
            if file.path not in counting:
                self._storage.delete(file.path)

    def drop(self, before: str) -> int:
        """Forget the days before this one; return how many there were."""
        known = self.load()
        left = {date: day for date, day in known.items() if date >= before}
        if left != known:
            self.save(left)
        for date in known.keys() - left.keys():
            self._storage.delete(f"{self.folder}/date={date}")
        if self._storage.exists(self._manifest):
            self.sweep(left)
        return len(known) - len(left)
