"""The last operations of this manager, for the event loop: the file is written in a thread.

An id ends with the address of the manager that did the operation: only its file has what undoes it.
"""

import asyncio
import secrets
from collections.abc import Callable
from typing import Final

from controller.offsets.restore.operation_file import OperationFile, OperationHead
from controller.offsets.restore.operations import Operation
from controller.offsets.restore.requests import NoSuchOperation

_ID_BYTES: Final = 8
#: Between what is random and the address.
_AT: Final = "@"
#: Longer ids are none of ours: a name of a host has 253 characters at most.
_ID_CHARACTERS_MAX: Final = 300


class KeptOperations:
    """What can be undone."""

    def __init__(self, file: OperationFile, own_address: Callable[[], str]) -> None:
        """Take the file, and what returns the address at which others reach this manager."""
        self._file = file
        self._own_address = own_address
        self._turn = asyncio.Lock()

    def new_id(self) -> str:
        """Return an id that no operation has."""
        return f"{secrets.token_hex(_ID_BYTES)}{_AT}{self._own_address()}"

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
            shown = operation_id[:_ID_CHARACTERS_MAX]
            address = shown.partition(_AT)[2]
            raise NoSuchOperation(shown, kept_at="" if address == self._own_address() else address)
        return found

    async def last(self) -> list[OperationHead]:
        """Return the operations that are kept, the newest first; raises StoreError."""
        async with self._turn:
            return await asyncio.to_thread(self._file.last)

    async def close(self) -> None:
        """Close the file, once what is being written is on the disk."""
        async with self._turn:
            self._file.close()
