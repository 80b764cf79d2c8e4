"""The declared groups as one key of etcd, which only the manager that leads changes."""

import asyncio
from collections.abc import Callable
from typing import Final

from remoting.clock import Clock
from store.etcd.calls import OwnLeaderKey, commit, read
from store.etcd.client import CALL_MS, EtcdClient
from store.etcd.keys import Keys
from store.store import StoreError

KEY: Final = b"orderly-groups"


class DeclaredKey:
    """The key of one group of managers."""

    def __init__(self, client: EtcdClient, keys: Keys, own_key: Callable[[], OwnLeaderKey], clock: Clock) -> None:
        """`own_key` returns the key of this manager's present lead, or raises StoreError."""
        self._client = client
        self._keys = keys
        self._own_key = own_key
        self._clock = clock

    async def read(self) -> tuple[bytes | None, int]:
        """Return the value of the key, and its revision; 0: there is none."""
        call, deadline_ms = read(self._keys.prefix + KEY), self._clock.now_ms() + CALL_MS
        kv = await asyncio.to_thread(self._client.request, call, deadline_ms=deadline_ms)
        return (None, 0) if kv is None else (kv.value, kv.mod_revision)

    async def write(self, value: bytes, revision: int) -> None:
        """Put the value, if the key still has this revision and this manager still leads."""
        call = commit(self._keys, self._own_key(), self._keys.prefix + KEY, value, revision)
        deadline_ms = self._clock.now_ms() + CALL_MS
        outcome = await asyncio.to_thread(self._client.request, call, deadline_ms=deadline_ms, is_repeatable=False)
        if not outcome.is_stored:
            raise StoreError("the declared orderly groups were changed by another manager, or this one leads no more")
