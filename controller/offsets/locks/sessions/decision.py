"""What rules of the lock service return: what to store, and what to answer once it is stored. Pure values."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from controller.offsets.locks.sessions.values import LockChanges

AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class LockDecision(Generic[AnswerT]):
    """A change and its answer."""

    changes: LockChanges
    answer: AnswerT
