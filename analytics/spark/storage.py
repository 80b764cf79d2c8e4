"""Folders that hold the history and what is made of it: on this machine, or wherever Hadoop's file systems reach.

Spark reads and writes tables by `Storage.uri`. What remains are small things: lists of files, manifests that are
replaced as a whole, deletion, and locks. Paths are relative to the root, with `/` between their parts.
"""

import contextlib
import fcntl
import os
import shutil
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from analytics.spark.progress import Progress, to_stderr

#: What is still being written: no reader looks at it.
TEMPORARY: Final = ".unfinished"


class BadStorage(Exception):
    """What is stored is not as it has to be; the text says what, where, and what can be done."""


class UnreadableFile(BadStorage):
    """A file that describes others cannot be read: it was torn, or is of a newer version."""

    def __init__(self, path: str, why: Exception) -> None:
        self.path, self.why = path, why
        super().__init__(f"{path} cannot be read ({why}): restore it, or upgrade rmq-analytics if a newer one wrote it")


class ManifestMissing(BadStorage):
    """Rows are there, and nothing that says which of them count: to go on would be to delete them all."""

    def __init__(self, manifest: str, folder: str) -> None:
        self.manifest, self.folder = manifest, folder
        super().__init__(
            f"{manifest} is gone, but {folder} has files: restore it; or move {folder} away to have it made anew"
        )


class StoredFile(NamedTuple):
    """A file as a listing shows it."""

    path: str
    size: int
    modified_ms: int


def open_storage(root: str, spark: SparkSession) -> "Storage":
    """Return the storage with this root: a folder of this machine, or a URI that Hadoop knows."""
    return local_storage(root) or HadoopStorage(root, spark)


def local_storage(root: str) -> "LocalStorage | None":
    """Return the storage with this root if it is a folder of this machine: no Spark is needed for it."""
    scheme, has_scheme, rest = root.partition("://")
    if has_scheme and scheme != "file":
        return None
    return LocalStorage(Path(rest if has_scheme else root))


class LocalStorage:
    """A folder of this machine, or one that is mounted."""

    def __init__(self, root: Path, show: Progress = to_stderr) -> None:
        self._root = root.absolute()
        self._show = show
        # Waiting for a thread of the same process is not reported: families of a stream are stored in turn.
        self._mine = defaultdict[str, threading.Lock](threading.Lock)

    def uri(self, path: str) -> str:
        """Return what Spark calls a path by: with a scheme, so that no default of Hadoop's makes another one of it."""
        # Hadoop takes `=` and spaces as they are, and a percent sign for one.
        return f"file://{self._root / path}"

    def files(self, folder: str) -> list[StoredFile]:
        """Return all files in a folder and below, by path; none if it is not there.

        As for Spark, names that begin with a dot or an underscore are not there, of folders too.
        """
        return sorted(_walk(self._root / folder, folder.rstrip("/") + "/" if folder else ""))

    def exists(self, path: str) -> bool:
        """Return whether there is a file or a folder, by whatever name."""
        return (self._root / path).exists()

    def read(self, path: str) -> bytes | None:
        """Return the content of a small file, None if it is not there."""
        try:
            return (self._root / path).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, path: str, content: bytes) -> None:
        """Replace a file by a rename; a crash leaves the old one or the new one, and what is written stays written."""
        target = self._root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f".{target.name}{TEMPORARY}")
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(target)
        _sync_folder(target.parent)

    def delete(self, path: str) -> None:
        """Delete a file with its checksum, which Hadoop keeps beside it, or a folder with all that is in it.

        Nothing happens if it is not there.
        """
        target = self._root / path
        if target.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            return
        target.unlink(missing_ok=True)
        target.with_name(f".{target.name}.crc").unlink(missing_ok=True)

    def delete_empty_folder(self, path: str) -> None:
        """Delete a folder if nothing is in it, hidden files among that."""
        with contextlib.suppress(OSError):
            (self._root / path).rmdir()

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it, unless they are there."""
        (self._root / path).mkdir(parents=True, exist_ok=True)

    def reading(self, what: str) -> contextlib.AbstractContextManager[None]:
        """Keep writers of something away; waits for one that is at work. The lock ends with the process."""
        return self._locked(what, fcntl.LOCK_SH)

    @contextlib.contextmanager
    def writing(self, what: str) -> Iterator[None]:
        """Keep everybody else away from something; waits for those who are at work."""
        with self._mine[what], self._locked(what, fcntl.LOCK_EX):
            yield

    @contextlib.contextmanager
    def _locked(self, what: str, how: int) -> Iterator[None]:
        self._root.mkdir(parents=True, exist_ok=True)
        # For reading and writing: on NFS these are locks of byte ranges, of which a shared one needs a file that can be
        # read, and the only one a file that can be written.
        with (self._root / f".{what}.lock").open("a+b") as file:
            try:
                fcntl.flock(file, how | fcntl.LOCK_NB)
            except BlockingIOError:
                self._show(f"waiting for another rmq-analytics that uses {self._root}")
                fcntl.flock(file, how)
            yield


class HadoopStorage:
    """A folder that Hadoop's file systems reach: HDFS, or an object store.

    It has no locks: there one ingest and one run at a time must be seen to by whoever starts them.
    """

    #: Where a rename replaces a file in one step. Object stores have none; there a file appears when it is closed.
    _RENAMING: Final = frozenset({"hdfs", "file", "viewfs", "webhdfs"})

    def __init__(self, root: str, spark: SparkSession) -> None:
        self._root = root.rstrip("/")
        self._spark = spark
        # Spark has no other way from Python to its file systems.
        self._fs: Any = self._jvm.Path(self._root).getFileSystem(self._conf)
        #: What the names of files begin with in listings, which are whole URIs.
        self._start = str(self._fs.makeQualified(self._jvm.Path(self._root)).toString()).rstrip("/") + "/"

    @property
    def _jvm(self) -> Any:
        jvm = self._spark._jvm  # noqa: SLF001  (see __init__)
        assert jvm is not None, "a session that has started has its JVM"
        return jvm.org.apache.hadoop.fs

    @property
    def _conf(self) -> Any:
        return self._spark._jsc.hadoopConfiguration()  # noqa: SLF001  (see __init__)

    def uri(self, path: str) -> str:
        """Return the whole URI."""
        return f"{self._root}/{path}" if path else self._root

    def files(self, folder: str) -> list[StoredFile]:
        """List by Spark, since asking for one file after the other takes a millisecond each."""
        if not self._fs.exists(self._path(folder)):
            return []
        listed = (
            self._spark.read.format("binaryFile")
            .option("recursiveFileLookup", "true")
            .load(self.uri(folder))
            .select("path", "length", F.unix_millis("modificationTime").alias("modified_ms"))
            .collect()
        )
        assert all(row.path.startswith(self._start) for row in listed), "what is below a root is named by it"
        return sorted(StoredFile(row.path[len(self._start) :], row.length, row.modified_ms) for row in listed)

    def exists(self, path: str) -> bool:
        """Return whether something is there."""
        return bool(self._fs.exists(self._path(path)))

    def read(self, path: str) -> bytes | None:
        """Return the content of a file."""
        if not self._fs.exists(self._path(path)):
            return None
        stream = self._fs.open(self._path(path))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def write(self, path: str, content: bytes) -> None:
        """Replace a file by a rename where there is one, else by writing it anew."""
        target = self._path(path)
        if self._fs.getScheme() not in self._RENAMING:
            self._create(target, content)
            return
        folder, _, name = path.rpartition("/")
        unfinished = self._path(f"{folder}/_{name}{TEMPORARY}")
        self._create(unfinished, content)
        context = self._jvm.FileContext.getFileContext(target.toUri(), self._conf)
        context.rename(unfinished, target, self._overwriting())

    def delete(self, path: str) -> None:
        """Delete a file or a folder."""
        self._fs.delete(self._path(path), True)

    def delete_empty_folder(self, path: str) -> None:
        """Delete a folder if nothing is in it."""
        folder = self._path(path)
        if self._fs.exists(folder) and not len(self._fs.listStatus(folder)):
            self._fs.delete(folder, False)

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it."""
        self._fs.mkdirs(self._path(path))

    def reading(self, what: str) -> contextlib.AbstractContextManager[None]:
        """Keep nobody away: see the class."""
        del what
        return contextlib.nullcontext()

    def writing(self, what: str) -> contextlib.AbstractContextManager[None]:
        """Keep nobody away: see the class."""
        del what
        return contextlib.nullcontext()

    def _path(self, path: str) -> Any:
        return self._jvm.Path(self.uri(path))

    def _create(self, target: Any, content: bytes) -> None:
        stream = self._fs.create(target, True)
        stream.write(content)
        # Not after a failure: where files appear when they are closed, half a file would take the place of a whole one.
        stream.close()

    def _overwriting(self) -> Any:
        gateway = self._spark.sparkContext._gateway  # noqa: SLF001  (see __init__)
        assert gateway is not None, "a session that has started has its gateway"
        option = getattr(self._jvm, "Options$Rename")
        options = gateway.new_array(option, 1)
        options[0] = option.OVERWRITE
        return options


#: One folder with all that is in it.
Storage = LocalStorage | HadoopStorage


def _walk(folder: Path, prefix: str) -> Iterator[StoredFile]:
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.name.startswith((".", "_")):
            continue
        if entry.is_dir():
            yield from _walk(Path(entry.path), f"{prefix}{entry.name}/")
            continue
        # A writer renames and deletes while this looks.
        with contextlib.suppress(FileNotFoundError):
            facts = entry.stat()
            yield StoredFile(f"{prefix}{entry.name}", facts.st_size, facts.st_mtime_ns // 1_000_000)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
