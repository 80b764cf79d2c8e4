"""The resizes of each topic as the rules want to know them, from stored operations: so they survive a new leader."""

from typing import Final

from controller.scaling.autoscaler.decision import RESIZES_MAX, PastResize
from controller.scaling.execution.operations import ENDED_MAX, Operations
from controller.scaling.resize.operation import ResizeOperation, ResizePhase

#: Ended operations that are remembered although the store had no space for them any more.
REMEMBERED_MAX: Final = 5_000


class PastResizes:
    """All resizes that are known, by topic; those that have ended are decoded once."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        #: By operation: its topic and what became of it; None for one that cannot be read.
        self._ended: dict[str, tuple[str, PastResize] | None] = {}
        self._by_topic: dict[str, tuple[PastResize, ...]] = {}
        #: Resizes that began before it are not all known: the store had too many. Unix ms, 0 if all are known.
        self.known_since_unix_ms = 0

    def look(self) -> None:
        """Know what is stored now, beside what was."""
        self._ended |= {each: self._ended.get(each) or self._read(each) for each in self._operations.ended_ids()}
        if len(self._ended) > REMEMBERED_MAX:
            newest = sorted(self._ended.items(), key=lambda each: _begun(each[1]))[-REMEMBERED_MAX:]
            self._ended = dict(newest)
        ended = [known for known in self._ended.values() if known is not None]
        is_cut = len(self._ended) >= ENDED_MAX
        self.known_since_unix_ms = min((each.begun_unix_ms for _, each in ended), default=0) if is_cut else 0
        found: dict[str, list[PastResize]] = {}
        for topic, resize in ended:
            found.setdefault(topic, []).append(resize)
        for operation in self._operations.under_way():
            found.setdefault(operation.topic, []).append(past_resize(operation))
        self._by_topic = {topic: _newest(each) for topic, each in found.items()}

    def forget(self) -> None:
        """Know nothing: another controller leads, and ends resizes."""
        self._ended.clear()
        self._by_topic = {}
        self.known_since_unix_ms = 0

    def of_topic(self, topic: str) -> tuple[PastResize, ...]:
        """Return the newest resizes of a topic, in the order of their beginning."""
        return self._by_topic.get(topic, ())

    def _read(self, operation_id: str) -> tuple[str, PastResize] | None:
        operation = self._operations.find_ended(operation_id)
        return None if operation is None else (operation.topic, past_resize(operation))


def _begun(known: tuple[str, PastResize] | None) -> int:
    return 0 if known is None else known[1].begun_unix_ms


def _newest(resizes: list[PastResize]) -> tuple[PastResize, ...]:
    return tuple(sorted(resizes, key=lambda each: each.begun_unix_ms)[-RESIZES_MAX:])


def past_resize(operation: ResizeOperation) -> PastResize:
    """Return an operation as the rules see it: one that was rejected has changed nothing, and is waited after too."""
    operation = operation.requested
    before = max(each.before.read for each in operation.sets)
    is_rejected = operation.phase is ResizePhase.REJECTED
    return PastResize(
        begun_unix_ms=operation.created_unix_ms,
        ended_unix_ms=operation.phase_since_unix_ms if operation.is_finished else None,
        before=before,
        after=before if is_rejected else max(each.target for each in operation.sets),
    )
