"""What the same attacks do to this NameServer and controller and to those of Java, for `benchmarks/ATTACKS.md`.

    make bench-attacks                                        (about 12 minutes)
    python benchmarks/attacks.py --only WORD                  (attacks whose title has the word; the others stay)
    python benchmarks/attacks.py --only WORD --server ours    (prints only)

Each attack meets a server that was just started, over loopback, and is bounded in count and time. Beside it a peer that
behaves asks for its route, or who leads its set, every few milliseconds; both servers have their defaults.
"""

import argparse
import tempfile
from pathlib import Path
from typing import NamedTuple

import controller_attacks
import namesrv_attacks
from attacked import Attack, Watch, allow_files, running
from controller_results import row, table, taken
from peers.disks import own_mounts
from servers import JAVA_HEAP, REPOSITORY

RESULTS = REPOSITORY / "benchmarks" / "ATTACKS.md"
SERVERS = ("ours", "java")
ATTACKS = [*namesrv_attacks.ATTACKS, *controller_attacks.ATTACKS]


class Outcome(NamedTuple):
    """What an attack did to one server."""

    wait: str
    memory: str
    story: str


def carried_out(attack: Attack, server: str) -> Outcome:
    """Start a server, attack it, and return what it did."""
    if attack.mounted and own_mounts() is None:
        return Outcome("-", "-", "not tried: this system lets nobody mount a file")
    with (
        tempfile.TemporaryDirectory() as folder,
        running(server, attack.kind, Path(folder), mounted=attack.mounted, properties=attack.properties) as target,
    ):
        made = attack.make(target)
        result, cost = Watch(target, attack.kind).during(lambda: attack.act(target, made))
        serves = target.serves()
        afterwards = result.afterwards() if callable(result.afterwards) else result.afterwards
        faults = "Traceback" in target.server.process.text() and "**a traceback in the log**"
    parts = (f"answered {result.answered}", serves, afterwards, faults)
    return Outcome(cost.wait, cost.memory, "; ".join(part for part in parts if part))


HEAD = """\
# The same attacks on these servers and on Java's 5.5.0

{taken}

Each attack meets a server that was just started, with its defaults, over loopback. "Wait" is the longest time, in ms,
that a peer which behaves waited meanwhile for its route (105), or for who leads its set (1004); "memory" is by how many
MB the process had grown at most, and in brackets a second after the end (Java: `{heap}`, a heap that it keeps).
Answers are response codes with their remarks; "closed" is a connection that the server closed instead of an answer.
Peers and servers share one machine, not pinned: the rows of nothing show what it does by itself. `--only WORD` takes
rows again and leaves the others; the line above is of the last that were taken.

"""


def main() -> None:
    """Carry out the attacks on both servers, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a word of the titles of those that are carried out")
    parser.add_argument("--server", choices=SERVERS, help="the only one that is attacked")
    options = parser.parse_args()
    allow_files()
    servers = (options.server,) if options.server else SERVERS
    rows = former_rows()
    for attack in ATTACKS:
        if options.only in attack.title:
            found = {server: carried_out(attack, server) for server in servers}
            ours, java = (found.get(server, Outcome("-", "-", "-")) for server in SERVERS)
            cells = (ours.wait, java.wait, ours.memory, java.memory, ours.story, java.story)
            rows[attack.title] = row(attack.title, *cells)
            print(rows[attack.title], flush=True)
    if not options.server:
        head = HEAD.format(taken=taken("make bench-attacks"), heap=" ".join(JAVA_HEAP))
        lines = table("what is sent", "wait, ours", "wait, Java", "memory, ours", "memory, Java", "ours", "Java")
        lines += [rows[attack.title] for attack in ATTACKS if attack.title in rows]
        RESULTS.write_text(head + "\n".join(lines) + "\n")


def former_rows() -> dict[str, str]:
    """Return the rows of the document by what is sent."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {line[2:].partition(" | ")[0]: line for line in lines if line.startswith("| ")}


if __name__ == "__main__":
    main()
