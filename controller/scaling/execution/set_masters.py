"""The masters that this controller has elected: newer than any route."""

from collections.abc import Collection

from store.store import SetStore


class StoredMasters:
    """Answers from the stored broker sets."""

    def __init__(self, sets: SetStore) -> None:
        self._sets = sets

    def address_of_master(self, broker_name: str) -> tuple[bool, str | None]:
        """Return whether the set is one of this controller's, and where its master is."""
        broker_set = self._sets.get(broker_name)
        return (False, None) if broker_set is None else (True, broker_set.master_address)

    def absent_sets(self, clusters: Collection[str], present: Collection[str]) -> tuple[str, ...]:
        """Return the sets of these clusters without a master that are not present: nobody knows their topics."""
        return tuple(
            sorted(
                each.broker_name
                for each in self._sets.sets()
                if each.cluster in clusters and each.broker_name not in present and each.master is None
            )
        )
