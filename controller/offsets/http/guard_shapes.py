"""Answers about the guard. Times are Unix ms, UTC."""

import msgspec

from controller.offsets.config import GuardMode
from controller.offsets.guard.outcomes import Outcome
from controller.offsets.guard.rules import Action, Reason
from controller.offsets.guard_runs.occasions import GuardCause
from controller.offsets.guard_runs.run_log import RunResult


class GuardCount(msgspec.Struct, frozen=True, rename="camel"):
    """Offsets of which the same became."""

    action: Action
    reason: Reason
    outcome: Outcome
    offsets: int


class GuardRunView(msgspec.Struct, frozen=True, rename="camel"):
    """One run of the guard at one broker."""

    #: Counts the runs of this process, from 1.
    run: int
    cluster: str
    broker_name: str
    address: str
    #: Null in a cluster without a controller.
    master_epoch: int | None
    cause: GuardCause
    #: Whether another run follows, and whether an operator has to look.
    result: RunResult
    began_unix_ms: int
    duration_ms: int
    #: When the offsets were read that the broker's are compared with.
    saved_unix_ms: int
    #: The broker became master, or started again, seconds before: what it had may be raised.
    recent: bool
    #: False where `guard` is report: nothing was sent.
    writes: bool
    counts: list[GuardCount]
    #: Why not all was looked at; blank if all was.
    error: str


class GuardListing(msgspec.Struct, frozen=True, rename="camel"):
    """The last 100 runs at most, the newest first."""

    mode: GuardMode
    #: Broker sets with a run under way, and those that wait for one.
    running: int
    waiting: int
    runs: list[GuardRunView]


class GuardedOffsetView(msgspec.Struct, frozen=True, rename="camel"):
    """One offset that was written, or is reported."""

    group: str
    topic: str
    queue_id: int
    action: Action
    reason: Reason
    outcome: Outcome
    #: What the mirror had; null for nothing.
    saved: int | None
    #: What the broker had; null for nothing.
    old_offset: int | None
    #: What is right: written, or to be written. Null where it is not known.
    new_offset: int | None
    #: What the broker has answered, where it refused.
    detail: str


class GuardRunOffsets(msgspec.Struct, frozen=True, rename="camel"):
    """A page of the offsets of one run that were written, or are reported; others were left as they were."""

    run: GuardRunView
    offsets: list[GuardedOffsetView]
    #: Offsets of the run beyond the first 10,000, which are not listed.
    left_out: int
    next_cursor: str | None
