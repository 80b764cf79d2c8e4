"""How a controller comes to lead: it loads what is stored, as often as it takes, and not for a term that is over."""

import asyncio

import pytest
from controller_builders import SET, a_set
from fakes.clock import FakeClock
from fakes.leadership_listener import eventually
from fakes.lines import Lines

from controller.app import controller_core
from controller.app.service import Controller, open_store
from controller.config import ControllerConfig
from controller.sets.stored_set import StoredSet
from remoting.clock import SystemClock
from serving.logging.logs import Logs, json_line
from serving.process.background_tasks import logged_tasks
from serving.process.process import Runtime
from serving.process.signals import Signals
from store.store import ControllerMember, StoreError, VersionedEntry, ignore

OTHER = ControllerMember(id="n1", address="10.0.0.2:9878")
OLD = VersionedEntry(StoredSet(broker_set=a_set(master=1, master_epoch=1)), 1)
NEW = VersionedEntry(StoredSet(broker_set=a_set(master=2, master_epoch=2)), 2)
SOON_S = 20


class Stored:
    """What several controllers have stored: how each load of it ends is for the test to say."""

    def __init__(self):
        self.kept = {SET: OLD}
        self.loads = 0
        #: What the first loads raise.
        self.errors = []
        #: What the first calls of `join` raise.
        self.join_errors = []
        #: Loads wait for these, one after the other.
        self.gates = []
        self.listener = None
        self.passed_on = 0

    async def join(self, me, listener):
        if self.join_errors:
            raise self.join_errors.pop()
        self.listener = listener
        listener.leads(None)

    async def load(self):
        self.loads += 1
        found, error = dict(self.kept), self.errors.pop(0) if self.errors else None
        if self.gates:
            await self.gates[self.loads - 1].wait()
        if error is not None:
            raise error
        return found

    def pass_on(self):
        self.passed_on += 1
        self.listener.follows(OTHER)

    async def resign(self):
        pass

    async def close(self):
        pass


class Candidate:
    """A controller with its runtime, on a store that is not there yet."""

    def __init__(self, folder):
        self.lines, self.signals = Lines(), Signals()
        self.logs = Logs(self.lines, json_line(), SystemClock(), {})
        self.tasks = logged_tasks(self.logs)
        config = ControllerConfig(
            bind_address="127.0.0.1",
            listen_port=0,
            http_port=0,
            controller_store_path=str(folder / "store"),
            config_store_path=str(folder / "kept"),
        )
        self.controller = Controller(config, Runtime(SystemClock(), self.logs, self.tasks, self.signals))
        self.file = self.controller._backend
        self.engine = self.controller._core
        self.group, self.store = self.engine.group, self.engine.store
        self.stored = self.controller._backend = self.engine._backend = self.store._backend = Stored()
        self.stored.listener = self.group

    def events(self, name):
        return [line for line in self.lines.decoded() if line["event"] == name]


@pytest.fixture
async def candidate(tmp_path, monkeypatch):
    monkeypatch.setattr(controller_core, "STORE_AGAIN_S", 0.001)
    candidate = Candidate(tmp_path)
    async with candidate.tasks:
        yield candidate
        candidate.signals.stop.set()
    await candidate.file.close()
    candidate.logs.close(1)


async def test_load_that_ends_in_a_later_term_does_not_restore_older_sets(candidate):
    group, stored = candidate.group, candidate.stored
    stored.gates = [asyncio.Event(), asyncio.Event()]
    group.leads(None)
    await eventually(lambda: stored.loads == 1, seconds=SOON_S, what="it loads")
    group.follows(OTHER)
    stored.kept = {SET: NEW}
    group.entry_changed(SET, NEW)
    group.leads(None)
    await eventually(lambda: stored.loads == 2, seconds=SOON_S, what="it loads again")
    stored.gates[1].set()
    await eventually(lambda: group.is_leader, seconds=SOON_S, what="it leads")
    stored.gates[0].set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert candidate.store.get(SET) == NEW.entry.broker_set
    assert len(candidate.events("leadership_gained")) == 1


async def test_controller_deposed_while_loading_does_not_become_ready(candidate):
    candidate.stored.gates = [asyncio.Event()]
    candidate.group.leads(None)
    await eventually(lambda: candidate.stored.loads, seconds=SOON_S, what="it loads")
    candidate.group.follows(OTHER)
    candidate.stored.gates[0].set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not candidate.group.is_leader
    assert candidate.events("leadership_gained") == []


class OddFailure(BaseException):
    """Not even an Exception."""


@pytest.mark.parametrize(
    "error",
    [
        StoreError("no answer"),
        ValueError("Cannot invoke RPC on closed channel!"),
        MemoryError(),
        asyncio.CancelledError(),
        OddFailure(),
    ],
)
async def test_failed_load_is_reported_and_retried(candidate, error):
    candidate.stored.errors = [error] * 2
    candidate.group.leads(None)
    await eventually(lambda: candidate.group.is_leader, seconds=SOON_S, what="it leads")
    assert candidate.stored.passed_on == 0
    assert len(candidate.events("store_failed") + candidate.events("background_task_failed")) == 2


@pytest.mark.parametrize("error", [StoreError("no answer"), MemoryError(), asyncio.CancelledError(), OddFailure()])
async def test_failed_join_is_reported_and_retried(candidate, error):
    candidate.stored.join_errors = [error] * 2
    running = asyncio.create_task(candidate.controller.run())
    await eventually(lambda: candidate.events("server_ready") or running.done(), seconds=SOON_S, what="it leads")
    assert not running.done()
    assert len(candidate.events("store_failed") + candidate.events("background_task_failed")) == 2
    candidate.signals.stop.set()
    await asyncio.wait_for(running, SOON_S)


async def test_leader_that_cannot_load_releases_the_leader_key(candidate):
    candidate.stored.errors = [StoreError("no answer")] * 100
    candidate.group.leads(None)
    await eventually(lambda: candidate.stored.passed_on, seconds=SOON_S, what="it passes the lead on")
    loads = candidate.stored.loads
    await asyncio.sleep(0.05)
    assert (candidate.stored.loads, candidate.stored.passed_on) == (loads, 1)
    assert candidate.group.known_leader == OTHER


async def test_unreadable_entry_is_reported_and_the_other_sets_are_served(candidate):
    candidate.stored.kept = {SET: NEW, "other": VersionedEntry(revision=3, problem="the entry of other cannot be read")}
    candidate.group.leads(None)
    await eventually(lambda: candidate.group.is_leader, seconds=SOON_S, what="it leads")
    (failed,) = candidate.events("store_failed")
    assert (failed["broker"], failed["error"]) == ("other", "the entry of other cannot be read")


async def test_controller_on_an_unreadable_embedded_store_can_be_stopped(candidate):
    candidate.stored.errors = [StoreError("disk I/O error")] * 1_000_000
    candidate.stored.pass_on = lambda: None
    running = asyncio.create_task(candidate.controller.run())
    await eventually(lambda: candidate.stored.loads > 3, seconds=SOON_S, what="it tries to load")
    assert not running.done()
    candidate.signals.stop.set()
    await asyncio.wait_for(running, SOON_S)
    assert not [line for line in candidate.lines if b"boot success" in line]


async def test_calls_of_the_embedded_store_are_told(tmp_path):
    calls = []
    config = ControllerConfig(controller_store_path=str(tmp_path))
    store = open_store(config, FakeClock(), lambda event: calls.append((event.operation, event.result)), ignore)
    await store.commit(SET, OLD.entry, 0)
    assert calls == [("commit", "ok")]
    await store.close()


async def test_new_leader_publishes_the_master_of_every_set_and_later_changes_in_order(candidate):
    names = [f"broker-{number:03}" for number in range(120)]
    candidate.stored.kept = {
        name: VersionedEntry(StoredSet(broker_set=a_set(broker_name=name, master=1, master_epoch=1)), 1)
        for name in names
    }
    published = []

    def role_changed(change):
        published.append((change.broker_name, change.master_epoch, change.is_repeated))

    candidate.engine.role_changed = role_changed
    # What a follower learns is not published.
    candidate.group.follows(OTHER)
    candidate.group.entry_changed(SET, OLD)
    publishing = asyncio.create_task(candidate.engine.publish_role_changes())
    await eventually(lambda: not candidate.engine._role_changes._collected, seconds=SOON_S, what="it is taken")
    candidate.group.leads(None)
    await eventually(lambda: len(published) == len(names), seconds=SOON_S, what="all masters are published")
    assert published == [(name, 1, True) for name in names]
    moved = a_set(broker_name=names[0], master=2, master_epoch=2)
    candidate.group.entry_changed(names[0], VersionedEntry(StoredSet(broker_set=moved), 2))
    await eventually(lambda: len(published) > len(names), seconds=SOON_S, what="the change is published")
    assert published[-1] == (names[0], 2, False)
    candidate.group.follows(OTHER)
    publishing.cancel()
    await candidate.engine.close()
