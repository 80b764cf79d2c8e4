"""The declared groups as one key of etcd, which only the manager that leads changes. It loads gRPC."""

import asyncio
from collections.abc import Callable
from typing import Final

from offsets.etcd_lead import EtcdLead
from remoting.clock import Clock
from store.etcd.calls import commit, read
from store.etcd.client import CALL_MS, Answer
from store.store import EntryMoved

KEY: Final = b"orderly-groups"


class DeclaredKey:
    """The key of one group of managers."""

    def __init__(self, lead: EtcdLead, clock: Clock) -> None:
        self._lead = lead
        self._clock = clock
        self._key = lead.keys.prefix + KEY

    async def read(self) -> tuple[bytes | None, int]:
        kv = await self._call(read(self._key))
        return (None, 0) if kv is None else (kv.value, kv.mod_revision)

    async def write(self, value: bytes, revision: int) -> None:
        """Put the value, if the key still has this revision and this manager still leads."""
        own_key = self._lead.own_key()
        outcome = await self._call(commit(self._lead.keys, own_key, self._key, value, revision), is_repeatable=False)
        if outcome.is_stored:
            self._lead.revision_seen(outcome.leader_key.revision)
        elif own_key.is_of(outcome.leader_key.holder):
            raise EntryMoved("the declared orderly groups were changed meanwhile: repeat the request")
        else:
            raise self._lead.deposed_by(outcome.leader_key)

    async def _call(self, call: Callable[..., Answer], *, is_repeatable: bool = True) -> Answer:
        deadline_ms = self._clock.now_ms() + CALL_MS
        request = self._lead.client.request
        return await asyncio.to_thread(request, call, deadline_ms=deadline_ms, is_repeatable=is_repeatable)
