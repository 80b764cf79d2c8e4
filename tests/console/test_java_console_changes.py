"""Elections and scaling in a real browser, with real brokers of 5.5.0: a master is killed, and a topic is resized."""

import contextlib
import json
import urllib.request

import pytest
import pytest_asyncio
from browser import a_tab
from changing_page import ChangingPage
from fakes.admin_token import ADMIN_TOKEN
from peers.controllers import OurController
from peers.lab import Lab
from peers.programs import require
from peers.waiting import wait_until
from peers.wire import SUCCESS, Caller

pytestmark = [pytest.mark.java, pytest.mark.broad, pytest.mark.asyncio(loop_scope="module")]

SET, TOPIC = "broker-a", "orders"
UPDATE_TOPIC = 17
START_S = 180
#: Waits of a resize in s, which are made for thousands of clients; there are none here.
WAITS = {"grownWatchMs": "1", "assignMs": "1", "seedMs": "1", "confirmMs": "1"}
RESIZED_S = 180
#: A broker on a machine with much to do may not answer within 5 s, which is in the way of a resize.
PLANS_MAX = 10
#: From the first finding to a proposal: three looks, and a minute until clients are known.
DECIDED_S = 240
PHASES = ["PLANNED", "PRECHECK", "SEED", "READ_UP", "ASSIGN", "WRITE_UP", "VERIFY"]


class JavaPlane:
    """A NameServer, a controller with a console, and two brokers in sync."""

    def __init__(self, lab):
        token = lab.folder / "token"
        token.write_text(f"{ADMIN_TOKEN}\n")
        self.namesrv = lab.name_server()
        self.lab = lab
        settings = {"httpAdminTokenFile": token, "scalingIntervalMs": 5000}
        made = OurController(lab.folder, namesrvAddr=self.namesrv.address, **settings)
        self.controller = lab.kept(made).start()
        wait_until(self.controller.serves, seconds=START_S, what="the controller leads")
        settings = self.controller.broker_settings() | {"namesrv": [self.namesrv.address]}
        self.brokers = [lab.broker(SET, label=f"{SET}-{number}", **settings).start() for number in range(2)]
        for each in self.brokers:
            each.ready()
        wait_until(lambda: len(self.state().in_sync & self.state().alive) == 2, seconds=START_S, what="both in sync")
        wait_until(lambda: len(self.namesrv.caller.addresses(SET)) == 2, seconds=START_S, what="both are routed")
        self.url = f"http://127.0.0.1:{self.controller.http_port}/ui/"

    def state(self):
        return self.controller.set_state(SET)

    @property
    def master(self):
        address = self.state().addresses[self.state().master]
        return next(each for each in self.brokers if each.address == address)

    def make_topic(self, topic, queues):
        fields = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": str(queues),
            "writeQueueNums": str(queues),
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
        }
        assert Caller(self.master.address).request(UPDATE_TOPIC, fields).code == SUCCESS
        wait_until(lambda: self.queues(topic) == (queues, queues), seconds=START_S, what=f"{topic} is routed")

    def watch(self, policy):
        """Put one policy of the autoscaler in force."""
        url = f"http://127.0.0.1:{self.controller.http_port}/v1/scaling/policies"
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {ADMIN_TOKEN}"}
        body = json.dumps({"policy": [policy]}).encode()
        with urllib.request.urlopen(urllib.request.Request(url, method="PUT", data=body, headers=headers), timeout=30):
            pass

    def queues(self, topic):
        """Return read and write queues of a topic, as the NameServer has them."""
        route = self.namesrv.caller.route(topic)
        return route and (route["queueDatas"][0]["readQueueNums"], route["queueDatas"][0]["writeQueueNums"])


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    require("chromium")
    with contextlib.closing(Lab(tmp_path_factory.mktemp("java-plane"))) as lab:
        yield JavaPlane(lab)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def page(plane, tmp_path_factory):
    async with a_tab(tmp_path_factory.mktemp("browser")) as tab:
        yield ChangingPage(tab, plane.url)


async def test_killed_master_shows_as_a_line_of_time_with_its_candidates(plane, page):
    before = plane.state()
    await page.open("#/elections")
    cards = await page.tab.value("document.querySelectorAll('main .card').length")
    plane.master.process.kill()
    await page.tab.shows("document.querySelectorAll('main .card').length", cards + 1, 60)
    card = await page.text(".card")
    assert "new master" in card
    assert "master failed" in card
    line = await page.tab.value("document.querySelector('.card svg').getAttribute('aria-label')")
    phases = ["suspicion noticed", "judged failed", "elected and stored"]
    assert [each for each in phases if each in line] == phases
    await page.screenshot("java-elections")

    await page.tab.value("document.querySelector('main .card a').click()")
    await page.tab.shows("document.querySelectorAll('main .facts').length", 1)
    verdicts = {row[0]: row[2] for row in (await page.tables())["Candidates"]}
    after = plane.state()
    assert verdicts == {str(before.master): "not alive", str(after.master): "elected"}
    assert after.master_epoch == before.master_epoch + 1
    await page.tab.shows("document.querySelector('.legend').innerText.includes('notified: confirmed')", True)
    await page.screenshot("java-election")
    assert page.tab.problems == []


async def planned(page, **values):
    """Return the plan of a resize, made again where something was in its way, as an operator does."""
    for _ in range(PLANS_MAX):
        await page.click("Resize a topic…")
        await page.fill(**values)
        plan = await page.preview()
        if "It cannot be started" not in plan:
            return plan
        await page.close()
    raise AssertionError(plan)


@pytest.mark.soak
async def test_resize_is_planned_started_and_followed_to_its_end(plane, page):
    plane.make_topic(TOPIC, 2)
    await page.sign_in()
    await page.open("#/scaling")
    plan = await planned(page, topic=TOPIC, queues="4", reason="peak", writer="alice", **WAITS)
    assert "grow" in plan
    assert plane.queues(TOPIC) == (2, 2)
    await page.screenshot("java-plan")
    assert "The resize is in phase" in await page.agree("Start the resize")

    await page.click("Follow it", "dialog a")
    await page.tab.shows("document.querySelector('main h1')?.innerText.startsWith('Resize of orders · 2 → 4')", True)
    await page.screenshot("java-resize")
    await page.tab.shows("document.querySelector('main .badge')?.textContent", "DONE", RESIZED_S)
    assert [row[0] for row in (await page.tables())["Phases"]] == PHASES
    assert await page.tab.value("document.querySelectorAll('main .time-line rect').length") == len(PHASES)
    assert plane.queues(TOPIC) == (4, 4)
    await page.screenshot("java-resized")

    await page.open(f"#/scaling/{TOPIC}")
    ((topic, kind, queues, phase, *_),) = (await page.tables())["Resizes"]
    assert (topic, kind, queues, phase) == (TOPIC, "grow", "2 → 4", "DONE")
    assert page.tab.problems == []


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_proposal_of_the_autoscaler_says_why_and_is_approved_and_its_resize_aborted(plane, page):
    topic = "ramp"
    plane.make_topic(topic, 2)
    # Four consumers of 20 messages a second each, and two queues for them.
    traffic = plane.lab.traffic(namesrv=[plane.namesrv.address])
    for number in range(4):
        consumer = {"topic": topic, "group": "billing", "kind": "push", "from_": "FIRST_OFFSET"}
        traffic.receive(f"billing-{number}", persist_ms=500, work_ms=1000, **consumer)
    traffic.send("producer", topic=topic, interval_ms=10)
    plane.watch({"topic": topic, "min": 2, "max": 8, "window": "15s", "behind": "2s", "mode": "approve"})

    await page.sign_in()
    await page.open(f"#/scaling/{topic}")
    await page.tab.shows("document.querySelector('main td button')?.textContent", "Approve", DECIDED_S)
    tables = await page.tables()
    ((_, queues, reason, *_),) = tables["Proposals that wait for approval"]
    assert queues in {"2 → 4", "2 → 8"}
    assert "4 consumers, 2 queues: 2 have none" in reason
    ((_, outcome, _, why, *_),) = tables["What the autoscaler makes of topics"]
    assert outcome.startswith("proposed")
    assert "queues help" in why
    await page.screenshot("java-proposal")
    await page.click("Approve", "main td button")
    await page.tab.shows("document.querySelectorAll('dialog table').length > 0", True, 60)
    await page.screenshot("java-approval")
    assert "The resize is in phase" in await page.agree("Approve")

    await page.click("Follow it", "dialog a")
    # Before, nothing is to be taken back, and an abort ends at once.
    changed = (int(queues.split()[-1]), 2)
    wait_until(lambda: plane.queues(topic) == changed, seconds=RESIZED_S, what="the new queues can be read")
    await page.click("Abort…")
    await page.fill(reason="not today")
    assert "get their former numbers again" in await page.preview()
    await page.agree("Abort")
    await page.close()
    await page.tab.shows("document.querySelector('main .badge')?.textContent", "ABORTED", RESIZED_S)
    assert plane.queues(topic) == (2, 2)
    traffic.stop("producer")
    assert page.tab.problems == []
