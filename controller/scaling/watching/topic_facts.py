"""What changes rarely about a topic: where it is, how it is configured, who consumes it. Requested each minute or two.

Clients cost themselves a request: only those of groups that are behind are all queried, of others one, for its kind.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from controller.scaling.execution.broker_views import FAILURES, counts_of, topic_of
from controller.scaling.execution.group_views import ConnectedMembers, GroupObserver
from controller.scaling.execution.observer import TopicObserver, has_order, special_type
from controller.scaling.resize.observation import GroupKind, GroupView
from controller.scaling.resize.operation import QueueCounts
from remoting.admin.client import AdminClient
from remoting.admin.topics import TopicDefinition
from remoting.background_tasks import all_results

#: How old facts may be.
PLACES_MS: Final = 120_000
GROUPS_MS: Final = 60_000

#: A broker set that has left the route counts for so long as one that does not answer: it may be down.
ABSENT_MS: Final = 3_600_000

#: Clients of one group that are queried at one time.
CLIENTS_MAX: Final = 64

_OFFLINE: Final = frozenset[str]()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """Who consumes; None is unknown."""

    kind: GroupKind | None
    clients: frozenset[str] | None
    holders: frozenset[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """What is known of a topic; None is unknown."""

    #: When it was requested, monotonic.
    places_ms: int
    groups_ms: int
    #: By broker name.
    masters: Mapping[str, str | None] = field(default_factory=dict)
    counts: Mapping[str, QueueCounts | None] = field(default_factory=dict)
    is_ordered: bool | None = None
    is_static: bool | None = None
    special_type: str = ""
    groups: Mapping[str, GroupFacts] = field(default_factory=dict)
    #: Since when sets are in no route any more, monotonic; they have no master.
    absent: Mapping[str, int] = field(default_factory=dict)
    #: Whether every answer came.
    is_complete: bool = False


class TopicFactsObserver:
    """Requests the facts of topics."""

    def __init__(
        self, admin: AdminClient, topics: TopicObserver, groups: GroupObserver, now_ms: Callable[[], int]
    ) -> None:
        self._admin = admin
        self._topics = topics
        self._groups = groups
        self._now_ms = now_ms

    def is_due(self, facts: TopicFacts | None) -> bool:
        """Return whether facts are too old, or lack an answer."""
        return facts is None or not facts.is_complete or self._now_ms() - facts.groups_ms >= GROUPS_MS

    async def facts(self, topic: str, former: TopicFacts | None, behind: Collection[str]) -> TopicFacts:
        """Return what is known of a topic by now; all clients of the groups that are `behind` are queried."""
        found = former
        if found is None or not found.is_complete or self._now_ms() - found.places_ms >= PLACES_MS:
            found = await self._placed(topic, former)
        return await self._grouped(topic, found, behind)

    async def _placed(self, topic: str, former: TopicFacts | None) -> TopicFacts:
        places = await self._topics.places(topic)
        definitions = await all_results(self._definition(each, topic) for each in places.masters.values())
        found = dict(zip(places.masters, definitions, strict=True))
        known = [each for each in definitions if each is not None]
        is_known = places.has_order_conf is not None and len(known) == len(definitions)
        has_any_order = places.has_order_conf or any(map(has_order, known))
        absent = self._absent(places.masters, former)
        return TopicFacts(
            places_ms=self._now_ms(),
            groups_ms=0,
            masters={**places.masters, **dict.fromkeys(absent)},
            absent=absent,
            counts={name: None if each is None else counts_of(each) for name, each in found.items()},
            is_ordered=True if has_any_order else (False if is_known else None),
            is_static=places.is_static,
            special_type=special_type(known),
            groups=former.groups if former is not None else {},
            is_complete=is_known,
        )

    def _absent(self, masters: Collection[str], former: TopicFacts | None) -> Mapping[str, int]:
        now_ms = self._now_ms()
        left = {} if former is None else {name: former.absent.get(name, now_ms) for name in former.masters}
        return {name: since for name, since in left.items() if name not in masters and now_ms - since < ABSENT_MS}

    async def _definition(self, master: str | None, topic: str) -> TopicDefinition | None:
        try:
            return None if master is None else await topic_of(self._admin, master, topic)
        except FAILURES:
            return None

    async def _grouped(self, topic: str, facts: TopicFacts, behind: Collection[str]) -> TopicFacts:
        former = facts.groups
        masters = [each for each in facts.masters.values() if each is not None]

        def chosen(members: ConnectedMembers) -> Collection[str]:
            group, clients, _ = members
            if group in behind:
                return clients[:CLIENTS_MAX]
            known = former.get(group)
            is_same = known is not None and known.kind is not None and known.clients == frozenset(clients)
            return () if is_same else clients[:1]

        is_whole = len(masters) == len(facts.masters)
        views, missing = await self._groups.views(topic, masters, (), chosen, is_whole=is_whole)
        if views is None:
            unknown = {name: replace(each, clients=None, holders=None) for name, each in former.items()}
            return replace(facts, groups_ms=self._now_ms(), groups=unknown, is_complete=False)
        groups = {each.name: group_facts(each, former.get(each.name)) for each in views}
        is_complete = facts.is_complete and not missing and len(masters) + len(facts.absent) == len(facts.masters)
        return replace(facts, groups_ms=self._now_ms(), groups=groups, is_complete=is_complete)


def group_facts(view: GroupView, former: GroupFacts | None) -> GroupFacts:
    """Return what is known of a group; its kind stays unknown until one of its clients has answered."""
    if not view.is_online:
        # Whether it may be in order although nobody has seen it, the plan of a resize decides.
        former_kind = None if former is None else former.kind
        return GroupFacts(
            kind=view.last_kind or former_kind or GroupKind.CONCURRENT, clients=_OFFLINE, holders=_OFFLINE
        )
    clients = frozenset(each.client_id for each in view.clients)
    answered = [each for each in view.clients if each.queues is not None]
    kind = view.reported_kind
    if kind is None and former is not None and former.clients == clients:
        kind = former.kind
    holders = frozenset(each.client_id for each in answered if each.queues)
    is_whole = len(answered) == len(view.clients)
    return GroupFacts(kind=kind, clients=clients, holders=holders if is_whole else None)
