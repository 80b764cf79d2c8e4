"""Messages a second through an HAProxy at a role address, beside direct ones, for `benchmarks/CONTROLLER.md`.

    make bench-role-throughput                                    (about five minutes)
    python benchmarks/role_throughput.py --pairs 1 --seconds 3    (prints only, as it is not the full number)

One set of two Java brokers 5.5.0, which acknowledges only what both have, and two warm producers with some threads
each: one learns real addresses, at the memberPort of the NameServer, and the other one the role address. They send by
turns, never at once. Everything shares one machine, so HAProxy takes processor time from the brokers.
"""

import argparse
import itertools
import re
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import NamedTuple

import failover_ways  # noqa: F401  # makes the peers of the tests importable
from controller_results import keep, row, table
from peers.jars import V5_5
from peers.java import start_java
from peers.lab import Lab
from peers.processes import free_port
from role_addressed import SET, RoleAddressedSet
from servers import Server

PAIRS = 5
ROUND_S = 10
#: The first seconds of a producer are those of its compiler.
WARM_S = 10
THREADS = 8
MESSAGE_BYTES = 1024
#: Options of `rmq haproxy-config`, by the name of the setting.
SETTINGS = {"HAProxy": (), "HAProxy, --send-proxy": ("--send-proxy",)}


class Round(NamedTuple):
    """What one producer reached in one round."""

    a_second: float
    p50_ms: float
    p99_ms: float
    #: Processor time of HAProxy, by a thousand messages.
    haproxy_ms: float
    #: Sends that failed after all retries, by code or name of the error.
    failures: Counter[str]


class WarmProducer:
    """A producer that stays, and sends when it is its turn."""

    def __init__(self, lab: Lab, name: str, namesrv: str) -> None:
        options = ["--group", name, "--topic", SET, "--namesrv", namesrv]
        options += ["--threads", str(THREADS), "--bytes", str(MESSAGE_BYTES)]
        self.process = start_java(name, V5_5, "Rate", options, folder=lab.folder, heap="-Xmx256m")
        self.process.wait_for(r"^READY")
        lab.kept(self)

    def send(self, seconds: float, haproxy: Server) -> Round:
        """Send for so long."""
        position, before_s = self.process.position(), haproxy.cpu_seconds()
        self.process.write_line(str(int(seconds * 1_000)))
        pattern = r"^RATE (\d+) (\d+) (\d+) (\d+) \{(.*)\}\n"
        figures = self.process.wait_for(pattern, seconds=seconds + 60, position=position)
        messages, millis, p50_us, p99_us = map(int, figures.groups()[:4])
        failures = Counter({code: int(count) for code, count in re.findall(r"(\w+)=(\d+)", figures[5])})
        haproxy_ms = (haproxy.cpu_seconds() - before_s) * 1_000 / max(messages, 1) * 1_000
        return Round(messages / millis * 1_000, p50_us / 1_000, p99_us / 1_000, haproxy_ms, failures)


def measured(pairs: int, seconds: float) -> Iterator[str]:
    """Yield the lines of the part."""
    yield (
        f"{THREADS} threads, {MESSAGE_BYTES} bytes a message, {pairs} pairs of rounds of {seconds:g} s for each "
        "setting by turns. Medians of the rounds.\nWhile the direct producer sends, HAProxy only checks the brokers."
    )
    yield ""
    yield from table(
        "setting", "clients", "messages/s, all rounds", "median", "beside direct", "p50, ms", "p99, ms", "failed",
        "HAProxy's processor, ms by 1,000 messages",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as name, closing(Lab(Path(name))) as lab:
        member_port = free_port()
        site = RoleAddressedSet(lab, Path(name), V5_5, namesrv_properties={"memberPort": member_port}).start()
        direct = WarmProducer(lab, "direct", f"127.0.0.1:{member_port}")
        proxied = WarmProducer(lab, "proxied", site.namesrv.address)
        for setting, options in SETTINGS.items():
            _restart(site, options)
            haproxy = Server("haproxy", 0, site.haproxy.process.pid)
            for each in (direct, proxied):
                each.send(min(WARM_S, seconds), haproxy)
            rounds: dict[WarmProducer, list[Round]] = {direct: [], proxied: []}
            for number, each in itertools.product(range(pairs), (0, 1)):
                # Neither always goes first.
                producer = (direct, proxied)[(number + each) % 2]
                rounds[producer].append(producer.send(seconds, haproxy))
                print(f"  {setting}: {producer.process.name} {rounds[producer][-1]}", file=sys.stderr, flush=True)
            yield _row(setting, "direct", rounds[direct], rounds[direct])
            yield _row(setting, "through HAProxy", rounds[proxied], rounds[direct])


def _restart(site: RoleAddressedSet, options: tuple[str, ...]) -> None:
    site.haproxy.process.kill()
    site.haproxy.options = options
    site.haproxy.configure()
    site.haproxy.start()


def _row(setting: str, clients: str, rounds: list[Round], beside: list[Round]) -> str:
    rate = median(each.a_second for each in rounds)
    counts = sum((each.failures for each in rounds), Counter[str]())
    failed = ", ".join(f"{count} x {code}" for code, count in counts.most_common()) or "0"
    return row(
        setting,
        clients,
        " ".join(f"{each.a_second:.0f}" for each in rounds),
        f"**{rate:.0f}**",
        f"{rate / median(each.a_second for each in beside):.0%}",
        f"{median(each.p50_ms for each in rounds):.2f}",
        f"{median(each.p99_ms for each in rounds):.2f}",
        failed,
        f"{median(each.haproxy_ms for each in rounds):.1f}",
    )


def main() -> None:
    """Measure and keep, or only print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--seconds", type=float, default=ROUND_S, help="length of a round")
    options = parser.parse_args()
    # Told to stop, it ends what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    lines = measured(options.pairs, options.seconds)
    if (options.pairs, options.seconds) == (PAIRS, ROUND_S):
        keep("role_throughput", "make bench-role-throughput", lines)
    else:
        print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
