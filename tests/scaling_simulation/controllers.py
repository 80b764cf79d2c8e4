"""The product's queue scaling in a process of virtual time, over documents that outlive it."""

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from unittest import mock

from msgspec import structs
from simulation.processes import Process

from controller.scaling.execution import service
from controller.scaling.execution.events import ResizeRoundFailed
from controller.scaling.execution.operations import OperationMoved, decode_operation
from controller.scaling.execution.service import OperationUnknown, QueueScaling, ResizeRefused, ScalingOptions
from controller.scaling.rules.commands import ResizeCommandRefused
from remoting.protocol.codes import BrokerRequestCode
from scaling_simulation.admin import LOST, TOPIC, Admin
from scaling_simulation.brokers import UNIX_MS
from scaling_simulation.histories import WAITS
from serving.shapes.scaling import ResizeOptions, ResizeRequest
from store.documents import DocumentKind, VersionedDocument
from store.store import EntryMoved, StoreError

#: The service looks for new operations each second; of one that runs it learns nothing.
LOOK_S = 10
#: A process that is to be killed at some point of a round is killed by then at the latest.
KILLED_WITHIN_MS = 12_000


class Controller:
    """Whoever leads: one process after another."""

    #: Where the process is killed in a round.
    BEFORE_COMMIT, BEFORE_ACTIONS, WITHIN_ACTIONS = range(3)

    def __init__(self, world):
        self.world = world
        self.store = Store(self)
        #: As it is in the store.
        self.operation = None
        self.was_refused = False
        self.runs = 0
        self.process = None
        self.killed_at = None
        self.absent_ms = self.absent_all_ms = 0
        #: How wrong the wall clock is at its next start.
        self.skew_ms = 0
        self.loses_until_ms = self.loses_answers_until_ms = self.delays_until_ms = self.slow_until_ms = 0
        #: What is not answered, and until when: (set, index of LOST).
        self.lost = {}
        self.hides_until_ms = 0
        self.start()

    @property
    def is_over(self):
        return self.was_refused or (self.operation is not None and self.operation.is_finished)

    # The process

    def start(self):
        self.runs += 1
        self.process = Process(self.world, 1_000_000 + 77_777 * self.runs)
        self.process.wall_offset_ms = UNIX_MS + self.skew_ms
        self.process.receive(self._begin)

    def _begin(self):
        world = self.world
        options = ScalingOptions(tuple(each.address for each in world.name_servers), 10)
        with mock.patch.object(service, "AdminClient", Admin):
            self.scaling = QueueScaling(
                group=Lead(),
                sets=ElectedSets(world),
                backend=self.store,
                client=self,
                clock=self.process,
                options=lambda: options,
                emit=self.tell,
                begin=self.process.create_task,
            )
        self.process.create_task(self._look(self.scaling))

    async def _look(self, scaling):
        while True:
            await scaling.look()
            await asyncio.sleep(LOOK_S if scaling.is_ready else 1)

    def kill(self, run):
        """End the process; another one leads later."""
        if run != self.runs or self.process.is_dead:
            return
        self.world.note("the controller is killed")
        self.killed_at = None
        self.process.kill()
        self.absent_all_ms += self.absent_ms
        self.world.later(self.absent_ms, self.start)

    def kill_at(self, point, absent_ms):
        self.killed_at, self.absent_ms = point, absent_ms
        self.world.later(KILLED_WITHIN_MS, self.kill, self.runs)

    async def dies_at(self, point):
        if self.killed_at == point:
            self.world.later(0, self.kill, self.runs)
            await self.process.create_future()

    # What is done for operators

    def do(self, work):
        """Let an operator request something, if a controller runs; what does not fit is refused."""
        self.process.receive(lambda: self.process.create_task(self._do(work)))

    async def _do(self, work):
        with suppress(ResizeCommandRefused, OperationMoved, OperationUnknown, StoreError):
            await work(self.scaling)

    @property
    def request(self):
        settings = self.world.settings
        return ResizeRequest(
            topic=TOPIC,
            queues=settings.target,
            ordered="gate" if settings.is_gated else "pause" if settings.is_ordered else "",
            waits=structs.replace(WAITS, pause_ms=settings.pause_ms),
            options=ResizeOptions(accept_late=settings.accepts_late),
        )

    def look_at_plan(self):
        self.do(lambda scaling: scaling.plan(self.request))

    def begin_resize(self):
        self.do(self._request)

    async def _request(self, scaling):
        try:
            await scaling.start(self.request)
        except ResizeRefused as error:
            self.world.note("refused: %s", error)
            self.was_refused = True
        await scaling.look()

    def command(self, what, *args):
        self.do(lambda scaling: getattr(scaling, what)(self.operation.id, *args))

    # What it stands for: who is told about resizes, and what brokers answer

    def stored(self, operation):
        """Take note of what is durable."""
        before, self.operation = self.operation, operation
        if before is None or before.phase is not operation.phase or len(before.steps) != len(operation.steps):
            self.world.entered(operation)

    def tell(self, event):
        # What else is told is known from the store.
        if isinstance(event, ResizeRoundFailed) and event.is_fault:
            self.world.fail("a round failed: %r", event.error)

    def is_lost(self, peer, code):
        if code == BrokerRequestCode.GET_CONSUMER_RUNNING_INFO:
            return self.world.now_ms < self.hides_until_ms
        return any(
            until_ms > self.world.now_ms and code in LOST[index] and peer.name == name
            for (name, index), until_ms in self.lost.items()
        )


class Lead:
    """Stands for the group of controllers: who runs leads."""

    is_leader, term = True, 1

    def leads_in(self, term):
        return term == self.term

    def leads_for(self, _):
        return True

    def check_leads(self):
        """Nothing: it does."""


class ElectedSets:
    """The broker sets whose masters the controller elects itself, if it does."""

    def __init__(self, world):
        self.world = world

    def get(self, name):
        brokers = self.world.sets.get(name)
        if brokers is None or not self.world.settings.is_elected:
            return None
        return SimpleNamespace(master_address=None if brokers.master is None else brokers.master.address)

    def sets(self):
        return ()


class Store:
    """Documents, which outlive controllers."""

    def __init__(self, controller):
        self.controller = controller
        self.documents = {}
        self.revision = 0

    async def load_documents(self, kind):
        return {name: each for (other, name), each in self.documents.items() if other is kind}

    async def read_document(self, kind, name):
        return self.documents.get((kind, name), VersionedDocument())

    async def commit_document(self, kind, name, value, revision):
        await self.controller.dies_at(Controller.BEFORE_COMMIT)
        if (await self.read_document(kind, name)).revision != revision:
            raise EntryMoved(name)
        self.revision += 1
        if value is None:
            del self.documents[kind, name]
        else:
            self.documents[kind, name] = VersionedDocument(value, self.revision)
        if kind is DocumentKind.SCALING_OPERATION and value is not None:
            self.controller.stored(decode_operation("", value))
        await self.controller.dies_at(Controller.BEFORE_ACTIONS)
        return self.revision
