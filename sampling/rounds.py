"""One round: everything about all topics is asked once, a few requests at a time.

Who does not answer one request is asked no more in this round: a broker that hangs costs the others one timeout.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from remoting.background_tasks import all_results
from remoting.client import RemotingClient
from remoting.clock import Clock
from remoting.protocol.errors import BodyError, InvokeError
from sampling import requests
from sampling.failures import BROKER, NAMESRV, TOPIC, Subject
from sampling.requests import Question, Refused
from sampling.samples import Master, Members, MembersThere, Progress, SetAnswer

#: Requests under way.
REQUESTS_MAX: Final = 8
TIMEOUT_MS: Final = 3000

Found = TypeVar("Found")


class Sampled(NamedTuple):
    """What a round has found."""

    #: By topic; those without a route are not there.
    answers: Mapping[str, Sequence[SetAnswer]]
    members: MembersThere
    failed: Mapping[Subject, str]
    #: Peers that told something, and topics of which all sets told their ends. Who failed afterwards is in both.
    answered: frozenset[Subject]

    @property
    def routes(self) -> dict[str, list[Master]]:
        """The sets of each topic whose route was told."""
        return {topic: [each.master for each in told] for topic, told in self.answers.items()}


class Round:
    """Asks once."""

    def __init__(self, client: RemotingClient, name_servers: Sequence[str], clock: Clock) -> None:
        self._client = client
        self._name_servers = name_servers
        self._clock = clock
        self._turns = asyncio.Semaphore(REQUESTS_MAX)
        self._failed: dict[Subject, str] = {}
        self._answered: set[Subject] = set()

    async def sampled(self, topics: Sequence[str]) -> Sampled:
        """Return what NameServers and brokers tell about these topics; what fails is in it."""
        found = dict(zip(topics, await all_results(self._of_topic(topic) for topic in topics), strict=True))
        answers = {topic: told for topic, told in found.items() if told is not None}
        wanted = _groups_there(answers)
        members = await all_results(self._members(*there, topics) for there, topics in wanted.items())
        known = {there: each for there, each in zip(wanted, members, strict=True) if each is not None}
        whole = {Subject(TOPIC, topic) for topic, told in answers.items() if all(map(self._is_whole, told))}
        return Sampled(answers, known, self._failed, frozenset(self._answered | whole))

    def _is_whole(self, answer: SetAnswer) -> bool:
        """Tell whether a set told its end, and did not fail later, as when it was asked for groups."""
        address = answer.master.address
        return answer.end is not None and address is not None and Subject(BROKER, address) not in self._failed

    async def _of_topic(self, topic: str) -> list[SetAnswer] | None:
        masters = await self._masters(topic)
        return None if masters is None else await all_results(self._of_set(topic, master) for master in masters)

    async def _masters(self, topic: str) -> tuple[Master, ...] | None:
        """Ask one NameServer after the other: one that was started a moment ago does not know all topics yet."""
        why = ""
        for address in self._name_servers:
            try:
                found = await self._ask(Subject(NAMESRV, address), requests.masters_of(topic))
            except (Refused, BodyError) as error:
                why = f"{address} answered {error}"
                continue
            if found is not None:
                return found
        if why:
            self._failed[Subject(TOPIC, topic)] = why
        return None

    async def _of_set(self, topic: str, master: Master) -> SetAnswer:
        if master.address is None:
            return SetAnswer(master=master)
        end = await self._told([topic], master.address, requests.ends_of(topic))
        at_ms = self._clock.now_ms()
        if end is None:
            return SetAnswer(master=master)
        return SetAnswer(master=master, end=end, at_ms=at_ms, progress=await self._progress(topic, master.address))

    async def _progress(self, topic: str, address: str) -> dict[str, Progress]:
        groups = await self._told([topic], address, requests.groups_of(topic)) or ()
        told = await all_results(self._told([topic], address, requests.progress_of(group, topic)) for group in groups)
        return {group: each for group, each in zip(groups, told, strict=True) if each is not None}

    async def _members(self, address: str, group: str, topics: Collection[str]) -> Members | None:
        return await self._told(topics, address, requests.members_of(group))

    async def _told(self, topics: Collection[str], address: str, question: Question[Found]) -> Found | None:
        """Return what a broker tells; None if it does not, and then why is noted of the topics that lack it."""
        try:
            return await self._ask(Subject(BROKER, address), question)
        except (Refused, BodyError) as error:
            why = f"{address} answered request {question.request.code} with {error}"
            self._failed.update(dict.fromkeys((Subject(TOPIC, topic) for topic in topics), why))
            return None

    async def _ask(self, peer: Subject, question: Question[Found]) -> Found | None:
        """Return what a peer tells, None if it does not answer; raises Refused and BodyError."""
        async with self._turns:
            if peer in self._failed:
                return None
            try:
                answer = await self._client.invoke(peer.name, question.request, TIMEOUT_MS)
            except InvokeError as error:
                self._failed[peer] = error.reason
                return None
        self._answered.add(peer)
        return question.found_in(answer)


def _groups_there(answers: Mapping[str, Sequence[SetAnswer]]) -> dict[tuple[str, str], list[str]]:
    """Return where members of which groups are to be asked for: address and group -> the topics that it is for."""
    there: dict[tuple[str, str], list[str]] = {}
    for topic, told in answers.items():
        for answer in told:
            if (address := answer.master.address) is not None:
                for group in answer.progress:
                    there.setdefault((address, group), []).append(topic)
    return there
