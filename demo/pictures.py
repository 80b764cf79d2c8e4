"""Pictures of every view of the console, from the data of the demo, by a real browser.

    make demo                 (once: it writes the history and the results that are shown)
    make console-pictures     (needs Chromium; writes docs/console-*.png; the README shows the overview)

Views are those that the console itself links to; of views that need a name, the first one that is linked to. `--url`
takes pictures of a console that runs already, `--variants` also at night and as a phone shows it.
"""

import argparse
import asyncio
import contextlib
import itertools
import re
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

REPOSITORY = Path(__file__).parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests"), str(REPOSITORY / "tests" / "console")]

from accessibility import DRAWN, all_views  # noqa: E402  # found by the line above
from browser import a_tab, program  # noqa: E402
from peers.controllers import OurController  # noqa: E402
from peers.lab import Lab  # noqa: E402
from peers.replicas import Replica  # noqa: E402
from peers.scripted import Line, ScriptedBroker  # noqa: E402

WIDTH, PHONE_WIDTH, HEIGHT_MAX = 1200, 390, 1200
#: Readmes are loaded often.
BYTES_MAX: Final = 300_000
START_S = 60
BEAT_S = 0.4
#: Views that no event tells to load: they are never live.
UNANNOUNCED: Final = ("offsets", "analyses")
CLUSTER: Final = "DefaultCluster"
#: The broker sets of the demo, whose brokers have ended with it. These two ask the controller for their roles.
REPLICATED: Final = ("orders", "payments")
#: Name -> cluster.
ALONE: Final = {"alone": CLUSTER, "flappy": CLUSTER, "busy": CLUSTER, "market": "MarketCluster"}
#: Of each cluster.
TOPICS: Final = {CLUSTER: {"TopicTest": 4}, "MarketCluster": {"Checkout": 8, "Flashsale": 8, "Invoices": 4}}


@contextlib.contextmanager
def site(data: Path) -> Iterator[str]:
    """Run a NameServer and a controller over a copy of what a demo has recorded; yields the address of the console."""
    with tempfile.TemporaryDirectory() as name, contextlib.closing(Lab(Path(name) / "servers")) as lab:
        history = Path(name) / "history"
        shutil.copytree(data / "history", history)
        settings = {"historyDir": history, "analyticsDir": history}
        controller = lab.kept(OurController(lab.folder, **settings)).start()
        peers = f"controller=http://127.0.0.1:{controller.http_port}"
        server = lab.name_server(http=True, historyDir=history, consolePeers=peers)
        server.process.wait_for(r'"event":"server_ready"', seconds=START_S)
        with contextlib.ExitStack() as lines:
            brokers: list[ScriptedBroker] = []

            def register(broker_name: str, address: str, broker_id: int = 0, cluster: str = CLUSTER) -> None:
                line = Line(socket.create_connection(("127.0.0.1", server.port)))
                lines.callback(line.close)
                broker = ScriptedBroker(line, broker_name, address=address, broker_id=broker_id, cluster=cluster)
                # A slave has the topics of its master, and registers none.
                brokers.append(broker)
                broker.register({} if broker_id else {broker_name: 8, **TOPICS[cluster]})

            for broker_name in REPLICATED:
                master, slave = elected(controller.address, broker_name)
                register(broker_name, master)
                register(broker_name, slave, broker_id=2)
            for number, (broker_name, cluster) in enumerate(ALONE.items()):
                register(broker_name, f"127.0.0.1:{10911 + 10 * number}", cluster=cluster)
            ended = threading.Event()
            beating = threading.Thread(target=beat, args=(brokers, ended))
            beating.start()
            try:
                yield f"http://127.0.0.1:{server.http_port}/ui/"
            finally:
                ended.set()
                beating.join()


def beat(brokers: list[ScriptedBroker], ended: threading.Event) -> None:
    """Let brokers send heartbeats, each at a time of its own, until `ended` is set."""
    for broker in itertools.cycle(brokers):
        broker.heartbeat()
        if ended.wait(BEAT_S):
            return


def elected(controller: str, broker_name: str) -> tuple[str, str]:
    """Let two brokers of a set join a controller, of which the first becomes master; return their addresses."""
    pair = [Replica(controller, broker_name, cluster=CLUSTER).join() for _ in range(2)]
    master, slave = pair
    master.elect()
    master.report((master.broker_id, slave.broker_id), master_epoch=1, sync_state_set_epoch=1)
    for each in pair:
        each.epoch = 1
        each.heartbeat()
    return master.address, slave.address


async def take(url: str, folder: Path, variants: list[tuple[str, int, bool]]) -> list[Path]:
    """Write the pictures of all views, and return their files."""
    taken = []
    with tempfile.TemporaryDirectory() as name:
        async with a_tab(Path(name)) as tab:
            for address in await all_views(tab, url):
                for suffix, width, dark in variants:
                    file = folder / f"console-{view_name(address)}{suffix}.png"
                    await _shoot(tab, url + address, file, width=width, dark=dark)
                    taken.append(file)
    return taken


async def _shoot(tab: Any, address: str, file: Path, *, width: int, dark: bool) -> None:
    # As a browser without bars shows it.
    await tab.command("Emulation.setScrollbarsHidden", hidden=True)
    await tab.open("about:blank", width=width, dark=dark)
    await tab.open(address, width=width, dark=dark)
    await tab.shows(DRAWN, True, seconds=START_S)
    if view_name(address) not in UNANNOUNCED:
        await tab.shows("document.getElementById('live').checkVisibility()", True, seconds=START_S)
    height = await tab.value("document.documentElement.scrollHeight")
    await tab.screenshot(file, height=min(height, HEIGHT_MAX))


def view_name(address: str) -> str:
    """Return the word of a view for the name of its file: `overview` of `#/`, `topic` of `#/topic/orders`."""
    match = re.search(r"#/([a-z-]*)", address)
    return (match and match[1]) or "overview"


def main() -> None:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("~/rocketmq-demo").expanduser(), help="of `make demo`")
    parser.add_argument("--url", help="a console that runs already, such as http://127.0.0.1:9880/ui/")
    parser.add_argument("--into", type=Path, default=REPOSITORY / "docs")
    parser.add_argument("--variants", action="store_true", help="also at night and as a phone shows it")
    options = parser.parse_args()
    if program() is None:
        parser.error("there is no Chromium: apt install chromium")
    variants = [("", WIDTH, False)]
    if options.variants:
        variants += [("-dark", WIDTH, True), ("-phone", PHONE_WIDTH, False)]
    played = sorted(each.parent for each in options.folder.glob("*/history"))
    if options.url:
        running: contextlib.AbstractContextManager[str] = contextlib.nullcontext(options.url)
    elif played:
        running = site(played[-1])
    else:
        parser.error(f"nothing was played into {options.folder}: call `make demo` first, or name a console by --url")
    with running as url:
        taken = {file: file.stat().st_size for file in asyncio.run(take(url, options.into, variants))}
    for file, size in taken.items():
        print(f"{file}: {size} bytes")
    if too_large := [file.name for file, size in taken.items() if size > BYTES_MAX]:
        parser.exit(1, f"too many bytes for a page: {', '.join(too_large)}\n")


if __name__ == "__main__":
    main()
