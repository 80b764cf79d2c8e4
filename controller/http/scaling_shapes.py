"""Bodies of requests and answers of queue scaling; `openapi.py` describes them from here. Times are Unix ms, UTC."""

import msgspec

from controller.scaling.resize.operation import GroupName, ResizeOptions, ResizeWaits
from controller.scaling.resize.request import Remark


class ResizedSetView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What a resize changes on one broker set."""

    broker_name: str
    cluster: str
    read_before: int
    write_before: int
    perm_before: int
    target: int


class FinishedStepView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A phase that has ended, and what was seen in it."""

    phase: str
    began_unix_ms: int
    ended_unix_ms: int
    evidence: list[str]


class OperationView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One resize."""

    id: str
    topic: str
    kind: str
    #: PLANNED to WATCH: under way; BLOCKED, CONFLICT: somebody has to act; DONE, ABORTED, REJECTED: ended.
    phase: str
    #: Of a blocked one: the phase that goes on.
    resume_phase: str | None
    phase_since_unix_ms: int
    created_unix_ms: int
    requested_by: str
    reason: str
    #: It ends as ABORTED: it is being undone.
    is_undone: bool
    problem: str
    #: What it waits for, as of the last round; empty on a controller that does not lead.
    waits_for: list[str]
    observed_unix_ms: int | None
    #: How long the phase has waited; time in which an answer was missing does not count.
    waited_ms: int
    #: How often dropped queues were opened again.
    reopened: int
    sets: list[ResizedSetView]
    waits: ResizeWaits
    options: ResizeOptions
    steps: list[FinishedStepView]


class OperationListing(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Operations under way, by topic, then those that have ended, the newest first."""

    operations: list[OperationView]
    total: int
    #: What is stored and cannot be read, by name.
    problems: dict[str, str]


class OperatorReason(msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Why an operator does something."""

    reason: Remark = ""


class WaivedGroup(msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """A group whose messages in dropped queues are given up."""

    group: GroupName
