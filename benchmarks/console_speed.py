"""How soon a real Chromium shows the console of a large cluster, and how long a letter in a filter takes.

    python benchmarks/console_speed.py [--topics 10000] [--views '#/' '#/topics']

Prints for each view the time from the opened address to the first picture (goal: 1,000 ms), and for views with a filter
the longest time from a letter until the next picture (goal: 50 ms). It shows what the machine has to give: on one with
other work the figures say little.
"""

import argparse
import asyncio
import contextlib
import json
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

from servers import REPOSITORY, ours

sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY / "tests" / "console")]

from accessibility import all_views  # noqa: E402  # found by the line above
from browser import a_tab  # noqa: E402
from peers.scripted import Line, ScriptedBroker  # noqa: E402

GOAL_MS, LETTER_GOAL_MS = 1000, 50
TYPED = "topic-99"

#: Notes when the view is drawn: when its heading is there, and nothing in it is busy any more.
OBSERVED = """
new MutationObserver((_, observer) => {
  const main = document.querySelector("main");
  if (!main?.querySelector("h1") || main.querySelector("[aria-busy='true']")) return;
  if (!main.querySelector("table, svg, [aria-busy='false']")) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.drawnMs = performance.now(); }));
}).observe(document, {childList: true, subtree: true, attributes: true});
"""
FILTER = "main input[type='search'], main input[type='text'], main input:not([type])"
LETTERS = """
(async () => {
  const input = document.querySelector(%s);
  if (!input) return null;
  const times = [];
  for (const letter of %s) {
    const beganMs = performance.now();
    input.value += letter;
    input.dispatchEvent(new Event("input", {bubbles: true}));
    await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)));
    times.push(performance.now() - beganMs);
    await new Promise((rest) => setTimeout(rest, 100));
  }
  return Math.max(...times);
})()
"""


async def measure(tab: Any, url: str, address: str) -> None:
    """Print the figures of one view."""
    await tab.open("about:blank", width=1200)
    await tab.open(url + address, width=1200)
    await tab.shows("typeof window.drawnMs", "number", seconds=60)
    first_ms = await tab.value("window.drawnMs")
    text = LETTERS % (json.dumps(FILTER), json.dumps(TYPED))
    answer = await tab.command("Runtime.evaluate", expression=text, awaitPromise=True, returnByValue=True)
    letter_ms = answer["result"].get("value")
    letters = "no filter" if letter_ms is None else f"a letter {letter_ms:.0f} ms at most (goal {LETTER_GOAL_MS})"
    print(f"{address}: first picture after {first_ms:.0f} ms (goal {GOAL_MS}); {letters}", flush=True)


async def measure_all(url: str, views: list[str], folder: Path) -> None:
    """Print the figures of all views."""
    async with a_tab(folder) as tab:
        addresses = views or await all_views(tab, url)
        await tab.command("Page.addScriptToEvaluateOnNewDocument", source=OBSERVED)
        for each in addresses:
            await measure(tab, url, each)


def main() -> None:
    """Start a NameServer with a broker that has many topics, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--views", nargs="*", default=[], help="addresses such as '#/'; all of them by default")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as name,
        ours(Path(name)) as server,
        contextlib.closing(Line(socket.create_connection(("127.0.0.1", server.port)))) as line,
    ):
        broker = ScriptedBroker(line, "broker-a", address="10.0.0.1:10911")
        broker.register({f"topic-{number}": 8 for number in range(options.topics)})
        asyncio.run(measure_all(f"http://127.0.0.1:{server.http_port}/ui/", options.views, Path(name)))


if __name__ == "__main__":
    main()
