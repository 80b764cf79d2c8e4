"""One switchover: what an operator wants of it, its phase, what was seen in each phase. Pure values."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Final

import msgspec

from serving.shapes.scaling import Remark

#: A broker id as controllers assign them.
BrokerId = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]

#: The longest wait for a small backlog, in ms.
CATCH_UP_MS_MAX: Final = 600_000
#: The longest time that clients are held before the election, in ms; the hold itself ends after 10 s, whatever happens.
HOLD_MS_MAX: Final = 5_000


class SwitchoverRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A requested switchover."""

    #: The next master; without it the one in sync with the lowest electionPriority, then the longest log.
    broker_id: BrokerId | None = None
    #: Clients are held once the log of the next master is at most so many bytes behind.
    backlog_bytes_max: Annotated[int, msgspec.Meta(ge=0, le=2**40)] = 4 * 1024 * 1024
    #: How long that may take, in ms.
    catch_up_ms_max: Annotated[int, msgspec.Meta(ge=0, le=CATCH_UP_MS_MAX)] = 30_000
    #: How long clients are held, at most, until the next master has all messages, in ms.
    hold_ms_max: Annotated[int, msgspec.Meta(ge=100, le=HOLD_MS_MAX)] = 1_000
    #: Messages that the old master alone has may be lost: where it does not wait for its slaves, and nothing holds
    #: clients.
    accept_loss: bool = False
    requested_by: Remark = ""
    reason: Remark = ""


class SwitchoverPhase(StrEnum):
    """Where a switchover is; the values are shown to operators, and those that end it label metrics."""

    #: Wait until the backlog of the next master is small; clients notice nothing.
    CATCH_UP = "CATCH_UP"
    #: Role checks answer that the master is down; wait until every proxy has seen that.
    HOLD = "HOLD"
    #: Wait until the next master has every message.
    DRAIN = "DRAIN"
    #: The election is being stored.
    ELECT = "ELECT"
    #: Wait until the new master serves.
    CONFIRM = "CONFIRM"
    #: Clients reach the new master; wait until the old one is a slave.
    VERIFY = "VERIFY"
    #: The new master does not serve: the old one is elected again, and has to serve.
    ROLL_BACK = "ROLL_BACK"

    DONE = "DONE"
    #: Nothing was changed, or what is stored decides.
    FAILED = "FAILED"
    #: The old master leads again.
    ROLLED_BACK = "ROLLED_BACK"
    #: Somebody else was elected meanwhile, or this controller leads no longer.
    INTERRUPTED = "INTERRUPTED"


#: Phases that end a switchover.
ENDED: Final = frozenset(
    {SwitchoverPhase.DONE, SwitchoverPhase.FAILED, SwitchoverPhase.ROLLED_BACK, SwitchoverPhase.INTERRUPTED}
)
#: Phases in which clients are held.
HOLDING: Final = frozenset(
    {
        SwitchoverPhase.HOLD,
        SwitchoverPhase.DRAIN,
        SwitchoverPhase.ELECT,
        SwitchoverPhase.CONFIRM,
        SwitchoverPhase.ROLL_BACK,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchoverStep:
    """A phase that has ended, and why."""

    phase: SwitchoverPhase
    began_unix_ms: int
    lasted_ms: int
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Switchover:
    """A switchover of one broker set; kept in memory of the leader only."""

    id: str
    broker_name: str
    cluster: str
    request: SwitchoverRequest
    old_master: int
    new_master: int
    #: The master epoch at its beginning.
    old_epoch: int
    #: Role checks are answered, so that proxies can hold clients.
    is_held: bool
    #: The master acknowledges a message only once everybody in sync has it.
    is_all_ack: bool
    #: What to know about it.
    warnings: tuple[str, ...] = ()
    created_unix_ms: int
    phase: SwitchoverPhase = SwitchoverPhase.CATCH_UP
    #: Monotonic ms, and Unix ms.
    phase_since_ms: int
    phase_since_unix_ms: int
    #: Since when clients are held, monotonic ms, and for how long they were in the end.
    held_since_ms: int | None = None
    held_for_ms: int | None = None
    #: That of the election, once it is stored.
    new_epoch: int | None = None
    #: Why it did not end as wanted; blank if it did.
    problem: str = ""
    steps: tuple[SwitchoverStep, ...] = ()

    @property
    def has_ended(self) -> bool:
        return self.phase in ENDED

    @property
    def lasted_ms(self) -> int:
        return sum(each.lasted_ms for each in self.steps)

    def entered(
        self, phase: SwitchoverPhase, evidence: str, now_ms: int, unix_ms: int, problem: str = ""
    ) -> "Switchover":
        """Return it in another phase; `evidence` is why the present one ends."""
        step = SwitchoverStep(
            phase=self.phase,
            began_unix_ms=self.phase_since_unix_ms,
            lasted_ms=now_ms - self.phase_since_ms,
            evidence=evidence,
        )
        begins_hold = phase in HOLDING and self.held_since_ms is None
        ends_hold = phase not in HOLDING and self.held_since_ms is not None and self.held_for_ms is None
        return replace(
            self,
            phase=phase,
            phase_since_ms=now_ms,
            phase_since_unix_ms=unix_ms,
            held_since_ms=now_ms if begins_hold else self.held_since_ms,
            held_for_ms=now_ms - (self.held_since_ms or now_ms) if ends_hold else self.held_for_ms,
            problem=problem or self.problem,
            steps=(*self.steps, step),
        )
