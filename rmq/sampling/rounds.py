"""One round: each topic is queried once, 8 requests at a time.

A peer that does not answer gets no further request in this round: a broker that hangs costs the others one timeout.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from remoting.admin.admin_request import AdminRequest
from remoting.admin.groups import groups_of_topic
from remoting.background_tasks import all_results
from remoting.client import RemotingClient
from remoting.clock import Clock
from remoting.protocol.errors import BodyError, InvokeError, Refused
from rmq.sampling import requests
from rmq.sampling.failures import BROKER, NAMESRV, TOPIC, Subject
from rmq.sampling.samples import GroupMembers, GroupProgress, Master, MembersByBroker, SetResponse

#: Requests under way.
REQUESTS_MAX: Final = 8
TIMEOUT_MS: Final = 3000

Found = TypeVar("Found")


class RoundResult(NamedTuple):
    """The result of a round."""

    #: By topic; those without a route are not there.
    answers: Mapping[str, Sequence[SetResponse]]
    members: MembersByBroker
    failed: Mapping[Subject, str]
    #: Peers that answered, and topics of which all sets answered. A peer that failed afterwards is in `failed` too.
    answered: frozenset[Subject]

    @property
    def routes(self) -> dict[str, list[Master]]:
        """The sets of each topic that has a route."""
        return {topic: [each.master for each in responses] for topic, responses in self.answers.items()}


class Round:
    """Queries each topic once."""

    def __init__(self, client: RemotingClient, name_servers: Sequence[str], clock: Clock) -> None:
        self._client = client
        self._name_servers = name_servers
        self._clock = clock
        self._turns = asyncio.Semaphore(REQUESTS_MAX)
        self._failed: dict[Subject, str] = {}
        self._answered: set[Subject] = set()

    async def run(self, topics: Sequence[str]) -> RoundResult:
        """Return the responses of NameServers and brokers about these topics, and what failed."""
        found = dict(zip(topics, await all_results(self._of_topic(topic) for topic in topics), strict=True))
        answers = {topic: responses for topic, responses in found.items() if responses is not None}
        wanted = _groups_by_broker(answers)
        members = await all_results(self._members(*there, topics) for there, topics in wanted.items())
        known = {there: each for there, each in zip(wanted, members, strict=True) if each is not None}
        complete = {
            Subject(TOPIC, topic) for topic, responses in answers.items() if all(map(self._is_complete, responses))
        }
        return RoundResult(answers, known, self._failed, frozenset(self._answered | complete))

    def _is_complete(self, answer: SetResponse) -> bool:
        """Return True if a set answered with its end, and did not fail in a later request."""
        address = answer.master.address
        return answer.end is not None and address is not None and Subject(BROKER, address) not in self._failed

    async def _of_topic(self, topic: str) -> list[SetResponse] | None:
        masters = await self._masters(topic)
        return None if masters is None else await all_results(self._of_set(topic, master) for master in masters)

    async def _masters(self, topic: str) -> tuple[Master, ...] | None:
        """Query one NameServer after the other: one that has just started may not know the topic yet."""
        why = ""
        for address in self._name_servers:
            try:
                found = await self._query(Subject(NAMESRV, address), requests.masters_of(topic))
            except (Refused, BodyError) as error:
                why = f"{address} answered {error}"
                continue
            if found is not None:
                return found
        if why:
            self._failed[Subject(TOPIC, topic)] = why
        return None

    async def _of_set(self, topic: str, master: Master) -> SetResponse:
        if master.address is None:
            return SetResponse(master=master)
        end = await self._query_broker([topic], master.address, requests.ends_of(topic))
        at_ms = self._clock.now_ms()
        if end is None:
            return SetResponse(master=master)
        return SetResponse(master=master, end=end, at_ms=at_ms, progress=await self._progress(topic, master.address))

    async def _progress(self, topic: str, address: str) -> dict[str, GroupProgress]:
        groups = await self._query_broker([topic], address, groups_of_topic(topic)) or ()
        results = await all_results(
            self._query_broker([topic], address, requests.progress_of(group, topic)) for group in groups
        )
        return {group: each for group, each in zip(groups, results, strict=True) if each is not None}

    async def _members(self, address: str, group: str, topics: Collection[str]) -> GroupMembers | None:
        return await self._query_broker(topics, address, requests.members_of(group))

    async def _query_broker(self, topics: Collection[str], address: str, wanted: AdminRequest[Found]) -> Found | None:
        """Return the response of a broker; None if it fails, and then its topics are marked as failed."""
        try:
            return await self._query(Subject(BROKER, address), wanted)
        except (Refused, BodyError) as error:
            why = f"{address} answered request {wanted.request.code} with {error}"
            self._failed.update(dict.fromkeys((Subject(TOPIC, topic) for topic in topics), why))
            return None

    async def _query(self, peer: Subject, wanted: AdminRequest[Found]) -> Found | None:
        """Return the response of a peer, None if it does not answer; raises Refused and BodyError."""
        async with self._turns:
            if peer in self._failed:
                return None
            try:
                answer = await self._client.invoke(peer.name, wanted.request, TIMEOUT_MS)
            except InvokeError as error:
                self._failed[peer] = error.reason
                return None
        self._answered.add(peer)
        return wanted.read_response(answer)


def _groups_by_broker(answers: Mapping[str, Sequence[SetResponse]]) -> dict[tuple[str, str], list[str]]:
    """Return which brokers to query for which groups: address and group -> the topics that need it."""
    by_broker: dict[tuple[str, str], list[str]] = {}
    for topic, responses in answers.items():
        for answer in responses:
            if (address := answer.master.address) is not None:
                for group in answer.progress:
                    by_broker.setdefault((address, group), []).append(topic)
    return by_broker
