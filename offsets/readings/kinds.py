"""How groups consume, as their members show (203, 307): asked where offsets move, a few a second. The edge.

All masters of a cluster share what is found: a member is connected to each of them.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from offsets.at_broker import AtBroker
from offsets.values import GroupKind, GroupTopic, SetName, is_pop_retry
from remoting.admin.client import AdminClient

#: Groups that are asked in a second, all brokers together.
ASKED_PER_S: Final = 10
#: A group that moves is asked again after so long.
OLD_MS: Final = 60_000
#: What was found so long ago is not known any more once the group moves: its members may be others.
STALE_MS: Final = 10 * OLD_MS
#: Groups that are remembered, and that wait.
GROUPS_MAX: Final = 100_000


class _Known(NamedTuple):
    asked_ms: int
    address: str


class GroupKinds:
    """The kinds of all groups that have moved lately."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._kinds: dict[str, dict[str, GroupKind]] = {}
        self._asked: OrderedDict[tuple[str, str], _Known] = OrderedDict()
        self._waiting: OrderedDict[tuple[str, str], str] = OrderedDict()

    def of_cluster(self, cluster: str) -> Mapping[str, GroupKind]:
        """Return the kinds of a cluster's groups as they are known now, and later: a view."""
        return MappingProxyType(self._kinds.setdefault(cluster, {}))

    def have_moved(self, set_name: SetName, address: str, keys: Iterable[GroupTopic], now_ms: int) -> None:
        """Ask these groups through a master soon, unless they were lately; a pop retry topic needs no question."""
        kinds = self._kinds.setdefault(set_name.cluster, {})
        for key in keys:
            group = key.group
            of = set_name.cluster, group
            known = self._asked.get(of)
            if is_pop_retry(key):
                kinds[group] = GroupKind.POP
            elif known is not None and now_ms - known.asked_ms >= STALE_MS and kinds.get(group) is GroupKind.PULL:
                kinds[group] = GroupKind.UNKNOWN
            if (known is None or now_ms - known.asked_ms >= OLD_MS) and len(self._waiting) < GROUPS_MAX:
                self._waiting[of] = address

    async def ask_next(self, now_ms: int) -> bool:
        """Ask the group that waits longest; return False if none waits."""
        if not self._waiting:
            return False
        (cluster, group), address = self._waiting.popitem(last=False)
        self._asked[cluster, group] = _Known(now_ms, address)
        self._asked.move_to_end((cluster, group))
        kind = (await AtBroker(self._admin, SetName(cluster, ""), address).members(group)).kind
        kinds = self._kinds.setdefault(cluster, {})
        # Without members it is what it was.
        if kind is not GroupKind.UNKNOWN or group not in kinds:
            kinds[group] = kind
        if len(self._asked) > GROUPS_MAX:
            (of_cluster, oldest), _ = self._asked.popitem(last=False)
            self._kinds[of_cluster].pop(oldest, None)
        return True
