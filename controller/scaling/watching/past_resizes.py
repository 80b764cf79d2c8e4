"""The resizes of each topic as the rules want to know them, from stored operations: so they survive a new leader."""

from controller.scaling.autoscaler.decision import RESIZES_MAX, PastResize
from controller.scaling.execution.operations import Operations
from controller.scaling.resize.operation import ResizeOperation, ResizePhase


class PastResizes:
    """All resizes that are known, by topic; those that have ended are decoded once."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        #: By operation: its topic and what became of it; None for one that cannot be read.
        self._ended: dict[str, tuple[str, PastResize] | None] = {}
        self._by_topic: dict[str, tuple[PastResize, ...]] = {}
        #: How many are under way, of all topics.
        self.running = 0

    def look(self) -> None:
        """Know what is stored now."""
        self._ended = {each: self._ended.get(each) or self._read(each) for each in self._operations.ended_ids()}
        found: dict[str, list[PastResize]] = {}
        for known in self._ended.values():
            if known is not None:
                found.setdefault(known[0], []).append(known[1])
        under_way = self._operations.under_way()
        self.running = len(under_way)
        for operation in under_way:
            found.setdefault(operation.topic, []).append(past_resize(operation))
        self._by_topic = {topic: _newest(each) for topic, each in found.items()}

    def of_topic(self, topic: str) -> tuple[PastResize, ...]:
        """Return the newest resizes of a topic, in the order of their beginning."""
        return self._by_topic.get(topic, ())

    def _read(self, operation_id: str) -> tuple[str, PastResize] | None:
        operation = self._operations.find_ended(operation_id)
        return None if operation is None else (operation.topic, past_resize(operation))


def _newest(resizes: list[PastResize]) -> tuple[PastResize, ...]:
    return tuple(sorted(resizes, key=lambda each: each.begun_unix_ms)[-RESIZES_MAX:])


def past_resize(operation: ResizeOperation) -> PastResize:
    """Return an operation as the rules see it: one that was rejected has changed nothing, and is waited after too."""
    before = max(each.before.read for each in operation.sets)
    is_rejected = operation.phase is ResizePhase.REJECTED
    return PastResize(
        begun_unix_ms=operation.created_unix_ms,
        ended_unix_ms=operation.phase_since_unix_ms if operation.is_finished else None,
        before=before,
        after=before if is_rejected else max(each.target for each in operation.sets),
    )
