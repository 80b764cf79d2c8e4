"""What happens between the journal and the remote store, for metrics and logs."""

from controller.offsets.values import GroupTopic


class WriteBehindObserver:
    """Receives what happens, and ignores it unless a subclass overrides; called in the event loop."""

    def rows_flushed(self, rows: int, keys: int, seconds: float) -> None:
        """Report one write to the remote store: how many rows and queues it has since, and how long that took."""

    def dirty(self, keys: int, oldest_age_ms: int) -> None:
        """Report how many queues the remote store does not have yet, and the age of the oldest; after each flush."""

    def flush_failed(self, error: str) -> None:
        """Report that a flush failed; it is tried again."""

    def load_failed(self, error: str) -> None:
        """Report that the offsets cannot be loaded, so that none are served; it is tried again."""

    def compensated(self, pushed: int, unchanged: int) -> None:
        """Report a load: how many queues the journal had newer, and for how many the remote store had all."""

    def put_back(self, keys: int) -> None:
        """Report that the remote store was put back to an older state, and of how many queues it got newer offsets."""

    def row_unwritable(self, of: GroupTopic, problem: str) -> None:
        """Report a row that cannot be read, or is too large: nothing is written to it."""

    def foreign_key(self, problem: str) -> None:
        """Report a key of the remote store that names no row; found while loading."""

    def commits_refused(self, dirty_keys: int) -> None:
        """Report a refusal for want of room for dirty queues."""
