"""A resize of one topic over all its broker sets, as it is stored. Pure.

Each phase is stored before anything is done on a broker, and each action of a phase compares before it writes: so a new
leader, or a process that was killed, enters the stored phase again. Phases: docs/protocol/queue-scaling.md 9.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from serving.shapes.scaling import FINISHED, ResizeKind, ResizeOptions, ResizePhase, ResizeWaits

_encode: Final = msgspec.json.Encoder().encode
_CUT: Final = "..."
#: Bytes for the sentence that says how many others there were.
_REST_BYTES: Final = 24


def limited_text(text: str, bytes_max: int) -> str:
    """Return a text, cut if it has more bytes as JSON."""
    if _bytes_of(text) <= bytes_max:
        return text
    kept = text[:bytes_max]
    while _bytes_of(kept + _CUT) > bytes_max:
        kept = kept[: len(kept) * 7 // 8]
    return kept + _CUT


def limited_sentences(sentences: Sequence[str], bytes_max: int) -> tuple[str, ...]:
    """Return the first sentences, as many as have no more bytes as JSON, and how many there are beyond."""
    left = bytes_max - _REST_BYTES
    kept: list[str] = []
    for sentence in sentences:
        # The comma after it.
        left -= _bytes_of(sentence) + 1
        if left < 0:
            break
        kept.append(sentence)
    if not kept and sentences:
        kept.append(limited_text(sentences[0], bytes_max - _REST_BYTES))
    beyond = len(sentences) - len(kept)
    return (*kept, f"and {beyond} more") if beyond else tuple(kept)


def first_sentences(sentences: Sequence[str], limit: int) -> tuple[str, ...]:
    """Return the first `limit` sentences, and how many there are beyond."""
    beyond = len(sentences) - limit
    return (*sentences[:limit], f"and {beyond} more") if beyond > 0 else tuple(sentences)


def _bytes_of(text: str) -> int:
    return len(_encode(text))


#: Who requests the resizes of mode `auto`: nobody has read the warnings of their plans.
AUTOSCALER: Final = "autoscaler"
#: The form in which operations are written; an older release must not go on with a newer one.
OPERATION_FORMAT: Final = 2
#: Finished phases that are stored with an operation; of more, the first and the last ones stay.
STEPS_MAX: Final = 60
#: Evidence that is stored with a finished phase, in bytes of JSON; sentences beyond are counted.
EVIDENCE_BYTES_MAX: Final = 1_000
#: Why an operation is blocked or undone, in bytes of JSON.
PROBLEM_BYTES_MAX: Final = 4_000


#: Phases that save the ends of queues that they see, until ends are confirmed again.
_SEES_ENDS: Final = frozenset({ResizePhase.QUIESCE, ResizePhase.DRAIN})

READ_PERM: Final = 4
WRITE_PERM: Final = 2


class QueueCounts(msgspec.Struct, frozen=True, array_like=True):
    """The settings of a topic on one broker that a resize changes."""

    read: int
    write: int
    perm: int = READ_PERM | WRITE_PERM

    def __str__(self) -> str:
        return f"read {self.read}, write {self.write}, perm {self.perm}"

    @property
    def paused(self) -> "QueueCounts":
        return QueueCounts(self.read, self.write, self.perm & ~WRITE_PERM)


class QueueId(NamedTuple):
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.broker_name}/{self.queue_id}"


class QueueOffset(msgspec.Struct, frozen=True, array_like=True):
    broker_name: str
    queue_id: int
    offset: int

    @property
    def queue(self) -> QueueId:
        return QueueId(self.broker_name, self.queue_id)


class LateMark(msgspec.Struct, frozen=True, array_like=True):
    """The end of a delay level of a broker set, taken once nobody could send to the dropped queues any more."""

    broker_name: str
    level: int
    offset: int


class MasterIdentity(msgspec.Struct, frozen=True, array_like=True):
    """One life of a master: another address or another start may have lost offsets."""

    address: str
    boot_unix_ms: int


class SetResize(msgspec.Struct, frozen=True, kw_only=True):
    broker_name: str
    cluster: str
    before: QueueCounts
    #: Number of read and of write queues at the end.
    target: int


class ReleasedQueue(msgspec.Struct, frozen=True, array_like=True):
    """A new queue that a group may consume: it has consumed the old queue of the same keys."""

    group: str
    broker_name: str
    queue_id: int


class FinishedStep(msgspec.Struct, frozen=True, kw_only=True):
    phase: ResizePhase
    began_unix_ms: int
    ended_unix_ms: int
    evidence: tuple[str, ...] = ()


class UndoneGrow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A grow that a shrink undoes: what was requested, and why it is undone."""

    sets: tuple[SetResize, ...]
    why: str


class ResizeOperation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int = OPERATION_FORMAT
    id: str
    topic: str
    kind: ResizeKind
    sets: tuple[SetResize, ...]
    phase: ResizePhase
    phase_since_unix_ms: int
    created_unix_ms: int
    #: Who wanted it: an operator's words, or the policy of the autoscaler.
    requested_by: str = ""
    reason: str = ""
    waits: ResizeWaits = ResizeWaits()
    options: ResizeOptions = ResizeOptions()
    #: How many moves of its path (rules/path.py) may have been made on brokers; stored before the move.
    reached: int = 0
    #: Where BLOCKED goes on.
    resume_phase: ResizePhase | None = None
    #: DONE, or ABORTED for one that is being undone.
    ends_as: ResizePhase = ResizePhase.DONE
    #: Of a grow whose new queues may hold messages: `kind` and `sets` are then those of the shrink back.
    undoes: UndoneGrow | None = None
    #: Aborted in a conflict: only the pause of writes is undone, and numbers of somebody else stay.
    leaves_numbers: bool = False
    #: By broker name: who led when the present phase relied on it.
    masters: dict[str, MasterIdentity] = {}
    #: A master was new at the start or since, and no ASSIGN has waited yet until it knows the members of groups.
    has_new_master: bool = False
    #: Where each new queue began: what is stored for groups without an offset there.
    seeds: tuple[QueueOffset, ...] = ()
    #: Ends of the queues that no message may be added to; none while those that are seen are saved.
    confirmed: tuple[QueueOffset, ...] = ()
    late_marks: tuple[LateMark, ...] = ()
    #: How long the present phase has waited, saved every 2 s at first, later less often; a new leader goes on there.
    waited_ms: int = 0
    #: How long leaders have looked after the present phase, missing answers included, and after those since the check
    #: that came before it. Time without a leader counts in neither.
    lasted_ms: int = 0
    earlier_ms: int = 0
    #: The newest ends of observed queues at that time, and how long the phase had waited at their last change.
    seen_ends: tuple[QueueOffset, ...] = ()
    moved_at_ms: int = 0
    #: `orderTopicConf` as it was before; None: there was none.
    order_conf: str | None = None
    #: Groups for which new queues are locked, and the queues that they may consume.
    gated_groups: tuple[str, ...] = ()
    released: tuple[ReleasedQueue, ...] = ()
    #: When all locks were renewed last, as far as known; 0: there are none. It tells a new leader how long nobody led.
    locked_unix_ms: int = 0
    #: Why consumers may have had locked queues too early; blank if they have not.
    lapse: str = ""
    #: Why it is BLOCKED, in CONFLICT or REJECTED, or why it is undone.
    problem: str = ""
    #: How often dropped queues were opened again.
    reopened: int = 0
    steps: tuple[FinishedStep, ...] = ()

    @property
    def is_finished(self) -> bool:
        return self.phase in FINISHED

    @property
    def requested(self) -> "ResizeOperation":
        """The same with the kind and numbers of the request, for views and records; a grow may be on its way back."""
        if self.undoes is None:
            return self
        return msgspec.structs.replace(
            self, kind=ResizeKind.GROW, sets=self.undoes.sets, problem=self.problem or self.undoes.why, undoes=None
        )

    def set_of(self, broker_name: str) -> SetResize | None:
        return next((each for each in self.sets if each.broker_name == broker_name), None)

    def entered(
        self, phase: ResizePhase, unix_ms: int, evidence: Sequence[str] = (), *, problem: str = ""
    ) -> "ResizeOperation":
        """Return the operation in another phase, the present one recorded with its evidence."""
        step = FinishedStep(
            phase=self.phase,
            began_unix_ms=self.phase_since_unix_ms,
            ended_unix_ms=unix_ms,
            evidence=limited_sentences(evidence, EVIDENCE_BYTES_MAX),
        )
        return msgspec.structs.replace(
            self,
            phase=phase,
            phase_since_unix_ms=unix_ms,
            waited_ms=0,
            lasted_ms=0,
            earlier_ms=0 if self.phase is ResizePhase.PRECHECK else self.earlier_ms + self.lasted_ms,
            seen_ends=(),
            moved_at_ms=0,
            # They are found anew, and the ends that are seen meanwhile have their place in the document.
            confirmed=() if phase in _SEES_ENDS else self.confirmed,
            problem=limited_text(problem, PROBLEM_BYTES_MAX),
            resume_phase=None,
            steps=_limited((*self.steps, step)),
        )


def _limited(steps: tuple[FinishedStep, ...]) -> tuple[FinishedStep, ...]:
    if len(steps) <= STEPS_MAX:
        return steps
    kept = STEPS_MAX // 2
    return (*steps[:kept], *steps[-kept:])
