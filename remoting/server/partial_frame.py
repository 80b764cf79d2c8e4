"""The frame that has begun to arrive on one connection and is not whole yet: how much there is of it, since when."""

from remoting.protocol.errors import FrameError
from remoting.server.statistics import ServerStatistics


class TooMuchUnfinished(FrameError):
    """The unfinished frames of all connections together are over the limit, and this one has most of their bytes."""

    kind = "unfinished_bytes"

    def __init__(self, frame_bytes: int, all_bytes: int, all_bytes_max: int) -> None:
        self.frame_bytes = frame_bytes
        self.all_bytes = all_bytes
        self.all_bytes_max = all_bytes_max
        super().__init__(
            f"unfinished frames of all connections have {all_bytes} bytes, over the limit of {all_bytes_max}"
            f" (unfinishedBytesMax); {frame_bytes} of them are of this one"
        )


class UnfinishedFrame:
    """Keeps the server's account of unfinished bytes right, too.

    The rest of a refused frame belongs to it though nothing of that is kept: who sends it has a place for as long.
    """

    __slots__ = ("_began_ms", "_statistics", "bytes", "refused_bytes_left")

    def __init__(self, statistics: ServerStatistics) -> None:
        self._statistics = statistics
        #: What came of it; 0 where none has begun.
        self.bytes = 0
        #: Bytes that are still to come of one that was refused.
        self.refused_bytes_left = 0
        self._began_ms = 0

    @property
    def is_arriving(self) -> bool:
        """Whether one has begun and has not ended."""
        return bool(self.bytes or self.refused_bytes_left)

    def set(self, size: int, *, is_new: bool, now_ms: int, refused_bytes_left: int = 0) -> None:
        """Note that `size` bytes are there now, of another frame than before if it `is_new`."""
        if is_new or not self.is_arriving:
            self.restart(now_ms)
        self._statistics.unfinished_bytes += size - self.bytes
        self.bytes = size
        self.refused_bytes_left = refused_bytes_left

    def restart(self, now_ms: int) -> None:
        """Let its age count from now."""
        self._began_ms = now_ms

    def age_ms(self, now_ms: int) -> int:
        """Return for how long it has been arriving; 0 where none has begun."""
        return now_ms - self._began_ms if self.is_arriving else 0

    def too_old(self, age_ms: int) -> FrameError:
        """Return why it is waited for no longer."""
        seconds = age_ms // 1000
        if self.refused_bytes_left:
            return FrameError(f"a refused frame is unfinished after {seconds} s: {self.refused_bytes_left} bytes lack")
        return FrameError(f"a frame is unfinished after {seconds} s: {self.bytes} bytes came")
