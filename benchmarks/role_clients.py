"""What each kind of client sees of failovers through a role address and HAProxy, for `benchmarks/CONTROLLER.md`.

    make bench-role-clients                            (about seven minutes)
    python benchmarks/role_clients.py --runs 1         (prints only, as it is not the full number)

All kinds run at the same time on one set of two Java brokers 5.5.0, as they come: they poll routes each 30 s, give up a
send after 3 s and try twice more, and balance queues each 20 s. Each kind of producer sends to a topic of its own, and
the consumers read what the synchronous producer sends. A gap is the longest time between two messages around the
event: acknowledged, of a one-way producer taken by the client, of a consumer received. Each tenth transaction is
committed only when a broker checks back, which it does each 10 s here instead of each 30 s. At the end everything
acknowledged is looked for, in scans of the topics and at the consumers.
"""

import argparse
import json
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median

from client_views import RESUMED_MAX_S, longest_gap_s
from controller_results import keep, row, table
from failover_events import AFTER_S, POLL_MS, SCAN_S, STEADY_S, Figures, restore, strike
from failover_ways import BALANCES_AS_IT_COMES, Site, haproxy
from peers.delivery import Consumed
from peers.jars import V5_5
from peers.servers import Broker
from peers.wire import Caller
from replicated import VERY_LONG_S
from role_addressed import now_ms

RUNS = 3
KINDS = {"kill": "kill -9 of the master", "freeze": "SIGSTOP of the master until all clients go on with another one"}
INTERVAL_MS = 20
CHECK_BACK_MS = 10_000
SET_REQUEST_MODE = 401
#: Between two looks at what clients have recorded, which takes the processor from the brokers.
LOOK_S = 0.25
#: Kind of producer -> its topic.
PRODUCERS = {"sync": "Synchronous", "async": "Asynchronous", "oneway": "OneWay", "transaction": "Transactional"}
CONSUMERS = ("push", "orderly", "pop", "lite")
AS_THEY_COME = {"poll_ms": POLL_MS, "heartbeat_ms": 30_000}
#: By kind of event and kind of client.
Seen = dict[str, dict[str, Figures]]


class EachKind:
    """A client of each kind, seen since the last mark."""

    def __init__(self, site: Site) -> None:
        self._site = site
        for topic in PRODUCERS.values():
            site.make_topic(topic)
        for broker in site.brokers.brokers:
            mode = {"topic": PRODUCERS["sync"], "consumerGroup": _group("pop"), "mode": "POP", "popShareQueueNum": -1}
            assert Caller(broker.address).request(SET_REQUEST_MODE, body=json.dumps(mode).encode()).code == 0
        namesrv = [site.namesrv]
        self._traffic = site.lab.traffic("kinds", namesrv=namesrv, version=V5_5, flags=[BALANCES_AS_IT_COMES])
        for kind, topic in PRODUCERS.items():
            self._traffic.send(kind, topic=topic, kind=kind, interval_ms=INTERVAL_MS, **AS_THEY_COME)
        for kind in CONSUMERS:
            self._traffic.receive(kind, topic=PRODUCERS["sync"], group=_group(kind), kind=kind, **AS_THEY_COME)
        self.began_ms = now_ms()
        self.mark()
        self.wait_for_all(self.began_ms)

    def mark(self) -> None:
        """Begin to look from here on."""
        self._traffic.read()
        self._marks = [len(each) for each in self._records]

    @property
    def _records(self) -> tuple[list, list, list]:
        return self._traffic.acknowledged, self._traffic.unacknowledged, self._traffic.consumed

    def stamps_ms(self) -> dict[str, list[int]]:
        """Return when each message since the mark was acknowledged or received, by client, in order."""
        self._traffic.read()
        acknowledged, _, consumed = (each[mark:] for each, mark in zip(self._records, self._marks, strict=True))
        stamps: dict[str, list[int]] = defaultdict(list)
        for each in acknowledged:
            stamps[each.producer].append(each.unix_ms)
        for each in consumed:
            stamps[each.client].append(each.unix_ms)
        return {name: sorted(found) for name, found in stamps.items()}

    def failed(self) -> dict[str, Counter[str]]:
        """Return how many sends failed since the mark after all retries, by producer and code."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for each in self._traffic.read().unacknowledged[self._marks[1] :]:
            counts[each.producer][each.code] += 1
        return counts

    def wait_for_all(self, since_ms: int) -> None:
        """Wait until each client has got a message acknowledged, or has received one, after a moment."""
        end = time.monotonic() + RESUMED_MAX_S
        while waiting := {*PRODUCERS, *CONSUMERS} - {
            name for name, stamps in self.stamps_ms().items() if stamps[-1] > since_ms
        }:
            assert time.monotonic() < end, f"{sorted(waiting)} do not go on within {RESUMED_MAX_S} s"
            time.sleep(LOOK_S)

    def judge(self, begun: "Begun", seen: Seen) -> int:
        """End the producers and look for all that they have sent; returns how many messages came out of order."""
        begun.begin("the end")
        # Its messages are committed while it can be checked back.
        stored = {"transaction": self._stored("transaction")}
        for name in PRODUCERS:
            self._traffic.stop(name)
        self._wait_until_consumed()
        self._traffic.read()
        sent = (*self._traffic.acknowledged, *self._traffic.unacknowledged)
        kinds = {each.message: begun.kind_at(each.unix_ms) for each in sent}
        for name in PRODUCERS:
            found = stored.get(name) or self._stored(name)
            _count(seen, name, kinds, self._acknowledged(name), found)
        for name in CONSUMERS:
            received = [each.message for each in self._traffic.consumed if each.client == name]
            _count(seen, name, kinds, self._acknowledged("sync"), received)
        return out_of_order(each for each in self._traffic.consumed if each.client == "orderly")

    def _acknowledged(self, name: str) -> set[str]:
        return {each.message for each in self._traffic.read().acknowledged if each.producer == name}

    def _stored(self, name: str) -> list[str]:
        """Return the ids of all messages of a producer that can be read; some follow later, or after a check back."""
        acknowledged, stored, end = self._acknowledged(name), list[str](), time.monotonic() + SCAN_S
        scan = self._site.lab.scan("scan", namesrv=[self._site.namesrv], topic=PRODUCERS[name])
        while not acknowledged <= set(stored) and time.monotonic() < end:
            time.sleep(1)
            stored = scan.keys(seconds=SCAN_S) or []
        scan.process.kill()
        return stored

    def _wait_until_consumed(self) -> None:
        end = time.monotonic() + SCAN_S
        while self._traffic.missing([_group(kind) for kind in CONSUMERS]) and time.monotonic() < end:
            time.sleep(1)


class Begun:
    """When the events of each kind began."""

    def __init__(self) -> None:
        self._at: list[tuple[int, str]] = []

    def begin(self, kind: str) -> None:
        """Let messages from now on belong to this kind of event."""
        self._at.append((now_ms(), kind))

    def kind_at(self, unix_ms: int) -> str | None:
        """Return the kind of event to which a message of this time belongs, None before all."""
        return next((kind for at_ms, kind in reversed(self._at) if at_ms <= unix_ms), None)


def _group(kind: str) -> str:
    return f"readers-{kind}"


def _count(seen: Seen, name: str, kinds: dict[str, str | None], wanted: set[str], found: Iterable[str]) -> None:
    times = Counter(found)
    for kind in seen:
        figures = seen[kind].setdefault(name, Figures())
        messages = {message for message in wanted if kinds[message] == kind}
        figures.acknowledged += len(messages)
        figures.lost += len(messages - times.keys())
        figures.repeated += sum(count > 1 and kinds.get(message) == kind for message, count in times.items())


def out_of_order(consumed: Iterable[Consumed]) -> int:
    """Return how many messages came for the first time after one with a higher offset in their queue."""
    highest: dict[int, int] = defaultdict(lambda: -1)
    received, count = set(), 0
    for each in consumed:
        if each.message not in received:
            count += each.offset < highest[each.queue]
            highest[each.queue] = max(highest[each.queue], each.offset)
        received.add(each.message)
    return count


def _event(kind: str, site: Site, clients: EachKind, seen: dict[str, Figures]) -> None:
    clients.mark()
    time.sleep(STEADY_S)
    victim, since_ms = site.master(), now_ms()
    strike(kind, victim)
    _wait_for_next(site, victim)
    clients.wait_for_all(now_ms())
    time.sleep(AFTER_S)
    for name, stamps in clients.stamps_ms().items():
        seen.setdefault(name, Figures()).gaps_s.append(longest_gap_s(stamps, since_ms))
    restore(kind, site, victim)
    for name, stamps in clients.stamps_ms().items():
        seen[name].until_complete_s = max(seen[name].until_complete_s, longest_gap_s(stamps, since_ms))
    for name, codes in clients.failed().items():
        seen[name].failed += codes
    shown = ", ".join(f"{name} {figures.gaps_s[-1]:.2f} s" for name, figures in seen.items())
    print(f"  {kind}: {shown}; {(now_ms() - since_ms) / 1000:.0f} s in all", file=sys.stderr, flush=True)


def _wait_for_next(site: Site, victim: Broker) -> None:
    site.brokers.wait_for_master(lambda state: state.addresses[state.master] != victim.address, seconds=VERY_LONG_S)


def measured(runs: int) -> Iterator[str]:
    """Yield the lines of the part."""
    seen: Seen = {kind: {} for kind in KINDS}
    with (
        tempfile.TemporaryDirectory() as name,
        haproxy(Path(name), V5_5, transactionCheckInterval=CHECK_BACK_MS) as site,
    ):
        clients, begun = EachKind(site), Begun()
        for kind in KINDS:
            begun.begin(kind)
            for _ in range(runs):
                _event(kind, site, clients, seen[kind])
        inversions = clients.judge(begun, seen)
    yield (
        "Clients 5.5.0 of all kinds on one set through HAProxy, each event seen by all at once; each producer sends a "
        f"message each {INTERVAL_MS} ms.\nLost of a one-way producer is what the client took and nobody can read; of a "
        "transactional one what it committed, also after a check back;\nof a consumer what was acknowledged to the "
        "synchronous producer and it did not receive. Twice is stored, or received, more than once.\n"
        f"The orderly consumer received {inversions} messages out of order."
    )
    for kind, how in KINDS.items():
        yield ""
        yield f"{how}, {runs} times:"
        yield ""
        yield from table(
            "client", "gaps, s", "median", "worst", "until the set was complete", "failed sends", "lost", "twice"
        )
        for each in (*PRODUCERS, *CONSUMERS):
            yield _row(each, seen[kind][each])


def _row(name: str, figures: Figures) -> str:
    gaps = sorted(figures.gaps_s)
    failed = ", ".join(f"{count} x {code}" for code, count in figures.failed.most_common()) or "0"
    return row(
        f"{name} producer" if name in PRODUCERS else f"{name} consumer",
        " ".join(f"{gap_s:.2f}" for gap_s in gaps),
        f"**{median(gaps):.2f}**",
        f"{gaps[-1]:.2f}",
        f"{figures.until_complete_s:.2f}",
        failed if name in PRODUCERS else "-",
        f"{figures.lost} of {figures.acknowledged}",
        figures.repeated,
    )


def main() -> None:
    """Measure and keep, or only print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS, help="kills, and freezes")
    options = parser.parse_args()
    # Told to stop, it ends what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if options.runs == RUNS:
        keep("role_clients", "make bench-role-clients", measured(options.runs))
    else:
        print("\n".join(measured(options.runs)), flush=True)


if __name__ == "__main__":
    main()
