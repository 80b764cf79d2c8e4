"""A sampler: rounds at intervals, their rows into the history, and an end in order."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec

from history.columns import SAMPLER
from history.recorder import RecorderIdentity
from remoting.admin.admin_request import AdminRequest
from remoting.admin.groups import GroupConnections, groups_of_topic
from remoting.background_tasks import all_results
from remoting.client import RemotingClient
from remoting.clock import Clock, SystemClock
from remoting.protocol.errors import BodyError, InvokeError, Refused
from remoting.protocol.signing import Signer
from rmq.sampling import events
from rmq.sampling.samples import (
    BROKER,
    NAMESRV,
    TOPIC,
    FailureChanges,
    FailureTracker,
    GroupProgress,
    Master,
    MembersByBroker,
    Samples,
    SetResponse,
    Subject,
    ends_of,
    masters_of,
    members_of,
    progress_of,
)
from serving import __version__
from serving.config.options import LONG_MAX
from serving.logging.logs import STDOUT, Logs, open_logs
from serving.logging.writer import LineWriter
from serving.metrics.counters import CounterTable
from serving.process.background_tasks import logged_tasks, write_held_lines
from serving.process.broker_access import SigningLog
from serving.process.recording import Recording
from serving.process.signals import Signals

#: Requests under way.
REQUESTS_MAX: Final = 8
TIMEOUT_MS: Final = 3000
Found = TypeVar("Found")
#: What a sampler is to be given.
KEYS: Final = (
    "RMQ_SAMPLER_BROKER_ACCESS_KEY and RMQ_SAMPLER_BROKER_SECRET_KEY "
    "(or --broker-access-key-path and --broker-secret-key-path)"
)
#: For whom it signs.
ADDRESSES: Final = "RMQ_SAMPLER_BROKER_ACCESS_ADDRESSES (or --broker-access-addresses)"
#: How long the last log lines may take to be written.
_LOG_CLOSE_S: Final = 2.0


class RoundResult(NamedTuple):
    #: By topic; those without a route are not there.
    answers: Mapping[str, Sequence[SetResponse]]
    members: MembersByBroker
    failed: Mapping[Subject, str]
    #: Peers that answered, and topics of which all sets answered. A peer that failed afterwards is in `failed` too.
    answered: frozenset[Subject]

    @property
    def routes(self) -> dict[str, list[Master]]:
        return {topic: [each.master for each in responses] for topic, responses in self.answers.items()}


class Round:
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
                found = await self._query(Subject(NAMESRV, address), masters_of(topic))
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
        end = await self._query_broker([topic], master.address, ends_of(topic))
        at_ms = self._clock.now_ms()
        if end is None:
            return SetResponse(master=master)
        return SetResponse(master=master, end=end, at_ms=at_ms, progress=await self._progress(topic, master.address))

    async def _progress(self, topic: str, address: str) -> dict[str, GroupProgress]:
        groups = await self._query_broker([topic], address, groups_of_topic(topic)) or ()
        results = await all_results(self._query_broker([topic], address, progress_of(group, topic)) for group in groups)
        return {group: each for group, each in zip(groups, results, strict=True) if each is not None}

    async def _members(self, address: str, group: str, topics: Collection[str]) -> GroupConnections | None:
        return await self._query_broker(topics, address, members_of(group))

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


class Options(msgspec.Struct, frozen=True, kw_only=True):
    name_servers: tuple[str, ...]
    topics: tuple[str, ...]
    history: Path
    interval_s: int
    #: Its ns_id in the rows.
    name: str
    #: What signs requests, and for which brokers; None signs none.
    signer: Signer | None = None


class Sampler:
    def __init__(self, options: Options, logs: Logs, client: RemotingClient, recording: Recording) -> None:
        self._options = options
        self._logs = logs
        self._client = client
        self._recorder = recording.recorder
        self._clock = SystemClock()
        self._samples = Samples()
        self._failures = FailureTracker()

    async def sample_at_intervals(self) -> None:
        """Take a sample now and in every interval; one that takes longer moves those after it."""
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            await self.sample()
            due_s = max(due_s + self._options.interval_s, loop.time())
            await asyncio.sleep(due_s - loop.time())

    async def sample(self) -> None:
        sampled = await Round(self._client, self._options.name_servers, self._clock).run(self._options.topics)
        for topic, answers in sampled.answers.items():
            for row in self._samples.take(topic, answers, sampled.members):
                self._recorder.enqueue(row)
        self._log(self._failures.update(sampled.failed, sampled.answered, sampled.routes))

    def _log(self, changes: FailureChanges) -> None:
        if changes.started:
            self._logs.write(events.SAMPLES_MISSING, failing={str(each): why for each, why in changes.started.items()})
        if changes.recovered:
            self._logs.write(events.SAMPLES_RECOVERED, recovered=[str(each) for each in changes.recovered])
        if changes.removed:
            self._logs.write(events.SAMPLES_NOT_NEEDED, removed=[str(each) for each in changes.removed])


async def serve(options: Options) -> None:
    """Sample until SIGTERM or SIGINT, then write what waits and seal all files."""
    signals, clock = Signals(), SystemClock()
    signals.listen()
    logs = open_logs(LineWriter(STDOUT), "auto", "info", clock, {"ns_id": options.name, "version": __version__})
    # It is no server, so it has no address.
    identity = RecorderIdentity(options.name, SAMPLER, __version__, "")
    # historyBytesMax is a limit of the servers; half of the disk and 31 days are limits here too.
    recording = Recording(options.history, identity, logs, bytes_max=LONG_MAX)
    client = _client(options, logs)
    try:
        await _sample_until_stopped(Sampler(options, logs, client, recording), options, logs, signals, recording)
        await client.close()
        await recording.close()
        logs.write(events.SAMPLER_STOPPED)
    finally:
        logs.close(_LOG_CLOSE_S)


def _client(options: Options, logs: Logs) -> RemotingClient:
    signing = SigningLog(
        logs,
        KEYS,
        ADDRESSES,
        CounterTable(known=[()]),
        has_keys=options.signer is not None,
        # NameServers do not check signatures.
        no_brokers=frozenset(options.name_servers),
    )
    return RemotingClient(SystemClock(), signer=options.signer, observer=signing)


async def _sample_until_stopped(
    sampler: Sampler, options: Options, logs: Logs, signals: Signals, recording: Recording
) -> None:
    recording.recorder.start()
    logs.write(
        events.SAMPLER_STARTED,
        topics=len(options.topics),
        namesrv=";".join(options.name_servers),
        interval_seconds=options.interval_s,
        history=str(options.history),
    )
    async with logged_tasks(logs) as tasks:
        running = [
            tasks.keep_running(sampler.sample_at_intervals, "sample", options.interval_s),
            tasks.keep_running(lambda: write_held_lines(logs), "write_held_lines"),
        ]
        await signals.stop.wait()
        for task in running:
            task.cancel()
