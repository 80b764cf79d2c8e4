"""What the guard needs of others: the mirror, the masters, and who observes its runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from controller.offsets.entry_keys import EntryKey
from controller.offsets.guard.outcomes import Guarded, GuardReport
from controller.offsets.guard.unreset import UnresetGroup
from controller.offsets.guard_runs.run_log import GuardRun
from controller.offsets.mirror.masters import MasterRun, SetName
from controller.offsets.mirror.regressions import RegressionLog, SetQueue
from controller.offsets.mirror.saved_offsets import SavedOffsets
from controller.offsets.topology.values import FollowedSet, SetMaster
from controller.offsets.topology.watch import MastersListener
from remoting.background_tasks import BackgroundTasks
from remoting.client import Requester
from remoting.clock import Clock


class GuardedMirror(Protocol):
    """What the guard needs of the mirror."""

    def saved(self, set_name: SetName) -> SavedOffsets | None:
        """Return the newest reading of a broker set; None before the first."""

    def saved_before(self, set_name: SetName, run: MasterRun) -> tuple[SavedOffsets, ...]:
        """Return the last readings of runs before this one that were not settled, the oldest first."""

    def down_since(self, set_name: SetName) -> int | None:
        """Return since when the process of a master is known to be gone, monotonic ms; None: it is not known to be."""

    def settle(self, set_name: SetName, run: MasterRun) -> None:
        """Forget what earlier runs had: it was dealt with in this run."""

    @property
    def regressions(self) -> RegressionLog:
        """What went back lately, of all sets."""

    def rewinds(self, set_name: SetName) -> Mapping[tuple[EntryKey, int], int]:
        """Return the highest offset of each queue that somebody has set back or deleted, by entry and queue id."""

    def unseen_resets(self, set_name: SetName, requested_unix_ms: int) -> Mapping[tuple[EntryKey, int], int]:
        """Return where operators have set queues by this process, where a reading requested then may not show it."""

    def is_reset_unseen(self, queue: SetQueue, requested_unix_ms: int) -> bool:
        """Return whether an operator has set a queue by this process, and a reading requested then may not show it."""

    def guard_writes(self, queue: SetQueue, offset: int) -> None:
        """Remember what the guard is about to set."""


class GuardedMasters(Protocol):
    """Who is master."""

    listeners: list[MastersListener]

    @property
    def sets(self) -> Mapping[str, FollowedSet]:
        """All sets by broker name."""

    def is_fresh(self) -> bool:
        """Return whether it is known who is master now."""

    def is_master(self, master: SetMaster) -> bool:
        """Return whether a broker is still the master of its set; false where that is not known."""


class GuardRunObserver(Protocol):
    """Learns what runs do, to log, count and record it."""

    def guard_began(self, run: GuardRun) -> None:
        """Report that a run begins."""

    def guarded(self, run: GuardRun, guarded: Guarded) -> None:
        """Report what became of one offset."""

    def guard_ended(self, run: GuardRun, report: GuardReport) -> None:
        """Report that a run has ended."""

    def members_reset(self, run: GuardRun, group: UnresetGroup, members: int) -> None:
        """Report that so many members of a group were sent back after a run."""

    def members_not_reset(self, run: GuardRun, group: UnresetGroup, error: str) -> None:
        """Report that those of a group were not, and go on from their own positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardingParts:
    """What runs of the guard are made with."""

    client: Requester
    clock: Clock
    tasks: BackgroundTasks
    mirror: GuardedMirror
    following: GuardedMasters
    #: Whether this manager serves: another one guards otherwise.
    serves: Callable[[], bool]
    #: Whether another manager is known to lead, and to guard.
    other_leads: Callable[[], bool]
    observer: GuardRunObserver
