"""NameServers, brokers and topics that samples lack: reported once when it starts and once when it ends. Pure."""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from rmq.sampling.samples import Master

#: Kinds of subjects.
NAMESRV: Final = "namesrv"
BROKER: Final = "broker"
TOPIC: Final = "topic"


class Subject(NamedTuple):
    """A NameServer or a broker by its address, or a topic."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class FailureChanges(NamedTuple):
    """What changed since the round before."""

    #: Subjects that started to fail, each with the reason.
    started: Mapping[Subject, str]
    recovered: Collection[Subject]
    #: Failing brokers that no route names any more.
    removed: Collection[Subject]


class FailureTracker:
    """The subjects that fail."""

    def __init__(self) -> None:
        self._failing: set[Subject] = set()
        #: Topic -> cluster and name of each of its sets -> the newest known address of its master.
        self._masters: dict[str, dict[tuple[str, str], str | None]] = {}

    def update(
        self, failed: Mapping[Subject, str], answered: Collection[Subject], routes: Mapping[str, Collection[Master]]
    ) -> FailureChanges:
        """Add the result of a round; a subject that neither failed nor answered was not queried, and keeps its state.

        A broker that no route names is removed. For a topic without a route the last known route counts: NameServers
        may be down, or have just started.
        """
        started = {subject: why for subject, why in sorted(failed.items()) if subject not in self._failing}
        recovered = sorted(self._failing & (set(answered) - failed.keys()))
        failing = self._failing.difference(recovered).union(started)
        for topic, masters in routes.items():
            self._update_masters(topic, masters)
        named = {address for masters in self._masters.values() for address in masters.values()}
        removed = sorted(each for each in failing if each.kind == BROKER and each.name not in named)
        self._failing = failing.difference(removed)
        return FailureChanges(started, recovered, removed)

    def _update_masters(self, topic: str, masters: Collection[Master]) -> None:
        """Keep the masters of a topic; a set without a master keeps the last one."""
        before = self._masters.get(topic, {})
        sets = {(each.cluster, each.broker_name): each.address for each in masters}
        self._masters[topic] = {each: address or before.get(each) for each, address in sets.items()}
