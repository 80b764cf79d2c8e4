"""Connects to role addresses and requests which broker answers, so that peers get only those that lead to theirs.

At most `AT_ONCE` connections are open at a time, each a new one: that is what a client does after a failover. No
request of a peer waits for any of it.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Final, Protocol

from namesrv.app.role_address_store import RoleAddressStore
from namesrv.core.role_addresses.checks import AddressMove, BrokerIdentity, CheckChange, RoleAddressUse
from namesrv.core.role_addresses.state import TICK_MS, RoleAddresses
from remoting.admin.brokers import broker_options
from remoting.background_tasks import BackgroundTasks
from remoting.client import Requester
from remoting.clock import Clock
from remoting.protocol.errors import BodyError, InvokeError, OutOfResources, Refused

#: Addresses that are checked at a time.
AT_ONCE: Final = 32
#: As much as a client waits for an answer.
TIMEOUT_MS: Final = 3_000
#: While an address is to lead to another broker: one that does not answer must not keep others from being checked.
QUICK_TIMEOUT_MS: Final = 1_000
#: A broker's options have some 15 KiB. To read a longer answer would hold up peers.
ANSWER_BYTES_MAX: Final = 256 * 1024
#: The name of a check among the background tasks.
CHECK_ROLE_ADDRESS: Final = "check_role_address"
#: By which a broker shows who it is; those of its role follow an election at once.
_OPTIONS: Final = ("brokerName", "brokerId", "brokerIP1", "listenPort")


class DialBackObserver(Protocol):
    """Logs and records what checks found."""

    def role_address_checked(self, change: CheckChange) -> None:
        """Report that peers get an address from now on, that they do not, or that it leads nowhere any more."""

    def role_address_moved(self, move: AddressMove) -> None:
        """Report that an address leads to its broker, for the first time since that one registered."""


class RoleAddressDialBack:
    """Checks role addresses for as long as it runs."""

    def __init__(
        self,
        role_addresses: RoleAddresses,
        store: RoleAddressStore,
        client: Requester,
        clock: Clock,
        observer: DialBackObserver,
        tasks: BackgroundTasks,
    ) -> None:
        self._role_addresses = role_addresses
        self._store = store
        self._client = client
        self._clock = clock
        self._observer = observer
        self._tasks = tasks
        self._under_way: dict[RoleAddressUse, asyncio.Task[bool]] = {}

    async def check_role_addresses(self) -> None:
        """Check addresses when it is their turn, and store which of them peers get, for ever."""
        try:
            while True:
                self._start_checks()
                await self._store.store()
                await asyncio.sleep(TICK_MS / 1000)
        finally:
            for check in self._under_way.values():
                check.cancel()

    def _start_checks(self) -> None:
        """Start the checks that are due, as far as others are not under way."""
        free = AT_ONCE - len(self._under_way)
        for use in self._role_addresses.checks.due(self._clock.now_ms(), free, self._under_way):
            check = self._under_way[use] = self._tasks.start(self._check(use), CHECK_ROLE_ADDRESS)
            check.add_done_callback(partial(self._ended, use))

    def _ended(self, use: RoleAddressUse, _: "asyncio.Task[bool]") -> None:
        del self._under_way[use]

    async def _check(self, use: RoleAddressUse) -> None:
        try:
            is_quick = self._role_addresses.checks.is_quick(use)
            answer = await self._answer(use.address, QUICK_TIMEOUT_MS if is_quick else TIMEOUT_MS)
        except OutOfResources:
            # This host can open no connection at all, which shows nothing about the address.
            self._role_addresses.checks.postpone(use, self._clock.now_ms())
        else:
            now_ms, unix_ms = self._clock.now_ms(), self._clock.unix_ms()
            outcome = self._role_addresses.answered(use, answer, now_ms, unix_ms)
            if outcome.change is not None:
                self._observer.role_address_checked(outcome.change)
            if outcome.move is not None:
                self._observer.role_address_moved(outcome.move)

    async def _answer(self, address: str, timeout_ms: int) -> BrokerIdentity | str:
        """Return who answers at an address, or why nobody does; raises OutOfResources."""
        request = broker_options(_OPTIONS)
        try:
            response = await self._client.invoke_on_new_connection(address, request.request, timeout_ms)
            if (length := len(response.command.body)) > ANSWER_BYTES_MAX:
                return f"what answered is no broker: its answer has {length} bytes"
            return _identity(request.read_response(response.command))
        except OutOfResources:
            raise
        except InvokeError as error:
            return error.reason
        except (Refused, BodyError) as error:
            return str(error)


def _identity(options: Mapping[str, str]) -> BrokerIdentity:
    number = options.get("brokerId", "")
    host, port = options.get("brokerIP1"), options.get("listenPort")
    return BrokerIdentity(
        broker_name=options.get("brokerName"),
        broker_id=int(number) if number.isascii() and number.isdigit() else None,
        address=f"{host}:{port}" if host and port else None,
    )
