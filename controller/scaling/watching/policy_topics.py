"""Which topics are watched: those that policies name, and those of NameServers that patterns match."""

from collections.abc import Callable
from typing import Final

from controller.scaling.autoscaler.policies import PolicyTable
from controller.scaling.execution.broker_views import FAILURES
from remoting.admin.client import AdminClient
from remoting.admin.routes import all_topics, topic_owners
from remoting.background_tasks import all_results
from remoting.protocol.topic_kinds import topics_of
from remoting.slices import in_slices

#: Topics that are watched; each costs requests to its brokers in each round.
TOPICS_MAX: Final = 5_000
#: How old the list of NameServers may be.
LIST_MS: Final = 60_000
#: A topic is watched for so long after it is on no list any more: a NameServer that has just started knows few.
UNLISTED_MS: Final = 600_000
#: Names that are compared with patterns before something else goes on.
_NAMES_AT_ONCE: Final = 100


class PolicyTopics:
    """The list of all topics, requested each minute; only while a policy has a pattern."""

    def __init__(
        self, admin: AdminClient, name_servers: Callable[[], tuple[str, ...]], now_ms: Callable[[], int]
    ) -> None:
        self._admin = admin
        self._name_servers = name_servers
        self._now_ms = now_ms
        self._listed: frozenset[str] = frozenset()
        self._listed_ms: int | None = None
        #: Watched topics of patterns, and when a NameServer listed them last.
        self._listed_last_ms: dict[str, int] = {}
        #: What was matched last, and what followed.
        self._matched: tuple[PolicyTable, int | None, list[str]] | None = None
        #: Topics with a policy beyond TOPICS_MAX.
        self.left_out = 0

    async def watched(self, policies: PolicyTable) -> list[str]:
        """Return the topics to be watched: those with policies of their own, then those of patterns."""
        exact = sorted(each.topic for each in policies.policies if not each.is_pattern)
        found = dict.fromkeys(exact)
        if len(exact) < len(policies.policies):
            await self._look()
            found |= dict.fromkeys(await self._matching(policies))
        self.left_out = max(0, len(found) - TOPICS_MAX)
        watched = list(found)[:TOPICS_MAX]
        now_ms, former = self._listed_ms or 0, self._listed_last_ms
        self._listed_last_ms = {
            topic: now_ms if topic in self._listed else former.get(topic, now_ms) for topic in watched[len(exact) :]
        }
        return watched

    async def _matching(self, policies: PolicyTable) -> list[str]:
        """Return the topics that patterns match: first those that are watched, so that new ones push none of them out.

        Both by name. Only a new list or new policies are matched.
        """
        if self._matched is None or self._matched[0] is not policies or self._matched[1] != self._listed_ms:
            self._matched = policies, self._listed_ms, await self._match(policies)
        return self._matched[2]

    async def _match(self, policies: PolicyTable) -> list[str]:
        known_ms = (self._listed_ms or 0) - UNLISTED_MS
        former = [topic for topic, listed_ms in self._listed_last_ms.items() if listed_ms > known_ms]
        found: dict[str, None] = {}
        async for topics in in_slices((*sorted(former), *sorted(self._listed)), _NAMES_AT_ONCE):
            found |= dict.fromkeys(topic for topic in topics if policies.policy_of(topic) is not None)
        return list(found)

    async def _look(self) -> None:
        """Request the list if it is old; without any answer the last one counts."""
        now_ms = self._now_ms()
        if self._listed_ms is not None and now_ms - self._listed_ms < LIST_MS:
            return
        answers = await all_results(self._listed_at(each) for each in self._name_servers())
        known = [each for each in answers if each is not None]
        if known:
            # One that has just started does not know all of them yet.
            self._listed, self._listed_ms = frozenset().union(*known), now_ms

    async def _listed_at(self, address: str) -> frozenset[str] | None:
        """Return the topics of a NameServer, without those that brokers name after their cluster or set."""
        try:
            listed = await self._admin.call(address, all_topics())
            owners = await self._admin.call(address, topic_owners())
        except FAILURES:
            return None
        return listed - topics_of(owners)
