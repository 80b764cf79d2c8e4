"""Pages that follow what happens: by events where servers send them, by loading again where they do not."""

import asyncio
import contextlib

import pytest
from aiohttp import web
from analysed_plane import AnalysedPlane
from browser import a_tab
from fakes.console_site import a_peer
from peers.controllers import OurController
from peers.lab import Lab
from peers.programs import require
from peers.servers import registered
from peers.waiting import wait_until
from peers.wire import addresses_in

from remoting.clock import SystemClock

CLOCK = SystemClock()
LIVE = "document.getElementById('live')?.checkVisibility() === true"
#: In real seconds: real brokers start, on a machine that others use as well.
START_S = 180


@pytest.fixture
def lab(tmp_path):
    require("chromium")
    with contextlib.closing(Lab(tmp_path)) as own:
        yield own


def shows_text(text):
    return f"(document.querySelector('main')?.textContent ?? '').includes('{text}')"


async def test_page_loads_nothing_while_nothing_happens_and_shows_a_new_broker_at_once(lab, tmp_path):
    with contextlib.closing(AnalysedPlane(lab)) as plane:
        async with a_tab(tmp_path) as tab:
            await tab.open(plane.url, width=1200)
            await tab.shows(LIVE, True)
            await tab.value(
                "window.loads = 0; fetch = new Proxy(fetch, {apply: (f, ...rest) => (loads += 1, f.apply(...rest))}); 0"
            )
            await asyncio.sleep(6)
            # A load takes some requests; polling would have loaded three times.
            assert await tab.value("window.loads") <= 6
            plane.register("broker-late")
            await tab.shows(shows_text("broker-late"), True, seconds=10)
            assert tab.problems == []


@pytest.mark.soak
async def test_page_loads_again_and_again_where_a_server_cannot_be_watched(lab, tmp_path):
    """As a NameServer of an older release answers."""
    names = ["broker-old"]

    async def answer(request):
        if request.path == "/livez":
            return web.json_response({"status": "ok"})
        if request.path == "/v1/brokers":
            broker = {
                "cluster": "C",
                "brokerId": 0,
                "address": "10.0.0.1:10911",
                "role": "master",
                "actingMaster": False,
            }
            items = [broker | {"brokerName": each, "version": "V5", "lastHeartbeatAgeMs": 1} for each in names]
            return web.json_response({"items": items, "nextCursor": None, "total": len(items)})
        raise web.HTTPNotFound

    async with a_peer(answer) as url:
        server = lab.name_server(http=True, consolePeers=f"namesrv={url}")
        server.process.wait_for(r'"event":"server_ready"', seconds=60)
        async with a_tab(tmp_path) as tab:
            await tab.open(f"http://127.0.0.1:{server.http_port}/ui/", width=1200)
            await tab.shows(shows_text("broker-old"), True)
            assert not await tab.value(LIVE)
            names.append("broker-new")
            await tab.shows(shows_text("broker-new"), True, seconds=15)


@pytest.mark.broad
@pytest.mark.java
@pytest.mark.timeout(600)
async def test_killed_master_is_replaced_in_the_open_overview_within_two_seconds_of_its_election(
    lab, tmp_path, record_property
):
    controller = lab.kept(OurController(lab.folder)).start()
    server = lab.name_server(http=True, consolePeers=f"controller=http://127.0.0.1:{controller.http_port}")
    settings = controller.broker_settings() | {"haSendHeartbeatInterval": 1000}
    brokers = [lab.broker("pair", label=label, namesrv=[server.address], **settings) for label in ("one", "two")]
    for each in brokers:
        each.start()
    for each in brokers:
        each.ready()
    before = wait_until(
        lambda: (now := controller.set_state("pair")) and len(now.in_sync) == 2 and now, seconds=START_S, what="in sync"
    )
    wait_until(lambda: registered(server, *brokers), seconds=START_S, what="both registered")
    master = next(each for each in brokers if each.address == before.addresses[before.master])
    slave = next(each for each in brokers if each is not master)
    async with a_tab(tmp_path) as tab:
        await tab.open(f"http://127.0.0.1:{server.http_port}/ui/", width=1200)
        await tab.shows(shows_text(f"master 0 {master.address}"), True)
        await tab.shows(LIVE, True)
        master.process.kill()
        killed_ms = CLOCK.now_ms()
        elected_ms = shown_ms = None
        while shown_ms is None and CLOCK.now_ms() < killed_ms + 60_000:
            if elected_ms is None and _routed(server, "pair") == slave.address:
                elected_ms = CLOCK.now_ms()
            if await tab.value(shows_text(f"master 0 {slave.address}")):
                shown_ms = CLOCK.now_ms()
            await asyncio.sleep(0.02)
        assert shown_ms is not None
        record_property("kill to route and page, ms", ((elected_ms or shown_ms) - killed_ms, shown_ms - killed_ms))
        assert shown_ms - (elected_ms or shown_ms) < 2000


def _routed(server, topic):
    """Return the address of the master in the route of a topic, None without one."""
    return addresses_in(server.caller.route(topic), topic).get("0")
