"""Whom samples lack, told once when it begins and once when it is over. Pure."""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from sampling.samples import Master

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


class News(NamedTuple):
    """What is new since the round before."""

    #: Who began to fail, and why.
    begun: Mapping[Subject, str]
    over: Collection[Subject]
    #: Brokers that failed, and that nobody is told to ask any more.
    gone: Collection[Subject]


class Troubles:
    """Who fails."""

    def __init__(self) -> None:
        self._failing: set[Subject] = set()
        #: Topic -> cluster and name of each of its sets -> the newest known address of its master.
        self._masters: dict[str, dict[tuple[str, str], str | None]] = {}

    def news(
        self, failed: Mapping[Subject, str], answered: Collection[Subject], routes: Mapping[str, Collection[Master]]
    ) -> News:
        """Take how a round went; who neither failed nor answered was not asked, and stands as before.

        But a broker is forgotten when no route names it. Of a topic without a route the one before counts: NameServers
        may be away, or new.
        """
        begun = {subject: why for subject, why in sorted(failed.items()) if subject not in self._failing}
        over = sorted(self._failing & (set(answered) - failed.keys()))
        standing = self._failing.difference(over).union(begun)
        for topic, masters in routes.items():
            self._note_route(topic, masters)
        named = {address for masters in self._masters.values() for address in masters.values()}
        gone = sorted(each for each in standing if each.kind == BROKER and each.name not in named)
        self._failing = standing.difference(gone)
        return News(begun, over, gone)

    def _note_route(self, topic: str, masters: Collection[Master]) -> None:
        """Remember whom a topic has; a set without a master still lacks the one that it had."""
        before = self._masters.get(topic, {})
        sets = {(each.cluster, each.broker_name): each.address for each in masters}
        self._masters[topic] = {each: address or before.get(each) for each, address in sets.items()}
