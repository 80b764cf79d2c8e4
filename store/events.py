"""What a store tells, from any thread: lines of the log, metrics, and rows of the history."""

from typing import Final

from history.rows import Record
from history.server_rows import lifecycle
from serving.logging.events import Level
from serving.telemetry.events import Count, Counter, Event, Observation, Timer

STORE_CALLS: Final = Counter(
    "store_txn", "Calls to the store, reads included, by operation and result.", ("operation", "result")
)
STORE_DURATION: Final = Timer("store_txn_duration_seconds", "Duration of calls to the store.", ("operation",))


class StoreFileRemoved(Event, frozen=True, kw_only=True):
    """The file of the embedded store was removed or replaced while the controller ran. The controller stores nothing
    and no longer leads, even if the file comes back."""

    level = Level.ERROR
    advice = (
        "Stop whatever else uses that folder, put the file back, and restart the controller: see "
        "controller/OPERATIONS.md."
    )
    error: str


class StoreFileUnseen(Event, frozen=True, kw_only=True):
    """The operating system does not report whether the file of the embedded store exists (no permission, a failing disk
    or network file system). Changes are refused meanwhile; after 10 s the file counts as removed."""

    level = Level.ERROR
    advice = "Check the disk, the mount and the permissions of the folder: see controller/OPERATIONS.md."
    error: str


class StoreCallsFailing(Event, frozen=True, kw_only=True):
    """Calls of this kind to etcd fail; logged once per kind until one succeeds. `look`, `grant`, `campaign` and `renew`
    decide which controller leads: while they fail, none can."""

    level = Level.ERROR
    advice = "Check etcd: see controller/OPERATIONS.md. Controllers need no restart."
    operation: str
    error: str

    def rows(self) -> tuple[Record]:
        return (lifecycle("etcd_lost", reason=self.error),)


class StoreCallsAnswered(Event, frozen=True, kw_only=True):
    """etcd answers calls of this kind again."""

    operation: str
    silent_ms: int

    def rows(self) -> tuple[Record]:
        return (lifecycle("etcd_restored", reason=self.operation),)


class StoreCalled(Event, frozen=True, kw_only=True):
    """One call to the store. `result` is `ok`, `moved`, `deposed`, `unknown` or `failed`."""

    level = None
    operation: str
    result: str
    seconds: float

    def counted(self) -> tuple[Count]:
        return (Count(STORE_CALLS, (self.operation, self.result)),)

    def observed(self) -> tuple[Observation]:
        return (Observation(STORE_DURATION, self.seconds, (self.operation,)),)
