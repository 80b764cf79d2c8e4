"""Reads the offsets of all masters (43), each of them once in a period. The edge: what differs is found by pure rules.

A broker that hangs or refuses keeps nobody else waiting: its mirror stays as it is and grows old, which is shown. A
refusal is never an empty table: a broker without offsets answers with one, and "No consumer offset in this broker"
(code 1) is its answer for a table that it could not write as text. Nobody is read while it is not known who is master,
and what a broker answers that is not master itself is discarded: it is what it has copied.
Source: docs/protocol/broker-admin.md 15 and 33.
"""

import asyncio
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from controller.offsets.mirror.broker_mirror import BrokerMirror, OlderRun
from controller.offsets.mirror.changes import MirrorChanges, ReadState
from controller.offsets.mirror.comparison import MasterReading
from controller.offsets.mirror.masters import MasterRun, MirroredMaster, SetName
from controller.offsets.mirror.polling_plan import PollingPlan
from controller.offsets.mirror.statuses import MirrorStatus
from remoting.admin.brokers import BrokerRuntime, broker_name, broker_runtime
from remoting.admin.client import AdminClient
from remoting.admin.log_epochs import log_epochs
from remoting.admin.offset_table import all_offsets
from remoting.background_tasks import BackgroundTasks
from remoting.clock import Clock
from remoting.protocol.codes import ResponseCode
from remoting.protocol.errors import BodyError, ConnectionRefused, InvokeError, NotSupported, Refused, without_origin
from remoting.protocol.shapes.route import MASTER_ID

#: What is due within it is begun together.
TICK_MS: Final = 50
#: A broker that starts again between two requests is read so often in one reading.
_ATTEMPTS: Final = 2
#: A mirror older than so many periods is stale.
_STALE_PERIODS: Final = 3


class NoBootTime(Exception):
    """A broker does not report when it has started, or starts again and again: of which run it tells is unknown."""


class BrokerIsNoMaster(Exception):
    """A broker that is to be master of a set is not by its own answer; the text says what it is."""


class ReadingNotStored(Exception):
    """What a reading has changed could not be stored here; the broker is well."""


#: What a reading fails with that says nothing against this process.
FAILURES: Final = (InvokeError, Refused, BodyError, OlderRun, NoBootTime, BrokerIsNoMaster)


@dataclass(frozen=True, slots=True, kw_only=True)
class PollerOptions:
    """How often masters are read, and how many at a time."""

    period_ms: int = 5000
    #: Readings under way of masters that have answered last time. Each can bring an answer of some hundred KB at once.
    #: Where all of 100 sets begin to hang, each for 3 s, there are 60.
    polls_max: int = 64
    #: The same of masters that have not.
    failing_polls_max: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PollReport:
    """A reading that came to its end."""

    master: MirroredMaster
    duration_ms: int
    body_bytes: int
    entries: int


class MirrorListener(Protocol):
    """Takes what the mirror finds."""

    async def offsets_changed(self, changes: MirrorChanges) -> None:
        """Store what a reading has changed. The set is not read again before it returns.

        If it raises, the mirror stays as it was, and the next reading has these changes too.
        """

    def polled(self, report: PollReport) -> None:
        """Take a reading that came to its end, whether it changed anything or not."""

    def poll_failed(self, master: MirroredMaster, error: Exception) -> None:
        """Take why a master could not be read: one of FAILURES."""


class MirrorRuntime(NamedTuple):
    """What the poller reaches the world through."""

    #: Limits requests to one address; its number of requests in all is above `polls_max` and `failing_polls_max`.
    admin: AdminClient
    clock: Clock
    listener: MirrorListener
    #: Masters as they are known now.
    masters: Callable[[], Iterable[MirroredMaster]]
    #: Whether they are known to be masters still.
    is_fresh: Callable[[], bool]
    tasks: BackgroundTasks


class _Mirrored:
    """The mirror of one set, and how it was read last."""

    def __init__(self, mirror: BrokerMirror) -> None:
        self.mirror = mirror
        #: When the newest reading was requested, monotonic.
        self.read_ms: int | None = None
        self.error: Exception | None = None
        #: The master at which nobody listened at the last reading, and since when, monotonic; None: it was otherwise.
        self.down: tuple[MirroredMaster, int] | None = None
        #: The address that was asked last, and when the broker there had started.
        self.boot: tuple[str, int] | None = None
        #: The address and the start of a broker that is known to have the name of the set, or not to tell its name.
        self.named: tuple[str, int] | None = None

    @property
    def entries(self) -> int:
        """How many entries it has."""
        return 0 if self.mirror.saved is None else len(self.mirror.saved)


class MirrorPoller:
    """Mirrors of all broker sets, kept up to date."""

    def __init__(self, runtime: MirrorRuntime, options: PollerOptions) -> None:
        self._admin, self._clock, self._listener = runtime.admin, runtime.clock, runtime.listener
        self._masters, self._is_fresh, self._tasks = runtime.masters, runtime.is_fresh, runtime.tasks
        self._options = options
        self._plan = PollingPlan(options.period_ms, options.polls_max, options.failing_polls_max)
        self._mirrored: dict[SetName, _Mirrored] = {}
        self._have_masters_changed = True

    @property
    def left_out(self) -> int:
        """Broker sets that are too many to be mirrored."""
        return self._plan.left_out

    def masters_changed(self) -> None:
        """Look at the masters again. The mirror of a set without a master stays: from it offsets are restored."""
        self._have_masters_changed = True

    def forget(self, set_name: SetName) -> None:
        """Forget what is mirrored of a set that is gone for good."""
        self._mirrored.pop(set_name, None)

    def restore(self, mirror: BrokerMirror) -> None:
        """Begin with what an earlier process has saved of a set, unless it was to be read here already."""
        self._mirrored.setdefault(mirror.set_name, _Mirrored(mirror))

    @property
    def set_names(self) -> AbstractSet[SetName]:
        """All sets that have a mirror."""
        return self._mirrored.keys()

    def mirror_of(self, set_name: SetName) -> BrokerMirror | None:
        """Return the mirror of a set; None if it was never to be read."""
        found = self._mirrored.get(set_name)
        return None if found is None else found.mirror

    def down_since(self, set_name: SetName) -> int | None:
        """Return since when nobody listens where the master was that was read last, monotonic ms.

        None where that is not known: any other answer says that it may have taken resets since, as another master may.
        """
        found = self._mirrored.get(set_name)
        if found is None or found.down is None or found.mirror.saved is None:
            return None
        (master, since_ms), run = found.down, found.mirror.saved.read.run
        return since_ms if (master.address, master.master_epoch) == (run.address, run.master_epoch) else None

    def statuses(self) -> list[MirrorStatus]:
        """Return how old the mirror of each set is, by name."""
        return [self._status(name, each) for name, each in sorted(self._mirrored.items())]

    async def run(self) -> None:
        """Read masters for ever."""
        while True:
            now_ms = self._clock.now_ms()
            self._keep_masters(now_ms)
            if self._is_fresh():
                for master in self._plan.begin(now_ms):
                    self._tasks.start(self._poll(master), "offset mirror")
            wait_ms = max(self._plan.next_ms(now_ms) - self._clock.now_ms(), TICK_MS)
            await asyncio.sleep(min(wait_ms, 4 * TICK_MS) / 1000)

    async def _poll(self, master: MirroredMaster) -> None:
        """Read a master once, and hand on what changed."""
        mirrored = self._mirror_for(master.set_name)
        began_ms, is_read = self._clock.now_ms(), False
        try:
            reading = await self._read(master, mirrored)
            if await self._take(master, mirrored.mirror, reading):
                mirrored.read_ms = began_ms
                self._listener.polled(self._report(master, mirrored, reading, began_ms))
            mirrored.error, mirrored.down, is_read = None, None, True
        except FAILURES as error:
            mirrored.error = without_origin(error)
            self._note_listening(master, mirrored, error)
            self._listener.poll_failed(master, error)
        except Exception as error:
            # The broker has answered: the next reading of it does not count among those that fail.
            mirrored.error, is_read = ReadingNotStored(f"what was read could not be stored: {error!r}"), True
            mirrored.down = None
            raise
        finally:
            self._plan.ended(master.set_name, is_read=is_read)

    def _note_listening(self, master: MirroredMaster, mirrored: _Mirrored, error: Exception) -> None:
        """Note whether nobody listens at a master; since when counts only as long as nothing else is found there."""
        if not isinstance(error, ConnectionRefused):
            mirrored.down = None
        elif mirrored.down is None or mirrored.down[0] != master:
            mirrored.down = master, self._clock.now_ms()

    def _mirror_for(self, name: SetName) -> _Mirrored:
        if (mirrored := self._mirrored.get(name)) is None:
            mirrored = self._mirrored[name] = _Mirrored(BrokerMirror(name))
        return mirrored

    async def _read(self, master: MirroredMaster, mirrored: _Mirrored) -> MasterReading:
        """Return what a master has stored, of a run that began before it was requested and went on after it."""
        address, _ = mirrored.boot or ("", 0)
        if address != master.address:
            mirrored.boot = master.address, _boot_ms(await self._admin.call(master.address, broker_runtime()), master)
        for _ in range(_ATTEMPTS):
            requested_ms, requested_unix_ms = self._clock.now_ms(), self._clock.unix_ms()
            table = await self._admin.call(master.address, all_offsets())
            answered_unix_ms = self._clock.unix_ms()
            runtime = await self._admin.call(master.address, broker_runtime())
            boot, mirrored.boot = mirrored.boot, (master.address, _boot_ms(runtime, master))
            if boot == mirrored.boot:
                await self._check_role(master, mirrored)
                run = MasterRun(address=master.address, master_epoch=master.master_epoch, boot_unix_ms=boot[1])
                read = ReadState(run, requested_unix_ms, answered_unix_ms, runtime.commit_log_max_offset)
                return MasterReading(read=read, table=table, requested_ms=requested_ms)
        raise NoBootTime(f"{master.set_name} at {master.address} has started again while it was read, more than once")

    async def _check_role(self, master: MirroredMaster, mirrored: _Mirrored) -> None:
        """Raise BrokerIsNoMaster unless a broker that was read is master, and of no later epoch.

        Without epochs its name counts. An earlier last epoch is none: a broker lists no epoch that began where the one
        before it did.
        """
        if master.master_epoch is None:
            await self._check_name(master, mirrored)
            return
        try:
            found = await self._admin.call(master.address, log_epochs())
        except Refused as refused:
            if isinstance(refused, NotSupported) or refused.code == ResponseCode.SYSTEM_ERROR:
                await self._check_name(master, mirrored)
                return
            raise
        last = found.epochs[-1].epoch if found.epochs else 0
        is_master = found.broker_id == MASTER_ID and found.broker_name == master.set_name.broker_name
        if not is_master or last > master.master_epoch:
            raise BrokerIsNoMaster(
                f"{master.address} is to be master of {master.set_name} in epoch {master.master_epoch}, and reports "
                f"(1007) brokerId {found.broker_id} of {found.broker_name}, last epoch {last}"
            )

    async def _check_name(self, master: MirroredMaster, mirrored: _Mirrored) -> None:
        """Raise BrokerIsNoMaster for a broker of another name, once after each start; pass where it does not tell it.

        NameServers alone have shown who has the address, and others may have taken it while they were down. A broker
        with ACL may deny to show its options: that costs nobody the mirror.
        """
        if mirrored.named == mirrored.boot:
            return
        try:
            found = await self._admin.call(master.address, broker_name())
        except Refused as refused:
            if refused.code == ResponseCode.SYSTEM_BUSY:
                raise
            found = None
        if found not in (None, master.set_name.broker_name):
            raise BrokerIsNoMaster(
                f"{master.address} is to be master of {master.set_name}, and is {found} by its own options (26)"
            )
        mirrored.named = mirrored.boot

    def _keep_masters(self, now_ms: int) -> None:
        if self._have_masters_changed:
            self._have_masters_changed = False
            self._plan.keep(self._masters(), now_ms)

    def _is_master(self, master: MirroredMaster) -> bool:
        self._keep_masters(self._clock.now_ms())
        return self._is_fresh() and self._plan.is_master(master)

    async def _take(self, master: MirroredMaster, mirror: BrokerMirror, reading: MasterReading) -> bool:
        """Save a reading, and what it changes before that; return whether it counts.

        It says nothing if another broker is master by now, or the same one in another epoch, or if that is not known.
        """
        comparison = mirror.compare(reading)
        for _ in comparison.slices():
            await asyncio.sleep(0)
        if not self._is_master(master):
            return False
        changes = mirror.changes(comparison)
        if not (changes.moved.is_empty and changes.is_same_run):
            await self._listener.offsets_changed(changes)
        mirror.apply(comparison)
        return True

    def _report(self, master: MirroredMaster, mirrored: _Mirrored, reading: MasterReading, began_ms: int) -> PollReport:
        return PollReport(
            master=master,
            duration_ms=self._clock.now_ms() - began_ms,
            body_bytes=len(reading.table.body),
            entries=mirrored.entries,
        )

    def _status(self, name: SetName, mirrored: _Mirrored) -> MirrorStatus:
        saved = mirrored.mirror.saved
        age_ms = None if mirrored.read_ms is None else self._clock.now_ms() - mirrored.read_ms
        return MirrorStatus(
            set_name=name,
            read=None if saved is None else saved.read,
            age_ms=age_ms,
            is_stale=age_ms is None or age_ms > _STALE_PERIODS * self._options.period_ms,
            entries=mirrored.entries,
            error=None if mirrored.error is None else str(mirrored.error),
        )


def _boot_ms(runtime: BrokerRuntime, master: MirroredMaster) -> int:
    if runtime.boot_unix_ms is None:
        raise NoBootTime(f"{master.set_name} at {master.address} does not report its bootTimestamp (28)")
    return runtime.boot_unix_ms
