"""Repairs offsets after the master of a set has changed: when, how long, in which mode, and what is kept. The edge.

A change is followed by a run: one pass as soon as the new master serves (`repair_pass.py`), then further passes, for up
to two minutes, over groups whose members were not connected yet. In mode `report` a run writes nothing and says what it
would change; `apply` decides anew from the same readings, by the same rules, and writes.

Only the manager that leads decides and writes. The others prove the log too: fingerprints of messages that are lost
would contradict every later log. One of them that comes to lead within those two minutes goes on from there.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from offsets.at_broker import BROKER_FAILURES, AtBroker, NotServing, OtherBroker
from offsets.kept_documents import KeptDocuments
from offsets.readings.reading import KnownBefore
from offsets.repair.repair_pass import Allowed, RepairPass
from offsets.repair.rules import SENT_BACK_WITHIN_MS
from offsets.repair.runs import (
    OFFSETS_TO_REPAIR,
    QUEUES_MAX,
    REPAIRS_RUNNING,
    RUNS_MAX,
    SETS_TO_REPAIR,
    FirstWrite,
    KeptRun,
    OffsetsLost,
    OffsetsRepaired,
    RepairApplied,
    RepairNotKept,
    RepairRows,
    Run,
    counts_of,
    known_of,
)
from offsets.sets.followed import MasterChange, MasterChangeKind, SetMaster
from offsets.values import GroupTopic, QueueKey, SetName
from remoting.admin.client import AdminClient
from remoting.background_tasks import BackgroundTasks
from remoting.clock import Clock
from remoting.protocol.errors import InvokeError, NotSent
from serving.durable_file import DurableFileError
from serving.shapes.offsets import Outcome
from serving.telemetry.events import Event, Measure

#: How long a new master may take to serve: it may have many messages to put in their queues. Without a proof the run
#: ends then.
SERVES_WITHIN_MS: Final = 600_000
#: How long, and how often, to look for members after a change.
AWAITED_MS: Final = 120_000
LOOK_S: Final = 3.0
_PAUSE_S: Final = 0.1
#: Sets that are repaired at a time.
RUNS_AT_ONCE: Final = 16

#: A broker has become master or started again.
_BEGINS: Final = frozenset(
    {MasterChangeKind.FOUND, MasterChangeKind.GAINED, MasterChangeKind.MOVED, MasterChangeKind.RESTARTED}
)


class NotApplicable(Exception):
    """A run cannot be applied; the sentence says why, and what to do."""


class Repairer:
    def __init__(  # it wires what a run needs
        self,
        admin: AdminClient,
        clock: Clock,
        emit: Callable[[Event], None],
        folder: Path,
        *,
        known_before: Callable[[SetMaster, int], KnownBefore | None],
        parted: Callable[[SetMaster, int], None],
        is_leading: Callable[[], bool],
        is_master: Callable[[SetMaster], bool],
        acts_for: Callable[[str], bool],
        tasks: BackgroundTasks,
    ) -> None:
        """Repair by requests of `admin`; `acts_for` says whether offsets of a group may be written."""
        self._admin, self._clock, self._emit, self._tasks = admin, clock, emit, tasks
        self._known_before, self._parted = known_before, parted
        self._is_leading, self._is_master, self._acts_for = is_leading, is_master, acts_for
        self._files = KeptDocuments(folder, KeptRun, RUNS_MAX)
        self._turns = asyncio.Semaphore(RUNS_AT_ONCE)
        self._file_turn = asyncio.Lock()
        self._running: dict[SetName, asyncio.Task[bool]] = {}
        self._runs: dict[int, Run] = {}
        self._masters: dict[SetName, SetMaster | None] = {}
        self._last = 0

    async def load(self) -> None:
        """Read the runs that are kept; before the first change, whose run has the next number."""
        damaged: list[DurableFileError] = []
        kept = await asyncio.to_thread(self._files.read_all, damaged.append)
        for error in damaged:
            self._emit(RepairNotKept(error=str(error)))
        self._runs = {number: document.run for number, document in kept.items()} | self._runs
        self._last = max(self._runs, default=0)

    async def close(self) -> None:
        """End all runs: one may wait two minutes for members of groups."""
        tasks = [task for task in self._running.values() if not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    @property
    def running(self) -> int:
        """Sets with a run under way."""
        return sum(not task.done() for task in self._running.values())

    def runs(self) -> list[Run]:
        return list(reversed(self._runs.values()))

    def run(self, number: int) -> Run | None:
        return self._runs.get(number)

    def measures(self) -> Iterator[Measure]:
        """Yield the gauges: the newest run at the master of each set says what waits for `apply`."""
        waiting: dict[SetName, int] = {}
        for run in self._runs.values():
            if (master := self._masters.get(run.set_name)) and master[2:4] == (run.address, run.master_epoch):
                waiting[run.set_name] = run.count(Outcome.WOULD_CHANGE)
        yield Measure(OFFSETS_TO_REPAIR, sum(waiting.values()))
        yield Measure(SETS_TO_REPAIR, sum(count > 0 for count in waiting.values()))
        yield Measure(REPAIRS_RUNNING, self.running)

    def changed(self, change: MasterChange) -> None:
        """Take a change of a master: its set's former run ends, and another one begins."""
        self._masters[change.set_name] = change.after
        if change.kind is MasterChangeKind.ADDRESS_CHANGED:
            return
        if (former := self._running.pop(change.set_name, None)) is not None:
            former.cancel()
        if change.after is not None and change.kind in _BEGINS:
            following = self._follow(change.after, change.kind, self._clock.now_ms())
            self._running[change.set_name] = self._tasks.start(following, "repair")

    def restarted(self, master: SetMaster) -> None:
        """Take that a master has started again in its epoch, as a reading shows; with the time of its start."""
        change = MasterChange(MasterChangeKind.RESTARTED, master.set_name, None, master, self._clock.unix_ms())
        self.changed(change)

    async def apply(
        self, number: int, writer: str, master: SetMaster | None, *, allow_back: bool = False, is_dry_run: bool = False
    ) -> Run:
        """Decide a run anew, and write; `master` is that of its set now. Raises NotApplicable, for the broker too.

        Unless it may go back, a group stays that has gone on behind the parting since: it would read that again.
        """
        kept = await self._kept(number)
        run = kept.run
        of_set = (later for later in self._runs.values() if later.number > number and later.set_name == run.set_name)
        # Without epochs a broker that leads again looks like the one of the run.
        is_past = any(later.address != run.address for later in of_set)
        if is_past or master is None or (master.address, master.master_epoch) != (run.address, run.master_epoch):
            raise NotApplicable(
                f"The master of {run.broker_name} has changed since run {number}: look at the newest run of the set."
            )
        # Up to where each group went on at the run, or was set back to since.
        until = {q.key: q.offset if q.outcome is Outcome.SET_BACK else q.before for q in run.queues}

        def behind(key: QueueKey, ahead: int) -> Outcome:
            return Outcome.SET_BACK if allow_back or ahead <= (until.get(key) or 0) else Outcome.NOT_PROVED

        one = self._pass(master, kept.known, kept.changed_ms, lambda _: not is_dry_run, behind)
        began_ms = self._clock.now_ms()
        try:
            await one.prepare()
            await one.repair()
        except (NotServing, OtherBroker, *BROKER_FAILURES) as error:
            raise NotApplicable(f"The master of {run.broker_name} cannot be repaired now: {error}.") from error
        run = _result(run, one, self._clock.now_ms() - began_ms, began_ms)
        run = replace(run, queues=tuple(replace(queue, before=until.get(queue.key)) for queue in run.queues))
        if is_dry_run:
            return run
        run = replace(run, applied_unix_ms=self._clock.unix_ms(), applied_by=writer)
        await self._keep(run, kept)
        self._emit(RepairApplied(of=run))
        return run

    async def _follow(self, master: SetMaster, kind: MasterChangeKind, changed_ms: int) -> None:
        """Run after one change, to its end."""
        known = self._known_before(master, changed_ms)
        if known is None or not known.readings:
            return
        is_noticed = kind is not MasterChangeKind.FOUND

        def behind(_: QueueKey, __: int) -> Outcome:
            # Anyone can register at a NameServer with the name of a set.
            is_of_set = master.master_epoch is not None or master.address == known.readings[-1].master
            is_now = is_noticed and self._clock.now_ms() - changed_ms <= SENT_BACK_WITHIN_MS
            return Outcome.SET_BACK if is_now and (is_of_set or one.is_known_log) else Outcome.WOULD_CHANGE

        one = self._pass(master, known, changed_ms, self._acts_for, behind)
        run = Run(
            cluster=master.set_name.cluster,
            broker_name=master.set_name.broker_name,
            address=master.address,
            master_epoch=master.master_epoch,
            cause=kind.value,
            began_unix_ms=self._clock.unix_ms(),
            read_unix_ms=known.readings[-1].ended_unix_ms,
        )
        problem = await self._prepared(one, master, known, changed_ms)
        if problem is not None and not self._is_leading():
            while not self._is_leading():
                if self._clock.now_ms() - changed_ms > AWAITED_MS:
                    # The manager that leads has dealt with it.
                    return
                await asyncio.sleep(_PAUSE_S)
            problem = await self._prepared(one, master, known, changed_ms)
        if problem is None:
            return
        self._last = number = self._last + 1
        run = replace(run, number=number, problem=problem)
        try:
            if not problem:
                async with self._turns:
                    problem = await _repaired(one)
            run = replace(_result(run, one, self._clock.now_ms() - changed_ms, changed_ms), problem=problem)
            await self._tell(run, one, known, changed_ms)
            if one.waiting and not problem:
                await self._await_members(run, one, known, changed_ms)
        except asyncio.CancelledError:
            if one.first_write_ms is not None:
                # What was written is listed, whatever ends the run.
                run = _result(run, one, self._clock.now_ms() - changed_ms, changed_ms)
                self._show(replace(run, problem="the master has changed again, or this manager ended"), one, changed_ms)
            raise
        finally:
            # Once, as it has ended: rows and counts are added up.
            if (told := self._runs.get(number)) is not None:
                self._emit(RepairRows(of=told))

    async def _prepared(self, one: RepairPass, master: SetMaster, known: KnownBefore, changed_ms: int) -> str | None:
        """Wait until the broker serves and its log is looked at; return the problem, None if nothing has changed."""
        while True:
            try:
                async with self._turns:
                    log = await one.prepare()
            except NotServing as error:
                problem = str(error)
            except OtherBroker as error:
                return str(error)
            else:
                newest = known.readings[-1]
                now = (master.address, master.master_epoch, log.boot_unix_ms)
                if (newest.master, newest.master_epoch, newest.boot_unix_ms) == now:
                    # What was read before is of this very process: nothing has changed.
                    return None
                if one.lost_from is not None:
                    self._parted(master, one.lost_from)
                return ""
            if self._clock.now_ms() - changed_ms > SERVES_WITHIN_MS:
                return problem
            is_new = self._clock.now_ms() - changed_ms <= SENT_BACK_WITHIN_MS
            await asyncio.sleep(_PAUSE_S if is_new else LOOK_S)

    async def _await_members(self, run: Run, one: RepairPass, known: KnownBefore, changed_ms: int) -> None:
        """Look for members of groups that had none, and decide about these groups."""
        while one.waiting and self._clock.now_ms() - changed_ms <= AWAITED_MS:
            await asyncio.sleep(LOOK_S)
            if (told := self._runs.get(run.number)) is not None and told.applied_unix_ms is not None:
                # An operator has decided.
                return
            if self._is_leading():
                await _repaired(one, set(one.waiting))
        former = run
        run = replace(_result(run, one, self._clock.now_ms() - changed_ms, changed_ms), number=run.number)
        if run.counts != former.counts:
            await self._tell(run, one, known, changed_ms)

    def _pass(
        self,
        master: SetMaster,
        known: KnownBefore,
        changed_ms: int,
        writes: Callable[[str], bool],
        behind: Callable[[QueueKey, int], Outcome],
    ) -> RepairPass:
        # Where a controller elects nobody follows when a master has started.
        followed = master if master.master_epoch is None else master._replace(boot_unix_ms=None)

        def check() -> None:
            if not self._is_leading():
                raise NotSent(master.address, "this manager no longer leads")
            if not self._is_master(followed):
                raise NotSent(master.address, "it is no longer known to be the master")

        at = AtBroker(self._admin, master.set_name, master.address)
        return RepairPass(at, master.master_epoch, known, changed_ms, Allowed(writes, check, behind), self._clock)

    async def _tell(self, run: Run, one: RepairPass, known: KnownBefore, changed_ms: int) -> None:
        """Tell a run and keep it."""
        self._show(run, one, changed_ms)
        names = dict.fromkeys(GroupTopic(queue.group, queue.topic) for queue in run.queues)
        await self._keep(run, KeptRun(run=run, known=known_of(known, names), changed_ms=changed_ms))

    def _show(self, run: Run, one: RepairPass, changed_ms: int) -> None:
        self._runs[run.number] = run
        for number in list(self._runs)[:-RUNS_MAX]:
            del self._runs[number]
        if one.first_write_ms is not None:
            self._emit(FirstWrite(milliseconds=one.first_write_ms - changed_ms))
        is_lost = run.problem or run.count(Outcome.WOULD_CHANGE, Outcome.NOT_PROVED, Outcome.FAILED)
        self._emit(OffsetsLost(of=run) if is_lost else OffsetsRepaired(of=run))

    async def _keep(self, run: Run, kept: KeptRun) -> None:
        self._runs[run.number] = run
        try:
            async with self._file_turn:
                await asyncio.to_thread(self._files.keep, run.number, replace(kept, run=run))
        except DurableFileError as error:
            self._emit(RepairNotKept(error=str(error)))

    async def _kept(self, number: int) -> KeptRun:
        try:
            async with self._file_turn:
                kept = await asyncio.to_thread(self._files.read, number)
        except DurableFileError as error:
            raise NotApplicable(f"Run {number} cannot be read: {error}.") from error
        if kept is None:
            raise NotApplicable(f"There is no run {number} here now: `rmq offsets repairs` lists the last ones.")
        return kept


async def _repaired(one: RepairPass, groups: Iterable[str] | None = None) -> str:
    """Do a pass, and return why it has not come to its end; blank if it has."""
    try:
        await one.repair(None if groups is None else set(groups))
    except (*BROKER_FAILURES, InvokeError) as error:
        return str(error)
    return ""


def _result(run: Run, one: RepairPass, took_ms: int, began_ms: int) -> Run:
    """Return a run with what a pass has found and done so far."""
    queues = list(one.queues.values())
    listed = sorted((queue for queue in queues if queue.outcome is not Outcome.RIGHT), key=lambda queue: queue.key)
    first_ms = one.first_write_ms
    return replace(
        run,
        took_ms=took_ms,
        first_write_ms=None if first_ms is None else first_ms - began_ms,
        parted_at=one.before.proof.parted_at if one.is_prepared else None,
        counts=counts_of(queues, one.right),
        queues=tuple(listed[:QUEUES_MAX]),
    )
