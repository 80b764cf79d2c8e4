"""The console as a real browser shows it: of real NameServers and a controller, with brokers registered at them."""

import contextlib
import json
import os
import socket
from urllib.parse import urlsplit

import pytest
from browser import LOW_CONTRASTS, a_tab
from page_scripts import ROWS
from peers.lab import Lab
from peers.processes import free_port
from peers.programs import require
from peers.scripted import Line, ScriptedBroker

#: Names that an attacker, or a Chinese operator, may choose.
SCRIPT = "<script>document.title='taken'</script><img src=x onerror=document.title='taken'>"
QUOTES = "\"'`&quot;</td>"
CHINESE = "经纪人-甲"

TOPICS = {"TopicTest": 4}
SAME, OTHER = "'n0'", "'n1'"


class Plane:
    """Two NameServers, the first with a controller and the console, and brokers at them."""

    def __init__(self, lab):
        ports = {"controllerListenPort": free_port(), "controllerHttpPort": free_port()}
        store = {"controllerStorePath": lab.folder / "sets", "enableControllerInNamesrv": "true"}
        self.lines = []
        self.second = lab.name_server("second", http=True)
        here = "http://127.0.0.1"
        peers = f"namesrv={here}:{self.second.http_port};controller={here}:{ports['controllerHttpPort']}"
        self.first = lab.name_server("first", http=True, consolePeers=peers, **ports, **store)
        for port in (self.first.http_port, ports["controllerHttpPort"]):
            self.first.process.wait_for(rf'"http_addr":"127.0.0.1:{port}"', seconds=30)
        self.second.process.wait_for(r'"event":"server_ready"', seconds=30)
        self.url = f"{here}:{self.first.http_port}/ui/"
        self.origin = f"{here}:{self.first.http_port}"

    def register(self, servers, name, broker_id=0, cluster="C"):
        address = f"10.0.0.{broker_id + 1}:10911"
        for server in servers:
            line = Line(socket.create_connection(("127.0.0.1", server.port)))
            ScriptedBroker(line, name, address=address, broker_id=broker_id, cluster=cluster).register(
                {"TopicTest": 4, name: 1}
            )
            self.lines.append(line)


@pytest.fixture
def plane(tmp_path):
    require("chromium")
    with contextlib.closing(Lab(tmp_path)) as lab:
        started = Plane(lab)
        yield started
        for line in started.lines:
            line.close()


async def test_overview_shows_brokers_roles_and_differences_and_loads_nothing_from_elsewhere(plane, tmp_path):
    both = (plane.first, plane.second)
    plane.register(both, "broker-a")
    plane.register(both, "broker-a", 1)
    plane.register(both, "broker-b", 1)
    for name in (SCRIPT, QUOTES, CHINESE):
        plane.register(both, name, cluster="集群<b>")
    plane.register((plane.second,), "only-at-the-second")

    async with a_tab(tmp_path) as tab:
        await tab.open(plane.url, width=1200)
        await tab.shows('document.querySelectorAll("main table").length', 4)
        tables = dict(await tab.value(ROWS))
        assert list(tables) == ["Clusters", "Broker sets", "NameServers", "Controllers"]
        assert [row[:6] for row in tables["Clusters"]] == [
            ["C", "2", "1", "0", "1", "2"],
            ["集群<b>", "3", "0", "0", "3", "0"],
        ]

        sets = {row[0]: row for row in tables["Broker sets"]}
        shown = {SCRIPT, QUOTES, CHINESE}
        assert set(sets) == shown | {"broker-a", "broker-b"}
        assert sets["broker-a"][2] == "has a master"
        assert sets["broker-b"][2] == "no master"
        assert "master 0 10.0.0.1:10911" in sets["broker-a"][3]
        assert "slave 1 10.0.0.2:10911" in sets["broker-a"][3]

        own, second = tables["NameServers"]
        assert own[1:3] == ["agrees", "6"]
        assert second[1:] == ["differs", "7", "also lists only-at-the-second:0 10.0.0.1:10911"]
        ((_, role, *_),) = tables["Controllers"]
        assert role == "leader"

        assert await tab.value("document.title") == f"Overview \u2013 RocketMQ {urlsplit(plane.url).netloc}"
        assert await tab.value('document.querySelectorAll("main script, main img, main b").length') == 0
        assert {f"{each.scheme}://{each.netloc}" for each in map(urlsplit, tab.requests)} == {plane.origin}
        assert tab.problems == []


async def test_controllers_that_disagree_or_have_no_leader_are_shown_as_a_problem(plane, tmp_path):
    rows = "[{role: 'leader', leader: 'n0'}, {role: 'follower', leader: %s}, {role: 'unreachable', leader: null}]"
    async with a_tab(tmp_path) as tab:
        await tab.open(plane.url, width=800)
        script = "document.querySelector('script').src.replace('main.js', 'overview_model.js')"
        await tab.value(f"void import({script}).then(model => window.model = model)")
        await tab.shows("typeof window.model", "object")
        assert await tab.value(f"model.leadership({rows % SAME})") is None
        assert await tab.value(f"model.leadership({rows % OTHER})") == "controllers.disagree"
        assert await tab.value("model.leadership([{role: 'candidate', leader: null}])") == "controllers.no_leader"
        assert await tab.value("model.leadership([])") is None


LEFT_MS = 1_700_000_000_000


async def test_broker_set_that_left_is_shown_as_away_after_a_restart(tmp_path):
    require("chromium")
    left = {"cluster": "C", "brokerName": "broker-a", "brokerAddrs": {"0": "10.0.0.7:10911"}}
    left |= {"awaySinceUnixMs": LEFT_MS, "keptUntilUnixMs": 10**14}
    with contextlib.closing(Lab(tmp_path)) as lab:
        server = lab.idle_name_server("first", http=True)
        kept = server.folder / "kvConfig.json.brokerSets"
        kept.write_text(json.dumps({"writtenUnixMs": LEFT_MS, "sets": [left]}))
        server.start().process.wait_for(r'"event":"server_ready"', seconds=30)
        async with a_tab(tmp_path) as tab:
            await tab.open(f"http://127.0.0.1:{server.http_port}/ui/", width=1200)
            await tab.shows('document.querySelectorAll("main table").length', 4)
            tables = dict(await tab.value(ROWS))
            ((cluster, sets, without_master, away, *_),) = tables["Clusters"]
            assert (cluster, sets, without_master, away) == ("C", "0", "0", "1")
            since = "2023-11-14 22:13:20 UTC"
            ((name, _, state, brokers),) = tables["Broker sets"]
            assert (name, state) == ("broker-a", f"away since {since}; its last broker fell silent")
            assert brokers == "0 10.0.0.7:10911"

            await tab.open("about:blank", width=1200)
            await tab.open(f"http://127.0.0.1:{server.http_port}/ui/#/broker/C/broker-a/0", width=1200)
            shown = "document.querySelector('#broker [role=alert]')?.textContent"
            await tab.shows(shown, f"No broker of this set is registered: it is away since {since}.")
            await tab.open("about:blank", width=1200)
            await tab.open(f"http://127.0.0.1:{server.http_port}/ui/#/topic/Orders", width=1200)
            shown = "document.querySelector('#route [role=alert]')?.textContent"
            text = "No registered broker has the topic Orders. It may be on sets that are away: broker-a."
            await tab.shows(shown, text)
            assert tab.problems == []


async def test_states_of_sets_are_those_of_whoever_knows_them(plane, tmp_path):
    away = "{brokerName: 'broker-a', cluster: 'C', awaySinceUnixMs: 5}"
    stored = "{brokerName: 'broker-b', cluster: 'C', state: '%s'}"
    master = "{brokerName: 'broker-a', cluster: 'C', role: 'master'}"
    async with a_tab(tmp_path) as tab:
        await tab.open(plane.url, width=800)
        script = "document.querySelector('script').src.replace('main.js', 'overview_model.js')"
        await tab.value(f"void import({script}).then(model => window.model = model)")
        await tab.shows("typeof window.model", "object")

        async def states(brokers, stored_sets="null", away_sets="[]"):
            rows = f"model.brokerSets({brokers}, {stored_sets}, {away_sets})"
            return await tab.value(f"{rows}.map(each => `${{each.name}} ${{each.state}}`)")

        assert await states("[]", away_sets=f"[{away}]") == ["broker-a away"]
        assert await states("[]", away_sets=f"[{away.replace('5', 'null')}]") == ["broker-a starting"]
        assert await states("[]", f"[{stored % 'healthy'}]") == ["broker-b absent"]
        # No NameServer answers: that nothing is registered is not known.
        assert await states("null", f"[{stored % 'healthy'}]") == ["broker-b master"]
        assert await states("null", f"[{stored % 'no_master'}]") == ["broker-b not_led"]
        listed = f"{{brokers: [{master}], away: []}}, {{brokers: [], away: [{away}]}}"
        assert await tab.value(f"model.awaySets([{listed}])") == []
        twice = f"{{away: [{away}]}}, {{away: [{away.replace('5', '9')}]}}, {{away: [{away}]}}, {{}}"
        assert await tab.value(f"model.awaySets([{twice}]).map(each => each.awaySinceUnixMs)") == [9]


@pytest.mark.soak
async def test_overview_follows_what_happens_and_says_when_it_is_old(plane, tmp_path):
    async with a_tab(tmp_path) as tab:
        await tab.open(plane.url, width=1200)
        await tab.shows('document.querySelectorAll("main table").length', 4)
        plane.register((plane.first, plane.second), "broker-late")
        await tab.shows("document.body.textContent.includes('broker-late')", True)

        assert await tab.value("document.getElementById('old').hidden")
        plane.first.process.pause()
        try:
            await tab.shows("document.getElementById('old').hidden", False)
            assert await tab.value("document.getElementById('old').getAttribute('role')") == "alert"
        finally:
            plane.first.process.resume()
        await tab.shows("document.getElementById('old').hidden", True)


async def test_a_token_opens_the_console_until_the_user_signs_out(tmp_path):
    require("chromium")
    token = tmp_path / "token"
    token.write_text("token-for-reading-the-console\n")
    with contextlib.closing(Lab(tmp_path)) as lab:
        server = lab.name_server(http=True, consoleReadTokenFile=token)
        server.process.wait_for(r'"event":"server_ready"', seconds=30)
        async with a_tab(tmp_path) as tab:
            await tab.open(f"http://localhost:{server.http_port}/ui/", width=800)
            await tab.shows("document.activeElement.id", "token")
            enter = "document.querySelector('#token').value = {}; document.querySelector('form').requestSubmit()"
            await tab.value(enter.format("'a token that is wrong'"))
            await tab.shows("document.querySelector('form [role=alert]').textContent", "This token is not in force.")
            await tab.value(enter.format("'token-for-reading-the-console'"))
            await tab.shows("document.querySelector('main h1')?.textContent", "Overview")
            assert await tab.value("document.cookie") == ""

            await tab.value("document.querySelector('header button').click()")
            await tab.shows("document.querySelector('main h1')?.textContent", "Sign in")


async def test_overview_is_legible_by_day_and_night_on_phones_and_by_keyboard(plane, tmp_path):
    plane.register((plane.first, plane.second), "broker-with-a-long-name-of-forty-characters", cluster="cluster")
    async with a_tab(tmp_path) as tab:
        for width in (1200, 360):
            for dark in (False, True):
                await tab.open(plane.url, width=width, dark=dark)
                await tab.shows('document.querySelectorAll("main table").length', 4)
                assert await tab.value("document.documentElement.scrollWidth") <= width
                assert await tab.value(LOW_CONTRASTS) == []
                if folder := os.environ.get("CONSOLE_SCREENSHOTS"):
                    shot = f"overview-{width}-{'dark' if dark else 'light'}.png"
                    await tab.screenshot(tmp_path.joinpath(folder, shot))
        assert await tab.value('document.querySelectorAll("h1, main, header, nav").length') == 4
        focused = []
        for _ in range(4):
            await tab.press("Tab")
            focused.append(await tab.value("document.activeElement.textContent.trim().slice(0, 14)"))
        assert focused[:2] == ["To the content", "Overview"]

        await tab.value('document.querySelector("select").value = "zh"')
        await tab.value('document.querySelector("select").dispatchEvent(new Event("change"))')
        await tab.shows('document.querySelector("h1")?.textContent', "概览")
        assert await tab.value("document.documentElement.lang") == "zh"
        assert tab.problems == []
