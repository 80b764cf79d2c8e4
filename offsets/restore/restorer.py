"""Restores, undoes and imports offsets at brokers: one operation at a time, over all sets that it covers. The edge.

An operation reads what brokers show, decides by the rules, is kept, written, read back, and kept again: whatever ends
this process on the way can be undone. Each write is preceded by the question whether this manager leads and the broker
is still the master.
"""

import asyncio
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from offsets.at_broker import BROKER_FAILURES, AtBroker, BrokerLog, NotServing, OtherBroker, ShownOffsets, for_all
from offsets.proof import Proved, QueueEnds, proved_offset
from offsets.readings.jumps import JUMPS_MAX, UNWANTED
from offsets.readings.reading import Reading
from offsets.readings.readings import Readings
from offsets.restore.operations import (
    OffsetsRestored,
    Operation,
    OperationKind,
    OperationNotKept,
    Operations,
)
from offsets.restore.rules import (
    RESTORED_MAX,
    Options,
    QueueNow,
    RestoredQueue,
    Wanted,
    needs_proof,
    plan,
    verified,
)
from offsets.sets.followed import SetMaster
from offsets.sets.following import Following
from offsets.values import GroupKind, GroupMembers, GroupTopic, QueueKey, SetName
from remoting.admin.client import AdminClient
from remoting.background_tasks import all_results
from remoting.clock import Clock
from remoting.protocol.errors import ConnectionRefused, InvokeError, NotSent, Refused
from remoting.protocol.group_kinds import is_of_brokers
from serving.durable_file import DurableFileError
from serving.shapes.offsets import SetProblemView, Status
from serving.telemetry.events import Event

if TYPE_CHECKING:
    from offsets.proof import Fingerprint, LogBefore

#: How long all brokers are read, and how long they are written: what was not reached then is reported.
READ_S: Final = 12
WRITE_S: Final = 18
#: Brokers at work at a time.
BROKERS_MAX: Final = 16

_NO_MASTER: Final = "the broker set has no master now, or is not followed"
_TIME_OVER: Final = "the time was over before it was looked at"


class Scope(NamedTuple):
    """Whose offsets; None is all."""

    cluster: str
    group: str | None = None
    topic: str | None = None
    broker_name: str | None = None

    def has_set(self, set_name: SetName) -> bool:
        return set_name.cluster == self.cluster and self.broker_name in (None, set_name.broker_name)

    def has(self, name: GroupTopic) -> bool:
        """Return whether a group in a topic belongs to it: those of brokers and tools only if they are named."""
        if self.group is None and is_of_brokers(name.group):
            return False
        return self.group in (None, name.group) and self.topic in (None, name.topic)


class Restored(NamedTuple):
    #: Undoes it; blank if no broker was sent anything.
    operation_id: str
    queues: Sequence[RestoredQueue]
    problems: Sequence[SetProblemView] = ()


class RestoreRefused(Exception):
    """The whole request is refused; nothing was changed. The sentence says what is wrong, and what to do."""


class AnotherRuns(RestoreRefused):
    """Operations would write over each other."""

    def __init__(self) -> None:
        super().__init__("Another restore, undo or import is under way at this manager: repeat it when that has ended.")


class NoSuchSet(RestoreRefused):
    """The manager knows no broker set of a scope."""

    def __init__(self, scope: Scope) -> None:
        what = "no broker set" if scope.broker_name is None else f"no broker set {scope.broker_name}"
        super().__init__(f"This manager follows {what} of cluster {scope.cluster}: /v1/offsets/sets lists its sets.")


class Change(NamedTuple):
    """Who changes offsets, and what is allowed."""

    kind: OperationKind
    writer: str
    options: Options
    is_dry_run: bool = False
    #: The operation that it undoes.
    undoes: str = ""


class Restorer:
    def __init__(
        self,
        admin: AdminClient,
        readings: Readings,
        following: Following,
        operations: Operations,
        clock: Clock,
        emit: Callable[[Event], None],
        is_leading: Callable[[], bool],
    ) -> None:
        self._admin, self._readings, self._following, self._operations = admin, readings, following, operations
        self._clock, self._emit, self._is_leading = clock, emit, is_leading
        self._turn = asyncio.Lock()
        #: The operation that runs sends nothing later, monotonic ms.
        self._until_ms = 0

    async def restore(self, change: Change, scope: Scope, unix_ms: int | None) -> Restored:
        """Write the offsets of the newest reading at or before a moment; None: before the last change of the master.

        Raises RestoreRefused and DurableFileError.
        """
        names = sorted(followed.set_name for followed in self._following.sets.values())
        if not (names := [name for name in names if scope.has_set(name)]):
            raise NoSuchSet(scope)

        async def read(run: _SetRun) -> str:
            found = (
                self._at(run.at.set_name, unix_ms) if unix_ms is not None else await self._former(run.at, run.master)
            )
            if isinstance(found, str):
                return found
            run.reading, (run.before, run.own) = found, self._readings.log_before(found)
            run.wanted = self._wanted(found, scope)
            return ""

        return await self._change(change, dict.fromkeys(names, read))

    async def undo(self, change: Change, operation: Operation, *, is_forced: bool) -> Restored:
        """Bring back what brokers showed before an operation. Raises RestoreRefused and DurableFileError.

        Without force only where a broker still shows what the operation has written.
        """
        change = change._replace(options=change.options._replace(allow_back=True, over_resets=True))
        logs = {log.set_name: log for log in operation.logs}

        async def read(run: _SetRun) -> str:
            run.reading = logs[run.at.set_name]
            run.before, run.own = self._readings.log_before(run.reading)
            run.wanted = operation.undone(run.at.set_name, is_forced=is_forced)
            return ""

        return await self._change(change, dict.fromkeys(logs, read))

    async def write(self, change: Change, offsets: Mapping[SetName, Mapping[QueueKey, int]]) -> Restored:
        """Write offsets of any origin, which no reading proves. Raises RestoreRefused and DurableFileError."""

        async def take(run: _SetRun) -> str:
            run.wanted = [Wanted(key, offset) for key, offset in sorted(offsets[run.at.set_name].items())]
            return ""

        return await self._change(change, dict.fromkeys(sorted(offsets), take))

    def _run(self, name: SetName, change: Change) -> "_SetRun | None":
        followed = self._following.sets.get(name.broker_name)
        if followed is None or followed.set_name != name or (master := followed.master) is None:
            return None

        def check() -> None:
            if self._clock.now_ms() > self._until_ms:
                raise NotSent(master.address, "it was decided too long ago")
            if not (self._is_leading() and self._following.is_master(master)):
                raise NotSent(master.address, "it is not known to be the master, or this manager no longer leads")

        return _SetRun(AtBroker(self._admin, name, master.address), master, change.options, check)

    def _at(self, name: SetName, unix_ms: int) -> Reading | str:
        found = self._readings.at(name, unix_ms)
        return "there is no reading of that moment or before" if found is None else found

    async def _former(self, at: AtBroker, master: SetMaster) -> Reading | str:
        """Return the newest reading of a former run of a set's master that is proved, or why there is none."""
        try:
            log = await at.log(master.master_epoch)
            boot_ms = log.boot_unix_ms
            known = self._readings.known_before(master._replace(boot_unix_ms=boot_ms), self._clock.now_ms())
            if known is not None:
                newest = known.readings[-1]
                before, own = self._readings.log_before(newest)
                proof = (await at.prove(before, log.now)).of_run(own)
                of_run = (reading for reading in reversed(known.readings) if reading.run == newest.run)
                return next((reading for reading in of_run if proof.proves(reading.first_end)), newest)
        except (NotServing, OtherBroker) as error:
            return str(error)

        def is_own(unix_ms: int) -> bool:
            reading = self._readings.at(at.set_name, unix_ms)
            return reading is not None and tuple(reading.run) == (master.address, master.master_epoch, boot_ms)

        moments = self._readings.moments(at.set_name)
        first_own = bisect_left(moments, True, key=is_own)
        if not first_own:
            return "there is no reading of a former master"
        return self._at(at.set_name, moments[first_own] - 1 if first_own < len(moments) else moments[-1])

    def _wanted(self, reading: Reading, scope: Scope) -> list[Wanted]:
        """Return the offsets of a reading in a scope; raises RestoreRefused for too many."""
        resets = self._resets_since(reading)
        found: list[Wanted] = []
        for name in sorted(reading.offsets):
            if not scope.has(name):
                continue
            for queue_id, offset in sorted(reading.offsets[name].items()):
                queues = resets.get(name, ())
                was_reset = queues is None or queue_id in queues
                found.append(Wanted(QueueKey(name.group, name.topic, queue_id), offset, was_reset=was_reset))
            if len(found) > RESTORED_MAX:
                raise _too_many()
        return found

    def _resets_since(self, reading: Reading) -> dict[GroupTopic, set[int] | None]:
        """Return the queues that somebody has set or deleted since a reading; None: any of the topic."""
        of_set = reading.set_name
        jumps = self._readings.jumps(
            JUMPS_MAX,
            lambda jump: (
                jump.unix_ms > reading.ended_unix_ms
                and (jump.cluster, jump.broker_name) == of_set
                and jump.cause not in UNWANTED
            ),
        )
        found: dict[GroupTopic, set[int] | None] = {}
        for jump in jumps:
            name = GroupTopic(jump.group, jump.topic)
            queues = found.setdefault(name, set())
            if queues is None or jump.queue_count > len(jump.queues):
                found[name] = None
            else:
                queues |= {queue.queue_id for queue in jump.queues}
        return found

    async def _change(self, change: Change, sets: Mapping[SetName, Callable[["_SetRun"], Awaitable[str]]]) -> Restored:
        """Write what is wanted in these sets: each is called for it, and returns why nothing is known of its set."""
        if self._turn.locked():
            raise AnotherRuns
        async with self._turn:
            runs: list[_SetRun] = []
            problems: list[SetProblemView] = []
            for name, wanted in sets.items():
                if (run := self._run(name, change)) is None:
                    problems.append(SetProblemView(name.broker_name, _NO_MASTER))
                elif why := await wanted(run):
                    problems.append(SetProblemView(name.broker_name, why))
                else:
                    runs.append(run)
            return await self._changed(change, runs, problems)

    async def _changed(self, change: Change, runs: Sequence["_SetRun"], problems: Sequence[SetProblemView]) -> Restored:
        if sum(len(run.wanted) for run in runs) > RESTORED_MAX:
            raise _too_many()
        unix_ms = self._clock.unix_ms()
        self._until_ms = self._clock.now_ms() + (READ_S + WRITE_S) * 1000
        await _within(READ_S, [run.plan for run in runs])
        if change.is_dry_run or not any(run.writes for run in runs):
            return Restored("", _queues(runs), problems)
        operation = Operation(
            operation_id=self._operations.new_id(),
            kind=change.kind,
            writer=change.writer,
            unix_ms=unix_ms,
            undoes=change.undoes,
            queues=tuple(_queues(runs)),
            logs=tuple(run.seen(run.log, unix_ms) for run in runs if run.log is not None),
            is_finished=False,
        )
        await self._operations.keep(operation)
        await _within(WRITE_S, [run.apply for run in runs])
        operation = replace(operation, queues=tuple(_queues(runs)), is_finished=True)
        try:
            await self._operations.keep(operation)
        except DurableFileError as error:
            # Its offsets are written, and what was kept before undoes them.
            self._emit(OperationNotKept(error=str(error)))
        self._emit(OffsetsRestored(of=operation))
        return Restored(operation.operation_id, operation.queues, problems)


class _SetRun:
    """The offsets of one set that are to be written, and what has become of them so far."""

    def __init__(self, at: AtBroker, master: SetMaster, options: Options, check: Callable[[], None]) -> None:
        self.at, self.master = at, master
        self._options = options
        self._check = check
        #: Whose offsets are wanted, and the log that it saw; None: nothing proves them.
        self.reading: Reading | None = None
        self.before: LogBefore | None = None
        self.own: list[Fingerprint] = []
        self.wanted: list[Wanted] = []
        self.queues: dict[QueueKey, RestoredQueue] = {}
        #: The log when the broker was looked at, and where it ended once its offsets were read.
        self.log: BrokerLog | None = None
        self._second_end = 0
        self._same_until = 0
        self._why_unproved = "no reading has it"

    @property
    def writes(self) -> bool:
        return any(queue.status is Status.WOULD_CHANGE for queue in self.queues.values())

    async def plan(self) -> None:
        """Decide what becomes of each queue; writes nothing. May be cancelled: each queue has a status then too."""
        for wanted in self.wanted:
            self._take(wanted.key, Status.NOT_PROVED, None, wanted.offset, _TIME_OVER)
        try:
            options = await self.at.options()
            log = await self.at.log(self.master.master_epoch)
            await self._prove_log(log)
            shown = await self.at.shown()
            second = await self.at.log(self.master.master_epoch)
        except (NotServing, OtherBroker, *BROKER_FAILURES) as error:
            for wanted in self.wanted:
                self._take(wanted.key, Status.FAILED, None, wanted.offset, str(error))
            return
        self.log, self._second_end = log, second.now.end
        now = await self._look(shown, log, resets_on_server=options.resets_on_server)
        by_queue: dict[tuple[str, int], list[Wanted]] = defaultdict(list)
        for wanted in self.wanted:
            if needs_proof(wanted, now[wanted.key], self._options):
                by_queue[wanted.key.topic, wanted.key.queue_id].append(wanted)
            else:
                self._decide(wanted, now[wanted.key], None)

        async def prove(queue: tuple[str, int]) -> None:
            found: Proved | None = None
            for wanted in sorted(by_queue[queue], key=lambda wanted: -(wanted.offset or 0)):
                proved = None if found is None else found.at(wanted.offset or 0)
                if proved is None:
                    proved = found = await self._prove(queue, wanted.offset or 0)
                self._decide(wanted, now[wanted.key], proved)

        await for_all(by_queue, prove)

    def seen(self, log: BrokerLog, unix_ms: int) -> Reading:
        """Return the log when the broker was looked at as a reading without offsets."""
        return Reading(
            set_name=self.at.set_name,
            master=self.master.address,
            master_epoch=self.master.master_epoch,
            boot_unix_ms=log.boot_unix_ms,
            began_ms=0,
            ended_ms=0,
            ended_unix_ms=unix_ms,
            first_end=log.now.end,
            second_end=self._second_end,
            epochs=None if log.now.epochs is None else tuple(log.now.epochs),
            offsets={},
        )

    async def apply(self) -> None:
        """Write what is to be written, and read it back; may be cancelled: the statuses are true then too."""
        writes = [queue for queue in self.queues.values() if queue.status is Status.WOULD_CHANGE]
        if not writes:
            return
        for queue in writes:
            self._became(queue, Status.FAILED, "the time was over before it was sent")
        try:
            before = await self.at.shown()
        except BROKER_FAILURES as error:
            for queue in writes:
                self._became(queue, Status.FAILED, str(error))
            return
        sent: list[RestoredQueue] = []
        await for_all(writes, partial(self._write, before, sent))
        try:
            after = await self.at.shown()
        except BROKER_FAILURES as error:
            for queue in sent:
                self._became(queue, Status.FAILED, f"sent, and not read back: {error}")
            return
        for queue in sent:
            self.queues[queue.key] = verified(queue, after.offset(queue.key))

    async def _prove_log(self, log: BrokerLog) -> None:
        if self.before is None or self._options.allow_unproved:
            return
        assert self.reading is not None, "with its log"
        is_known = log.boot_unix_ms is not None
        if is_known and self.reading.run == (self.master.address, self.master.master_epoch, log.boot_unix_ms):
            # It has lost nothing since.
            self._same_until = log.now.end
            return
        proof = (await self.at.prove(self.before, log.now)).of_run(self.own)
        self._same_until = proof.same_until
        self._why_unproved = proof.problem or "the log of that reading is lost from there on"

    async def _look(self, shown: ShownOffsets, log: BrokerLog, *, resets_on_server: bool) -> dict[QueueKey, QueueNow]:
        """Return what the master shows of each queue."""
        members: dict[str, GroupMembers] = {}
        ends: dict[str, dict[int, QueueEnds] | str] = {}
        queues: dict[str, set[int]] = defaultdict(set)
        for wanted in self.wanted:
            queues[wanted.key.topic].add(wanted.key.queue_id)

        async def ask(group: str) -> None:
            members[group] = await self.at.members(group, can_pop=log.can_pop)
            if self.reading is not None and self.reading.kinds.get(group) is GroupKind.POP:
                members[group] = members[group]._replace(kind=GroupKind.POP)

        async def look(topic: str) -> None:
            try:
                ends[topic] = await self.at.topic_ends(topic, queues[topic])
            except BROKER_FAILURES as error:
                ends[topic] = str(error)

        await for_all(dict.fromkeys(wanted.key.group for wanted in self.wanted), ask)
        await for_all(queues, look)
        found: dict[QueueKey, QueueNow] = {}
        for wanted in self.wanted:
            key, of_topic = wanted.key, ends[wanted.key.topic]
            bounds, problem = (None, of_topic) if isinstance(of_topic, str) else (of_topic.get(key.queue_id), "")
            found[key] = QueueNow(shown.offset(key), bounds, members[key.group], resets_on_server, problem)
        return found

    async def _prove(self, queue: tuple[str, int], offset: int) -> Proved:
        if self.reading is None or not self._same_until:
            return Proved(None, self._why_unproved)
        first_end = min(self.reading.first_end, self._same_until)
        second_end = max(first_end, min(self.reading.second_end, self._same_until))
        try:
            return await proved_offset(partial(self.at.place, *queue), offset, first_end, second_end)
        except BROKER_FAILURES as error:
            return Proved(None, f"the message before it cannot be looked at: {error}")

    def _decide(self, wanted: Wanted, now: QueueNow, proved: Proved | None) -> None:
        status, new, why, sends_members = plan(wanted, now, proved, self._options)
        self._take(wanted.key, status, now.shown, new, why, sends_members=sends_members)

    def _take(
        self, key: QueueKey, status: Status, old: int | None, new: int | None, why: str, *, sends_members: bool = False
    ) -> None:
        cluster, broker_name = self.at.set_name
        self.queues[key] = RestoredQueue(
            cluster, broker_name, key.group, key.topic, key.queue_id, status, old, new, why, sends_members
        )

    def _became(self, queue: RestoredQueue, status: Status, why: str) -> None:
        self.queues[queue.key] = replace(queue, status=status, why=why)

    async def _write(self, before: ShownOffsets, sent: list[RestoredQueue], queue: RestoredQueue) -> None:
        assert queue.new is not None, "it is to be written"
        if before.offset(queue.key) != queue.old:
            self._became(queue, Status.FAILED, "its group has moved meanwhile: check it again")
            return
        try:
            stored = await self.at.commit(queue.key, queue.new, self._check)
            if not stored and not (self._options.over_resets and queue.sends_members):
                why = "a requested reset waits for the group's next pull (overResets)"
                self._became(queue, Status.FAILED, why)
                return
            if queue.sends_members:
                # What has expired meanwhile is no concern: the broker goes on with its first message.
                await self.at.send_members(queue.key, queue.new, self._check)
        except (Refused, ConnectionRefused, NotSent) as error:
            self._became(queue, Status.FAILED, str(error))
        except InvokeError as error:
            self._became(queue, Status.FAILED, f"sent, and not answered: {error}")
        else:
            sent.append(queue)


def _too_many() -> RestoreRefused:
    return RestoreRefused(
        f"This covers more than {RESTORED_MAX} queues of groups: name a group, a topic or a broker, then the next."
    )


def _queues(runs: Iterable[_SetRun]) -> list[RestoredQueue]:
    return [queue for run in runs for queue in run.queues.values()]


async def _within(seconds: float, works: Sequence[Callable[[], object]]) -> None:
    """Do `works`, BROKERS_MAX at a time; those that have not ended in time are cancelled."""
    turns = asyncio.Semaphore(BROKERS_MAX)

    async def in_turn(work: Callable[[], object]) -> None:
        async with turns:
            await work()  # type: ignore[misc]

    try:
        async with asyncio.timeout(seconds):
            await all_results(map(in_turn, works))
    except TimeoutError:
        return
