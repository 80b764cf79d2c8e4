"""The groups that are declared orderly: a small list that outlives the manager.

With the embedded store it is a file, with etcd one key (`declared_in_etcd.py`). The manager that leads has it in
memory; a change is in the store before it is in memory.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from offsets.order.events import OrderlyChanged
from offsets.order.holders import NAME_CHARACTERS_MAX, OrderlyGroup
from serving.durable_file import DurableFileError, read_latest, replace
from serving.telemetry.events import Event
from store.store import StoreError

if TYPE_CHECKING:
    from offsets.order.declared_in_etcd import DeclaredKey

#: Groups that may be declared: at 100 masters a round of lists takes less than a minute and a half for 200 groups.
GROUPS_MAX: Final = 1000
FILE_NAME: Final = "orderly-groups.json"

_BLANK: Final = b"[]"
#: Where the list is stored as one value.
DeclaredStore: TypeAlias = "DeclaredFile | DeclaredKey"


class GroupRefused(Exception):
    """A group cannot be declared; the text says why."""


class DeclaredFile:
    """The file of the embedded store, which no other process writes."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME

    async def read(self) -> tuple[bytes | None, int]:
        """Return the value, None if there is none, and its revision; raises StoreError."""
        try:
            return await asyncio.to_thread(read_latest, self._path), 0
        except DurableFileError as error:
            raise StoreError(str(error)) from None

    async def write(self, value: bytes, revision: int) -> None:
        """Replace the value, which is durable then, if it still has this revision; raises StoreError."""
        del revision
        try:
            await asyncio.to_thread(replace, self._path, value)
        except DurableFileError as error:
            raise StoreError(str(error)) from None


class Declared:
    def __init__(self, store: DeclaredStore, emit: Callable[[Event], None]) -> None:
        self._store = store
        self._emit = emit
        self._turn = asyncio.Lock()
        #: None until they are loaded.
        self.groups: frozenset[OrderlyGroup] | None = None

    async def load(self) -> None:
        """Read the groups: call it when a lead of this manager begins. Raises StoreError."""
        async with self._turn:
            self.groups, _ = await self._read()

    async def declare(self, group: OrderlyGroup, writer: str) -> bool:
        """Declare a group, and return whether it was not before; raises GroupRefused, StoreError."""
        for name in group:
            if not name.strip() or len(name) > NAME_CHARACTERS_MAX or not name.isprintable():
                raise GroupRefused(f"a name has 1 to {NAME_CHARACTERS_MAX} printable characters, not {name[:80]!r}")
        return await self._change(group, writer, orderly=True)

    async def undeclare(self, group: OrderlyGroup, writer: str) -> bool:
        """Take a group back, and return whether it was declared; raises StoreError.

        Its holders are forgotten; locks that were taken for them end by themselves.
        """
        return await self._change(group, writer, orderly=False)

    async def _change(self, group: OrderlyGroup, writer: str, *, orderly: bool) -> bool:
        async with self._turn:
            known, revision = await self._read()
            changed = known ^ {group} if (group in known) is not orderly else known
            if changed != known:
                value = msgspec.json.encode(sorted(changed))
                if orderly and len(changed) > GROUPS_MAX:
                    raise GroupRefused(f"{len(known)} groups are declared, which is the limit: undeclare unused ones")
                await self._store.write(value, revision)
                cluster, name = group
                self._emit(OrderlyChanged(writer=writer, cluster=cluster, group=name, orderly=orderly))
            self.groups = changed
        return changed != known

    async def _read(self) -> tuple[frozenset[OrderlyGroup], int]:
        value, revision = await self._store.read()
        try:
            return frozenset(msgspec.json.decode(value or _BLANK, type=list[OrderlyGroup])), revision
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreError(f"the declared orderly groups cannot be read: {error}") from None
