"""How a controller takes part in an election on etcd: what it asks, what it tells, and for how long an answer holds."""

import asyncio

import pytest
from fakes.clock import FakeClock
from fakes.leadership_listener import RecordingListener, eventually

from controller.storage.etcd.calls import LeaderKeyState
from controller.storage.etcd.client import Unreachable
from controller.storage.etcd.keys import Keys
from controller.storage.etcd.lease import LeaderElection
from controller.storage.etcd.lease_state_machine import LEASE_TTL_S, MARGIN_MS, RENEW_EVERY_MS, Holder, Leadership
from controller.storage.etcd.threads import CallThreads
from controller.storage.store import ControllerMember, StoreObserver
from remoting.background_tasks import BackgroundTasks

ME, OTHER = ControllerMember(id="n0", address="10.0.0.1:9878"), ControllerMember(id="n1", address="10.0.0.2:9878")
MINE = Holder(member=ME, run="r", token=20, lease_id=77)
THEIRS = Holder(member=OTHER, run="theirs", token=30, lease_id=5)
SOON_S = 20


class Etcd(CallThreads):
    """An etcd of a few lines: who holds the key, and how long answers about the lease take."""

    def __init__(self, clock):
        super().__init__(1, clock, StoreObserver())
        self._clock = clock
        self.leader_key = LeaderKeyState(None, 10)
        self.takes_ms = 0
        self.is_there = True
        self.ttl_s = LEASE_TTL_S
        #: Each kind of call, and when it was asked last.
        self.asked_ms = {}

    async def run(self, kind, work, **more):
        self.asked_ms[kind] = self._clock.now_ms()
        await asyncio.sleep(0)
        if kind in ("grant", "renew"):
            self._clock.pass_ms(self.takes_ms)
        if not self.is_there:
            raise Unreachable("nobody is there")
        if kind == "campaign":
            self.leader_key = LeaderKeyState(MINE, 20)
        elif kind in ("release", "revoke"):
            self.leader_key = LeaderKeyState(None, self.leader_key.revision + 1)
        return {"grant": (77, self.ttl_s), "renew": self.ttl_s}.get(kind, self.leader_key)


class Story:
    def __init__(self):
        self.clock, self.witness = FakeClock(), RecordingListener()
        self.etcd = Etcd(self.clock)
        self.went_back = []
        self.election = LeaderElection(None, Keys("g"), self.etcd, self.clock, lambda: self.went_back.append(True))

    def begin(self):
        tasks = BackgroundTasks(lambda _, error: pytest.fail(f"{error!r}"))
        self.election.start(Leadership(me=ME, run="r"), self.witness, tasks)

    async def leads(self):
        self.begin()
        await self.until(lambda: self.witness.is_leading, "it leads")
        return self

    async def until(self, condition, what):
        await eventually(condition, seconds=SOON_S, what=what)

    async def asked(self, kind):
        self.etcd.asked_ms.pop(kind, None)
        await self.until(lambda: kind in self.etcd.asked_ms, f"it asks: {kind}")


@pytest.fixture
async def story():
    story = Story()
    yield story
    story.election.stop()
    story.etcd.close()


async def test_lease_counts_from_its_request_and_not_from_the_response_at_grant_and_renewal(story):
    story.etcd.takes_ms = 700
    story.begin()
    for kind in ("grant", "renew"):
        # What etcd counts began before its answer came: who counts later leads when another may.
        await story.until(lambda kind=kind: kind in story.etcd.asked_ms and story.witness.is_leading, kind)
        await eventually(
            lambda kind=kind: story.witness.until_ms == story.etcd.asked_ms[kind] + LEASE_TTL_S * 1000 - MARGIN_MS,
            seconds=2,
            what=f"the lead lasts from when the {kind} was asked for",
        )
        story.clock.pass_ms(RENEW_EVERY_MS)
        story.election.recheck()


async def test_leader_stops_at_the_end_of_its_lease_by_its_own_clock(story):
    # It has 50 ms to own_key, which pass for the loop alone at first.
    story.etcd.ttl_s, story.etcd.takes_ms = 2, 950
    await story.leads()
    story.etcd.is_there = False
    await asyncio.sleep(0.2)
    assert story.witness.is_leading
    story.clock.pass_ms(50)
    await story.until(lambda: not story.witness.is_leading, "it does not lead")
    assert story.election.own_key is None


async def test_election_reports_the_leader_it_reads(story):
    story.etcd.leader_key = LeaderKeyState(THEIRS, 30)
    story.begin()
    await story.until(lambda: story.witness.leader == OTHER, "it knows who leads")
    assert not story.witness.is_leading


async def test_handover_ends_leadership_at_once_and_releases_the_key(story):
    await story.leads()
    story.election.pass_on()
    assert not story.witness.is_leading
    assert story.election.own_key is None
    await story.asked("release")


async def test_resigning_releases_key_and_lease_and_ends_all_requests(story):
    await story.leads()
    await story.election.resign()
    assert story.etcd.asked_ms.keys() >= {"release", "revoke"}
    assert not story.witness.is_leading
    story.etcd.asked_ms.clear()
    story.clock.pass_ms(RENEW_EVERY_MS)
    story.election.recheck()
    await asyncio.sleep(0.1)
    assert story.etcd.asked_ms == {}


async def test_restored_etcd_ends_leadership_and_is_reported(story):
    await story.leads()
    story.election.revision_seen(40)
    assert not story.went_back
    story.election.recheck()
    await story.until(lambda: story.went_back, "it is told")
    assert story.witness.deposed_at


async def test_watched_change_of_the_leader_key_applies_at_once(story):
    await story.leads()
    story.election.observed(LeaderKeyState(THEIRS, 30))
    assert not story.witness.is_leading
    assert story.witness.leader == OTHER
