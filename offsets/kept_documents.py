"""The last documents of one kind, each in a file of its own: what repairs and operations did.

A file is written whole or not at all, and a damaged one harms only itself: it is left out, and named once. All of it
blocks on the disk: call it from a thread, one call at a time.
"""

import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

from serving import durable_file
from serving.durable_file import DamagedFile, DurableFileError, NotReadable

_SUFFIX: Final = ".bin"
_NAME: Final = re.compile(r"[0-9]{1,12}\.bin")
#: A file of more is none of ours: 10,000 queues take 1 MB.
_BYTES_MAX: Final = 256 << 20

Document = TypeVar("Document", bound=msgspec.Struct)


class KeptDocuments(Generic[Document]):
    """Documents by number, in one folder."""

    def __init__(self, folder: Path, shape: type[Document], documents_max: int) -> None:
        self._folder = folder
        self._max = documents_max
        self._encode = msgspec.msgpack.Encoder().encode
        self._decoder = msgspec.msgpack.Decoder(shape)

    def numbers(self) -> list[int]:
        """Return the numbers of all that are kept, ascending; raises NotReadable."""
        try:
            names = [path.name for path in self._folder.iterdir()] if self._folder.is_dir() else []
        except OSError as error:
            raise NotReadable(self._folder, str(error)) from None
        return sorted(int(name.removesuffix(_SUFFIX)) for name in names if _NAME.fullmatch(name))

    def keep(self, number: int, document: Document) -> None:
        """Store a document, or its next version; the oldest beyond the limit are removed. Raises NotWritten."""
        durable_file.replace(self._path(number), zlib.compress(self._encode(document), 1))
        durable_file.backup_of(self._path(number)).unlink(missing_ok=True)
        for old in self.numbers()[: -self._max]:
            self._path(old).unlink(missing_ok=True)

    def read(self, number: int) -> Document | None:
        """Return a document; None if it is not kept. Raises DurableFileError."""
        path = self._path(number)
        if (content := durable_file.read_latest(path)) is None:
            return None
        try:
            return self._decoder.decode(zlib.decompressobj().decompress(content, _BYTES_MAX))
        except (zlib.error, msgspec.DecodeError) as error:
            raise DamagedFile(path, f"it cannot be read ({error}): move it away") from None

    def read_all(self, damaged: Callable[[DurableFileError], None]) -> dict[int, Document]:
        """Return all documents by number, ascending; those that cannot be read are told and left out."""
        found = {}
        try:
            numbers = self.numbers()
        except NotReadable as error:
            damaged(error)
            return {}
        for number in numbers:
            try:
                document = self.read(number)
            except DurableFileError as error:
                damaged(error)
            else:
                if document is not None:
                    found[number] = document
        return found

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:012}{_SUFFIX}"
