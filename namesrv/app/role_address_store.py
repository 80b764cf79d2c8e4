"""The role addresses that peers get, in a file: after a restart they get them again without a further check.

A set may be failing over just then, and to check its address first would give peers another one in between.
"""

from pathlib import Path
from typing import Final, Protocol

import msgspec

from namesrv.core.role_addresses.checks import RoleAddressChecks, RoleAddressUse
from remoting.clock import Clock
from serving.config.stored_config import NotStored, store
from serving.durable_file import NotReadable, read_latest, recover

#: Time between two tries to write a file that cannot be written.
RETRY_MS: Final = 30_000


class _StoredUse(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One address as the file has it."""

    set: str
    broker_id: int
    address: str


class _StoredUses(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The whole file."""

    given: list[_StoredUse]


class RoleAddressStoreObserver(Protocol):
    """Logs what became of the file."""

    def written_in_place(self, path: str) -> None:
        """Report that a file was overwritten in place, because it is a mount of its own."""

    def role_address_store_failed(self, error: str) -> None:
        """Report that the file cannot be read or written."""


class RoleAddressStore:
    """Keeps the file as the checks are; one task only may call `store`."""

    def __init__(self, path: str, checks: RoleAddressChecks, clock: Clock, observer: RoleAddressStoreObserver) -> None:
        self._path = path
        self._checks = checks
        self._clock = clock
        self._observer = observer
        #: What the file holds; None if that is not known.
        self._stored: list[RoleAddressUse] | None = None
        #: Not to be written before.
        self._due_ms = 0
        self._last_error = ""

    def restore(self) -> None:
        """Give the checks what the file holds; without it, or with one that is damaged, each address is checked."""
        path = Path(self._path).expanduser()
        recover(path)
        try:
            content = read_latest(path)
            if content:
                uses = msgspec.json.decode(content, type=_StoredUses).given
                self._stored = [RoleAddressUse(each.set, each.broker_id, each.address) for each in uses]
        except NotReadable as error:
            self._observer.role_address_store_failed(str(error))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._observer.role_address_store_failed(f"{path} holds no checked role addresses: {error}")
        self._checks.restore(self._stored or ())

    async def store(self) -> None:
        """Write the file if it is to be another one; where that fails, it is tried again later."""
        given = self._checks.given()
        now_ms = self._clock.now_ms()
        if given == (self._stored or []) or now_ms < self._due_ms:
            return
        uses = [_StoredUse(set=use.set_name, broker_id=use.broker_id, address=use.address) for use in given]
        try:
            await store(self._path, msgspec.json.encode(_StoredUses(given=uses)), self._observer.written_in_place)
        except NotStored as error:
            self._due_ms = now_ms + RETRY_MS
            if str(error) != self._last_error:
                self._last_error = str(error)
                self._observer.role_address_store_failed(str(error))
        else:
            self._stored, self._last_error = given, ""
