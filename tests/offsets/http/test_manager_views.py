"""What a manager answers about itself, and how a path answers where another manager leads; over real HTTP."""

from types import SimpleNamespace

import pytest
from fakes.http_site import HttpSite
from set_builders import SET, a_master, a_set

from offsets.catalogues import DECLARED, SERVER
from offsets.config import OFFSET_MANAGER, OffsetManagerConfig
from offsets.http.manager_views import ManagerViews, check_ready
from offsets.lead import Lead
from offsets.sets.following import Following
from serving.http.paths import get
from serving.http.server_views import ConfigViews, ProbeViews
from serving.http.views import HealthAnswer
from serving.metrics.health import Health, Serving
from serving.telemetry.exposition import HttpServerMetrics, ProcessSources
from serving.telemetry.telemetry import Telemetry
from store.store import ControllerMember

ME = ControllerMember(id="one", address="10.0.0.1:9883")
OTHER = ControllerMember(id="two", address="10.0.0.2:9883")


def stored(offsets=0, **store):
    """Return what the manager shows of committed offsets and their store."""
    store = {"dirty_keys": 0, "oldest_dirty_ms": 0, "last_error": ""} | store
    return SimpleNamespace(table=SimpleNamespace(count=offsets), store=SimpleNamespace(**store))


class LeaderViews:
    """A path that only the leader answers."""

    def __init__(self, lead):
        self._lead = lead

    @get("/v1/leader", refusals=(503,))
    def leader(self) -> HealthAnswer:
        """Whether this manager leads."""
        self._lead.check()
        return HealthAnswer("ok")


class Manager(HttpSite):
    def __init__(self):
        super().__init__(OFFSET_MANAGER)
        self.health, self.commits = Health(), stored()
        telemetry = Telemetry(self.logs, DECLARED)
        self.lead = Lead(self.clock, telemetry.emit)
        self.following = Following(self.clock, telemetry.emit)
        self.lead.start(ME)
        self.health.serving = Serving.READY
        sources = ProcessSources(
            counters=self.counters,
            telemetry=telemetry,
            measures=[self.lead.measures, self.following.measures],
            logs=self.logs,
            health=self.health,
            task_failures={},
        )
        self.views = (
            ProbeViews(lambda: check_ready(self.health, self.lead), HttpServerMetrics(SERVER, sources).text),
            ConfigViews(OFFSET_MANAGER, OffsetManagerConfig),
            ManagerViews(OffsetManagerConfig(), self.lead, self.following, self.commits),
            LeaderViews(self.lead),
        )

    async def metric(self, name):
        # A text is answered again for a moment.
        text = (await self.get("/metrics"))[1]
        found = [line for line in text.splitlines() if line.startswith(f"rocketmq_offset_manager_{name} ")]
        return float(found[0].split()[-1])


@pytest.fixture
async def manager():
    async with Manager() as manager:
        yield manager


async def test_a_manager_that_follows_nobody_says_so(manager):
    status, shown = await manager.get("/v1/manager")
    assert (status, shown["role"], shown["leaderAddress"]) == (200, "leading", ME.address)
    assert (shown["follows"], shown["mastersKnown"], shown["brokerSets"]) == ("nobody", False, 0)


async def test_it_shows_what_it_follows_and_what_the_store_lacks(manager):
    manager.following.sets = {SET: a_set(), "other": a_set(None, 6, name="other")}
    manager.following.answered_ms = manager.clock.now_ms()
    vars(manager.commits).update(vars(stored(7, dirty_keys=2, oldest_dirty_ms=30, last_error="no disk")))
    _, shown = await manager.get("/v1/manager")
    assert (shown["mastersKnown"], shown["brokerSets"], shown["brokerSetsWithMaster"]) == (True, 2, 1)
    assert (shown["offsets"], shown["dirtyKeys"], shown["oldestDirtyMs"]) == (7, 2, 30)
    assert manager.following.is_master(a_master())
    assert await manager.metric('followed_sets{master="no"}') == 1
    assert await manager.metric('followed_sets{master="yes"}') == 1
    assert await manager.metric("masters_known") == 1


async def test_where_another_manager_leads_a_path_names_it(manager):
    assert (await manager.get("/v1/leader"))[0] == 200
    manager.lead.follows(OTHER)
    status, headers, body = await manager.request("GET", "/v1/leader")
    assert (status, body["error"]["code"], body["error"]["leaderAddress"]) == (503, "not_leader", OTHER.address)
    assert headers["Retry-After"] == "1"
    _, shown = await manager.get("/v1/manager")
    assert (shown["role"], shown["leaderAddress"]) == ("following", OTHER.address)


@pytest.mark.parametrize(
    ("leader", "is_loaded", "status", "role"),
    [(ME, True, 200, 2), (ME, False, 503, 1), (OTHER, True, 200, 0), (None, True, 503, 0)],
)
async def test_it_is_ready_while_it_answers_or_knows_who_does(manager, leader, is_loaded, status, role):
    manager.lead.is_loaded = is_loaded
    if leader != ME:
        manager.lead.follows(leader)
    assert (await manager.get("/readyz"))[0] == status
    assert await manager.metric("role") == role


async def test_a_stop_makes_it_unready_and_its_options_are_shown(manager):
    assert (await manager.get("/v1/config"))[1]["properties"]["repair"] == "report"
    manager.health.serving = Serving.DRAINING
    assert (await manager.get("/readyz"))[0] == 503
    assert (await manager.get("/livez"))[0] == 200
