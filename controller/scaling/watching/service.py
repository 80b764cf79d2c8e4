"""The autoscaler of one controller: looks at all topics with a policy, again and again, while this controller leads.

The topics of a round are spread over its interval. Nothing of a former lead counts: windows begin anew, so that no
decision is made on half of one. It depends on queue scaling, and nothing depends on it.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final
from zlib import crc32

from controller.scaling.autoscaler.decision import RESIZES_MAX, KnownResizes, PastResize
from controller.scaling.autoscaler.findings import AnalysisOutlook
from controller.scaling.autoscaler.policies import PolicyTable
from controller.scaling.autoscaler.readings import TopicReading
from controller.scaling.execution.group_views import GroupObserver
from controller.scaling.execution.observer import TopicObserver
from controller.scaling.execution.operations import ENDED_MAX, Operations
from controller.scaling.execution.requests import ClientQueries
from controller.scaling.execution.service import QueueScaling
from controller.scaling.resize.operation import ResizeOperation
from controller.scaling.watching.decisions import Decisions, Proposal
from controller.scaling.watching.events import (
    ROUND_DURATION,
    TOPICS_LEFT_OUT,
    TOPICS_WATCHED,
    VERDICTS,
    ScalingRoundFailed,
)
from controller.scaling.watching.policy_source import PolicySource
from controller.scaling.watching.topic_requests import FailedPeers, PolicyTopics, SlotReadings, TopicFactsObserver
from controller.scaling.watching.watched_topic import SHOWN_OUTCOMES, TopicDecision, TopicUnderPolicy
from remoting.admin.client import AdminClient, AdminLimits
from remoting.background_tasks import all_results
from serving.shapes.scaling import ResizePhase
from serving.telemetry.events import Measure, Observation, Observed

#: Ended operations that are remembered although the store had no space for them any more.
REMEMBERED_MAX: Final = 5_000


class PastResizes:
    """All resizes that are known, by topic; those that have ended are decoded once."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        #: By operation: its topic and what became of it; None for one that cannot be read.
        self._ended: dict[str, tuple[str, PastResize] | None] = {}
        self._by_topic: dict[str, tuple[PastResize, ...]] = {}
        #: Resizes that began before it are not all known: the store had too many. Unix ms, 0 if all are known.
        self.known_since_unix_ms = 0

    def look(self) -> None:
        for operation_id in self._operations.ended_ids():
            if self._ended.get(operation_id) is None:
                found_one = self._operations.find_ended(operation_id)
                self._ended[operation_id] = None if found_one is None else (found_one.topic, past_resize(found_one))
        if len(self._ended) > REMEMBERED_MAX:
            by_age = sorted(self._ended.items(), key=lambda item: item[1][1].begun_unix_ms if item[1] else 0)
            self._ended = dict(by_age[-REMEMBERED_MAX:])
        ended = [known for known in self._ended.values() if known is not None]
        is_cut = len(self._ended) >= ENDED_MAX
        self.known_since_unix_ms = min((each.begun_unix_ms for _, each in ended), default=0) if is_cut else 0
        found: dict[str, list[PastResize]] = {}
        for topic, resize in ended:
            found.setdefault(topic, []).append(resize)
        for operation in self._operations.under_way():
            found.setdefault(operation.topic, []).append(past_resize(operation))
        self._by_topic = {
            topic: tuple(sorted(resizes, key=lambda resize: resize.begun_unix_ms)[-RESIZES_MAX:])
            for topic, resizes in found.items()
        }

    def of_topic(self, topic: str) -> tuple[PastResize, ...]:
        return self._by_topic.get(topic, ())


def past_resize(operation: ResizeOperation) -> PastResize:
    """Return an operation as the rules see it: one that was rejected has changed nothing, and is waited after too."""
    operation = operation.requested
    before = max(each.before.read for each in operation.sets)
    is_rejected = operation.phase is ResizePhase.REJECTED
    return PastResize(
        begun_unix_ms=operation.created_unix_ms,
        ended_unix_ms=operation.phase_since_unix_ms if operation.is_finished else None,
        before=before,
        after=before if is_rejected else max(each.target for each in operation.sets),
    )


#: Requests that clients answer have turns of their own: a client that hangs holds up no offsets.
_REQUESTS: Final = AdminLimits(timeout_ms=3_000, requests_max=32, requests_per_peer_max=8)
_REQUESTS_OF_GROUPS: Final = AdminLimits(timeout_ms=3_000, requests_max=16, requests_per_peer_max=4)
#: Parts of a round; the topics of one are read together, so that a broker's own answers serve all of them.
SLOTS: Final = 5
#: How often a controller that does not lead, or has no policies, looks whether that has changed.
IDLE_S: Final = 1.0
#: Topics that are evaluated before something else goes on: some milliseconds.
_TOPICS_AT_ONCE: Final = 20


class Autoscaler:
    def __init__(
        self, scaling: QueueScaling, policies: PolicySource, outlook: Callable[[str], AnalysisOutlook]
    ) -> None:
        """Take queue scaling, policies, and what the newest analyses tell of a topic."""
        self.policies = policies
        self.scaling = scaling
        self._emit, self._clock, self._outlook = scaling.emit, scaling.clock, outlook
        peers = FailedPeers(scaling.client, scaling.clock)
        admin, of_groups = AdminClient(peers, _REQUESTS), AdminClient(peers, _REQUESTS_OF_GROUPS)
        clients = ClientQueries(of_groups, scaling.clock)
        groups = GroupObserver(of_groups, clients, scaling.group_kinds)

        def name_servers() -> tuple[str, ...]:
            return scaling.options().name_servers

        topics = TopicObserver(admin, name_servers, scaling.sets, clients, scaling.group_kinds, scaling.clock)
        self.names = PolicyTopics(admin, name_servers, scaling.clock.now_ms)
        self._facts = TopicFactsObserver(admin, topics, groups, scaling.clock.now_ms)
        self._readings = SlotReadings(admin, scaling.clock)
        self._past = PastResizes(scaling.operations)
        self.decided = Decisions(scaling)
        self._watched: dict[str, TopicUnderPolicy] = {}
        #: The term in which everything above was seen.
        self._term = 0
        self._worked_ms = 0
        #: Of the last round.
        self._measures: tuple[Measure, ...] = ()

    def decisions(self) -> list[TopicDecision]:
        found = (self._watched[topic].decision for topic in sorted(self._watched))
        return [each for each in found if each is not None]

    def proposals(self) -> list[Proposal]:
        return self.decided.proposals.waiting(self._clock.unix_ms())

    async def approve(self, proposal_id: str, reason: str) -> ResizeOperation:
        """Start a proposed resize; raises NotLeader, ProposalUnknown and what `QueueScaling.start` raises."""
        self.scaling.check_leads()
        proposal = self.decided.proposals.find(proposal_id, self._clock.unix_ms())
        return await self.decided.approve(self._watched[proposal.topic], proposal, reason)

    # Rounds

    async def watch_topics(self) -> None:
        try:
            while True:
                await self._next_round()
        finally:
            self._forget()

    async def _next_round(self) -> None:
        began_ms = self._clock.now_ms()
        if not await self.prepare():
            await asyncio.sleep(IDLE_S)
            return
        interval_ms = self.scaling.options().interval_ms
        for slot in range(SLOTS):
            await self._wait_until(began_ms + slot * interval_ms // SLOTS)
            await self.look(slot)
        self._report()
        await self._wait_until(began_ms + interval_ms)

    async def prepare(self) -> bool:
        """Begin a round: know policies, topics and past resizes. Return whether there is anything to look at."""
        if not self._is_current():
            self._forget()
            if not self.scaling.is_ready:
                return False
            self._term = self.scaling.term
        began_ms = self._clock.now_ms()
        try:
            self.policies.look_at_store()
            await self._keep_topics(self.policies.table)
            self._past.look()
        except Exception as error:  # noqa: BLE001  # whatever it is, it is reported, and tried again in the next round
            self._emit(ScalingRoundFailed(topic="", fault=error))
            return False
        self._worked_ms = self._clock.now_ms() - began_ms
        return bool(self._watched) and self._is_current()

    async def look(self, slot: int) -> None:
        began_ms, term = self._clock.now_ms(), self._term
        topics = {topic: each for topic, each in self._watched.items() if crc32(topic.encode()) % SLOTS == slot}
        if topics and self._is_current():
            try:
                await self._look_at(topics, term)
            except Exception as error:  # noqa: BLE001  # as above
                self._emit(ScalingRoundFailed(topic="", fault=error))
        self._worked_ms += self._clock.now_ms() - began_ms

    async def _look_at(self, topics: Mapping[str, TopicUnderPolicy], term: int) -> None:
        await all_results(self._refresh(topic, each) for topic, each in topics.items())
        known = {topic: each.facts for topic, each in topics.items() if each.facts is not None}
        policies = {topic: self.policies.table.policy_of(topic) for topic in known}
        limited = [topic for topic, policy in policies.items() if policy is not None and policy.broker_writes_max]
        readings = await self._readings.read(known, limited)
        for number, reading in enumerate(readings, 1):
            if not self._is_current() or self._term != term:
                return
            self._take(reading)
            if number % _TOPICS_AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _refresh(self, topic: str, watched: TopicUnderPolicy) -> None:
        if not self._facts.is_due(watched.facts):
            return
        try:
            watched.facts = await self._facts.facts(topic, watched.facts, watched.behind)
        except Exception as error:  # noqa: BLE001  # one topic holds up no other
            self._emit(ScalingRoundFailed(topic=topic, fault=error))

    def _take(self, reading: TopicReading) -> None:
        topic = reading.topic
        watched, policy = self._watched.get(topic), self.policies.table.policy_of(topic)
        if watched is None or policy is None:
            return
        try:
            resizes = KnownResizes(self._past.of_topic(topic), self._past.known_since_unix_ms)
            self.decided.take(watched, watched.evaluate(reading, policy, resizes, self._outlook(topic)))
        except Exception as error:  # noqa: BLE001  # one topic holds up no other
            self._emit(ScalingRoundFailed(topic=topic, fault=error))

    async def _keep_topics(self, policies: PolicyTable) -> None:
        names = await self.names.watched(policies) if policies.policies else []
        self._watched = {topic: self._watched.get(topic) or TopicUnderPolicy() for topic in names}
        self.decided.proposals.keep_only(self._watched)

    def _is_current(self) -> bool:
        return self.scaling.is_ready and self._term == self.scaling.term

    def _forget(self) -> None:
        """Know nothing: what was seen in another term is no evidence in this one."""
        if not self._term:
            return
        self._term = 0
        self._watched.clear()
        self.decided.clear()
        self._past = PastResizes(self.scaling.operations)
        self.policies.forget_stored()
        self._measures = ()

    def _report(self) -> None:
        if self._is_current():
            outcomes = Counter(each.outcome.value for each in self.decisions())
            self._measures = (
                Measure(TOPICS_WATCHED, len(self._watched)),
                Measure(TOPICS_LEFT_OUT, self.names.left_out),
                *(Measure(VERDICTS, outcomes[outcome], (outcome,)) for outcome in SHOWN_OUTCOMES),
            )
            self._emit(Observed(observation=Observation(ROUND_DURATION, self._worked_ms / 1000)))

    def measures(self) -> tuple[Measure, ...]:
        return self._measures

    async def _wait_until(self, deadline_ms: int) -> None:
        while self._is_current():
            left_ms = deadline_ms - self._clock.now_ms()
            if left_ms <= 0:
                return
            await asyncio.sleep(min(left_ms / 1000, IDLE_S))
