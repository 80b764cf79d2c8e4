"""Keeps the key by which the other controllers of the group know this one."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from store.etcd import calls
from store.etcd.client import CALL_MS, EtcdClient, EtcdConnection, Metadata
from store.etcd.keys import Keys
from store.etcd.threads import CallThreads
from store.store import ControllerMember, OutcomeUnknown, StoreError

#: How long a controller that is gone is still listed.
MEMBER_TTL_S: Final = 15
RENEW_EVERY_S: Final = 5
RETRY_S: Final = 1
#: How long taking oneself off the list may take; without it the lease ends by itself.
LEAVE_MS: Final = 400

Answer = TypeVar("Answer")


class IdTaken(StoreError):
    """Another controller has this id."""

    def __init__(self, me: ControllerMember, address: str) -> None:
        self.me = me
        self.address = address
        super().__init__(
            f"two controllers call themselves {me.id}: this one at {me.address} and one at {address}; give each its "
            f"own id (after a change of address wait {MEMBER_TTL_S} s before the restart)"
        )


class Membership:
    """One controller's key and the lease it is bound to."""

    def __init__(self, client: EtcdClient, keys: Keys, threads: CallThreads, me: ControllerMember) -> None:
        self._client = client
        self._keys = keys
        self._threads = threads
        self._me = me
        self._lease_id = 0

    async def register(self) -> None:
        """Enter this controller into the list; raises IdTaken, StoreError."""
        address, revision = await self._request("read", calls.member_address(self._keys.member(self._me.id)))
        if address not in (None, self._me.address):
            raise IdTaken(self._me, address)
        lease_id, _ = await self._request("grant", calls.grant_lease(MEMBER_TTL_S))
        if not await self._request("register", calls.put_member(self._keys, self._me, lease_id, revision)):
            raise OutcomeUnknown(f"another controller calls itself {self._me.id} at this moment")
        self._lease_id = lease_id

    async def stay(self, is_listed: Callable[[], bool]) -> None:
        """Renew the lease for ever, and register again where it was lost."""
        while True:
            await asyncio.sleep(RENEW_EVERY_S)
            try:
                ttl_s = await self._request("renew", calls.renew_lease(self._lease_id))
                if not ttl_s or not is_listed():
                    await self.register()
            except StoreError:
                await asyncio.sleep(RETRY_S)

    async def leave(self) -> None:
        """Take this controller off the list at once, if etcd answers."""
        with suppress(StoreError):  # the lease ends by itself
            await self._request("revoke", calls.revoke_lease(self._lease_id), within_ms=LEAVE_MS)

    async def _request(
        self, kind: str, call: Callable[[EtcdConnection, float, Metadata], Answer], *, within_ms: int = CALL_MS
    ) -> Answer:
        return await self._threads.run(
            kind, lambda deadline_ms: self._client.request(call, deadline_ms=deadline_ms), within_ms=within_ms
        )
