"""Turns what the rules, the store and the role refuse into answers over HTTP."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from controller.offsets.commits.refusals import (
    OffsetsRefused,
    RowsUnavailable,
    ScopeTooWide,
    TooManyEntries,
    TooManyRows,
    WriterRefused,
)
from controller.offsets.locks.sessions.refusals import LeadUncertain, LocksRefused, TooManyQueues, TooManySessions
from controller.offsets.service.manager_role import ManagerNotLeading, StillLoading
from controller.offsets.storage.formats.checks import ChangeRefused
from controller.offsets.storage.row_flusher import RowNotWritable
from controller.offsets.storage.write_behind import InJournalOnly
from controller.offsets.storage.write_behind_options import TooManyDirtyOffsets
from serving.http.views import HttpRefused, StateConflict, TooManyRequests, Unavailable, UnprocessableBody
from store.store import OutcomeUnknown, StoreError

#: When to open a session that was one too many: a lease that ends meanwhile makes room for it.
_SESSION_AGAIN_S: Final = 10


class ManagerFollows(Unavailable):
    """Another offset manager answers."""

    code = "not_leader"
    retry_after_s = 1

    def __init__(self, error: ManagerNotLeading, what_to_do: str = "") -> None:
        """Take what to do beside sending the request to the leader; blank for nothing."""
        super().__init__(f"{error} {what_to_do}".rstrip())
        self.leader_address = error.leader_address


class UnavailableNow(Unavailable):
    """The request may succeed in a moment."""

    retry_after_s = 1


#: The first that fits counts; what is in none of them is unavailable now.
_KINDS: Final[tuple[tuple[tuple[type[Exception], ...], type[HttpRefused]], ...]] = (
    ((TooManyEntries, TooManyRows, ScopeTooWide, TooManyQueues, WriterRefused), UnprocessableBody),
    ((RowsUnavailable, LeadUncertain), UnavailableNow),
    ((OffsetsRefused, LocksRefused, RowNotWritable, ChangeRefused), StateConflict),
)


@contextmanager
def refusals() -> Iterator[None]:
    """Answer what is refused inside with its status and a sentence."""
    try:
        yield
    except (OffsetsRefused, LocksRefused, StoreError, ManagerNotLeading, StillLoading, TimeoutError) as error:
        raise _refusal(error) from error


def _refusal(error: Exception) -> HttpRefused:
    match error:
        case ManagerNotLeading():
            return ManagerFollows(error)
        case TooManyDirtyOffsets():
            return TooManyRequests(_sentence(error), math.ceil(error.wait_ms / 1000))
        case TooManySessions():
            return TooManyRequests(_sentence(error), _SESSION_AGAIN_S)
        case InJournalOnly() | OutcomeUnknown():
            return UnavailableNow(f"It is not known whether all of this will be stored: {error}.")
        case TimeoutError():
            return UnavailableNow(
                "It is not known whether all of this will be stored: the store did not confirm it in time."
            )
        case _:
            kind = next((kind for errors, kind in _KINDS if isinstance(error, errors)), UnavailableNow)
            return kind(_sentence(error))


def _sentence(error: Exception) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
