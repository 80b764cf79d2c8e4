"""An election on etcd: the requests of a controller, its calls of the listener, and how long a response holds."""

import asyncio

import pytest
from fakes.clock import FakeClock
from fakes.leadership_listener import RecordingListener, eventually

from remoting.background_tasks import BackgroundTasks
from store.etcd.calls import LeaderKeyState
from store.etcd.client import Unreachable
from store.etcd.keys import Keys
from store.etcd.lease import LeaderElection
from store.etcd.lease_state_machine import LEASE_TTL_S, MARGIN_MS, RENEW_EVERY_MS, Holder, Leadership
from store.etcd.threads import CallThreads
from store.store import ControllerMember, ignore

ME, OTHER = ControllerMember(id="n0", address="10.0.0.1:9878"), ControllerMember(id="n1", address="10.0.0.2:9878")
MINE = Holder(member=ME, run="r", token=20, lease_id=77)
THEIRS = Holder(member=OTHER, run="theirs", token=30, lease_id=5)
SOON_S = 20


class Etcd(CallThreads):
    """An etcd of a few lines: who holds the key, and how long answers about the lease take."""

    def __init__(self, clock):
        super().__init__(1, clock, ignore)
        self._clock = clock
        self.leader_key = LeaderKeyState(None, 10)
        self.takes_ms = 0
        self.is_there = True
        self.ttl_s = LEASE_TTL_S
        #: When each kind of call was made last.
        self.requested_ms = {}

    async def run(self, kind, work, **more):
        self.requested_ms[kind] = self._clock.now_ms()
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


class ElectionScenario:
    def __init__(self):
        self.clock, self.listener = FakeClock(), RecordingListener()
        self.etcd = Etcd(self.clock)
        self.went_back = []
        self.election = LeaderElection(None, Keys("g"), self.etcd, self.clock, lambda: self.went_back.append(True))

    def begin(self):
        tasks = BackgroundTasks(lambda _, error: pytest.fail(f"{error!r}"))
        self.election.start(Leadership(me=ME, run="r"), self.listener, tasks)

    async def leads(self):
        self.begin()
        await self.until(lambda: self.listener.is_leading, "it leads")
        return self

    async def until(self, condition, what):
        await eventually(condition, seconds=SOON_S, what=what)

    async def requested(self, kind):
        self.etcd.requested_ms.pop(kind, None)
        await self.until(lambda: kind in self.etcd.requested_ms, f"it requests: {kind}")


@pytest.fixture
async def scenario():
    scenario = ElectionScenario()
    yield scenario
    scenario.election.stop()
    scenario.etcd.close()


async def test_lease_counts_from_its_request_and_not_from_the_response_at_grant_and_renewal(scenario):
    scenario.etcd.takes_ms = 700
    scenario.begin()
    for kind in ("grant", "renew"):
        # What etcd counts began before its answer came: who counts later leads when another may.
        await scenario.until(
            lambda kind=kind: kind in scenario.etcd.requested_ms and scenario.listener.is_leading, kind
        )
        await eventually(
            lambda kind=kind: (
                scenario.listener.until_ms == scenario.etcd.requested_ms[kind] + LEASE_TTL_S * 1000 - MARGIN_MS
            ),
            seconds=2,
            what=f"the lead lasts from when the {kind} was requested",
        )
        scenario.clock.pass_ms(RENEW_EVERY_MS)
        scenario.election.recheck()


async def test_leader_stops_at_the_end_of_its_lease_by_its_own_clock(scenario):
    # It has 50 ms to own_key, which pass for the loop alone at first.
    scenario.etcd.ttl_s, scenario.etcd.takes_ms = 2, 950
    await scenario.leads()
    scenario.etcd.is_there = False
    await asyncio.sleep(0.2)
    assert scenario.listener.is_leading
    scenario.clock.pass_ms(50)
    await scenario.until(lambda: not scenario.listener.is_leading, "it does not lead")
    assert scenario.election.own_key is None


async def test_election_reports_the_leader_it_reads(scenario):
    scenario.etcd.leader_key = LeaderKeyState(THEIRS, 30)
    scenario.begin()
    await scenario.until(lambda: scenario.listener.leader == OTHER, "it knows who leads")
    assert not scenario.listener.is_leading


async def test_handover_ends_leadership_at_once_and_releases_the_key(scenario):
    await scenario.leads()
    scenario.election.pass_on()
    assert not scenario.listener.is_leading
    assert scenario.election.own_key is None
    await scenario.requested("release")


async def test_resigning_releases_key_and_lease_and_ends_all_requests(scenario):
    await scenario.leads()
    await scenario.election.resign()
    assert scenario.etcd.requested_ms.keys() >= {"release", "revoke"}
    assert not scenario.listener.is_leading
    scenario.etcd.requested_ms.clear()
    scenario.clock.pass_ms(RENEW_EVERY_MS)
    scenario.election.recheck()
    await asyncio.sleep(0.1)
    assert scenario.etcd.requested_ms == {}


async def test_restored_etcd_ends_leadership_and_is_reported(scenario):
    await scenario.leads()
    scenario.election.revision_seen(40)
    assert not scenario.went_back
    scenario.election.recheck()
    await scenario.until(lambda: scenario.went_back, "it is told")
    assert scenario.listener.deposed_at


async def test_lead_that_began_behind_the_state_of_a_restored_etcd_counts_again(scenario):
    scenario.etcd.leader_key = LeaderKeyState(THEIRS, 30)
    scenario.begin()
    await scenario.until(lambda: scenario.election.leads_seen == 1, "their lead is seen")
    earlier = Holder(member=OTHER, run="earlier", token=12, lease_id=4)
    scenario.etcd.leader_key = LeaderKeyState(earlier, 25)
    scenario.election.recheck()
    await scenario.until(lambda: scenario.went_back, "etcd has gone back")
    scenario.election.observed(LeaderKeyState(None, 29))
    scenario.election.observed(LeaderKeyState(THEIRS, 30))
    assert scenario.election.leads_seen == 3


async def test_who_looks_at_the_lead_when_etcd_has_gone_back_makes_no_former_lead_a_new_one(scenario):
    scenario.election._on_rollback = lambda: scenario.went_back.append(scenario.election.own_key)
    scenario.etcd.leader_key = LeaderKeyState(THEIRS, 30)
    scenario.begin()
    await scenario.until(lambda: scenario.election.leads_seen == 1, "their lead is seen")
    scenario.etcd.leader_key = LeaderKeyState(None, 15)
    scenario.election.recheck()
    await scenario.until(lambda: scenario.listener.is_leading, "it leads")
    assert scenario.went_back == [None]
    assert scenario.election.leads_seen == 1


async def test_watched_change_of_the_leader_key_applies_at_once(scenario):
    await scenario.leads()
    scenario.election.observed(LeaderKeyState(THEIRS, 30))
    assert not scenario.listener.is_leading
    assert scenario.listener.leader == OTHER
