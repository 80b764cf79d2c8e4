"""The embedded store: one SQLite file, for one controller process, durable at every commit.

Commits that come while the disk is waited for go into the next transaction together, each with its own answer. A file
that was removed, replaced or rolled back is noticed: nothing is called stored that the next start would not find.
"""

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from controller.sets.stored_set import StoredSet
from remoting.background_tasks import BackgroundTasks, Report
from remoting.clock import SystemClock
from serving.durable_file import DurableFileError
from serving.telemetry.events import Emit
from store.documents import DOCUMENT_PAGE, DocumentKind, VersionedDocument
from store.events import StoreCalled, StoreFileRemoved, StoreFileUnseen
from store.high_water import (
    DamagedMark,
    FileWatch,
    FolderLock,
    HighWater,
    StoreFileMissing,
    StoreUnseen,
    Unseen,
)
from store.store import (
    ControllerMember,
    EntryMoved,
    LeadershipListener,
    OutcomeUnknown,
    StoreError,
    VersionedEntry,
    check_document,
    ignore,
)
from store.tables import DocumentTable, EntryTable, count_changes, create_tables, entry_text

FILE_NAME: Final = "controller.db"
#: Takes the number of the last commit.
MARK_NAME: Final = "controller.mark"
#: What is in the file: a release that finds a higher number does not touch it. The table of documents came without
#: a new number: earlier releases leave it alone.
FILE_FORMAT: Final = 1
#: How long after a commit its number is written there.
MARK_LAG_S: Final = 0.05
#: How often a controller that stores nothing looks whether its files are there.
FILE_CHECK_S: Final = 1.0
#: Commits in one transaction: those that come later wait for it.
BATCH_MAX: Final = 500

Result = TypeVar("Result")


class StoreInUse(StoreError):
    """Another process has the file, or it cannot be opened."""


@dataclass(slots=True)
class _Commit:
    """An entry that one caller wants stored, and what has become of it."""

    broker_name: str
    text: str
    revision: int
    #: Takes the next revision, or why there is none.
    done: asyncio.Future[int]
    #: Nobody waits for it any more: it is not to be begun.
    is_given_up: bool = False
    is_stored: bool = False


class EmbeddedStore:
    """The entries and documents in one file; a thread of its own waits for the disk."""

    def __init__(self, folder: Path, emit: Emit = ignore, report: Report = ignore) -> None:
        """Open or make the file in `folder`; raises StoreInUse, or StoreError if what is in it cannot be read.

        `emit` is called from any thread.
        """
        self._path = folder / FILE_NAME
        self._emit = emit
        self._clock = SystemClock()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedded-store")
        #: The mark has a thread of its own, and a while: no commit waits for a second write to the disk.
        self._marking = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedded-store-mark")
        self._is_marking = False
        self._closing = threading.Event()
        self._listener: LeadershipListener | None = None
        self._background = BackgroundTasks(report)
        self._looking: asyncio.Task[None] | None = None
        self._missing: StoreFileMissing | None = None
        #: One call for documents at a time is in the thread: a commit of a set waits for no more than that.
        self._document_turn = asyncio.Lock()
        #: In the order they came; taken by the thread.
        self._waiting: deque[_Commit] = deque()
        #: The thread will take all that wait by then: each call of it costs as much as the commit.
        self._is_called = False
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._thread.submit(self._open).result()
        except (OSError, sqlite3.Error) as error:
            self._thread.shutdown()
            raise StoreInUse(f"{self._path} cannot be used: {error}; is another controller running on it?") from None
        except StoreError:
            self._thread.shutdown()
            raise

    async def join(self, me: ControllerMember, listener: LeadershipListener) -> None:
        """Lead alone for as long as the file is there: nobody else can open it."""
        self._listener = listener
        listener.members_changed((me,))
        listener.leads(None)
        self._looking = self._background.keep_running(self._check_files_forever, "embedded_store")

    async def resign(self) -> None:
        """Nobody is there to lead instead."""

    def pass_on(self) -> None:
        """Nobody is there to lead instead."""

    async def load(self) -> Mapping[str, VersionedEntry]:
        return await self._looked_up("load", self._entries.load)

    async def read(self, broker_name: str) -> VersionedEntry:
        return await self._looked_up("read", lambda: self._entries.read(broker_name))

    async def commit(self, broker_name: str, entry: StoredSet, revision: int) -> int:
        loop = asyncio.get_running_loop()
        wanted = _Commit(broker_name, entry_text(entry), revision, loop.create_future())
        self._waiting.append(wanted)
        if not self._is_called:
            self._is_called = True
            try:
                self._thread.submit(self._commit_waiting, loop)
            except RuntimeError:
                self._is_called = False  # The store is closed.
                raise
        try:
            return await self._observed("commit", wanted.done)
        finally:
            wanted.is_given_up = True

    async def load_documents(self, kind: DocumentKind) -> Mapping[str, VersionedDocument]:
        """Return all documents of a kind; commits of sets come between the pages, and none of documents."""
        documents: dict[str, VersionedDocument] = {}
        first = ""
        async with self._document_turn:
            while True:
                page = await self._looked_up("load_documents", partial(self._documents.page, kind, first))
                documents.update(page)
                if len(page) < DOCUMENT_PAGE:
                    return documents
                first = [*page][-1] + "\0"

    async def read_document(self, kind: DocumentKind, name: str) -> VersionedDocument:
        check_document(kind, name, None)
        async with self._document_turn:
            return await self._looked_up("read_document", lambda: self._documents.read(kind, name))

    async def commit_document(self, kind: DocumentKind, name: str, value: bytes | None, revision: int) -> int:
        check_document(kind, name, value)
        async with self._document_turn:
            return await self._call("commit_document", lambda: self._commit_document(kind, name, value, revision))

    async def size_bytes(self) -> int | None:
        """There is no etcd, and nothing that has a quota."""
        return None

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        await self._call("close", self._close)
        self._thread.shutdown(wait=False)

    async def _check_files_forever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(FILE_CHECK_S)
            try:
                await loop.run_in_executor(self._thread, self._check_files)
            except StoreFileMissing:
                self._stop_leading()
            except StoreUnseen:
                # It was reported; the next look may succeed.
                continue

    def _stop_leading(self) -> None:
        if self._listener is not None:
            self._listener.follows(None)

    def _close(self) -> None:
        self._closing.set()
        self._marking.submit(self._raise_mark)
        self._marking.shutdown(wait=True)
        self._connection.close()
        self._mark.close()
        self._folder.close()

    def _raise_mark(self) -> None:
        """Let the mark follow what is stored; nobody waits for it, and it is never ahead."""
        self._closing.wait(MARK_LAG_S)
        self._is_marking = False
        # Where it cannot be written, less is noticed later; commits report their own failures.
        with suppress(OSError):
            if self._number > self._mark.number:
                self._mark.raise_to(self._number)

    def _open(self) -> None:
        self._folder = FolderLock(self._path.parent)
        try:
            self._open_file()
        except BaseException:
            self._folder.close()
            raise

    def _open_file(self) -> None:
        self._connection = connection = sqlite3.connect(
            self._path, isolation_level=None, timeout=0, check_same_thread=False
        )
        try:
            self._prepare(connection, self._path)
            # There is no other copy: a controller that cannot read it had better not start.
            self._entries = EntryTable(connection, self._path)
            self._entries.load()
            self._documents = DocumentTable(connection, self._path)
            self._begin(self._path.with_name(MARK_NAME))
        except (sqlite3.Error, StoreError, OSError):
            connection.close()
            raise

    def _begin(self, path: Path) -> None:
        """Go on where the last process ended; raises StoreError if the file is behind that."""
        try:
            self._mark = HighWater(path)
        except DurableFileError as error:
            raise StoreError(str(error)) from None
        except DamagedMark:
            raise StoreError(
                f"{path} is damaged, so it is unknown whether {self._path} is whole: restore the folder from a backup, "
                "or remove that file if the brokers' roles are right as they are"
            ) from None
        number = count_changes(self._connection)
        if number < self._mark.number:
            self._mark.close()
            raise StoreError(
                f"{self._path} lacks {self._mark.number - number} of the {self._mark.number} changes that {path} "
                "counts: its log is damaged, or an older copy was put in its place. Restore the whole folder from a "
                f"backup, or remove both files and adopt the brokers. To go on with what is left, remove {path}: "
                "brokers in sync by that log may lack messages"
            )
        self._number = number
        self._mark.raise_to(number)
        self._files = FileWatch(self._path, Path(f"{self._path}-wal"))

    @staticmethod
    def _prepare(connection: sqlite3.Connection, path: Path) -> None:
        # Held from the first write on until the end: two controllers on one file would each elect.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        # A write-ahead log is synced once for each commit; FULL syncs it, or the last ones would be gone after a crash.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN EXCLUSIVE")
        (written,) = connection.execute("PRAGMA user_version").fetchone()
        if written > FILE_FORMAT:
            raise StoreError(
                f"{path} has format {written}, and this release reads formats up to {FILE_FORMAT}: run the release "
                "that wrote it, or a later one"
            )
        create_tables(connection)
        connection.execute(f"PRAGMA user_version = {FILE_FORMAT}")
        connection.execute("COMMIT")

    async def _looked_up(self, kind: str, read: Callable[[], Result]) -> Result:
        """Return what the thread reads, if the files are there."""

        def looked_up() -> Result:
            self._check_files()
            return read()

        return await self._call(kind, looked_up)

    def _check_files(self) -> None:
        if self._missing is None:
            self._missing = self._find_missing()
            if self._missing is not None:
                self._emit(StoreFileRemoved(error=str(self._missing)))
        if self._missing is not None:
            raise self._missing

    def _find_missing(self) -> StoreFileMissing | None:
        try:
            path = self._files.missing(self._clock.now_ms())
        except Unseen as unseen:
            if unseen.is_for_long:
                return StoreFileMissing(f"{unseen}, and could not for {unseen.unseen_ms / 1000:.0f} s")
            if unseen.is_new:
                self._emit(StoreFileUnseen(error=str(unseen)))
            raise StoreUnseen(str(unseen)) from None
        if path is None:
            return None
        return StoreFileMissing(f"{path} is gone: it was removed or replaced while this controller ran")

    def _commit_waiting(self, loop: asyncio.AbstractEventLoop) -> None:
        # Who waits from now on calls again.
        self._is_called = False
        for _ in range(0, len(self._waiting), BATCH_MAX):
            self._commit_some(loop)

    def _commit_some(self, loop: asyncio.AbstractEventLoop) -> None:
        """Store what waits, in one transaction: all of it is on the disk after this, or nobody knows."""
        taken = [self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH_MAX))]
        batch = [each for each in taken if not each.is_given_up]
        failure: Exception | None = None
        try:
            self._transact(lambda: self._put(batch))
        except Exception as error:  # noqa: BLE001  # whatever it is, nobody may wait for this for ever
            failure = error
        loop.call_soon_threadsafe(self._report_committed, batch, failure)

    def _report_committed(self, batch: Collection[_Commit], failure: Exception | None) -> None:
        for each in batch:
            if each.done.done():
                continue
            if failure is None and each.is_stored:
                each.done.set_result(each.revision + 1)
            else:
                each.done.set_exception(self._refusal(each, failure))

    def _refusal(self, wanted: _Commit, failure: Exception | None) -> StoreError:
        """Return why a commit has no revision; after a failed transaction nobody knows whether it is stored."""
        if failure is None:
            return EntryMoved(f"{wanted.broker_name} is no longer at revision {wanted.revision}")
        if isinstance(failure, StoreFileMissing):
            return failure
        unknown = OutcomeUnknown(f"{self._path}: {failure}")
        unknown.__cause__ = failure
        return unknown

    def _put(self, batch: Collection[_Commit]) -> int:
        for each in batch:
            each.is_stored = self._entries.put(each.broker_name, each.text, each.revision)
        return sum(each.is_stored for each in batch)

    def _commit_document(self, kind: DocumentKind, name: str, value: bytes | None, revision: int) -> int:
        try:
            changes = self._transact(lambda: int(self._documents.put(kind, name, value, revision)))
        except StoreFileMissing:
            raise
        except Exception as error:
            raise OutcomeUnknown(f"{self._path}: {error}") from error
        if not changes:
            raise EntryMoved(f"{kind} {name} is no longer at revision {revision}")
        return revision + 1

    def _transact(self, change: Callable[[], int]) -> int:
        """Make changes in one transaction, and return how many they are; if it fails, nobody knows of them."""
        self._connection.rollback()  # where the one before failed so badly that it could not be undone
        self._check_files()
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            changes = change()
        # They are in the file, wherever that is.
        self._number += changes
        self._check_files()
        if not self._is_marking:
            self._is_marking = True
            self._marking.submit(self._raise_mark)
        return changes

    async def _call(self, kind: str, work: Callable[[], Result]) -> Result:
        return await self._observed(kind, asyncio.get_running_loop().run_in_executor(self._thread, work))

    async def _observed(self, kind: str, call: Awaitable[Result]) -> Result:
        """Return what a call of the thread returns, and report how it ended and how long it took."""
        loop = asyncio.get_running_loop()
        begun_s, result = loop.time(), "unknown"
        try:
            answer = await call
        except sqlite3.Error as error:
            raise OutcomeUnknown(f"{self._path}: {error}") from error
        except EntryMoved:
            result = "moved"
            raise
        except StoreFileMissing:
            result = "failed"
            self._stop_leading()
            raise
        else:
            result = "ok"
            return answer
        finally:
            self._emit(StoreCalled(operation=kind, result=result, seconds=loop.time() - begun_s))
