"""What ten open consoles take of a NameServer's route rate.

    make bench-console        (about five minutes, prints only; --quick: one minute)

Each pair loads the same server twice, with ten pages and without, and every second pair begins with the other one. The
pages do what `console/static/feed.js` does: one stream of events each, and a load of the overview after a change and
every 15 s. They are a process of their own, because browsers would take the processor that the server needs; on a
machine with two of them, even these take some of it, so the loss that is printed is an upper bound.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import aiohttp
from load import TOPIC, frames, held, run, warm
from rows import ONE_BROKER
from servers import REPOSITORY, Server, Stolen, ours

PAGES = 10
PAIRS = 10
SECONDS = 5.0
#: At most so much of the rate may be lost.
LOSS_PERCENT_MAX = 2.0
#: As feed.js has it.
PERIOD_S = 15.0
#: After so long the first loads of all pages are over.
SETTLED_S = 5.0
#: What the overview loads.
LOADED = ("ui/peers", "v1/brokers?limit=1000", "v1/clusters?limit=1000")


async def page(url: str, delay_s: float) -> None:
    """Be one open page until the process ends; pages that were opened one after another load one after another."""
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        await asyncio.sleep(delay_s)
        changed = asyncio.Event()
        watching = asyncio.ensure_future(watch(session, url, changed))
        while not watching.done():
            changed.clear()
            for path in LOADED:
                async with session.get(url + path) as answer:
                    await answer.read()
            try:
                async with asyncio.timeout(PERIOD_S):
                    await changed.wait()
            except TimeoutError:
                continue
        watching.result()


async def watch(session: aiohttp.ClientSession, url: str, changed: asyncio.Event) -> None:
    """Read the stream of a page."""
    async with session.get(f"{url}ui/live") as answer:
        answer.raise_for_status()
        print("open", flush=True)
        async for line in answer.content:
            if line.startswith(b"event: changed"):
                changed.set()


async def all_pages(url: str) -> None:
    """Be all pages."""
    await asyncio.gather(*(page(url, number * PERIOD_S / PAGES / 10) for number in range(PAGES)))


@contextmanager
def open_pages(server: Server) -> Iterator[None]:
    """Keep the pages open; their first loads are over at the begin."""
    url = f"http://127.0.0.1:{server.http_port}/"
    command = [sys.executable, __file__, "--pages", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY) as pages:
        try:
            assert pages.stdout is not None, "it is a pipe"
            for _ in range(PAGES):
                if not pages.stdout.readline():
                    sys.exit("a page could not be opened")
            time.sleep(SETTLED_S)
            yield
        finally:
            pages.terminate()


def main() -> None:
    """Measure and print each pair and the median of their ratios; exit with 1 if more than LOSS_PERCENT_MAX is lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="four pairs of two seconds")
    parser.add_argument("--pages", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.pages:
        asyncio.run(all_pages(options.pages))
        return
    pairs, seconds = (4, 2.0) if options.quick else (PAIRS, SECONDS)
    with tempfile.TemporaryDirectory() as name, Stolen() as stolen, ours(Path(name)) as server:
        rates = measured(server, Path(name), pairs, seconds)
    loss_percent = 100 * (1 - median(each / without for each, without in rates))
    print(f"{PAGES} open consoles, {ONE_BROKER[0].text}; medians of {pairs} pairs:")
    print(f"{loss_percent:.1f} % of the route rate are lost (at most {LOSS_PERCENT_MAX} %);", end=" ")
    print(f"the host took {stolen.percent:.1f} %")
    sys.exit(loss_percent > LOSS_PERCENT_MAX)


def measured(server: Server, folder: Path, pairs: int, seconds: float) -> list[tuple[float, float]]:
    """Return the rates of each pair, with pages and without."""
    work = ONE_BROKER[0]
    shape = {"connections": work.connections, "depth": work.depth}
    query = frames(folder, "route", TOPIC)
    found = []
    with held(server, frames(folder, "register", "--brokers", 1, "--topics", 100)):
        warm(server, query, **shape)
        for number in range(pairs):
            rates = {}
            for has_pages in (True, False) if number % 2 == 0 else (False, True):
                if has_pages:
                    with open_pages(server):
                        rates[has_pages] = run(server, query, seconds=seconds, **shape).qps
                else:
                    rates[has_pages] = run(server, query, seconds=seconds, **shape).qps
            found.append((rates[True], rates[False]))
            print(f"pair {number + 1}: {rates[True]:,.0f}/s with pages, {rates[False]:,.0f}/s without", flush=True)
    return found


if __name__ == "__main__":
    main()
