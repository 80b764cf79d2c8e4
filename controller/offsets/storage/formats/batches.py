"""Cuts writes into requests that etcd takes, and says how long to wait between them. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

#: Keys of one transaction; etcd takes 128 operations by default (`--max-txn-ops`), and the leader key is compared too.
BATCH_KEYS_MAX: Final = 100
#: Bytes of one request; etcd takes 1.5 MiB by default (`--max-request-bytes`).
BATCH_BYTES_MAX: Final = 1 << 20
#: What one put takes in addition to its value and, twice, its key.
_PUT_BYTES: Final = 64


class KeyPut(NamedTuple):
    """A key to be written if it is still at this revision; None removes it."""

    key: bytes
    value: bytes | None
    revision: int

    @property
    def request_bytes(self) -> int:
        """How much of a request it takes: the key is compared and put, and read where the comparison fails."""
        return 3 * len(self.key) + len(self.value or b"") + _PUT_BYTES


def batches(puts: Sequence[KeyPut]) -> Iterator[Sequence[KeyPut]]:
    """Yield puts in their order, as many as one request takes; one that is too large by itself comes alone."""
    start = 0
    size = 0
    for at, put in enumerate(puts):
        if at > start and (at - start == BATCH_KEYS_MAX or size + put.request_bytes > BATCH_BYTES_MAX):
            yield puts[start:at]
            start, size = at, 0
        size += put.request_bytes
    if start < len(puts):
        yield puts[start:]


class WriteRate(NamedTuple):
    """How much is sent to etcd at most, so that a flood of commits leaves it time for others."""

    requests_per_s: float = 50.0
    bytes_per_s: float = 8 << 20

    def pause_ms(self, request_bytes: int) -> float:
        """Return how long after the begin of a request of this size the next one begins at the earliest."""
        return 1000 * max(1 / self.requests_per_s, request_bytes / self.bytes_per_s)
