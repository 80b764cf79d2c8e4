"""Wires a sampler: rounds at intervals, their rows into the history, and an end in order."""

import asyncio
from pathlib import Path
from typing import Final

import msgspec

from history.columns import SAMPLER
from history.recorder import RecorderIdentity
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from remoting.protocol.signing import Signer
from rmq.sampling import events
from rmq.sampling.failures import FailureChanges, FailureTracker
from rmq.sampling.rounds import Round
from rmq.sampling.samples import Samples
from serving import __version__
from serving.config.options import LONG_MAX
from serving.logging.logs import STDOUT, Logs, open_logs
from serving.logging.writer import LineWriter
from serving.metrics.counters import CounterTable
from serving.process.background_tasks import logged_tasks, write_held_lines
from serving.process.broker_access import OptionNames, SigningLog
from serving.process.recording import Recording
from serving.process.signals import Signals

#: What a sampler is to be given.
KEYS: Final = (
    "RMQ_SAMPLER_BROKER_ACCESS_KEY and RMQ_SAMPLER_BROKER_SECRET_KEY "
    "(or --broker-access-key-path and --broker-secret-key-path)"
)
#: For whom it signs.
ADDRESSES: Final = "RMQ_SAMPLER_BROKER_ACCESS_ADDRESSES (or --broker-access-addresses)"
#: How long the last log lines may take to be written.
_LOG_CLOSE_S: Final = 2.0


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a sampler."""

    name_servers: tuple[str, ...]
    topics: tuple[str, ...]
    history: Path
    interval_s: int
    #: Its ns_id in the rows.
    name: str
    #: What signs requests, and for which brokers; None signs none.
    signer: Signer | None = None


class Sampler:
    """Samples for as long as it runs."""

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
        """Take one sample of all topics."""
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
        OptionNames(KEYS, ADDRESSES),
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
