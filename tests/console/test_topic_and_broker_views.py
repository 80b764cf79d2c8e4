"""Topics and brokers as a real browser shows them: of real NameServers with their history, and of brokers at them."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from datetime import UTC, datetime
from urllib.parse import quote

import pytest
import pytest_asyncio
from browser import LOW_CONTRASTS, a_tab
from page_scripts import ROWS
from peers.jars import REPOSITORY
from peers.lab import Lab
from peers.programs import require
from peers.scripted import Line, ScriptedBroker
from peers.waiting import wait_until

from remoting.clock import SystemClock

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCRIPT = "<script>document.title='taken'</script><b>topic</b>"
CHINESE = "订单"
LONG = "t" * 127
MANY = 300
#: What stands where there is nothing.
NONE = "\u2013"

CELLS = "[...document.querySelectorAll('{} .scroll .queue')].map(each => each.querySelector('title').textContent)"


class Plane:
    """Two NameServers, the first with a history and the console, and brokers at them."""

    def __init__(self, lab, folder):
        self.history = folder / "history"
        self.lines = {}
        self.second = lab.name_server("second", http=True)
        here = "http://127.0.0.1"
        peers = f"namesrv={here}:{self.second.http_port}"
        self.first = lab.name_server("first", http=True, consolePeers=peers, historyDir=self.history)
        for server in (self.first, self.second):
            server.process.wait_for(r'"event":"server_ready"', seconds=60)
        self.url = f"{here}:{self.first.http_port}/ui/"
        self.caller = f"{here}:{self.first.http_port}"

    def register(self, servers, name, topics, *, broker_id=0, cluster="C", counter=1, port=10911):
        for server in servers:
            key = (server.name, name, broker_id)
            if key not in self.lines:
                self.lines[key] = Line(socket.create_connection(("127.0.0.1", server.port)))
            address = f"10.0.0.{broker_id + 1}:{port}"
            broker = ScriptedBroker(self.lines[key], name, address=address, broker_id=broker_id, cluster=cluster)
            broker.register(topics, counter=counter)

    def leave(self, server, name, broker_id=0):
        self.lines.pop((server.name, name, broker_id)).close()

    def past_route(self, topic, at):
        """Return what `rmq history` shows; None before anything is recorded."""
        command = [
            sys.executable,
            "-m",
            "rmq",
            "--history",
            self.history,
            "history",
            "route",
            topic,
            "--body",
            "--at",
            at,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)
        return json.loads(done.stdout)["route"] if done.returncode == 0 else None


def utc_now():
    return datetime.fromtimestamp(SystemClock().unix_ms() / 1000, UTC)


def next_second():
    """Wait until a second has begun, and return it: the console chooses moments by whole seconds."""
    began = int(utc_now().timestamp())
    wait_until(lambda: int(utc_now().timestamp()) > began + 1, seconds=10, what="the next second")
    return datetime.fromtimestamp(began + 1, UTC).strftime("%Y-%m-%dT%H:%M:%S")


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    require("chromium")
    folder = tmp_path_factory.mktemp("plane")
    with contextlib.closing(Lab(folder)) as lab:
        started = Plane(lab, folder)
        both = (started.first, started.second)
        started.register(both, "broker-a", {"orders": 4, SCRIPT: 2, CHINESE: 1, LONG: 1})
        started.register(both, "broker-a", {}, broker_id=1)
        started.before = next_second()
        started.register(both, "broker-a", {"orders": 6, SCRIPT: 2, CHINESE: 1, LONG: 1}, counter=2)
        started.register(both, "broker-b", {"orders": 2} | {f"topic-{n:03}": 1 for n in range(MANY)}, port=10921)
        started.register((started.second,), "broker-c", {"orders": 1, "other": 1}, port=10931)
        started.after = next_second()
        wait_until(lambda: started.past_route("orders", started.after), seconds=60, what="what happened is recorded")
        yield started
        for line in started.lines.values():
            line.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tab(tmp_path_factory):
    async with a_tab(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


async def opened(tab, plane, view, *, width=1200, dark=False):
    # From another page: a new hash alone loads nothing.
    await tab.open("about:blank", width=width)
    await tab.open(f"{plane.url}{view}", width=width, dark=dark)


async def test_topics_are_listed_and_found_by_a_part_of_their_name(plane, tab):
    await opened(tab, plane, "#/topics")
    await tab.shows("document.querySelector('[role=status]')?.textContent", "304 of 304 topics")
    assert await tab.value("document.querySelectorAll('#topics tbody tr').length") == 50

    typed = "(input => { input.value = %s; input.dispatchEvent(new Event('input')); })(document.querySelector('#find'))"
    await tab.value(typed % "'OPIC-29'")
    await tab.shows("document.querySelector('[role=status]').textContent", "10 of 304 topics")
    assert await tab.value("location.hash") == "#/topics?find=OPIC-29"

    await tab.value(typed % "'<b>'")
    await tab.shows("document.querySelector('[role=status]').textContent", "1 of 304 topics")
    ((_, rows),) = await tab.value(ROWS)
    assert rows == [[SCRIPT, "normal", "1"]]
    await tab.value("document.querySelector('#topics tbody a').click()")
    await tab.shows("document.querySelector('h1')?.textContent", f"Topic {SCRIPT}")
    assert (await tab.value("document.title")).startswith(f"{SCRIPT} {NONE} Topic")
    assert await tab.value('document.querySelectorAll("main script, main b").length') == 0
    assert tab.problems == []


async def test_topic_shows_its_queues_over_broker_sets_and_name_servers_that_differ(plane, tab):
    await opened(tab, plane, "#/topic/orders")
    await tab.shows("document.querySelectorAll('#route .scroll .queue').length", 8)
    assert (await tab.value(CELLS.format("#route")))[:2] == [
        "queue 0, readable and writable",
        "queue 1, readable and writable",
    ]
    tables = dict(await tab.value(ROWS))
    assert tables["Queues by broker set"] == [
        ["broker-a", "C", "6", "6", "RW- 6", "0 10.0.0.1:109111 10.0.0.2:10911"],
        ["broker-b", "C", "2", "2", "RW- 6", "0 10.0.0.1:10921"],
    ]
    own, second = tables["Route at each NameServer"]
    assert own[1:] == ["agrees", "its route is shown above"]
    assert second[1] == "differs"
    assert f"broker broker-c:0 {NONE} → 10.0.0.1:10931" in second[2]
    assert "add an offset manager" in await tab.value("document.querySelector('#readers').textContent")


async def test_route_of_the_past_is_that_of_rmq_history_and_what_changed_since_is_marked(plane, tab):
    await opened(tab, plane, f"#/topic/orders?at={plane.before}")
    await tab.shows("document.querySelectorAll('#past .scroll .queue').length", 8)
    assert await tab.value(CELLS.format("#past")) == [
        *(f"queue {n}, readable and writable" for n in range(4)),
        *(f"queue {n}, readable and writable, added" for n in (4, 5, 0, 1)),
    ]
    assert dict(await tab.value(ROWS))["Changed since then"] == [
        ["read queues of broker-a", "changed", "4", "6"],
        ["write queues of broker-a", "changed", "4", "6"],
        ["read queues of broker-b", "added", NONE, "2"],
        ["write queues of broker-b", "added", NONE, "2"],
        ["permission of broker-b", "added", NONE, "RW-"],
        ["broker broker-b:0", "added", NONE, "10.0.0.1:10921"],
    ]
    at_ms = int(datetime.fromisoformat(f"{plane.before}+00:00").timestamp() * 1000)
    path = f"../v1/history/route?topic=orders&at={at_ms}"
    get = f"fetch(new URL('{path}', document.baseURI)).then(answer => answer.json())"
    await tab.value(f"void {get}.then(value => window.answered = value)")
    await tab.shows("window.answered?.items.length", 1)
    shown = await tab.value("window.answered.items[0]")
    assert shown["route"] == json.loads(plane.past_route("orders", plane.before))
    assert not shown["doubt"]

    # The next change leads to the present route, which is no different.
    next_change = "document.querySelectorAll('#past .controls button')[1]"
    await tab.shows(f"{next_change}.disabled", False)
    await tab.shows("document.querySelectorAll('#past .marks line').length > 1", True)
    await tab.value(f"{next_change}.click()")
    await tab.shows(
        "document.querySelector('#past-result').textContent.includes('The route was the same as now.')", True
    )
    assert tab.problems == []


async def test_moment_of_which_nothing_is_recorded_is_answered_with_the_reason(plane, tab):
    await opened(tab, plane, "#/topic/orders?at=2020-01-01T00:00:00")
    await tab.shows("document.querySelector('#past-result .doubt')?.textContent.includes('recorded anything')", True)


async def test_topic_that_no_broker_has_is_shown_as_absent(plane, tab):
    await opened(tab, plane, f"#/topic/{quote('no/such topic', safe='')}")
    await tab.shows(
        "document.querySelector('#route [role=alert]')?.textContent", "No broker has the topic no/such topic now."
    )


async def test_broker_shows_registrations_share_of_load_and_its_life(plane, tab):
    await opened(tab, plane, "#/broker/C/broker-b/0")
    await tab.shows("document.querySelectorAll('#life .life').length > 0", True)
    facts = await tab.value("document.querySelector('.facts').innerText")
    assert "302 (96.8 % of the cluster)" in facts
    tables = dict(await tab.value(ROWS))
    assert [row[1] for row in tables["At NameServers"]] == ["registered", "registered"]
    assert tables["At NameServers"][0][4].startswith("1 2023-11-14 22:13:20 UTC")
    events = [row[2] for row in tables["What happened to the broker set"]]
    assert "registers: master 0 at 10.0.0.1:10921, 301 topics" in events
    spans = [row[1] for row in tables["When it was registered"]]
    assert spans == ["registered master", "not registered", "unobserved"]
    assert tab.problems == []


async def test_broker_that_left_is_shown_as_not_registered(plane, tab):
    plane.register((plane.first,), "broker-gone", {}, cluster=CHINESE)
    plane.leave(plane.first, "broker-gone")
    await opened(tab, plane, f"#/broker/{quote(CHINESE)}/broker-gone/0")
    await tab.shows(
        "document.querySelector('#broker [role=alert]')?.textContent",
        "No NameServer that answers lists this broker now.",
    )
    for _ in range(20):
        await tab.value("document.querySelector('#life .controls button')?.click()")
        await tab.shows("document.querySelector('#life-result')?.textContent !== 'Loading…'", True)
        tables = dict(await tab.value(ROWS))
        if any("its connection ended" in row[2] for row in tables.get("What happened to the broker set", [])):
            break
    spans = [row[1] for row in tables["When it was registered"]]
    assert spans[0] == "not registered"


MODEL = "void import(document.querySelector('script').src.replace('main.js', '{0}.js')).then(m => window.{0} = m)"
ROW = "{read: 4, write: 2, perm: 6}"


async def test_queues_are_readable_and_writable_by_their_numbers_and_the_permission(plane, tab):
    await opened(tab, plane, "#/topics")
    await tab.value(MODEL.format("route_model"))
    await tab.shows("typeof window.route_model", "object")

    async def states(row):
        return await tab.value(f"[0, 1, 2, 3, 4].map(id => route_model.queueState({row}, id))")

    assert await states(ROW) == ["read_write", "read_write", "read", "read", "absent"]
    assert await states("{read: 2, write: 4, perm: 6}") == ["read_write", "read_write", "write", "write", "absent"]
    assert await states("{read: 4, write: 4, perm: 4}") == ["read"] * 4 + ["absent"]
    assert await states("{read: 4, write: 4, perm: 0}") == ["none"] * 4 + ["absent"]
    shrunk = f"{{former: {ROW}, present: {{read: 3, write: 3, perm: 6}}}}"
    changes = await tab.value(f"[0, 1, 2, 3, 4].map(id => route_model.queueChange({shrunk}, id))")
    assert changes == ["same", "same", "changed", "removed", "same"]


async def test_lives_that_several_servers_have_recorded_are_one_lane_for_each_name_server(plane, tab):
    await opened(tab, plane, "#/topics")
    await tab.value(MODEL.format("broker_model"))
    await tab.shows("typeof window.broker_model", "object")
    span = "{{nsId: '{}', firstUnixMs: 0, lastUnixMs: 9, state: '{}'}}".format
    event = "{unixMs: 5, nsId: 'a', sentence: 'it starts'}"
    whole, part, other = span("a", "registered"), span("a", "unobserved"), span("b", "absent")
    first = f"{{value: {{life: [{part}], events: [{event}]}}}}"
    second = f"{{value: {{life: [{whole}, {other}], events: [{event}]}}}}"
    answers = f"[{first}, {{value: null}}, {second}]"
    lanes = await tab.value(f"broker_model.lanes({answers})")
    assert [(lane["nsId"], lane["spans"][0]["state"]) for lane in lanes] == [("a", "registered"), ("b", "absent")]
    assert await tab.value(f"broker_model.events({answers}).length") == 1


VIEWS = {
    "topics": "#/topics",
    "topic": "#/topic/orders",
    "topic-past": "#/topic/orders?at={plane.before}",
    "broker": "#/broker/C/broker-a/0",
}


@pytest.mark.broad
@pytest.mark.parametrize("view", VIEWS)
async def test_views_are_legible_by_day_and_night_and_on_phones(plane, tab, view):
    address = VIEWS[view].format(plane=plane)
    for width in (1200, 390):
        for dark in (False, True):
            await opened(tab, plane, address, width=width, dark=dark)
            await tab.shows("document.querySelector('main [aria-busy]')?.getAttribute('aria-busy')", "false")
            if "at=" in address:
                await tab.shows("document.querySelectorAll('#past .scroll .queue').length", 8)
            if view == "broker":
                await tab.shows("document.querySelectorAll('#life .life').length > 0", True)
            assert await tab.value("document.documentElement.scrollWidth") <= width
            assert await tab.value(LOW_CONTRASTS) == []
            if folder := os.environ.get("CONSOLE_SCREENSHOTS"):
                shot = f"{view}-{width}-{'dark' if dark else 'light'}.png"
                await tab.screenshot(REPOSITORY / folder / shot)
    assert await tab.value("document.querySelectorAll('h1').length") == 1
    assert tab.problems == []
