"""Which failures of a peer are reported: a peer that fails each second is not named each second. Pure."""

from typing import Final

#: So often at most a peer is named.
NAMED_AGAIN_MS: Final = 60_000


class RareReports:
    """When each of some configured peers was named last."""

    def __init__(self) -> None:
        self._named_ms: dict[str, int] = {}

    def is_due(self, peer: str, now_ms: int) -> bool:
        """Return whether a failure of a peer is to be reported; its next ones are not for NAMED_AGAIN_MS."""
        named_ms = self._named_ms.get(peer)
        if named_ms is not None and now_ms - named_ms < NAMED_AGAIN_MS:
            return False
        self._named_ms[peer] = now_ms
        return True
