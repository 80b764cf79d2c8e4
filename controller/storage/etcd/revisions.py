"""Which revision of each entry this process knows, so that only what others have changed is reported; pure."""

from collections import Counter
from collections.abc import Iterable, Mapping

from controller.sets.stored_set import StoredSet
from controller.storage.store import Kept

#: An entry that is stored, and not known.
_UNKNOWN = -1


class KnownRevisions:
    """The revisions by the names of the sets; each method returns what is to be reported."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        #: Commits of this process of which nobody knows yet what they come to.
        self._under_way: Counter[str] = Counter()
        #: What is heard of an entry meanwhile: it may be this very commit.
        self._held: dict[str, list[Kept]] = {}

    def learned(self, broker_name: str, revision: int) -> None:
        """Learn that whoever asked has been told this revision."""
        self._known[broker_name] = max(revision, self._known.get(broker_name, 0))

    def begins(self, broker_name: str) -> None:
        """Learn that a commit is sent."""
        self._under_way[broker_name] += 1

    def ends(self, broker_name: str) -> Iterable[tuple[str, Kept]]:
        """Learn that a commit has ended; `learned` came before if it was stored."""
        self._under_way[broker_name] -= 1
        if self._under_way[broker_name]:
            return ()
        del self._under_way[broker_name]
        return [report for kept in self._held.pop(broker_name, ()) for report in self.heard(broker_name, kept)]

    def heard(self, broker_name: str, kept: Kept) -> Iterable[tuple[str, Kept]]:
        """Learn what an entry is at a revision; one that is gone is empty."""
        if broker_name in self._under_way:
            self._held.setdefault(broker_name, []).append(kept)
            return ()
        if kept.revision <= self._known.get(broker_name, 0):
            return ()
        self._known[broker_name] = kept.revision
        return ((broker_name, kept),)

    def swept(self, entries: Mapping[str, Kept], revision: int) -> Iterable[tuple[str, Kept]]:
        """Learn all entries as they are at a revision."""
        gone = [name for name, known in self._known.items() if name not in entries and known < revision]
        reports = [report for name in gone for report in self.heard(name, Kept(StoredSet(), revision))]
        return reports + [report for name, kept in entries.items() for report in self.heard(name, kept)]

    def doubted(self) -> None:
        """Learn that the store has gone back to an older state: nothing known of it holds."""
        self._known = dict.fromkeys(self._known, _UNKNOWN)
