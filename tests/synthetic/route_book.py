"""What one server knows of sets and topics while a plan is played: the columns that tell how they stand."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from synthetic.plan import BrokerKey, Plan
from synthetic.watch import Seen

#: So many topics a row of a snapshot tells of at most.
TOPICS_MAX = 1_000


class Queues(NamedTuple):
    """A topic's queues on one set."""

    read: int | None
    write: int | None
    perm: int | None


class RouteBook:
    """Sets and topics by the word of their brokers."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        #: Set -> broker id -> address and cluster.
        self._sets: dict[str, dict[int, tuple[str, str]]] = {}
        #: Set -> topic -> queues.
        self._topics: dict[str, dict[str, Queues]] = {}

    def take(self, seen: Seen) -> tuple[str, dict[str, Any], list[dict[str, Any]]]:
        """Apply a state event; return its type, its columns of `broker_state` and those of its `route_change` rows."""
        name, broker_id = seen.broker.key
        values = dict(seen.values)
        version = values.pop("version", None)
        members = self._sets.setdefault(name, {})
        what = seen.what
        if version is None:
            members.pop(broker_id, None)
        else:
            # An address is one process: it drops its former broker id.
            former = [each for each, (address, _) in members.items() if address == values["broker_addr"]]
            if what == "registered_first" and former:
                what = "role_changed"
            for each in former:
                del members[each]
            members[broker_id] = (values["broker_addr"], seen.broker.cluster)
        changes = self._change(seen.broker.key, version)
        if not members:
            del self._sets[name]
        return what, values | self._counted(name, changes) | _as_set(members) | {"role": _role(broker_id)}, changes

    def _change(self, key: BrokerKey, version: int | None) -> list[dict[str, Any]]:
        """Let a set's topics follow: the master tells them; a set without members has none."""
        before = self._topics.get(key.broker_name, {})
        after = before
        if not self._sets[key.broker_name]:
            after = {}
        elif version is not None and (key.broker_id == 0 or not before):
            after = topics_at(self._plan, key.broker_name, version)
        self._topics[key.broker_name] = after
        touched = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        return [_difference(name, before.get(name), after.get(name)) for name in touched]

    def _counted(self, name: str, changes: list[dict[str, Any]]) -> dict[str, Any]:
        kinds = [change["kind"] for change in changes]
        return {
            "topics": len(self._topics[name]),
            "topics_added": kinds.count("added"),
            "topics_removed": kinds.count("removed"),
            "topics_changed": len(kinds) - kinds.count("added") - kinds.count("removed"),
        }

    def counts(self) -> tuple[int, int, int]:
        """Return how many brokers, topics and read queues there are."""
        topics = {topic for table in self._topics.values() for topic in table}
        queues = sum(queues.read or 0 for table in self._topics.values() for queues in table.values())
        return sum(len(members) for members in self._sets.values()), len(topics), queues

    def shown(self) -> Iterator[dict[str, Any]]:
        """Yield how each set stands."""
        for name, members in self._sets.items():
            cluster = next(iter(members.values()))[1]
            yield {"broker_name": name, "cluster": cluster} | _as_set(members)

    def snapshot(self) -> Iterator[dict[str, Any]]:
        """Yield the routes: topics that are alike on sets that are alike in one row."""
        places: defaultdict[tuple[str, Queues], list[str]] = defaultdict(list)
        for name, table in sorted(self._topics.items()):
            for topic, queues in table.items():
                places[topic, queues].append(name)
        alike: defaultdict[tuple[tuple[str, ...], Queues], list[str]] = defaultdict(list)
        for (topic, queues), names in places.items():
            alike[tuple(names), queues].append(topic)
        for (names, queues), topics in alike.items():
            for first in range(0, len(topics), TOPICS_MAX):
                some = topics[first : first + TOPICS_MAX]
                yield {"broker_names": list(names), "topics": some, **queues._asdict(), "topic_sys_flag": 0}


def topics_at(plan: Plan, broker_name: str, version: int) -> dict[str, Queues]:
    """Return the topics of a set after so many of its changes."""
    table = {
        topic.name: Queues(topic.read, topic.write, topic.perm)
        for topic in plan.plant.topics
        if broker_name in topic.brokers
    }
    changes = sorted(change for change in plan.plant.topic_changes if change.broker_name == broker_name)
    for change in changes[:version]:
        if change.read is None:
            table.pop(change.topic, None)
        else:
            table[change.topic] = Queues(change.read, change.write, change.perm)
    return table


def _difference(topic: str, old: Queues | None, new: Queues | None) -> dict[str, Any]:
    kind = "queues"
    if old is None:
        kind = "added"
    elif new is None:
        kind = "removed"
    elif old.perm != new.perm:
        kind = "perm"
    gone = Queues(None, None, None)
    before = {f"old_{name}": value for name, value in (old or gone)._asdict().items()}
    after = {f"new_{name}": value for name, value in (new or gone)._asdict().items()}
    return {"topic": topic, "kind": kind, **before, **after, "topic_sys_flag": None if new is None else 0}


#: Columns that tell how a set stands.
SET_COLUMNS = ("set_ids", "set_addrs", "set_clusters")


def _as_set(members: dict[int, tuple[str, str]]) -> dict[str, Any]:
    ids = sorted(members)
    return {
        "set_ids": ids,
        "set_addrs": [members[each][0] for each in ids],
        "set_clusters": [members[each][1] for each in ids],
    }


def _role(broker_id: int) -> str:
    return "slave" if broker_id else "master"
