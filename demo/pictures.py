"""Pictures of every view of the console, from the data of the demo, by a real browser.

    make demo                 (once: it writes the history and the results that are shown)
    make console-pictures     (needs Chromium; writes docs/console-*.png; the README shows the overview)

Views are those that the console itself links to; of views that need a name, the first one that is linked to. `--url`
takes pictures of a console that runs already, `--variants` also at night and as a phone shows it.
"""

import argparse
import asyncio
import contextlib
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

REPOSITORY = Path(__file__).parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests"), str(REPOSITORY / "tests" / "console")]

from accessibility import DRAWN, all_views  # noqa: E402  # found by the line above
from browser import a_tab, program  # noqa: E402
from peers.controllers import OurController  # noqa: E402
from peers.lab import Lab  # noqa: E402
from peers.scripted import Line, ScriptedBroker  # noqa: E402

WIDTH, PHONE_WIDTH, HEIGHT = 1200, 390, 800
#: Readmes are loaded often.
BYTES_MAX: Final = 300_000
START_S = 60
#: The broker sets of the demo, whose brokers have ended with it: name -> brokers.
SETS: Final = {"orders": 2, "payments": 2, "alone": 1, "flappy": 1, "busy": 1}
CLUSTER: Final = "DefaultCluster"
TOPICS: Final = {"orders": 8, "payments": 4, "TopicTest": 4}


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
            for number, (broker_name, brokers) in enumerate(SETS.items()):
                for broker_id in range(brokers):
                    connection = socket.create_connection(("127.0.0.1", server.port))
                    line = lines.enter_context(contextlib.closing(Line(connection)))
                    address = f"10.0.{number}.{broker_id + 1}:10911"
                    ScriptedBroker(line, broker_name, address=address, broker_id=broker_id, cluster=CLUSTER).register(
                        TOPICS
                    )
            yield f"http://127.0.0.1:{server.http_port}/ui/"


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
    await tab.open("about:blank", width=width, dark=dark)
    await tab.open(address, width=width, dark=dark)
    await tab.shows(DRAWN, True, seconds=START_S)
    await tab.shows("document.getElementById('live')?.hidden", False, seconds=START_S)
    await tab.screenshot(file, height=HEIGHT)


def view_name(address: str) -> str:
    """Return the word of a view for the name of its file: `overview` of `#/`, `topic` of `#/topic/orders`."""
    match = re.match(r"#/([a-z-]*)", address)
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
        for file in asyncio.run(take(url, options.into, variants)):
            size = file.stat().st_size
            print(f"{file}: {size} bytes{', too many for a page' if size > BYTES_MAX else ''}")


if __name__ == "__main__":
    main()
