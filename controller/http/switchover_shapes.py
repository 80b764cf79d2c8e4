"""Bodies of answers about switchovers and rolling restarts; `openapi.py` describes them. Times are Unix ms, UTC."""

import msgspec


class SwitchoverStepView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A phase of a switchover that has ended, and why."""

    phase: str
    began_unix_ms: int
    lasted_ms: int
    evidence: str


class SwitchoverView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One switchover."""

    id: str
    broker_name: str
    cluster: str
    #: CATCH_UP, HOLD, DRAIN, ELECT, CONFIRM, VERIFY, ROLL_BACK: under way; DONE, FAILED, ROLLED_BACK, INTERRUPTED:
    #: ended.
    phase: str
    phase_since_unix_ms: int
    created_unix_ms: int
    old_master: int
    new_master: int
    #: The master epoch before, and that of the election once it is stored.
    old_epoch: int
    new_epoch: int | None
    #: Role checks are answered, so that proxies hold clients.
    is_held: bool
    #: For how long they were held; None before the end of that, or if they are not.
    held_ms: int | None
    requested_by: str
    reason: str
    #: Why it did not end as wanted; blank if it did, or is under way.
    problem: str
    warnings: list[str]
    steps: list[SwitchoverStepView]


class SwitchoverListing(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The switchovers that this controller has begun since its start, the newest first."""

    switchovers: list[SwitchoverView]


class RestartStepView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A phase of a rolling restart that has ended, and why."""

    phase: str
    #: The broker that was to be restarted in it.
    broker_id: int | None
    began_unix_ms: int
    ended_unix_ms: int
    evidence: str


class RollingRestartView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The rolling restart of a set."""

    id: str
    broker_name: str
    cluster: str
    #: IN_SYNC, RESTART, SWITCHOVER: under way; DONE, FAILED, ABORTED: ended.
    phase: str
    phase_since_unix_ms: int
    created_unix_ms: int
    #: The broker to restart now; None: restart none.
    restart_now: int | None
    #: What it waits for, as of the last look.
    waits_for: str
    #: All brokers that it restarts, and those of them that have been restarted.
    broker_ids: list[int]
    restarted: list[int]
    #: It waits while so many of its cluster are under way that were begun before it.
    cluster_restarts_max: int
    requested_by: str
    reason: str
    problem: str
    steps: list[RestartStepView]
