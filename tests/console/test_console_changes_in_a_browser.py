"""Elections, scaling and offsets in a real browser: of a real controller and a real offset manager."""

import contextlib
import json
import re

import pytest
import pytest_asyncio
from browser import LOW_CONTRASTS, a_tab
from changing_page import ChangingPage
from fakes.admin_token import ADMIN_TOKEN
from fakes.offset_broker import OffsetBroker, offset_brokers_in_thread
from peers.controllers import OurController
from peers.lab import Lab
from peers.offset_managers import OffsetManager
from peers.programs import require
from peers.replicas import Replica
from peers.waiting import wait_until
from peers.wire import SUCCESS

from offsets.kept_documents import KeptDocuments
from offsets.readings.reading import KnownBefore
from offsets.repair.runs import RUNS_MAX, KeptRun, RepairedQueue, Run
from serving.shapes.offsets import Outcome

pytestmark = pytest.mark.asyncio(loop_scope="module")

SET = "broker-a"
#: Names that an attacker may choose.
GROUP = "<script>document.title='taken'</script>"
QUEUES = {0: 90, 1: 90}


def keep_run(folder):
    """Store a repair that was only reported, of a master that is gone."""
    queue = RepairedQueue(GROUP, "orders", 0, Outcome.WOULD_CHANGE, before=80, shown=50, offset=80)
    run = Run(
        number=7,
        cluster="DefaultCluster",
        broker_name="broker-a",
        address="10.0.0.9:10911",
        master_epoch=None,
        cause="moved",
        began_unix_ms=1_795_000_000_000,
        took_ms=400,
        first_write_ms=None,
        read_unix_ms=1_795_000_000_000,
        parted_at=None,
        counts={Outcome.WOULD_CHANGE.value: 1, Outcome.RIGHT.value: 3},
        queues=(queue,),
    )
    known = KnownBefore(readings=(), replica_readings=(), fingerprints=())
    KeptDocuments(folder, KeptRun, RUNS_MAX).keep(run.number, KeptRun(run=run, known=known, changed_ms=0))


class Plane:
    """A controller with a console, hand-made brokers of one set, an offset manager, and a broker that it follows."""

    def __init__(self, lab, broker):
        token = lab.folder / "token"
        token.write_text(f"{ADMIN_TOKEN}\n")
        self.broker = broker
        tokens = {"http-admin-token-file": token, "client-token-file": token}
        manager = OffsetManager(lab.folder, namesrv_addr=broker.address, reading_period_ms=1000, **tokens)
        keep_run(manager.options["store-path"] / "repairs")
        self.manager = lab.kept(manager).launch()
        peers = f"offsets=http://{self.manager.address}"
        made = OurController(lab.folder, consolePeers=peers, httpAdminTokenFile=token)
        self.controller = lab.kept(made).launch()
        self.manager.ready()
        self.controller.ready()
        self.url = f"http://127.0.0.1:{self.controller.http_port}/ui/"
        wait_until(self.controller.serves, seconds=30, what="the controller leads")

    def elect(self, name):
        """Let two brokers make a set, of which the first is master; return both."""
        master, slave = pair = [Replica(self.controller.address, name).join() for _ in range(2)]
        assert master.elect().code == SUCCESS
        assert master.report((1, 2), master_epoch=1, sync_state_set_epoch=1).code == SUCCESS
        for each in pair:
            each.epoch = 1
            each.heartbeat()
        return master, slave

    def set_back(self):
        """Let the offsets of a group be read, and go back as after a reset by mistake."""
        self.broker.topics = {"orders": dict.fromkeys(QUEUES, (0, 100))}
        self.broker.offsets = {f"orders@{GROUP}": dict(QUEUES)}
        wait_until(lambda: self._groups_read() == 1, seconds=30, what="the group is read")
        self.broker.offsets = {f"orders@{GROUP}": dict.fromkeys(QUEUES, 40)}

    def _groups_read(self):
        sets = self.manager.get("/v1/offsets/sets").body["sets"]
        return sets[0]["groups"] if sets else 0

    def offsets(self):
        return self.broker.offsets[f"orders@{GROUP}"]


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    require("chromium")
    broker = OffsetBroker()
    with offset_brokers_in_thread(broker), contextlib.closing(Lab(tmp_path_factory.mktemp("plane"))) as lab:
        started = Plane(lab, broker)
        yield started
        assert started.manager.process.stop() == 0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def page(plane, tmp_path_factory):
    async with a_tab(tmp_path_factory.mktemp("browser")) as tab:
        yield ChangingPage(tab, plane.url)


async def test_change_without_the_admin_token_leads_to_the_sign_in(page):
    await page.open("#/offsets")
    await page.click("Restore…")
    assert "sign in with the token of httpAdminTokenFile" in await page.text("dialog")
    await page.click("Sign in", "dialog a")
    await page.tab.shows("document.activeElement.id", "token")
    await page.tab.value(f"document.querySelector('#token').value = {json.dumps(ADMIN_TOKEN)}")
    await page.tab.value("document.querySelector('form').requestSubmit()")
    await page.tab.shows("document.querySelector('main h1')?.textContent", "Offsets")
    assert await page.tab.value("location.hash") == "#/offsets"


async def test_failover_is_a_line_of_time_with_its_phases_candidates_and_reason(plane, page):
    master, slave = plane.elect(SET)
    await page.open(f"#/elections/{SET}")
    await page.tab.shows("document.querySelectorAll('main .card').length", 1)
    master.die()
    try:
        await page.tab.shows("document.querySelectorAll('main .card').length", 2)
        line = await page.tab.value("document.querySelector('main .card svg').getAttribute('aria-label')")
        names = ["suspicion noticed", "judged failed", "elected and stored"]
        assert line.startswith("From the last heartbeat of the master")
        assert [each for each in names if each in line] == names
        assert await page.tab.value("document.querySelectorAll('main .card:first-child svg rect').length") >= len(names)
        assert "new master" in await page.text(".card")
        await page.tab.shows("document.querySelector('.card .legend').innerText.includes('broker 2 notified')", True)
        title = await page.text(".card h2")
        assert re.fullmatch(rf"{SET} · \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d \S+", title), title
        await page.screenshot("elections-1200-light")

        await page.tab.value("document.querySelector('main .card a').click()")
        await page.tab.shows("document.querySelectorAll('main .facts').length", 1)
        tables = await page.tables()
        verdicts = {row[0]: (row[2], row[3]) for row in tables["Candidates"]}
        assert verdicts == {"1": ("not alive", "yes"), "2": ("elected", "yes")}
        assert "broker 2 was elected; broker 1 is not alive" in await page.text(".facts")
        assert await page.tab.value("decodeURIComponent(location.hash).startsWith('#/elections/broker-a/')")
        await page.screenshot("election-1200-light")
    finally:
        slave.die()
    assert page.tab.problems == []


async def test_set_whose_last_broker_failed_says_nobody_and_whom_to_start_also_after_a_restart(plane, page):
    master, slave = plane.elect("broker-gone")
    await page.open("#/elections/broker-gone")
    await page.tab.shows("document.querySelectorAll('main .card').length", 1)
    slave.die()
    master.die()
    await page.tab.shows("document.querySelector('main .card').innerText.includes('nobody elected')", True)
    assert "→ nobody" in await page.text(".card")
    assert dict(row[0::3] for row in (await page.tables())["Roles and role addresses now"])["broker-gone"] == "no"
    plane.controller.restart_with()
    await page.tab.shows("document.querySelector('main .card').innerText.includes('nobody elected')", True)
    await page.tab.value("document.querySelector('main .card a').click()")
    await page.tab.shows("document.querySelectorAll('main .facts').length", 1)
    both = f"broker 1 at {master.address} or broker 2 at {slave.address}"
    assert f"start {both}: the first that is back can lead" in await page.text(".facts")
    assert "rmq controller elect broker-gone 1 " in await page.text("section.card code")
    # A session ends with its server.
    await page.sign_in()


async def test_offsets_that_were_set_back_are_restored_after_a_preview_and_put_back_by_undo(plane, page):
    plane.set_back()
    await page.open("#/offsets")
    await page.tab.shows("document.querySelectorAll('main table')[1].tBodies[0].rows[0].cells.length", 9)
    # No event tells of offsets.
    assert not await page.tab.value("document.getElementById('live').checkVisibility()")
    tables = await page.tables()
    (row,) = tables["Offsets that jumped"]
    assert row[:7] == [GROUP, "orders", plane.broker.name, "reset", "2 0: 90 → 40", "100", "0"]
    ((name, _, master, state, *_, replicas, _),) = tables["Broker sets that are read"]
    assert (name, master, state, replicas) == (plane.broker.name, plane.broker.address, "fresh", "\u2013")
    assert [row[1:4] for row in tables["Offset managers"]] == [["leads", "NameServers", "1"]]
    await page.screenshot("offsets-1200-light")

    await page.click("Restore…", "main td button")
    await page.fill(writer="alice", allowUnproved=True, pulls=True)
    # A suggested time in a minute's first second, of which a browser leaves the seconds out, is as exact as others.
    await page.fill(time="2026-03-01T09:30:00", suggestedTime="2026-03-01T09:30:00")
    assert await page.tab.value("document.querySelector('dialog [name=group]').value") == GROUP
    await page.screenshot("offsets-form-1200-light")
    shown = await page.preview()
    assert "This will write 2 queues and leave 0; 0 messages are read again, 100 are not read." in shown
    assert set(plane.offsets().values()) == {40}
    await page.screenshot("offsets-preview-1200-light")
    done = await page.agree("Restore")
    assert "Done: 2 queues written" in done
    assert plane.offsets() == QUEUES
    await page.close()

    await page.tab.shows("document.body.textContent.includes('Nothing was restored')", False)
    ((kind, _, writer, queues, state, *_),) = (await page.tables())["Operations that can be undone"]
    assert (kind, writer, queues, state) == ("restore", "alice", "2", "finished")
    await page.click("Undo", "main td button")
    assert "This will write 2 queues" in await page.preview()
    assert plane.offsets() == QUEUES
    assert "Done: 2 queues written" in await page.agree("Undo")
    assert set(plane.offsets().values()) == {40}
    await page.close()
    assert await page.tab.value("document.title") == f"Offsets \u2013 RocketMQ 127.0.0.1:{plane.controller.http_port}"
    assert page.tab.problems == []


async def test_repair_that_was_only_reported_is_decided_anew_before_it_is_shown(page):
    await page.open("#/offsets")
    (row,) = (await page.tables())["Repairs after masters changed"]
    assert [row[0], row[2], row[4], row[6]] == ["7", "another master", "waits for you", "30"]
    assert "Repairs are only reported" in await page.text()
    await page.click("Repair…", "main td button")
    await page.fill(writer="alice")
    assert "The master of broker-a has changed since run 7" in await page.preview()
    await page.close()


async def test_lag_of_a_group_has_an_address_and_names_what_is_unknown(plane, page):
    plane.broker.topics = {"orders": dict.fromkeys(range(3), (0, 100))}
    plane.broker.offsets = {"orders@billing": {0: 10, 1: 100}}
    await page.open("#/offsets/lag/DefaultCluster/billing", ready="#lag table")
    tables = await page.tables()
    assert [row[:3] for row in tables["Topics"]] == [["orders", "90", "1"]]
    assert [row[2][:7] for row in tables["Queues"]] == ["90", "0", "unknown"]
    await page.screenshot("lag-1200-light")


async def test_set_whose_master_failed_has_none_although_name_servers_still_list_it(page):
    await page.open("#/")
    script = "document.querySelector('script').src.replace('main.js', 'overview_model.js')"
    await page.tab.value(f"void import({script}).then(model => window.model = model)")
    await page.tab.shows("typeof window.model", "object")
    listed = {"brokerName": SET, "cluster": "C", "role": "master", "actingMaster": False}
    states = {"healthy": "master", "under_replicated": "under_replicated", "no_master": "not_led"}
    for stored, shown in states.items():
        known = {"brokerName": SET, "cluster": "C", "state": stored}
        found = f"model.brokerSets({json.dumps([listed])}, {json.dumps([known])})[0].state"
        assert await page.tab.value(found) == shown


async def test_refused_change_is_a_sentence_that_says_what_to_do(page):
    await page.open("#/scaling")
    await page.click("Resize a topic…")
    await page.fill(topic="orders", queues="16", writer="alice")
    shown = await page.preview()
    assert "Nothing was changed: Queue scaling is off: set namesrvAddr" in shown
    await page.close()
    assert [each for each in page.tab.problems if "409" not in each] == []


async def test_answers_that_leave_it_open_what_was_done_are_no_failures(page):
    await page.open("#/scaling")
    script = "document.querySelector('script').src.replace('main.js', 'parts/problems.js')"
    await page.tab.value(f"void import({script}).then(found => window.found = found)")
    await page.tab.shows("typeof window.found", "object")

    async def sentence(status, of="problemOfChange", retry=0):
        failure = f"{{status: {status}, message: 'It has not answered.', retryAfterS: {retry}}}"
        return await page.tab.value(f"found.{of}({failure}, 'offsets-1:9883')")

    for status in (0, 500, 502, 503, 504):
        assert "It may have been done all the same" in await sentence(status)
    for status in (0, 502, 504):
        assert "nothing was changed" in await sentence(status, "problemOfRead")
    for status in (500, 503):
        assert await sentence(status, "problemOfRead") == "offsets-1:9883 cannot do it now: It has not answered."
    assert "give all servers the same httpAdminTokenFile" in await sentence(401)
    assert "Nothing was changed: It has not answered." in await sentence(409)
    assert "try again in 7 s" in await sentence(429, retry=7)


async def test_focus_and_open_details_stay_with_their_row_when_others_come_and_go(page):
    await page.open("#/scaling")
    script = "document.querySelector('script').src.replace('main.js', 'dom.js')"
    await page.tab.value(f"void import({script}).then(found => window.dom = found)")
    await page.tab.shows("typeof window.dom", "object")
    script = """(() => {
      const cell = row => dom.h("details", {}, dom.h("summary", {}, row), dom.h("button", {}, `Approve ${row}`));
      const columns = [{label: "l", cell: row => row}, {label: "m", cell}];
      const drawn = names => dom.h("div", {}, dom.table("t", columns, names, ""));
      const shown = drawn(["a", "b", "c"]);
      document.body.append(shown);
      const [, b] = shown.querySelectorAll("details");
      b.open = true;
      b.querySelector("button").focus();
      const seen = [["x", "a", "b", "c"], ["c", "b", "x"], ["b"]].map(names => {
        dom.patch(shown, drawn(names));
        const rows = [...shown.querySelectorAll("tbody th")].map(each => each.textContent);
        const open = [...shown.querySelectorAll("details[open] summary")].map(each => each.textContent);
        return [rows.join(""), open.join(""), document.activeElement.textContent];
      });
      shown.remove();
      return seen;
    })()"""
    stays = ["b", "Approve b"]
    assert await page.tab.value(script) == [["xabc", *stays], ["cbx", *stays], ["b", *stays]]


async def test_form_that_is_sent_twice_is_previewed_once(page):
    await page.open("#/scaling")
    await page.click("Resize a topic…")
    await page.fill(topic="orders", queues="16", writer="alice")
    script = """(() => {
      const fetched = window.fetch;
      window.plans = 0;
      window.fetch = (url, ...others) => {
        if (String(url).includes("scaling/plan")) window.plans += 1;
        return fetched(url, ...others);
      };
      const form = document.querySelector("dialog form");
      form.requestSubmit();
      form.requestSubmit();
    })()"""
    await page.tab.value(script)
    await page.tab.shows("Boolean(document.querySelector('dialog .problem').textContent)", True)
    assert await page.tab.value("window.plans") == 1
    await page.close()


@pytest.mark.broad
async def test_views_are_legible_by_day_and_night_and_on_phones(plane, page):
    plane.set_back()
    pair = plane.elect("broker-with-a-long-name-of-forty-characters")
    try:
        for view in ("elections", "scaling", "offsets"):
            for width in (1200, 390):
                for dark in (False, True):
                    await page.open(f"#/{view}", width=width, dark=dark)
                    assert await page.tab.value("document.documentElement.scrollWidth") <= width, view
                    assert await page.tab.value(LOW_CONTRASTS) == []
                    await page.screenshot(f"{view}-{width}-{'dark' if dark else 'light'}")
        await page.open("#/offsets", width=390)
        await page.click("Restore…", "main td button")
        fits = "(dialog => dialog.scrollWidth <= dialog.clientWidth)(document.querySelector('dialog'))"
        assert await page.tab.value(fits)
        await page.click("Cancel", "dialog button")
    finally:
        for each in pair:
            each.die()
