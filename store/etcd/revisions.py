"""Which revision of each entry this process knows, so that only what others have changed is reported; pure."""

from collections import Counter
from collections.abc import Iterable, Mapping

from controller.sets.stored_set import StoredSet
from store.store import VersionedEntry

#: An entry that is stored, and not known.
_UNKNOWN = -1


class KnownRevisions:
    """The revisions by the names of the sets; each method returns what is to be reported."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        #: Commits of this process of which nobody knows yet what they come to.
        self._under_way: Counter[str] = Counter()
        #: Changes of an entry that arrive meanwhile: one may be this very commit.
        self._deferred: dict[str, list[VersionedEntry]] = {}

    def revision_known(self, broker_name: str, revision: int) -> None:
        self._known[broker_name] = max(revision, self._known.get(broker_name, 0))

    def commit_begins(self, broker_name: str) -> None:
        self._under_way[broker_name] += 1

    def commit_ends(self, broker_name: str) -> Iterable[tuple[str, VersionedEntry]]:
        """Record that a commit has ended; `revision_known` came before if it was stored."""
        self._under_way[broker_name] -= 1
        if self._under_way[broker_name]:
            return ()
        del self._under_way[broker_name]
        return [
            report
            for versioned in self._deferred.pop(broker_name, ())
            for report in self.observed(broker_name, versioned)
        ]

    def observed(self, broker_name: str, versioned: VersionedEntry) -> Iterable[tuple[str, VersionedEntry]]:
        """Record what an entry is at a revision; one that is gone is empty."""
        if broker_name in self._under_way:
            self._deferred.setdefault(broker_name, []).append(versioned)
            return ()
        if versioned.revision <= self._known.get(broker_name, 0):
            return ()
        self._known[broker_name] = versioned.revision
        return ((broker_name, versioned),)

    def snapshot_read(
        self, entries: Mapping[str, VersionedEntry], revision: int
    ) -> Iterable[tuple[str, VersionedEntry]]:
        """Take all entries as they are at a revision."""
        gone = [name for name, known in self._known.items() if name not in entries and known < revision]
        reports = [report for name in gone for report in self.observed(name, VersionedEntry(StoredSet(), revision))]
        return reports + [report for name, versioned in entries.items() for report in self.observed(name, versioned)]

    def invalidate(self) -> None:
        """Record that the store has gone back to an older state: nothing known of it holds."""
        self._known = dict.fromkeys(self._known, _UNKNOWN)
