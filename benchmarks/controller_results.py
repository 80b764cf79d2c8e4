"""`benchmarks/CONTROLLER.md`: what was measured of controllers, a section for each part, each with how it was taken."""

import os
import platform
import re
import subprocess
import time
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from servers import REPOSITORY

RESULTS = REPOSITORY / "benchmarks" / "CONTROLLER.md"
#: The parts in the order of the document, with their titles.
TITLES = {
    "kill": "The master is killed",
    "freeze": "The master is stopped",
    "pause": "The master pauses for 2 s",
    "replicas": "The master of three replicas is killed",
    "role_kill": "The master is killed, with and without role addresses",
    "role_freeze": "The master is stopped, with and without role addresses",
    "role_clients": "The master is killed and stopped, each kind of client has a role address",
    "role_throughput": "Messages through a role address, beside direct ones",
    "switchover": "The role of the master is handed over, clients have a role address",
    "load": "3,000 broker sets",
    "former": "3,000 broker sets, beside a former commit",
    "role_checks": "Role checks of proxies",
    "resize_static": "A topic grows and another one shrinks, static sets with slaves",
    "resize_managed": "A topic grows and another one shrinks, the controller elects masters",
    "resize_ten": "Ten topics are resized at once, the controller is killed",
    "offset_readings": "The offsets of 100 brokers and their replicas are read",
    "offset_commits": "30,000 commits a second into an offset manager: elections and leases meanwhile",
    "offset_kill": "The master is killed, with and without an offset manager: messages twice and skipped",
    "offset_restart": "A broker starts again, with and without an offset manager: messages twice and skipped",
    "offset_order": "The master is killed, with and without an offset manager: orderly consumers",
    "offset_tail": "The master is killed and the end of its log is lost, with and without an offset manager",
    "offset_losses": "A restart, a disk, an older disk, a reset by mistake, with and without an offset manager",
    "ramp": "100 to 1,000 messages a second, consumers find no queue",
    "ramp_slow": "100 to 1,000 messages a second, listeners are slow",
}
HEAD = """\
# The controller, beside the Java controller 5.5.0

Each part says when and how it was taken; `--only PART` takes one again and leaves the others. Peers, load and servers
share one machine, not pinned.
"""


def keep(part: str, command: str, body: Iterable[str]) -> None:
    """Print a part, and put it in the place of its former figures."""
    print(put(part, command, body), flush=True)


def put(part: str, command: str, body: Iterable[str]) -> str:
    """Put a part in the place of its former figures, and return its section."""
    lines = list(body)
    section = "\n".join([f"## {TITLES[part]} (`{part}`)", "", taken(command), "", *lines]).rstrip() + "\n"
    kept = former_sections() | {part: section}
    RESULTS.write_text("\n".join([HEAD, *(kept[name] for name in TITLES if name in kept)]))
    return section


def former_sections() -> dict[str, str]:
    """Return the sections of the document by part."""
    text = RESULTS.read_text() if RESULTS.exists() else ""
    sections = re.findall(r"^## [^\n]* \(`(\w+)`\)\n.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    texts = re.findall(r"^## .*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return {name: text.rstrip() + "\n" for name, text in zip(sections, texts, strict=True)}


def taken(command: str) -> str:
    """Return when, with what and on what figures are taken."""
    text = Path("/proc/cpuinfo").read_text()
    cpu = next((line.partition(": ")[2] for line in text.splitlines() if line.startswith("model name")), "")
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr.splitlines()[0]
    libraries = ", ".join(f"{name} {version(name)}" for name in ("uvloop", "msgspec"))
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, cwd=REPOSITORY
    ).stdout.strip()
    load = os.getloadavg()[0]
    return (
        f"Taken {time.strftime('%Y-%m-%d')} by `{command}` at {commit} on {os.cpu_count()} cores ({cpu}), "
        f"{platform.platform()};\nPython {platform.python_version()}, {libraries}; {java}. "
        f"Load average at the end {load:.1f}."
    )


def row(*cells: object) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def table(*titles: str) -> list[str]:
    """Return the head of a table."""
    return [row(*titles), f"|{'---|' * len(titles)}"]
