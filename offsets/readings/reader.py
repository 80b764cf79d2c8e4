"""Reads one master of a broker set (907, 43, 907, 1007, 33) and its replicas (43). The edge: nothing is decided here.

The end of the log is read before the offsets and after them, by the same process: a broker that started again in
between has another memory. Brokers before 5.0 and those of DLedger report the end by 28. A broker that is no master by
its own answer, or has another name, is not read: addresses are taken over, and a demoted master answers on from a table
that it copies by now.
"""

from typing import Final, NamedTuple

from offsets.at_broker import fingerprint_of, none_by
from offsets.proof import Fingerprint, Look
from offsets.readings.reading import ReadingHead
from offsets.readings.table import offsets_text
from offsets.sets.followed import SetMaster
from remoting.admin.broker_process import BrokerProcess
from remoting.admin.brokers import broker_options, ha_status
from remoting.admin.client import AdminClient
from remoting.admin.log_epochs import LogEpoch, log_epochs
from remoting.admin.offset_table import all_offsets
from remoting.admin.stored_messages import LogFileEnds, message_in_log, queue_entry
from remoting.clock import Clock
from remoting.protocol.codes import ResponseCode
from remoting.protocol.errors import BodyError, InvokeError, NotSupported, Refused
from remoting.protocol.shapes.broker_admin import OFFSET_TABLE
from remoting.protocol.shapes.route import MASTER_ID

#: Messages that are looked at in one reading of a log that stands still.
WALK_MAX: Final = 32
#: Messages that are looked at in a log of which nothing is known yet: the first ones of some of its files.
FILES_MAX: Final = 16


async def look_at(admin: AdminClient, address: str, place: int) -> Look:
    """Return the message that begins at a place of the log now."""
    try:
        return fingerprint_of(await admin.call(address, message_in_log(place)))
    except (InvokeError, Refused, BodyError) as error:
        return none_by(error)


class LogWatch:
    """Takes fingerprints of a master's log: one look (33) at each reading if it moves, a short walk if not.

    The end of a log at one reading is where a message begins at the next, if the log has moved. In a log that stands
    still no message begins at its end: there a walk finds the last one, from message to message, and at each of them to
    the last one of its queue (321). It passes no queue twice, so it is short. Bodies are received and dropped.
    """

    def __init__(self) -> None:
        #: Where the log ended at the reading before.
        self._former_end: int | None = None
        self._newest: Fingerprint | None = None

    async def look(
        self, admin: AdminClient, address: str, begin: int, first_end: int, second_end: int
    ) -> Fingerprint | None:
        """Return a message below `second_end` that was not known before: the newest that is found, None without any."""
        former_end, self._former_end = self._former_end, first_end
        found = None
        if former_end is not None and former_end < first_end:
            found = await _first_from(admin, address, former_end)
        elif former_end is not None and (self._newest is None or self._newest.end < first_end):
            found = await self._walk(admin, address, begin, first_end)
        if found is None or found.end > second_end:
            return None
        self._newest = found
        return found

    async def _walk(self, admin: AdminClient, address: str, begin: int, end: int) -> Fingerprint | None:
        """Return the last message of a log that stands still, or one that is nearer to it than the newest known one."""
        place, last = begin if self._newest is None else self._newest.end, None
        for _ in range(WALK_MAX):
            found = await _first_from(admin, address, place)
            if found is None or found.end > end:
                break
            last = found
            if found.end == end:
                break
            place = max(found.end, await _last_place_of_queue(admin, address, found))
        return last


async def first_of_files(admin: AdminClient, address: str, begin: int, end: int, file_bytes: int) -> list[Fingerprint]:
    """Return the first messages of the log and of some of its files, by place: what a log that is new is known by."""
    first_file = (begin // file_bytes + 1) * file_bytes
    files = range(first_file, end, file_bytes)
    places = [begin, *files[:: max(1, -(-len(files) // FILES_MAX))]] if begin < end else []
    looks = [await look_at(admin, address, place) for place in places]
    return [look for look in looks if isinstance(look, Fingerprint) and look.end <= end]


async def _first_from(admin: AdminClient, address: str, place: int) -> Fingerprint | None:
    """Return the message that begins at a place, or in the next file of the log if one ends there; None without any."""
    try:
        return fingerprint_of(await admin.call(address, message_in_log(place)))
    except LogFileEnds as ends:
        look = await look_at(admin, address, ends.next_offset)
        return look if isinstance(look, Fingerprint) else None
    except (InvokeError, Refused, BodyError):
        return None


async def _last_place_of_queue(admin: AdminClient, address: str, message: Fingerprint) -> int:
    """Return where the last message of a message's queue is in the log; 0 if the broker does not tell."""
    try:
        entry = await admin.call(address, queue_entry(message.topic, message.queue_id, message.queue_offset))
        if entry is not None and entry.max_offset - 1 > message.queue_offset:
            entry = await admin.call(address, queue_entry(message.topic, message.queue_id, entry.max_offset - 1))
    except (InvokeError, Refused, BodyError):
        return 0
    return 0 if entry is None else entry.physical_offset


_NAME: Final = "brokerName"
_ROLE: Final = "brokerRole"
_FILE_BYTES: Final = "mappedFileSizeCommitLog"
_FILE_BYTES_DEFAULT: Final = 1 << 30
_SLAVE: Final = "SLAVE"


class NotReadable(Exception):
    """A broker answers, and is not the master that it is to be; the text says what it is."""


#: What a reading fails with that says nothing against this process.
FAILURES: Final = (InvokeError, Refused, BodyError, NotReadable)


class MasterAnswer(NamedTuple):
    """What a master has answered, before it is compared with anything."""

    head: ReadingHead
    #: The entries of its table.
    text: bytes


class MasterReader:
    """Reads one master, again and again; another master, or the same one in another epoch, needs a new reader."""

    def __init__(self, admin: AdminClient, clock: Clock, master: SetMaster) -> None:
        self._admin, self._clock = admin, clock
        self.master = master
        self._has_looked = False
        #: When the process had started that was asked for its name.
        self._boot_unix_ms: int | None = None
        self._file_bytes = _FILE_BYTES_DEFAULT
        self._log = LogWatch()
        self._process = BrokerProcess(master.address)
        self._reports_end = True

    async def read(self, *, is_log_known: bool) -> MasterAnswer:
        """Return what the master answers now; raises one of FAILURES.

        Unless messages of its log are known, it is asked for the first ones of its files.
        """
        admin, clock, address = self._admin, self._clock, self.master.address
        began_ms = clock.now_ms()
        boot, begin, first_end = await self._end()
        await self._check_name(boot)
        text = await read_offsets(admin, address)
        boot_after, _, second_end = await self._end()
        if boot_after != boot:
            raise NotReadable(f"{address} has started again while it was read")
        epochs = await self._epochs()
        ended_ms, ended_unix_ms = clock.now_ms(), clock.unix_ms()
        found = [] if is_log_known else await first_of_files(admin, address, begin, first_end, self._file_bytes)
        if (newest := await self._log.look(admin, address, begin, first_end, second_end)) is not None:
            found.append(newest)
        head = ReadingHead(
            master=address,
            master_epoch=self.master.master_epoch,
            boot_unix_ms=boot,
            began_ms=began_ms,
            ended_ms=ended_ms,
            ended_unix_ms=ended_unix_ms,
            first_end=first_end,
            second_end=second_end,
            epochs=epochs,
            fingerprints=tuple(found),
        )
        return MasterAnswer(head, text)

    async def _end(self) -> tuple[int | None, int, int]:
        """Return when the broker has started, where its log began when it was connected, and where it ends now."""
        runtime = self._process.known(self._admin)
        end = None if runtime is None else await self._reported_end()
        if runtime is None or end is None or runtime is not self._process.known(self._admin):
            runtime = await self._process.report(self._admin)
            end = runtime.commit_log_max_offset
        begin = runtime.commit_log_min_offset
        if begin is None or end is None:
            raise BodyError(f"{self.master.address} does not report where its log begins and ends")
        # A log without a file begins at -1.
        return runtime.boot_unix_ms, max(begin, 0), end

    async def _reported_end(self) -> int | None:
        """Return where the log ends by 907, None for a broker that does not tell it."""
        if not self._reports_end:
            return None
        try:
            found = await self._admin.call(self.master.address, ha_status())
        except (Refused, BodyError) as error:
            if isinstance(error, Refused) and error.code == ResponseCode.SYSTEM_BUSY:
                raise
            self._reports_end = False
            return None
        return found.max_offset if found.is_master else None

    async def _check_name(self, boot_unix_ms: int | None) -> None:
        """Raise NotReadable for a broker of another name, once after each start; pass where it does not tell it.

        NameServers alone may have shown who has the address. A broker with ACL may deny to show its options.
        """
        if self._has_looked and self._boot_unix_ms == boot_unix_ms:
            return
        master = self.master
        try:
            options = await self._admin.call(master.address, broker_options((_NAME, _ROLE, _FILE_BYTES)))
        except Refused as refused:
            if refused.code == ResponseCode.SYSTEM_BUSY:
                raise
            options = {}
        name = options.get(_NAME, "").strip()
        if name and name != master.set_name.broker_name:
            raise NotReadable(f"{master.address} is {name} by its own options (26), not {master.set_name.broker_name}")
        if master.master_epoch is None and options.get(_ROLE, "").strip() == _SLAVE:
            raise NotReadable(f"{master.address} is a slave by its own options (26)")
        if (size := options.get(_FILE_BYTES, "").strip()).isdecimal() and int(size) > 0:
            self._file_bytes = int(size)
        if self._has_looked:
            # The end of the log that was read may be lost.
            self._log = LogWatch()
        self._has_looked, self._boot_unix_ms = True, boot_unix_ms

    async def _epochs(self) -> tuple[LogEpoch, ...] | None:
        """Return where each epoch begins, None without a controller; raises NotReadable for one that is no master.

        An earlier last epoch is none: a broker lists no epoch that began where the one before it did.
        """
        master = self.master
        if master.master_epoch is None:
            return None
        try:
            found = await self._admin.call(master.address, log_epochs())
        except Refused as refused:
            if isinstance(refused, NotSupported) or refused.code == ResponseCode.SYSTEM_ERROR:
                return None
            raise
        last = found.epochs[-1].epoch if found.epochs else 0
        is_master = found.broker_id == MASTER_ID and found.broker_name == master.set_name.broker_name
        if not is_master or last > master.master_epoch:
            raise NotReadable(
                f"{master.address} is to be master of {master.set_name.broker_name} in epoch {master.master_epoch}, "
                f"and reports (1007) brokerId {found.broker_id} of {found.broker_name}, last epoch {last}"
            )
        return found.epochs


async def read_offsets(admin: AdminClient, address: str) -> bytes:
    """Return the entries that a broker shows now; raises one of FAILURES."""
    text = offsets_text((await admin.call(address, all_offsets())).body, OFFSET_TABLE)
    if text is None:
        raise BodyError(f"{address} answers without {OFFSET_TABLE}")
    return text
