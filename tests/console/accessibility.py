"""Checks a page of a browser by axe-core, whose release and licence are in `axe-core/`; only these tests use it."""

import json
from pathlib import Path

AXE = Path(__file__).with_name("axe-core") / "axe.min.js"
#: Findings of these impacts keep people from using a page.
GRAVE = ("serious", "critical")

RUN = """
window.axeFindings = null;
axe.run(document, {resultTypes: ["violations"]}).then(({violations}) => {
  window.axeFindings = JSON.stringify(violations.map(({impact, id, help, nodes}) =>
    ({impact, id, help, nodes: nodes.slice(0, 5).map(({html, any}) => [html.slice(0, 300), any[0]?.message ?? ""])})));
});
0
"""

#: Addresses of the views that the frame links to, then of one view of each other kind that the present view links to.
VIEWS = """
(() => {
  const found = new Map();
  const kind = (hash) => hash.split("?")[0].split("/").slice(0, 2).join("/");
  for (const link of document.querySelectorAll('nav a[href^="#/"], main a[href^="#/"]')) {
    const hash = link.getAttribute("href");
    if (!found.has(kind(hash))) found.set(kind(hash), hash);
  }
  return [...found.values()];
})()
"""
DRAWN = """document.querySelector("main h1") !== null && document.querySelector("main [aria-busy='true']") === null"""


async def grave_findings(tab):
    """Return what axe-core finds serious or critical in the page as it is."""
    await tab.value(f"{AXE.read_text(encoding='utf-8')}\n;0")
    await tab.value(RUN)
    await tab.shows("window.axeFindings !== null", True, seconds=60)
    return [each for each in json.loads(await tab.value("window.axeFindings")) if each["impact"] in GRAVE]


async def all_views(tab, url):
    """Return the addresses of all views of a console, with one example of those that need a name."""
    found = ["#/"]
    for address in found:
        await tab.open("about:blank", width=1200)
        await tab.open(url + address, width=1200)
        await tab.shows(DRAWN, True)
        kinds = {_kind(each) for each in found}
        found += [each for each in await tab.value(VIEWS) if _kind(each) not in kinds]
    return found


def _kind(address):
    return address.split("?")[0].split("/")[1]
