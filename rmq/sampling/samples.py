"""What a sampler requests, and rows of `offset_sample` from the responses: one for each topic and group of it. Pure.

A set that did not answer is left out. So a topic's end is known only if all of its sets answered; its messages a
second are those of the sets that answered, each since its own previous response.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from history.rows import BrokerRef, HistoryRow, Moment, RowMaker
from history.schemas import OFFSET_SAMPLE
from remoting.admin.admin_request import AdminRequest
from remoting.admin.groups import GroupConnections, QueueLag, connections_of_group, lag_of_group
from remoting.admin.message_queues import MessageQueue
from remoting.admin.routes import TopicRoute, route_of
from remoting.admin.topics import queue_offsets

#: Kinds of subjects.
NAMESRV: Final = "namesrv"
BROKER: Final = "broker"
TOPIC: Final = "topic"


class Master(NamedTuple):
    """A broker set that has a topic, and who leads it."""

    cluster: str
    broker_name: str
    #: None while it has no master.
    address: str | None


class GroupProgress(NamedTuple):
    """Offsets of a group on one broker: sums over its queues, in messages."""

    broker_offset: int
    consumer_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetResponse:
    master: Master
    #: Sum of the ends of its queues, in messages; None without an answer.
    end: int | None = None
    #: When it answered, monotonic ms.
    at_ms: int = 0
    progress: Mapping[str, GroupProgress] = field(default_factory=dict)


#: Address of a broker, group -> its members there, as far as the broker answered.
MembersByBroker = Mapping[tuple[str, str], GroupConnections]


class OffsetSample(NamedTuple):
    """One row; see the columns of OFFSET_SAMPLE."""

    cluster: str
    topic: str
    group: str | None = None
    max_offset: int | None = None
    consumer_offset: int | None = None
    consumers: int | None = None
    tps: float | None = None

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[HistoryRow]:
        columns = self._asdict()
        yield maker.row(OFFSET_SAMPLE, "sample", moment, BrokerRef(cluster=columns.pop("cluster")), **columns)


class _End(NamedTuple):
    offset: int
    at_ms: int


class Samples:
    """Makes samples; keeps the ends that the next samples are compared with."""

    def __init__(self) -> None:
        #: Topic -> broker set -> its newest end.
        self._ends: dict[str, dict[str, _End]] = {}

    def take(self, topic: str, answers: Sequence[SetResponse], members: MembersByBroker) -> list[OffsetSample]:
        """Return the rows of a topic; none about clusters of which no set answered."""
        rates = self._rates(topic, answers)
        rows = []
        for cluster in sorted({answer.master.cluster for answer in answers if answer.end is not None}):
            mine = [answer for answer in answers if answer.master.cluster == cluster]
            tps = _sum_of_known(rates.get(answer.master.broker_name) for answer in mine)
            rows.append(OffsetSample(cluster, topic, max_offset=_sum_of_all(each.end for each in mine), tps=tps))
            groups = sorted({group for answer in mine for group in answer.progress})
            rows += [_of_group(OffsetSample(cluster, topic, group, tps=tps), mine, members) for group in groups]
        return rows

    def _rates(self, topic: str, answers: Iterable[SetResponse]) -> dict[str, float]:
        """Return the messages a second of the sets that are known, and keep their ends."""
        before, now = self._ends.get(topic, {}), {}
        rates = {}
        for answer in answers:
            name = answer.master.broker_name
            last = before.get(name)
            if answer.end is None:
                # It may answer the next time.
                now.update({name: last} if last else {})
                continue
            now[name] = _End(answer.end, answer.at_ms)
            # An end goes back when a topic was made anew, or a slave became master.
            if last is not None and answer.end >= last.offset and answer.at_ms > last.at_ms:
                rates[name] = (answer.end - last.offset) * 1000 / (answer.at_ms - last.at_ms)
        self._ends[topic] = now
        return rates


def _of_group(sample: OffsetSample, answers: Iterable[SetResponse], members: MembersByBroker) -> OffsetSample:
    """Return the row of a group; its end is of the same answers as its offset, so that their difference is right."""
    group = sample.group
    assert group is not None, "rows about a topic alone have no group"
    offsets = [answer.progress[group] for answer in answers if group in answer.progress]
    there = [found for each in answers if each.master.address and (found := members.get((each.master.address, group)))]
    is_broadcasting = any(each.is_broadcasting for each in there)
    return sample._replace(
        max_offset=sum(each.broker_offset for each in offsets),
        consumer_offset=None if is_broadcasting else sum(each.consumer_offset for each in offsets),
        consumers=len({client.client_id for each in there for client in each.clients}) if there else None,
    )


def _sum_of_all(numbers: Iterable[int | None]) -> int | None:
    every = list(numbers)
    known = [number for number in every if number is not None]
    return sum(known) if len(known) == len(every) else None


def _sum_of_known(numbers: Iterable[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def masters_of(topic: str) -> AdminRequest[tuple[Master, ...]]:
    """Request of a NameServer (105) the sets that have a topic, each with its master."""

    def read(route: TopicRoute) -> tuple[Master, ...]:
        return tuple(
            sorted(Master(each.cluster, each.broker_name, each.master_address) for each in route.broker_sets.values())
        )

    return route_of(topic).mapped(read)


def ends_of(topic: str) -> AdminRequest[int]:
    """Request of a broker (202) the sum of the ends of a topic's queues; before 5.3 without those only read from."""
    return queue_offsets(topic).mapped(lambda queues: sum(max(queue.max_offset, 0) for queue in queues.values()))


def progress_of(group: str, topic: str) -> AdminRequest[GroupProgress | None]:
    """Request of a broker (208) how far a group is; None for one whose members no longer subscribe to the topic."""
    return lag_of_group(group, topic).mapped(_progress_in)


def members_of(group: str) -> AdminRequest[GroupConnections]:
    """Request of a broker (203) who of a group is connected."""
    return connections_of_group(group).mapped(lambda found: found or GroupConnections())


def _progress_in(queues: Mapping[MessageQueue, QueueLag]) -> GroupProgress | None:
    if not queues:
        return None
    return GroupProgress(
        sum(max(queue.broker_offset, 0) for queue in queues.values()),
        sum(max(queue.consumer_offset, 0) for queue in queues.values()),
    )


class Subject(NamedTuple):
    """A NameServer or a broker by its address, or a topic."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class FailureChanges(NamedTuple):
    #: Subjects that started to fail, each with the reason.
    started: Mapping[Subject, str]
    recovered: Collection[Subject]
    #: Failing brokers that no route names any more.
    removed: Collection[Subject]


class FailureTracker:
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
