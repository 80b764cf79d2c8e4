"""Which groups have a configuration on which broker: brokers from 5.3 on store no offset for others.

Source: docs/protocol/broker-admin.md 13 and 22.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from remoting.admin.brokers import broker_runtime
from remoting.admin.client import AdminClient
from remoting.admin.groups import configured_groups
from remoting.clock import Clock

#: How long an answer counts: it has all groups of a broker, megabytes of them on a large one.
KEEP_MS: Final = 5_000
#: The first release that refuses offsets of groups without a configuration; older ones store them, and they protect.
_REFUSES_FROM: Final = (5, 3)

_VERSION: Final = re.compile(r"V(\d+)_(\d+)")


@dataclass(frozen=True, slots=True)
class _Answer:
    at_ms: int
    #: None: the broker stores offsets of any group.
    configured: frozenset[str] | None


class GroupDefinitions:
    """Queries brokers for their groups, and keeps the answers for some seconds."""

    def __init__(self, admin: AdminClient, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock
        #: By the address of the broker.
        self._answers: dict[str, _Answer] = {}

    async def unknown(self, master: str, groups: Iterable[str]) -> frozenset[str]:
        """Return the groups for which this broker refuses to store an offset; raises what `AdminClient.call` does."""
        now_ms = self._clock.now_ms()
        self._answers = {name: each for name, each in self._answers.items() if now_ms - each.at_ms < KEEP_MS}
        answer = self._answers.get(master)
        if answer is None:
            answer = _Answer(now_ms, await self._configured(master))
            self._answers[master] = answer
        return frozenset() if answer.configured is None else frozenset(groups) - answer.configured

    async def _configured(self, master: str) -> frozenset[str] | None:
        runtime = await self._admin.call(master, broker_runtime())
        found = _VERSION.match(runtime.version or "")
        if found is not None and (int(found[1]), int(found[2])) < _REFUSES_FROM:
            return None
        return await self._admin.call(master, configured_groups())
