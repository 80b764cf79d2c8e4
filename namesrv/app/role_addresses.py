"""Role addresses at the edge: the file of rules, the file of addresses that peers get, and checks of where they lead.

The rules are read each second, and taken once the text was the same twice. A mistake leaves the rules before it in
force. After a start there are none before it: routes have the brokers' own addresses, and peers are served meanwhile.
Each check is a new connection, as that of a client after a failover. No request of a peer waits for any of it.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from namesrv.core.role_addresses.checks import BrokerIdentity, CheckChange, CheckState, RoleAddressUse
from namesrv.core.role_addresses.documents import rules_of_toml
from namesrv.core.role_addresses.state import TICK_MS, RoleAddresses, RoleAddressLoop
from namesrv.observability import log_events as lines
from namesrv.observability.event_log import NameServerEventLog
from namesrv.settings.config import NameServerConfig
from remoting.admin.brokers import broker_options
from remoting.background_tasks import BackgroundTasks
from remoting.client import Requester
from remoting.clock import Clock
from remoting.protocol.errors import BodyError, InvokeError, OutOfResources, Refused
from serving.config.stored_config import NotStored, store
from serving.config.table_documents import TableMistake, TablesRefused
from serving.config.watched_file import LOOK_S, FileUnreadable, WatchedFile
from serving.durable_file import NotReadable, read_latest, recover
from serving.logging.events import LogEvent

#: Time between two tries to write a file that cannot be written.
RETRY_MS: Final = 30_000
#: Addresses that are checked at a time.
AT_ONCE: Final = 32
#: As much as a client waits for an answer.
TIMEOUT_MS: Final = 3_000
#: While an address is to lead to another broker: one that does not answer must not keep others from being checked.
QUICK_TIMEOUT_MS: Final = 1_000
#: A broker's options have some 15 KiB. To read a longer answer would hold up peers.
ANSWER_BYTES_MAX: Final = 256 * 1024
CHECK_ROLE_ADDRESS: Final = "check_role_address"
#: By which a broker shows who it is; those of its role follow an election at once.
_OPTIONS: Final = ("brokerName", "brokerId", "brokerIP1", "listenPort")


class _StoredUses(msgspec.Struct, frozen=True):
    given: list[RoleAddressUse]


class RoleAddressKeeper:
    """Keeps the rules in force as their file says, checks where addresses lead, and stores which of them peers get.

    After a restart peers get the stored ones again without a further check. A set may be failing over just then, and to
    check its address first would give peers another one in between.
    """

    def __init__(
        self,
        config: NameServerConfig,
        role_addresses: RoleAddresses,
        reclassify: Callable[[], None],
        client: Requester,
        clock: Clock,
        event_log: NameServerEventLog,
        tasks: BackgroundTasks,
    ) -> None:
        """Call `reclassify` whenever peers may be of other audiences."""
        self._path, self._store_path = config.role_address_file, config.role_address_store_path
        self._file = WatchedFile(self._path)
        self._role_addresses = role_addresses
        role_addresses.source = self._path
        self._reclassify = reclassify
        self._client = client
        self._clock = clock
        self._event_log = event_log
        self._tasks = tasks
        #: What the file of given addresses holds; None if that is not known.
        self._stored: list[RoleAddressUse] | None = None
        #: It is not to be written before.
        self._due_ms = 0
        self._last_error = ""
        self._under_way: dict[RoleAddressUse, asyncio.Task[bool]] = {}

    # Rules

    async def follow_role_addresses(self) -> None:
        """Read the file each second, and follow the brokers in between, for ever."""
        while True:
            await self.read_file()
            for _ in range(round(LOOK_S * 1000 / TICK_MS)):
                before = self._role_addresses.loops
                # Brokers that register with role addresses, and sets that have had no master for too long.
                self._role_addresses.tick(self._clock.now_ms())
                self._report_loops(before)
                await asyncio.sleep(TICK_MS / 1000)

    async def read_file(self) -> None:
        """Take the file if it has changed; one that cannot be read changes nothing."""
        try:
            text = await self._file.new_text()
        except FileUnreadable as error:
            if str(error) != self._role_addresses.problem:
                self._refuse(TablesRefused([TableMistake(None, "", str(error))]))
            return
        if text is None:
            return
        try:
            # A long file takes a second, in which the loop has to go on.
            rules = await asyncio.to_thread(rules_of_toml, text)
        except TablesRefused as refusal:
            self._refuse(refusal)
            return
        self._role_addresses.problem = ""
        # In one step, so that no peer gets an answer for another audience.
        self._role_addresses.replace(rules, self._clock.now_ms())
        self._reclassify()
        self._event_log.write(
            lines.ROLE_ADDRESSES_LOADED, source=self._path, rules=len(rules.rules), digest=rules.digest
        )
        self._report_loops({})

    def _refuse(self, refusal: TablesRefused) -> None:
        self._role_addresses.problem = str(refusal)
        problems = [str(mistake) for mistake in refusal.mistakes]
        self._event_log.write(lines.ROLE_ADDRESSES_REFUSED, source=self._path, problems=problems)

    def _report_loops(self, before: Mapping[str, RoleAddressLoop]) -> None:
        for name, loop in self._role_addresses.loops.items():
            if before.get(name) != loop:
                keys = {"broker": name, "addr": loop.address, "owner": loop.owner, "line": loop.line}
                self._event_log.write(lines.ROLE_ADDRESS_IGNORED, **keys)

    # The addresses that peers get

    def restore(self) -> None:
        """Give the checks what the file holds; without it, or with one that is damaged, each address is checked."""
        path = Path(self._store_path).expanduser()
        recover(path)
        try:
            if content := read_latest(path):
                self._stored = msgspec.json.decode(content, type=_StoredUses).given
        except NotReadable as error:
            self._event_log.write(lines.ROLE_ADDRESS_STORE_FAILED, error=str(error))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            problem = f"{path} holds no checked role addresses: {error}"
            self._event_log.write(lines.ROLE_ADDRESS_STORE_FAILED, error=problem)
        self._role_addresses.checks.restore(self._stored or ())

    async def _store(self) -> None:
        """Write the file if it is to be another one; where that fails, it is tried again later."""
        given, now_ms = self._role_addresses.checks.given(), self._clock.now_ms()
        if given == (self._stored or []) or now_ms < self._due_ms:
            return
        text = msgspec.json.encode(_StoredUses(given))
        try:
            await store(self._store_path, text, self._event_log.written_in_place)
        except NotStored as error:
            self._due_ms = now_ms + RETRY_MS
            if str(error) != self._last_error:
                self._last_error = str(error)
                self._event_log.write(lines.ROLE_ADDRESS_STORE_FAILED, error=str(error))
        else:
            self._stored, self._last_error = given, ""

    # Checks

    async def check_role_addresses(self) -> None:
        """Check addresses when it is their turn, and store which of them peers get, for ever."""
        checks = self._role_addresses.checks
        try:
            while True:
                free = AT_ONCE - len(self._under_way)
                for use in checks.due(self._clock.now_ms(), free, self._under_way):
                    check = self._under_way[use] = self._tasks.start(self._check(use), CHECK_ROLE_ADDRESS)
                    check.add_done_callback(partial(self._ended, use))
                await self._store()
                await asyncio.sleep(TICK_MS / 1000)
        finally:
            for check in self._under_way.values():
                check.cancel()

    def _ended(self, use: RoleAddressUse, _: "asyncio.Task[bool]") -> None:
        del self._under_way[use]

    async def _check(self, use: RoleAddressUse) -> None:
        checks = self._role_addresses.checks
        try:
            answer = await self._answer(use.address, QUICK_TIMEOUT_MS if checks.is_quick(use) else TIMEOUT_MS)
        except OutOfResources:
            # This host can open no connection at all, which shows nothing about the address.
            checks.postpone(use, self._clock.now_ms())
            return
        outcome = self._role_addresses.answered(use, answer, self._clock.now_ms(), self._clock.unix_ms())
        keys = {"broker": use.set_name, "broker_id": use.broker_id, "addr": use.address}
        if (change := outcome.change) is not None:
            problem = {"error": change.check.problem} if change.check.problem else {}
            self._event_log.write(event_of(change), **keys, **problem)
        if (move := outcome.move) is not None:
            if self._event_log.recorder is not None:
                self._event_log.recorder.role_address_moved(move)
            if move.former is not None:
                moved = {"leads_to": move.target, "former_addr": move.former}
                self._event_log.write(lines.ROLE_ADDRESS_MOVED, **keys, **moved)

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


def event_of(change: CheckChange) -> LogEvent:
    """Return whether clients get an address, or that it leads nowhere."""
    match change.check.state:
        case CheckState.REFUSED:
            return lines.ROLE_ADDRESS_NOT_APPLIED
        case CheckState.FAILING:
            return lines.ROLE_ADDRESS_FAILING
    return lines.ROLE_ADDRESS_RECOVERED if change.before is CheckState.FAILING else lines.ROLE_ADDRESS_APPLIED


def _identity(options: Mapping[str, str]) -> BrokerIdentity:
    number = options.get("brokerId", "")
    host, port = options.get("brokerIP1"), options.get("listenPort")
    return BrokerIdentity(
        broker_name=options.get("brokerName"),
        broker_id=int(number) if number.isascii() and number.isdigit() else None,
        address=f"{host}:{port}" if host and port else None,
    )
