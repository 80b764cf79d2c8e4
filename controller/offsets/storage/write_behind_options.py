"""When and how much is written behind, and what of that is refused."""

from typing import Final

import msgspec

from store.store import StoreError

FLUSH_MS_MIN: Final = 10
FLUSH_MS_MAX: Final = 10_000


class WriteBehindOptions(msgspec.Struct, frozen=True, kw_only=True):
    """When and how much is written behind."""

    #: How long offsets are collected before they are flushed, FLUSH_MS_MIN to FLUSH_MS_MAX.
    flush_interval_ms: int = 100
    #: Queues that the remote store may lack; above it commits of further ones are refused.
    dirty_keys_max: int = 200_000
    #: How long an acknowledgement waits for the remote store where write-through is on.
    write_through_ms: int = 5000

    def __post_init__(self) -> None:
        if not FLUSH_MS_MIN <= self.flush_interval_ms <= FLUSH_MS_MAX:
            raise ValueError(
                f"the flush interval is {self.flush_interval_ms} ms; choose {FLUSH_MS_MIN} to {FLUSH_MS_MAX}"
            )
        if self.dirty_keys_max < 1 or self.write_through_ms < 1:
            raise ValueError("dirty_keys_max and write_through_ms have to be 1 or more")


class TooManyDirtyOffsets(StoreError):
    """The remote store lags too far behind; nothing of the batch is stored."""

    def __init__(self, dirty_keys: int, limit: int, wait_ms: int, last_error: str) -> None:
        self.dirty_keys, self.limit, self.wait_ms = dirty_keys, limit, wait_ms
        reason = f"; the last flush failed: {last_error}" if last_error else ""
        super().__init__(
            f"offsets of {dirty_keys} queues wait for the remote store, and the limit is {limit}: "
            f"try again in {wait_ms} ms{reason}"
        )
