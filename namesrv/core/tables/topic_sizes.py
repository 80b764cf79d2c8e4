"""What the topics and mappings of all sets take in memory, and which host has them.

Anybody can register topics, so each host has a share of what all may take, and each connection one of that.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

#: Such a part of all may the topics of a host have, and of a connection.
_SHARE_OF_HOST: Final = 2
_SHARE_OF_CONNECTION: Final = 8
#: A host has such a part though others have taken all, until it is twice as much.
_SHARE_LEFT: Final = 16
#: One registration of as many topics as it may have fits into it.
CONNECTION_BYTES_MIN: Final = 64 * 1024 * 1024


class TopicSizes:
    """Broker name -> its host and what its topics take, with sums; in bytes."""

    def __init__(self) -> None:
        self._of_set: dict[str, tuple[str, int]] = {}
        self._of_host: Counter[str] = Counter()
        self.total_bytes = 0

    def of_set(self, broker_name: str) -> int:
        """Return what the topics of a set take."""
        return self._of_set.get(broker_name, ("", 0))[1]

    def put(self, broker_name: str, network: str, size_bytes: int) -> None:
        """Store what the topics of a set take now, 0 if it is gone."""
        former, before = self._of_set.pop(broker_name, ("", 0))
        self.total_bytes += size_bytes - before
        self._of_host[former] -= before
        if not self._of_host[former]:
            del self._of_host[former]
        if size_bytes:
            self._of_set[broker_name] = network, size_bytes
            self._of_host[network] += size_bytes

    def excess(self, more_bytes: int, network: str, of_connection: Iterable[str], all_bytes_max: int) -> str | None:
        """Return which limit so much more of a host exceeds, None for none; `of_connection` names its sets."""
        after = self.total_bytes + more_bytes
        host_bytes_max = all_bytes_max // (_SHARE_OF_HOST if after <= all_bytes_max else _SHARE_LEFT)
        for whose, size, size_max in (
            ("all hosts", after, 2 * all_bytes_max),
            ("this host", self._of_host[network] + more_bytes, host_bytes_max),
            (
                "this connection",
                sum(map(self.of_set, of_connection)) + more_bytes,
                max(CONNECTION_BYTES_MIN, all_bytes_max // _SHARE_OF_CONNECTION),
            ),
        ):
            if size > size_max:
                return f"the topics of {whose} would take {size} bytes; topicBytesMax={all_bytes_max} allows {size_max}"
        return None
