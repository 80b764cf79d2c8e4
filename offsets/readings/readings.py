"""All readings: each master once in a period, its replicas after it, and what repairs and restores ask. The edge.

A broker that hangs keeps nobody waiting: those that failed last have turns of their own. What a broker answers counts
only if it is still known to be master when the answer is there.

    known = readings.known_before(master, now_ms)       # what the former masters had
    readings.parted(master, proof.parted_at)            # once the proof is known: messages behind it are of another log
    readings.at(set_name, unix_ms)                      # for a restore
"""

import asyncio
from collections import Counter as Tally
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple
from zlib import crc32

import msgspec

from offsets.at_broker import BROKER_FAILURES, AtBroker, BrokerOptions, LogWatch, NotServing, OtherBroker
from offsets.config import OffsetManagerConfig
from offsets.proof import Fingerprint, LogBefore
from offsets.readings.files import ReadingFiles
from offsets.readings.jumps import JUMPS_MAX, jumps_between, told
from offsets.readings.reading import KnownBefore, MasterRun, Parting, Reading, ReadingHead, ReplicaReading, reading_of
from offsets.readings.table import (
    Change,
    TableOffsets,
    Trail,
    decoded_key,
    offsets_text,
    same_entries,
)
from offsets.sets.followed import FollowedSet, MasterChange, MasterChangeKind, SetMaster
from offsets.sets.following import Following
from offsets.values import GroupKind, GroupTopic, SetName, is_pop_retry
from remoting.admin.broker_process import BrokerProcess
from remoting.admin.brokers import ha_status
from remoting.admin.client import AdminClient, AdminLimits
from remoting.admin.log_epochs import LogEpoch, log_epochs
from remoting.admin.offset_table import all_offsets
from remoting.background_tasks import BackgroundTasks, Report
from remoting.client import Requester
from remoting.clock import Clock
from remoting.protocol.codes import ResponseCode
from remoting.protocol.errors import BodyError, NotSupported, Refused
from remoting.protocol.shapes.broker_admin import OFFSET_TABLE
from remoting.protocol.shapes.route import MASTER_ID
from serving.logging.events import Level
from serving.shapes.offsets import Jump, ReplicaStatus, SetStatus
from serving.telemetry.events import Count, Counted, Counter, Event, Gauge, Measure

READ: Final = Counter("readings", "Readings of masters, by result.", ("result",), known=(("read",), ("failed",)))
SETS_READ: Final = Gauge("readings_sets", "Broker sets with a reading of their master within the last three periods.")
SETS_STALE: Final = Gauge("readings_stale_sets", "Broker sets that have a master, and no such reading.")
REPLICAS_IDLE: Final = Gauge("readings_replicas_without_copies", "Replicas that copy no offsets from their master.")
FILE_BYTES: Final = Gauge("readings_file_bytes", "What the files of readings take.")


class MasterNotRead(Event, frozen=True, kw_only=True):
    """A master cannot be read; logged once until it can. A repair after a failover uses the last reading."""

    level = Level.WARNING
    advice = "Check that the broker answers 28, 43 and 1007 to this manager."
    broker: str
    addr: str
    problem: str


class ReplicaCopiesNothing(Event, frozen=True, kw_only=True):
    """A replica has not copied the offsets of its master for three minutes: after its promotion groups read again.

    Brokers of 5.5.0 cannot read what a master of that release sends.
    """

    level = Level.WARNING
    advice = "Update brokers of 5.5.0 to 5.5.1; for other releases read the broker's log."
    broker: str
    addr: str


#: Groups that are asked in a second, all brokers together.
ASKED_PER_S: Final = 10
#: A group that moves is asked again after so long.
OLD_MS: Final = 60_000
#: What was found so long ago is not known any more once the group moves: its members may be others.
STALE_MS: Final = 10 * OLD_MS
#: Groups that are remembered, and that wait.
GROUPS_MAX: Final = 100_000


class GroupKinds:
    """How groups consume that have moved lately, as their members show (203, 307): a few are asked each second.

    All masters of a cluster share what is found: a member is connected to each of them.
    """

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._kinds: dict[str, dict[str, GroupKind]] = {}
        #: When they were asked, monotonic ms; and through whom they are asked next.
        self._asked: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._waiting: OrderedDict[tuple[str, str], str] = OrderedDict()

    def of_cluster(self, cluster: str) -> Mapping[str, GroupKind]:
        """Return the kinds of a cluster's groups as they are known now, and later: a view."""
        return MappingProxyType(self._kinds.setdefault(cluster, {}))

    def have_moved(self, set_name: SetName, address: str, keys: Iterable[GroupTopic], now_ms: int) -> None:
        """Ask these groups through a master soon, unless they were lately; a pop retry topic needs no question."""
        kinds = self._kinds.setdefault(set_name.cluster, {})
        for key in keys:
            group = key.group
            of = set_name.cluster, group
            asked_ms = self._asked.get(of)
            if is_pop_retry(key):
                kinds[group] = GroupKind.POP
            elif asked_ms is not None and now_ms - asked_ms >= STALE_MS and kinds.get(group) is GroupKind.PULL:
                kinds[group] = GroupKind.UNKNOWN
            if (asked_ms is None or now_ms - asked_ms >= OLD_MS) and len(self._waiting) < GROUPS_MAX:
                self._waiting[of] = address

    async def ask_next(self, now_ms: int) -> bool:
        """Ask the group that waits longest; return False if none waits."""
        if not self._waiting:
            return False
        (cluster, group), address = self._waiting.popitem(last=False)
        self._asked[cluster, group] = now_ms
        self._asked.move_to_end((cluster, group))
        kind = (await AtBroker(self._admin, SetName(cluster, ""), address).members(group)).kind
        kinds = self._kinds.setdefault(cluster, {})
        # Without members it is what it was.
        if kind is not GroupKind.UNKNOWN or group not in kinds:
            kinds[group] = kind
        if len(self._asked) > GROUPS_MAX:
            (of_cluster, oldest), _ = self._asked.popitem(last=False)
            self._kinds[of_cluster].pop(oldest, None)
        return True


#: What a reading fails with that says nothing against this process.
FAILURES: Final = (*BROKER_FAILURES, NotServing, OtherBroker)


class MasterReader:
    """Reads one master (907, 43, 907, 1007, 33), again and again; another one, or another epoch, needs a new reader.

    The end of the log is read before the offsets and after them, by the same process: a broker that started again in
    between has another memory. Brokers before 5.0 and those of DLedger report the end by 28 alone. A broker that is no
    master by its own answer, or has another name, is not read: addresses are taken over, and a demoted master still
    answers from a table that it copies.
    """

    def __init__(self, admin: AdminClient, clock: Clock, master: SetMaster) -> None:
        self._at, self._clock = _broker(admin, master.set_name, master.address), clock
        self.master = master
        #: What its options said, and when the process had started that was asked for them.
        self._options: BrokerOptions | None = None
        self._boot_unix_ms: int | None = None
        self._log = LogWatch()
        self._process = BrokerProcess(master.address)
        self._reports_end = True

    async def read(self, *, is_log_known: bool) -> tuple[ReadingHead, bytes]:
        """Return what the master answers now, and the entries of its table; raises one of FAILURES.

        Unless messages of its log are known, it is asked for the first ones of its files.
        """
        at, clock, master = self._at, self._clock, self.master
        began_ms = clock.now_ms()
        boot, begin, first_end = await self._end()
        options = await self._checked_options(boot)
        text = await read_offsets(at)
        boot_after, _, second_end = await self._end()
        if boot_after != boot:
            raise NotServing(f"{at.address} has started again while it was read")
        epochs = await self._epochs()
        ended_ms, ended_unix_ms = clock.now_ms(), clock.unix_ms()
        found = [] if is_log_known else await at.first_of_files(begin, first_end, options.file_bytes)
        if (newest := await self._log.look(at, begin, first_end, second_end)) is not None:
            found.append(newest)
        head = ReadingHead(
            master=master.address,
            master_epoch=master.master_epoch,
            boot_unix_ms=boot,
            began_ms=began_ms,
            ended_ms=ended_ms,
            ended_unix_ms=ended_unix_ms,
            first_end=first_end,
            second_end=second_end,
            epochs=epochs,
            fingerprints=tuple(found),
        )
        return head, text

    async def _end(self) -> tuple[int | None, int, int]:
        """Return when the broker has started, where its log began when it was connected, and where it ends now."""
        at = self._at
        runtime = self._process.known(at.admin)
        end = None if runtime is None else await self._reported_end()
        if runtime is None or end is None or runtime is not self._process.known(at.admin):
            runtime = await self._process.report(at.admin)
            end = None
        begin, end_then = at.log_limits(runtime)
        return runtime.boot_unix_ms, begin, end_then if end is None else end

    async def _reported_end(self) -> int | None:
        """Return where the log ends by 907, None for a broker that does not tell it."""
        if not self._reports_end:
            return None
        try:
            found = await self._at.call(ha_status())
        except (Refused, BodyError) as error:
            if isinstance(error, Refused) and error.code == ResponseCode.SYSTEM_BUSY:
                raise
            self._reports_end = False
            return None
        if not found.is_master:
            raise NotServing(f"{self._at.address} reports (907) that it is no master")
        return found.max_offset

    async def _checked_options(self, boot_unix_ms: int | None) -> BrokerOptions:
        """Return the options, asked for once after each start; raises one of FAILURES for one that is no such master.

        NameServers alone may have shown who has the address. A broker with ACL may deny to show its options.
        """
        if self._options is None or self._boot_unix_ms != boot_unix_ms:
            options = await self._at.options()
            if self.master.master_epoch is None and options.is_slave:
                raise NotServing(f"{self._at.address} is a slave by its own options (26)")
            if self._options is not None:
                # The end of the log that was read may be lost.
                self._log = LogWatch()
                self._reports_end = True
            self._options, self._boot_unix_ms = options, boot_unix_ms
        return self._options

    async def _epochs(self) -> tuple[LogEpoch, ...] | None:
        """Return where each epoch begins, None without a controller; raises NotServing for one that is no master.

        An earlier last epoch is none: a broker lists no epoch that began where the one before it did.
        """
        master = self.master
        if master.master_epoch is None:
            return None
        try:
            found = await self._at.call(log_epochs())
        except Refused as refused:
            if isinstance(refused, NotSupported) or refused.code == ResponseCode.SYSTEM_ERROR:
                return None
            raise
        last = found.epochs[-1].epoch if found.epochs else 0
        is_master = found.broker_id == MASTER_ID and found.broker_name == master.set_name.broker_name
        if not is_master or last > master.master_epoch:
            raise NotServing(
                f"{master.address} is to be master of {master.set_name.broker_name} in epoch {master.master_epoch}, "
                f"and reports (1007) brokerId {found.broker_id} of {found.broker_name}, last epoch {last}"
            )
        return found.epochs


async def read_offsets(at: AtBroker) -> bytes:
    """Return the entries that a broker shows now; raises one of FAILURES."""
    text = offsets_text((await at.call(all_offsets())).body, OFFSET_TABLE)
    if text is None:
        raise BodyError(f"{at.address} answers without {OFFSET_TABLE}")
    return text


def _broker(admin: AdminClient, set_name: SetName, address: str) -> AtBroker:
    """Return a broker that is read again soon, and so not asked twice while it is busy."""
    return AtBroker(admin, set_name, address, busy_tries=0)


#: Readings this old may be pushed: those of the last minute.
MINUTE_MS: Final = 60_000
#: Lives of masters whose last minute is kept, the present one too.
RUNS_MAX: Final = 3
#: A replica that differs from its master, and has not changed for so long, copies nothing: the slowest copy each 60 s.
COPIES_WITHIN_MS: Final = 180_000
#: A reading of a replica counts if it is over so soon after that of its master.
REPLICA_WITHIN_MS: Final = 1_000
#: Partings of a set that are remembered.
PARTINGS_MAX: Final = 16
#: Readings under way of brokers that answered last, and of those that did not: masters, and the same of replicas.
READS_MAX: Final = 64
FAILING_READS_MAX: Final = 16
#: Fingerprints: all of the newest readings, one for each minute of an hour, and one for each hour.
_FINGERPRINTS_MAX: Final = 600
_ALL_WITHIN_MS: Final = 5 * MINUTE_MS
_HOUR_MS: Final = 60 * MINUTE_MS
_DAYS_MS: Final = 14 * 24 * _HOUR_MS
_TICK_S: Final = 0.1


class _Taken(NamedTuple):
    """A fingerprint, of whose log, and when."""

    fingerprint: Fingerprint
    run: MasterRun
    unix_ms: int


@dataclass(slots=True)
class _Replica:
    trail: Trail = field(default_factory=Trail)
    readings: deque[ReplicaReading] = field(default_factory=deque)
    first_ms: int = 0
    read_unix_ms: int | None = None
    is_under_way: bool = False
    problem: str = ""
    is_told: bool = False


@dataclass(slots=True)
class _Set:
    name: SetName
    due_ms: int
    trail: Trail = field(default_factory=Trail)
    #: The newest reading, whatever became of its log since.
    newest: Reading | None = None
    #: Of the last minute of each of the last runs, the newest last.
    readings: list[Reading] = field(default_factory=list)
    fingerprints: list[_Taken] = field(default_factory=list)
    partings: list[Parting] = field(default_factory=list)
    replicas: dict[str, _Replica] = field(default_factory=dict)
    reader: MasterReader | None = None
    is_under_way: bool = False
    problem: str = ""

    def known_marks(self) -> Iterator[_Taken]:
        """Yield the fingerprints that are not known to be of lost messages."""
        for mark in self.fingerprints:
            partings = (parting for parting in self.partings if parting.place <= mark.fingerprint.place)
            if not any(parting.has_lost(mark.run, mark.unix_ms) for parting in partings):
                yield mark


class Readings:
    """The readings of all sets that are followed."""

    def __init__(
        self,
        client: Requester,
        following: Following,
        clock: Clock,
        emit: Callable[[Event], None],
        report: Report,
        config: OffsetManagerConfig,
    ) -> None:
        """Read and keep as the options say; `report` takes failures of background tasks."""
        limits = AdminLimits(requests_max=2 * (READS_MAX + FAILING_READS_MAX))
        self._admin = AdminClient(client, limits)
        self._following, self._clock, self._emit, self._report = following, clock, emit, report
        self._period_ms, store_path = config.reading_period_ms, Path(config.store_path)
        self._files = ReadingFiles(store_path / "readings", config.readings_bytes_max, emit)
        self._kinds = GroupKinds(AdminClient(client, AdminLimits(requests_max=4)))
        self._jump_file = store_path / "jumps.jsonl"
        self._jump_log: deque[Jump] = deque(maxlen=JUMPS_MAX)
        self._jump_lines = 0
        self._sets: dict[SetName, _Set] = {}
        #: Readings under way, by whether they are of replicas, and of those that failed last.
        self._under_way: Tally[tuple[bool, bool]] = Tally()
        self._is_loaded = False
        #: When the masters of the last changes had started; None where that was not known then.
        self._starts: dict[SetName, int | None] = {}
        #: Called with a master that has started again in the same epoch, where no change of masters tells its start.
        self.restarted: list[Callable[[SetMaster], None]] = []
        following.listeners.append(self._master_changed)

    # What others ask

    def known_before(self, master: SetMaster, now_ms: int) -> KnownBefore | None:
        """Return what is known of a set from before this master, who came by now; None if nothing was ever read."""
        found = self._sets.get(master.set_name)
        former = [] if found is None else [reading for reading in found.readings if not _is_of(reading.run, master)]
        if found is None or not former:
            return None
        *others, newest = former
        known = {taken.fingerprint for taken in found.known_marks()}
        marks = {taken.fingerprint for taken in found.known_marks() if not _is_of(taken.run, master)}
        replica = found.replicas.get(master.address)
        return KnownBefore(
            readings=(*(reading for reading in others if now_ms - reading.ended_ms <= MINUTE_MS), newest),
            replica_readings=() if replica is None else tuple(replica.readings),
            fingerprints=tuple(sorted(marks)),
            lost=tuple(sorted({taken.fingerprint for taken in found.fingerprints} - known)),
        )

    def at(self, set_name: SetName, unix_ms: int) -> Reading | None:
        """Return the newest reading at or before a moment; None if there is none. Reads a file."""
        found = self._sets.get(set_name)
        former = [] if found is None else [reading for reading in found.readings if reading.ended_unix_ms <= unix_ms]
        if (stored := self._files.read(set_name, unix_ms, self._long_ago())) is not None:
            # One that is in memory too is newer there: its monotonic time is known.
            former.insert(0, stored)
        return max(reversed(former), key=lambda reading: reading.ended_unix_ms, default=None)

    def log_before(self, reading: Reading) -> tuple[LogBefore, list[Fingerprint]]:
        """Return the log that a reading saw, as far as it is known, and the fingerprints of the run that was read."""
        found = self._sets.get(reading.set_name)
        found = found or _Set(reading.set_name, 0)
        own = [mark.fingerprint for mark in found.fingerprints if mark.run == reading.run]
        former = [mark.fingerprint for mark in found.known_marks() if mark.unix_ms <= reading.ended_unix_ms]
        return LogBefore(tuple(sorted({*own, *former})), reading.second_end, reading.epochs), own

    def moments(self, set_name: SetName) -> list[int]:
        """Return moments with a reading, Unix ms, the oldest first; in the last hour there are others in between."""
        return self._files.moments(set_name)

    def parted(self, master: SetMaster, place: int) -> None:
        """Let no repair go by readings and fingerprints of former masters behind a place: their messages are lost.

        Call it once the proof is known, in every mode: they would contradict those of the present log.
        """
        if (found := self._sets.get(master.set_name)) is not None:
            run = MasterRun(master.address, master.master_epoch, master.boot_unix_ms)
            # The clock may have leapt back.
            unix_ms = max([self._clock.unix_ms(), *(taken.unix_ms for taken in found.fingerprints)])
            parting = Parting(unix_ms, place, run)
            found.partings = [*found.partings, parting][-PARTINGS_MAX:]
            found.readings = [
                reading
                for reading in found.readings
                if reading.first_end <= place or not parting.has_lost(reading.run, parting.unix_ms)
            ]

    def jumps(self, limit: int, is_wanted: Callable[[Jump], bool] = lambda _: True) -> list[Jump]:
        """Return the last jumps that are wanted, the newest first."""
        return list(islice(filter(is_wanted, reversed(self._jump_log)), limit))

    def newest(self) -> dict[SetName, Reading]:
        """Return the newest reading of each set that has one, whatever became of its log since."""
        return {name: found.newest for name, found in self._sets.items() if found.newest is not None}

    def statuses(self) -> list[SetStatus]:
        """Return how each set was read last, by name."""
        masters = {followed.set_name: followed.master for followed in self._following.sets.values()}
        names = sorted(self._sets.keys() | masters.keys())
        return [self._status(name, masters.get(name)) for name in names]

    def measures(self) -> Iterator[Measure]:
        statuses = self.statuses()
        yield Measure(SETS_READ, sum(status.fresh for status in statuses))
        yield Measure(SETS_STALE, sum(not status.fresh for status in statuses if status.master is not None))
        idle = (replica.copies is False for status in statuses for replica in status.replicas)
        yield Measure(REPLICAS_IDLE, sum(idle))
        yield Measure(FILE_BYTES, self._files.size_bytes)

    # What runs

    async def run(self) -> None:
        async with BackgroundTasks(self._report) as tasks:
            tasks.keep_running(self._files.run, "reading_files")
            tasks.keep_running(self._ask_kinds, "group_kinds")
            while True:
                self._begin(tasks)
                await asyncio.sleep(_TICK_S)

    async def load(self) -> None:
        """Take what an earlier process kept: fingerprints, the newest reading of each set, and jumps. Never raises.

        To be called before masters are followed: a change that is told before is compared with nothing.
        """
        if self._is_loaded:
            return
        for name, heads in (await self._files.load()).items():
            newest = self._files.read(name, heads[-1].ended_unix_ms, self._long_ago())
            found = self._set(name)
            if newest is not None:
                found.newest, found.readings = newest, [newest]
                assert isinstance(newest.offsets, TableOffsets), "files have no others"
                found.trail = Trail(newest.offsets.text())
            for head in heads:
                found.fingerprints += (_Taken(mark, head.run, head.ended_unix_ms) for mark in head.fingerprints)
            found.partings = list(heads[-1].partings)
            _thin(found.fingerprints)
        self._jump_log.extend(await asyncio.to_thread(_jumps_in, self._jump_file))
        self._is_loaded = True

    async def close(self) -> None:
        await self._files.flush()

    def _begin(self, tasks: BackgroundTasks) -> None:
        """Begin the readings that are due; none while it is not known who is master."""
        now_ms = self._clock.now_ms()
        if not self._following.is_fresh():
            return
        for followed in self._following.sets.values():
            if followed.master is None:
                continue
            found = self._set(followed.set_name)
            if found.is_under_way or now_ms < found.due_ms or not self._has_turn(False, found.problem):
                continue
            found.is_under_way = True
            # What was missed is not made up for.
            found.due_ms += self._period_ms * (1 + max(0, now_ms - found.due_ms) // self._period_ms)
            tasks.start(self._read(tasks, found, followed, followed.master), "reading")

    async def _read(self, tasks: BackgroundTasks, found: _Set, followed: FollowedSet, master: SetMaster) -> None:
        """Read a master once, and its replicas after that."""
        turn = False, bool(found.problem)
        self._under_way[turn] += 1
        reader = found.reader
        if reader is None or not _is_same_master(reader.master, master):
            reader = found.reader = MasterReader(self._admin, self._clock, master)
        try:
            head, text = await reader.read(is_log_known=any(found.known_marks()))
            if not self._following.is_master(master):
                return
            self._take(found, master, head, text)
            found.problem = ""
            self._emit(Counted(count=Count(READ, ("read",))))
        except FAILURES as error:
            if not found.problem:
                name = master.set_name.broker_name
                self._emit(MasterNotRead(broker=name, addr=master.address, problem=str(error)))
            found.problem = str(error)
            self._emit(Counted(count=Count(READ, ("failed",))))
            return
        finally:
            found.is_under_way = False
            self._under_way[turn] -= 1
        for address in followed.replicas():
            replica = found.replicas.setdefault(address, _Replica())
            if not replica.is_under_way and self._has_turn(True, replica.problem):
                replica.is_under_way = True
                tasks.start(self._read_replica(found, master, address, replica), "replica reading")

    def _take(self, found: _Set, master: SetMaster, head: ReadingHead, text: bytes) -> None:
        """Keep a reading, and find what jumped since the one before."""
        former, run = found.newest, head.run
        is_new_run = former is None or former.run != run
        changes, stored = found.trail.take(text, head.ended_ms, is_full=is_new_run)
        kinds = self._kinds.of_cluster(found.name.cluster)
        reading = reading_of(head, found.name, found.trail.offsets, kinds=kinds)
        found.newest, found.readings = reading, [*_kept(found.readings, reading), reading]
        found.fingerprints += (_Taken(mark, run, head.ended_unix_ms) for mark in head.fingerprints)
        if len(found.fingerprints) > _FINGERPRINTS_MAX:
            _thin(found.fingerprints)
        keys = found.trail.entry_keys() if former is None else iter(changes)
        self._kinds.have_moved(found.name, master.address, map(decoded_key, keys), head.ended_ms)
        groups = {decoded_key(key).group for key in found.trail.entry_keys()} if stored.is_full else ()
        kinds = {group: kind for group in groups if (kind := kinds.get(group)) is not None}
        self._files.append(found.name, replace(head, kinds=kinds, partings=tuple(found.partings)), stored)
        if former is not None:
            self._note_jumps(former, reading, changes)
            has_restarted = is_new_run and former.run._replace(boot_unix_ms=None) == run._replace(boot_unix_ms=None)
            if has_restarted and self._starts.get(found.name) is None:
                for listener in self.restarted:
                    listener(master._replace(boot_unix_ms=head.boot_unix_ms))

    def _note_jumps(self, former: Reading, reading: Reading, changes: Mapping[bytes, Change]) -> None:
        jumps = jumps_between(former, reading, changes)
        if not jumps:
            return
        self._jump_log.extend(jumps)
        for event in told(jumps):
            self._emit(event)
        self._jump_lines += len(jumps)
        is_long = self._jump_lines > JUMPS_MAX
        if is_long:
            self._jump_lines = 0
        lines = b"".join(msgspec.json.encode(jump) + b"\n" for jump in (self._jump_log if is_long else jumps))
        self._files.write_lines(self._jump_file, lines, is_new=is_long)

    async def _read_replica(self, found: _Set, master: SetMaster, address: str, replica: _Replica) -> None:
        """Read a replica once, right after its master: later clients may commit to it, as it may be master by then."""
        turn, began_ms = (True, bool(replica.problem)), self._clock.now_ms()
        self._under_way[turn] += 1
        try:
            text = await read_offsets(_broker(self._admin, found.name, address))
            ended_ms, replica.read_unix_ms = self._clock.now_ms(), self._clock.unix_ms()
            replica.problem = ""
            is_late = found.newest is None or ended_ms - found.newest.ended_ms > REPLICA_WITHIN_MS
            if is_late or not self._following.is_master(master):
                return
            replica.trail.take(text, ended_ms)
            replica.first_ms = replica.first_ms or ended_ms
            replica.readings.append(
                ReplicaReading(address=address, began_ms=began_ms, ended_ms=ended_ms, offsets=replica.trail.offsets)
            )
            while replica.readings[0].ended_ms < ended_ms - MINUTE_MS:
                replica.readings.popleft()
        except FAILURES as error:
            replica.problem = str(error)
            return
        finally:
            replica.is_under_way = False
            self._under_way[turn] -= 1
        is_idle = self._copies(found, replica, ended_ms) is False
        if is_idle and not replica.is_told:
            self._emit(ReplicaCopiesNothing(broker=found.name.broker_name, addr=address))
        replica.is_told = is_idle

    async def _ask_kinds(self) -> None:
        while True:
            await asyncio.sleep(1 / ASKED_PER_S)
            await self._kinds.ask_next(self._clock.now_ms())

    def _has_turn(self, is_replica: bool, problem: str) -> bool:  # noqa: FBT001  # a kind of readings
        return self._under_way[is_replica, bool(problem)] < (FAILING_READS_MAX if problem else READS_MAX)

    def _set(self, name: SetName) -> _Set:
        if (found := self._sets.get(name)) is None:
            # Sets are spread over the period: their answers do not come at once.
            now_ms, part_ms = self._clock.now_ms(), crc32(str(name).encode()) % self._period_ms
            found = self._sets[name] = _Set(name, now_ms + (part_ms - now_ms) % self._period_ms)
        return found

    def _master_changed(self, change: MasterChange) -> None:
        """Read a new master at once; files of a set that is gone stay."""
        self._starts[change.set_name] = None if change.after is None else change.after.boot_unix_ms
        if change.kind is MasterChangeKind.REMOVED:
            self._sets.pop(change.set_name, None)
            del self._starts[change.set_name]
        elif change.after is not None and (found := self._sets.get(change.set_name)) is not None:
            found.due_ms = self._clock.now_ms()

    def _status(self, name: SetName, master: SetMaster | None) -> SetStatus:
        found, now_ms = self._sets.get(name) or _Set(name, 0), self._clock.now_ms()
        reading, followed = found.newest, self._following.sets.get(name.broker_name)
        replicas = []
        for address in () if followed is None else followed.replicas():
            replica = found.replicas.get(address) or _Replica()
            replicas.append(
                ReplicaStatus(
                    address=address,
                    read_unix_ms=replica.read_unix_ms,
                    copies=self._copies(found, replica, now_ms),
                    problem=replica.problem,
                )
            )
        return SetStatus(
            cluster=name.cluster,
            broker_name=name.broker_name,
            master=None if master is None else master.address,
            master_epoch=None if master is None else master.master_epoch,
            read_unix_ms=None if reading is None else reading.ended_unix_ms,
            read_from=None if reading is None else reading.master,
            read_epoch=None if reading is None else reading.master_epoch,
            fresh=reading is not None and now_ms - reading.ended_ms <= 3 * self._period_ms,
            groups=found.trail.entries,
            left_out=found.trail.left_out,
            fingerprints=len(found.fingerprints),
            log_end=None if reading is None else reading.second_end,
            oldest_unix_ms=min(self._files.moments(name), default=None),
            problem=found.problem,
            replicas=replicas,
        )

    def _copies(self, found: _Set, replica: _Replica, now_ms: int) -> bool | None:
        """Return whether a replica copies offsets: it changes, or has what its master has."""
        if not replica.readings or found.newest is None:
            return None
        changed_ms = replica.trail.changed_ms
        if changed_ms is not None and now_ms - changed_ms <= COPIES_WITHIN_MS:
            return True
        if same_entries(replica.trail.text, found.trail.text):
            return True
        return None if now_ms - replica.first_ms <= COPIES_WITHIN_MS else False

    def _long_ago(self) -> int:
        """Return what stands for the monotonic time of an earlier process: too old to be pushed."""
        return self._clock.now_ms() - 2 * MINUTE_MS


def _is_of(run: MasterRun, master: SetMaster) -> bool:
    """Return whether it was this master that was read; one that started since is another."""
    is_same = (run.address, run.master_epoch) == (master.address, master.master_epoch)
    return is_same and master.boot_unix_ms in (None, run.boot_unix_ms)


def _is_same_master(one: SetMaster, other: SetMaster) -> bool:
    return (one.address, one.master_epoch) == (other.address, other.master_epoch)


def _kept(readings: list[Reading], newest: Reading) -> Iterator[Reading]:
    """Yield the readings that are kept beside a newer one: the last minute of each of the last runs."""
    runs = list(dict.fromkeys(reading.run for reading in [*readings, newest]))[-RUNS_MAX:]
    last_ms = {reading.run: reading.ended_ms for reading in [*readings, newest]}
    return (
        reading for reading in readings if reading.run in runs and reading.ended_ms >= last_ms[reading.run] - MINUTE_MS
    )


def _thin(taken: list[_Taken]) -> None:
    """Keep all fingerprints of the newest readings, and of older ones the last of each run in a minute, or an hour."""
    newest_ms = taken[-1].unix_ms if taken else 0
    kept: dict[tuple[int, int, MasterRun], _Taken] = {}
    for number, mark in enumerate(taken):
        age_ms = newest_ms - mark.unix_ms
        if age_ms <= _ALL_WITHIN_MS:
            kept[0, number, mark.run] = mark
        elif age_ms <= _HOUR_MS:
            kept[1, mark.unix_ms // MINUTE_MS, mark.run] = mark
        elif age_ms <= _DAYS_MS:
            kept[2, mark.unix_ms // _HOUR_MS, mark.run] = mark
    taken[:] = kept.values()


def _jumps_in(path: Path) -> list[Jump]:
    """Return the jumps in a file; a line that is none, as the end of one that was cut, is passed over."""
    found = []
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return []
    for line in lines[-JUMPS_MAX:]:
        try:
            found.append(msgspec.json.decode(line, type=Jump))
        except msgspec.DecodeError:
            continue
    return found
