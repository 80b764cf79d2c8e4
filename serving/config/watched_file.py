"""A file of an operator that is read again and again: what is new in it is taken once it was the same twice."""

import asyncio
import errno
from pathlib import Path
from typing import Final

from serving.config.table_documents import DOCUMENT_CHARS_MAX

#: Time between two looks at a file.
LOOK_S: Final = 1.0
#: Bytes of a character in UTF-8, at most.
_CHARACTER_BYTES: Final = 4


class FileUnreadable(Exception):
    """A file is not there, or is no text; the text says which file, and why."""


class WatchedFile:
    """One file; `new_text` is to be called each `LOOK_S`."""

    def __init__(self, path: str) -> None:
        self._path = path
        #: The text that was returned last; None before the first one, and after the file was unreadable.
        self._returned: str | None = None
        #: The text that the file had at the last look; None before the first one.
        self._seen: str | None = None

    async def new_text(self) -> str | None:
        """Return the text if it is another one than was returned last, and was the same at the last look.

        An editor may be in the middle of it: half of a file is a list of fewer entries. The first text is returned at
        once. Of one that is too long, somewhat more than a document may have is returned. Raises FileUnreadable.
        """
        try:
            text = await asyncio.to_thread(_text_of, self._path)
        except (OSError, RuntimeError, UnicodeDecodeError) as error:
            self._returned = None
            raise FileUnreadable(_unreadable(self._path, error)) from None
        is_settled, self._seen = self._seen in (None, text), text
        if not is_settled or text == self._returned:
            return None
        self._returned = text
        return text


def _unreadable(path: str, error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"{path} is no UTF-8 text"
    # RuntimeError: nobody knows whose home `~` is.
    return f"{path} cannot be read: {getattr(error, 'strerror', None) or error}"


def _text_of(path: str) -> str:
    found = Path(path).expanduser()
    if found.exists() and not found.is_file():
        # To open a pipe would wait for a writer, for ever.
        raise OSError(errno.EINVAL, "it is no file")
    with found.open("rb") as file:
        return file.read(_CHARACTER_BYTES * DOCUMENT_CHARS_MAX + 1).decode()
