"""Where rules of role addresses come from: a file that is read each second, and taken once it was the same twice.

A mistake leaves the rules before it in force. After a start there are none before it: routes have the brokers' own
addresses, and peers are served meanwhile.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from namesrv.core.role_addresses.documents import rules_of_toml
from namesrv.core.role_addresses.rules import RoleAddressRules
from namesrv.core.role_addresses.state import TICK_MS, RoleAddresses, RoleAddressLoop
from remoting.clock import Clock
from serving.config.table_documents import TableMistake, TablesRefused
from serving.config.watched_file import LOOK_S, FileUnreadable, WatchedFile


class RoleAddressObserver(Protocol):
    """Logs what became of a file of rules."""

    def role_addresses_loaded(self, source: str, rules: RoleAddressRules) -> None:
        """Report that rules are in force."""

    def role_addresses_refused(self, source: str, refusal: TablesRefused) -> None:
        """Report that a file has mistakes, so the rules before it stay in force."""

    def role_address_ignored(self, loop: RoleAddressLoop) -> None:
        """Report that a rule is not applied."""


class RoleAddressSource:
    """Keeps the rules in force as their file says."""

    def __init__(
        self,
        path: str,
        role_addresses: RoleAddresses,
        reclassify: Callable[[], None],
        clock: Clock,
        observer: RoleAddressObserver,
    ) -> None:
        """Call `reclassify` whenever peers may be of other audiences."""
        self._path = path
        self._file = WatchedFile(path)
        self._role_addresses = role_addresses
        role_addresses.source = path
        self._reclassify = reclassify
        self._clock = clock
        self._observer = observer

    async def follow_role_addresses(self) -> None:
        """Read the file each second, and follow the brokers in between, for ever."""
        while True:
            await self.read_file()
            for _ in range(round(LOOK_S * 1000 / TICK_MS)):
                self.tick()
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
        else:
            self._take(rules)

    def tick(self) -> None:
        """Follow brokers that register with role addresses, and sets that have had no master for too long."""
        before = self._role_addresses.loops
        self._role_addresses.tick(self._clock.now_ms())
        self._report_loops(before)

    def _take(self, rules: RoleAddressRules) -> None:
        self._role_addresses.problem = ""
        # In one step, so that no peer gets an answer for another audience.
        self._role_addresses.replace(rules, self._clock.now_ms())
        self._reclassify()
        self._observer.role_addresses_loaded(self._path, rules)
        self._report_loops({})

    def _refuse(self, refusal: TablesRefused) -> None:
        self._role_addresses.problem = str(refusal)
        self._observer.role_addresses_refused(self._path, refusal)

    def _report_loops(self, before: Mapping[str, RoleAddressLoop]) -> None:
        for name, loop in self._role_addresses.loops.items():
            if before.get(name) != loop:
                self._observer.role_address_ignored(loop)
