"""Opens a SQLite file of the offset manager for this process alone, and names what is wrong with it; blocks."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from store.high_water import FileWatch, Unseen
from store.store import StoreError

#: What the log of a burst keeps of the disk.
LOG_BYTES_MAX: Final = 64 << 20


class FormerMark(NamedTuple):
    """How files of a kind were marked before, as those of another kind are: their table tells them apart."""

    application_id: int
    table: str


class FileKind(NamedTuple):
    """What is in a file, for the checks at its opening."""

    #: For people: `the journal of offsets`.
    title: str
    #: Written into the header: a file of another kind is not touched.
    application_id: int
    #: Another number is refused.
    schema_version: int
    #: Makes the tables of a new file.
    schema: tuple[str, ...]
    #: What an operator does about a damaged file, and what is lost then.
    remedy: str
    #: Files with this mark get the present one as they are opened.
    former_mark: FormerMark | None = None


class FileProblem(StoreError):
    """A file of the offset manager cannot be used, or one write to it failed; names it and what to do."""

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        super().__init__(f"{path}: {what}")


class FileInUse(FileProblem):
    """Another process has the file."""


class FileDamaged(FileProblem):
    """What is in the file makes no sense."""


class FileOfOtherVersion(FileProblem):
    """The file is of another kind, or of a release with another schema."""


class DiskFull(FileProblem):
    """Nothing was stored, for want of room."""


class FileRemoved(FileProblem):
    """The file was removed or replaced while it was in use."""


_FULL: Final = "the disk is full: make room, nothing is stored until then; what was acknowledged is kept"
_BUSY: Final = "another process has it: end the other offset manager on this folder, or give this one its own folder"


def problem_of(path: Path, error: Exception, remedy: str) -> FileProblem:
    """Return what an error of SQLite means for the users of a file."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return DiskFull(path, _FULL)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return FileInUse(path, _BUSY)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return FileDamaged(path, f"it is damaged ({error}): {remedy}")
    return FileProblem(path, f"it cannot be used: {error}; check the folder, its owner and its disk")


class SqliteFile:
    """One open file with a write-ahead log that is synced at each commit."""

    def __init__(self, path: Path, kind: FileKind) -> None:
        """Open the file, or make it; raises FileProblem."""
        self.path: Final = path
        self._kind = kind
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Threads take turns: the one that opens it, then the one that uses it.
            self.connection: Final = sqlite3.connect(path, isolation_level=None, timeout=0, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise problem_of(path, error, kind.remedy) from None
        try:
            self._prepare()
            self._watch = FileWatch(path, Path(f"{path}-wal"))
        except (OSError, sqlite3.Error) as error:
            self.connection.close()
            raise problem_of(path, error, kind.remedy) from None
        except FileProblem:
            self.connection.close()
            raise

    def _prepare(self) -> None:
        run = self.connection.execute
        # Held from the first write on until the end: two processes on one file would each acknowledge.
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("PRAGMA journal_mode = WAL")
        # FULL syncs the log at each commit: an acknowledgement must outlive a power failure.
        run("PRAGMA synchronous = FULL")
        run(f"PRAGMA journal_size_limit = {LOG_BYTES_MAX}")
        run("BEGIN EXCLUSIVE")
        self._check_version()
        (found,) = run("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise self.damaged(" ".join(str(found).split()))
        for statement in self._kind.schema:
            run(statement)
        run(f"PRAGMA application_id = {self._kind.application_id}")
        run(f"PRAGMA user_version = {self._kind.schema_version}")
        run("COMMIT")

    def _check_version(self) -> None:
        (tables,) = self.connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (application_id,) = self.connection.execute("PRAGMA application_id").fetchone()
        (version,) = self.connection.execute("PRAGMA user_version").fetchone()
        if not tables and not version:
            return
        if application_id != self._kind.application_id and not self._has_former_mark(application_id):
            raise FileOfOtherVersion(
                self.path, f"it is not {self._kind.title}: give the offset manager another folder, or move it away"
            )
        if version != self._kind.schema_version:
            raise FileOfOtherVersion(
                self.path,
                f"{self._kind.title} has schema {version}, and this release reads schema {self._kind.schema_version}: "
                "run the release that wrote it, and end it with SIGTERM, which leaves nothing to be sent",
            )

    def _has_former_mark(self, application_id: int) -> bool:
        former = self._kind.former_mark
        if former is None or application_id != former.application_id:
            return False
        query = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?"
        return bool(self.connection.execute(query, (former.table,)).fetchone()[0])

    def damaged(self, why: str) -> FileDamaged:
        """Return the error for content that makes no sense."""
        return FileDamaged(self.path, f"it is damaged ({why}): {self._kind.remedy}")

    @contextmanager
    def transaction(self, now_ms: int) -> Iterator[sqlite3.Connection]:
        """Do what is inside in one transaction, synced afterwards; raises FileProblem, and then undoes it.

        A file may be removed during the commit: what is committed counts only where `check_there` still finds it.
        """
        try:
            self._undo()  # one that failed so badly that it could not be undone
            self.connection.execute("BEGIN IMMEDIATE")
            yield self.connection
            self.check_there(now_ms)
            self.connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._undo()
            raise self.problem(error) from None
        except BaseException:
            self._undo()
            raise

    def _undo(self) -> None:
        with suppress(sqlite3.Error):
            self.connection.rollback()

    def problem(self, error: Exception) -> FileProblem:
        """Return what an error of SQLite means."""
        return problem_of(self.path, error, self._kind.remedy)

    def check_there(self, now_ms: int) -> None:
        """Raise FileRemoved if the next start would not find what is written, FileProblem if nobody can check for long.

        A disk that does not answer one look may well have the file: what was committed to it counts meanwhile.
        """
        try:
            missing = self._watch.missing(now_ms)
        except Unseen as unseen:
            if not unseen.is_for_long:
                return
            raise FileProblem(self.path, f"it cannot be checked: {unseen}; check its folder and its disk") from None
        if missing is not None:
            raise FileRemoved(
                missing, "it was removed or replaced while in use; nothing is stored any more: restart the process"
            )

    def close(self) -> None:
        """Close the file; what its log holds is moved into it."""
        self.connection.close()
