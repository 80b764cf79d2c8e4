"""Wires a controller: its store, its rules, what any server has around them, and what it does by itself.

Answers to `ControllerManager`. Nothing of RocketMQ's rules is here; what can be decided without a loop is elsewhere.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from controller.config import CONTROLLER, ControllerConfig
from controller.control import Control
from controller.detection import Detection
from controller.elections import Elections
from controller.group import Group
from controller.guard import LOOK_MS
from controller.handlers import BODY_LIMITS, Handlers
from controller.history import SetHistory
from controller.http_views import Views
from controller.identity import member_of
from controller.journal import BROKER_CODES, Journal
from controller.live_table import LiveTable
from controller.log_end_queries import LogEndQueries
from controller.perform import Performer
from controller.recovery import Recovery
from controller.results_reader import ResultsReader
from controller.set_counts import SetCounts
from controller.store import Backend, SetStore, StoreError
from controller.store_size import StoreSize
from controller.stores.opening import open_store
from controller.working import Parts
from remoting.background_tasks import BackgroundTasks, is_failure
from remoting.codes import RequestCode
from remoting.notices import NoticeKind
from remoting.server import ServerOptions
from remoting.shapes.controller import BrokerHeartbeatHeader
from serving.journal import Attributed, ConnectionWatch
from serving.not_started import NotStarted
from serving.own_address import is_own_host, warn_of_loopback
from serving.process import ServerProcess, Surroundings, import_aside
from serving.stored_config import StoredConfig

if TYPE_CHECKING:
    from serving.http_endpoints import Endpoint
    from serving.recording import Measure

#: How often sets without master are looked for.
_SETS_LOOK_S: Final = 0.25
#: How soon a store that could not be asked is asked again.
_STORE_AGAIN_S: Final = 0.5
#: How often a new leader tries to load before it lets another one lead.
_LOADS_MAX: Final = 5


#: What each broker sends again and again: answered at once from what is known.
_URGENT: Final = frozenset({RequestCode.BROKER_HEARTBEAT, RequestCode.CONTROLLER_GET_REPLICA_INFO})


class Controller:
    """One controller with all its parts."""

    def __init__(self, config: ControllerConfig, surroundings: Surroundings) -> None:
        """Wire it; raises NotStarted."""
        self._clock, self._logs, self._tasks = surroundings.clock, surroundings.logs, surroundings.tasks
        self._counts = SetCounts(lambda: {each.cluster for each in self._store.sets()})
        self._process = ServerProcess(CONTROLLER, config, self._counts, surroundings)
        self._journal = Journal(self._logs, self._counts, config)
        self._settings = StoredConfig(CONTROLLER, config, self._journal, self._process.follow)
        me = member_of(config, 0)
        if not config.advertised_address:
            warn_of_loopback(config.bind_address, self._logs)
        self._client = self._process.make_client()
        self._backend = self._open_store(config)
        self._store = SetStore(self._backend)
        self._group = Group(config.controller_group, me, self._clock, self._store.entry_changed)
        self._group.on_elected = self._elected
        self._group.on_deposed = self._deposed
        self._group.on_put_back = self._store.put_back
        live = LiveTable()
        self._elections = Elections(self._group.me.address)
        self._performer = Performer(self._begin, self._client, self._elections, self._clock, self._journal)
        queries = LogEndQueries(self._client)
        self._control = Control(
            Parts(
                store=self._store,
                group=self._group,
                live=live,
                detection=Detection(live, self._clock.now_ms()),
                recovery=Recovery(live),
                elections=self._elections,
                clock=self._clock,
                config=lambda: self._settings.config,
                perform=self._performer.perform,
                observer=self._journal,
                start=self._begin,
                log_ends=queries.ask,
                confirmed_on=queries.confirmed_on,
            )
        )
        self._results = ResultsReader(Path(config.analytics_dir).expanduser()) if config.analytics_dir else None
        self._measure: Measure = dict
        self._size = StoreSize(self._backend)
        if self._process.recording is not None:
            recorder = self._process.recording.recorder
            history = SetHistory(recorder, live, self._store.address_of, lambda: self._size.latest)
            self._journal.history = history
            self._control.on_beat = history.beat
            self._measure = history.measure
        self._control.detection.hosts.is_own = is_own_host
        self._performer.probed = self._control.guard.probed
        self._performer.reached = self._control.guard.reached
        handlers = Handlers(self._control, self._settings, self._clock)
        self._store.on_changed, self._store.on_loaded = handlers.infos.changed, handlers.infos.forget
        self._infos = handlers.infos
        self._server = self._process.make_listener(
            Attributed(handlers, BROKER_CODES, RequestCode.BROKER_HEARTBEAT),
            ConnectionWatch(self._journal, self._lost),
            ServerOptions(
                urgent=_URGENT,
                prepared=RequestCode.CONTROLLER_GET_REPLICA_INFO,
                notices=NoticeKind(RequestCode.BROKER_HEARTBEAT, BrokerHeartbeatHeader, handlers.beat),
                body_limits=BODY_LIMITS,
                is_kept=self._control.is_of_member,
            ),
            queued_requests_max=config.controller_request_thread_pool_queue_capacity,
        )
        self._led = asyncio.Event()
        self._stop = surroundings.signals.stop
        self._is_closing = False

    async def run(self) -> None:
        """Serve until told to stop, then stop in order. Raises NotStarted."""
        config = self._settings.config
        host, port = await self._process.open()
        self._group.me = member_of(config, port)
        self._elections.controller_address = self._group.me.address
        joining = self._begin(self._join())
        if config.controller_store == "embedded":
            # Nobody else can lead: whoever sees the next line is served.
            await joining
            await self._led_or_stopped()
        if not self._stop.is_set():
            self._logs.announce(
                f"The Controller Server boot success. serializeType={config.serialize_type}, address {host}:{port}"
            )
            await self._process.start_http(self._site)
            own = [self._look_at_brokers, self._look_at_sets]
            if self._results is not None:
                own.append(self._results.read_results)
            if self._process.recording is not None:
                own.append(self._size.ask_for_store_size)
            await self._process.serve(*own, measure=self._measure)
        joining.cancel()
        await self._resign()
        await self._process.drain(self._settings.config)
        self._is_closing = True
        await self._process.close(self._performer.close, self._client.close, self._backend.close)

    async def _site(self) -> "tuple[Sequence[Endpoint], Views]":
        """Return what is served over HTTP; peers are served while its libraries are loaded."""
        metrics = await import_aside("controller.metrics")
        endpoints = await import_aside("controller.http_endpoints")
        sources = metrics.MetricSources(
            statistics=self._server.statistics,
            counts=self._counts,
            logs=self._logs,
            health=self._process.health,
            recorder=self._process.recording.recorder if self._process.recording is not None else None,
            task_failures=self._tasks.failures,
            control=self._control,
            clock=self._clock,
            results=lambda: self._results.samples if self._results is not None else (),
        )
        views = Views(self._process.health, metrics.Metrics(sources), self._settings, self._control, self._clock)
        return endpoints.ENDPOINTS, views

    # The group

    def _open_store(self, config: ControllerConfig) -> Backend:
        try:
            return open_store(config, self._clock, _StoreCalls(self._journal, self._tasks))
        except StoreError as error:
            raise NotStarted(str(error)) from error

    async def _led_or_stopped(self) -> None:
        """Wait until this controller leads, or is told to stop: its store may never be read."""
        waiting = {self._begin(_set(each)) for each in (self._led, self._stop)}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for each in waiting:
            each.cancel()

    async def _join(self) -> None:
        """Belong to the controllers of the store; a store that cannot be asked is asked again."""
        while True:
            try:
                await self._backend.join(self._group.me, self._group)
            except StoreError as error:
                self._journal.store_failed("", error)
            except BaseException as error:  # without it this controller never leads
                if not is_failure(error):
                    raise
                self._tasks.report("join", error)
            else:
                return
            await asyncio.sleep(_STORE_AGAIN_S)

    def _elected(self) -> None:
        self._begin(self._lead(self._group.term))

    def _deposed(self) -> None:
        self._infos.forget()
        self._control.deposed()
        self._journal.leadership_lost(self._group.name, self._group.leader)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[bool]:
        """Do something that nobody waits for; if it fails, that ends nothing else."""
        return self._tasks.start(work, getattr(work, "__name__", "work").strip("_"))

    async def _lead(self, term: int) -> None:
        """Take over, again where that fails: who was elected and does not lead keeps others from it."""
        while True:
            if await self._tasks.attempt(self._take_over(term), "take_over"):
                return
            await asyncio.sleep(_STORE_AGAIN_S)

    async def _take_over(self, term: int) -> None:
        """Know all that is stored, and lead, unless this controller ceased to lead before."""
        began_ms = self._clock.now_ms()
        if not await self._load(term):
            return
        for broker_name, problem in self._store.problems().items():
            self._journal.store_failed(broker_name, StoreError(problem))
        self._group.ready(term)
        self._control.guard.take_over()
        self._led.set()
        if self._group.is_leader:
            self._journal.leadership_gained(
                self._group.name, self._clock.now_ms() - began_ms, sum(1 for _ in self._store.sets())
            )

    async def _load(self, term: int) -> bool:
        """Know all that is stored; false if this controller ceased to lead before.

        Who cannot load lets another controller try, and tries again when it is its turn.
        """
        tries = 0
        while self._group.leads_in(term) and not self._stop.is_set():
            try:
                await self._store.load(lambda: self._group.leads_in(term))
            except StoreError as error:
                self._journal.store_failed("", error)
            except Exception as error:  # noqa: BLE001  # whatever it is, it is told
                self._tasks.report("load", error)
            else:
                return self._group.leads_in(term)
            tries += 1
            if tries % _LOADS_MAX == 0:
                self._backend.pass_on()
            await asyncio.sleep(_STORE_AGAIN_S)
        return False

    async def _resign(self) -> None:
        try:
            await self._backend.resign()
        except StoreError as error:
            self._journal.store_failed("", error)

    # What happens by itself

    async def _look_at_brokers(self) -> None:
        while True:
            await asyncio.sleep(LOOK_MS / 1000)
            self._control.guard.look_at_brokers()

    async def _look_at_sets(self) -> None:
        while True:
            await asyncio.sleep(_SETS_LOOK_S)
            self._control.guard.look_at_sets()

    def _lost(self, connection_id: int) -> None:
        if not self._is_closing:
            self._control.guard.connection_lost(connection_id)


class _StoreCalls:
    """Brings what the threads of a store tell to the event loop."""

    def __init__(self, journal: Journal, tasks: BackgroundTasks) -> None:
        self._journal = journal
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()

    def store_call(self, kind: str, result: str, seconds: float) -> None:
        """Count one call."""
        self._loop.call_soon_threadsafe(self._journal.store_call, kind, result, seconds)

    def store_file_removed(self, error: str) -> None:
        """Note that the file of the store is gone."""
        self._loop.call_soon_threadsafe(self._journal.store_file_removed, error)

    def store_file_unseen(self, error: str) -> None:
        """Note that nobody can tell whether it is there."""
        self._loop.call_soon_threadsafe(self._journal.store_file_unseen, error)

    def store_calls_failing(self, kind: str, error: str) -> None:
        """Note that calls fail."""
        self._loop.call_soon_threadsafe(self._journal.store_calls_failing, kind, error)

    def store_calls_answered(self, kind: str, silent_ms: int) -> None:
        """Note that they succeed again."""
        self._loop.call_soon_threadsafe(self._journal.store_calls_answered, kind, silent_ms)

    def task_failed(self, name: str, error: BaseException) -> None:
        """Report what failed in the background."""
        self._loop.call_soon_threadsafe(self._tasks.report, name, error)


async def _set(event: asyncio.Event) -> None:
    await event.wait()
