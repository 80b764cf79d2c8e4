"""The view of analyses, and every view as axe-core judges it, in a real browser with real servers behind it."""

import contextlib
import json
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from accessibility import DRAWN, all_views, grave_findings
from analysed_plane import CHINESE, SCRIPT, AnalysedPlane
from browser import a_tab
from page_scripts import ROWS
from peers.lab import Lab
from peers.programs import require

FIRST_CELLS = """
[...(document.querySelector("main table")?.tBodies[0].rows ?? [])].map(row => row.cells[0].textContent.trim())
"""
#: What each label of the figure stands for; the title has all of a long one.
LABELS = 'JSON.stringify([...document.querySelectorAll("figure svg text title")].map(each => each.textContent))'


def choose(field, value):
    selector = f"document.querySelector('#analyses-{field}')"
    return f"{selector}.value = {json.dumps(value)}; {selector}.dispatchEvent(new Event('change'))"


@pytest.fixture
def lab(tmp_path):
    require("chromium")
    with contextlib.closing(Lab(tmp_path)) as own:
        yield own


@pytest.fixture
def plane(lab):
    with contextlib.closing(AnalysedPlane(lab)) as started:
        yield started


async def test_results_are_drawn_and_filtered_and_the_address_keeps_the_choice(plane, tmp_path):
    async with a_tab(tmp_path) as tab:
        await tab.open(f"{plane.url}#/analyses", width=1200)
        await tab.shows(FIRST_CELLS, ["broker-a", "broker-b", SCRIPT])
        # The longest time down stands first in the figure.
        assert json.loads(await tab.value(LABELS)) == ["broker-b 1", "broker-a 0", f"{SCRIPT} 0"]
        label = await tab.value('document.querySelector("figure svg").getAttribute("aria-label")')
        assert re.match(r"Unplanned time down: broker-b 1 401 s; broker-a 0 30 s", label), label
        assert await tab.value('document.querySelectorAll("main script, main img").length') == 0
        # Not 1: it was down.
        assert all("0.99996" in row for row in dict(await tab.value(ROWS))["Availability"])

        await tab.value(choose("analysis", "divergence"))
        await tab.shows(FIRST_CELLS, ["broker-a", "broker-b"])
        await tab.value(choose("cluster", CHINESE))
        await tab.shows(FIRST_CELLS, ["broker-b"])
        await tab.value(choose("cluster", ""))
        await tab.value(choose("to", "2026-11-21T07:00"))
        await tab.shows(FIRST_CELLS, ["broker-a"])
        address = await tab.value("location.href")
        query = parse_qs(urlsplit(urlsplit(address).fragment).query)
        assert query == {"analysis": ["divergence"], "to": ["2026-11-21T07:00"]}

        # A colleague opens the address.
        await tab.open("about:blank", width=390)
        await tab.open(address, width=390)
        await tab.shows(FIRST_CELLS, ["broker-a"])
        assert await tab.value("document.documentElement.scrollWidth") <= 390
        assert tab.problems == []


@pytest.mark.soak
async def test_view_of_analyses_says_what_to_do_where_there_are_none(lab, tmp_path):
    with contextlib.closing(AnalysedPlane(lab, has_analyses=False)) as plane:
        async with a_tab(tmp_path) as tab:
            await tab.open(f"{plane.url}#/analyses", width=800)
            await tab.shows("document.querySelector('#analyses p')?.textContent.includes('set analyticsDir')", True)


@pytest.mark.broad
@pytest.mark.timeout(600)
async def test_axe_finds_nothing_serious_in_any_view_by_day_and_night_and_on_phones(plane, tmp_path):
    plane.register("broker-a")
    plane.register("broker-a", 1)
    plane.register(SCRIPT, cluster=CHINESE)
    findings = {}
    async with a_tab(tmp_path) as tab:
        views = await all_views(tab, plane.url)
        assert {"#/", "#/analyses"} <= set(views)
        for address in [*views, "#/sign-in"]:
            for width, dark in ((1200, False), (1200, True), (390, False)):
                await tab.open("about:blank", width=width, dark=dark)
                await tab.open(plane.url + address, width=width, dark=dark)
                await tab.shows(DRAWN, True)
                if found := await grave_findings(tab):
                    findings[address, width, dark] = found
    assert findings == {}
