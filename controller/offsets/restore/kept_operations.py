"""The last operations of this manager, for the event loop: the file is written in a thread."""

import asyncio
import secrets
from typing import Final

from controller.offsets.restore.operation_file import OperationFile, OperationHead
from controller.offsets.restore.operations import Operation
from controller.offsets.restore.requests import NoSuchOperation

_ID_BYTES: Final = 8
#: Longer ids are none of ours.
_ID_CHARACTERS_MAX: Final = 64


class KeptOperations:
    """What can be undone."""

    def __init__(self, file: OperationFile) -> None:
        self._file = file
        self._turn = asyncio.Lock()

    def new_id(self) -> str:
        """Return an id that no operation has."""
        return secrets.token_hex(_ID_BYTES)

    async def keep(self, operation: Operation) -> None:
        """Store an operation, or its outcomes; raises StoreError, and then nothing is stored."""
        async with self._turn:
            await asyncio.to_thread(self._file.keep, operation)

    async def find(self, operation_id: str) -> Operation:
        """Return an operation; raises NoSuchOperation and StoreError."""
        found = None
        if len(operation_id) <= _ID_CHARACTERS_MAX and operation_id.isascii():
            async with self._turn:
                found = await asyncio.to_thread(self._file.find, operation_id)
        if found is None:
            raise NoSuchOperation(operation_id[:_ID_CHARACTERS_MAX])
        return found

    async def last(self) -> list[OperationHead]:
        """Return the operations that are kept, the newest first; raises StoreError."""
        async with self._turn:
            return await asyncio.to_thread(self._file.last)

    async def close(self) -> None:
        """Close the file, once what is being written is on the disk."""
        async with self._turn:
            self._file.close()
