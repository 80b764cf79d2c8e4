"""A site with clients as they come, what each client saw of each kill and freeze of its master, and what became of all.

Producers and push consumers of several releases run at the same time on the same set, so one event is seen by all.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from client_views import ConsumerView, Failed, ProducerView, Stored, longest_gap_s
from failover_ways import BALANCES_AS_IT_COMES, Site, Way
from peers.servers import Broker
from role_addressed import AS_IT_COMES, now_ms

#: How long clients work before anything happens: the brokers have just become complete.
STEADY_S = 2
#: How long clients are watched after all went on, and a thawed broker after it goes on.
AFTER_S = 2
POLL_MS = AS_IT_COMES["poll-ms"]
#: Between two heartbeats of a consumer. By default 30 s, but events come more often than that: a broker that has just
#: come back would know no consumer, and a consumer 4.9 stands still at such a master until its next heartbeat.
HEARTBEAT_MS = 5_000
#: Between two messages of a producer.
INTERVAL_MS = 20
#: How long what was acknowledged is looked for.
SCAN_S = 120
#: A consumer that took so long so often is not waited for in further events of the kind at a role address: those would
#: take an hour, and come out the same.
SLOW_S, SLOW_EVENTS = 15, 2


@dataclass
class Figures:
    """What one client saw of all events of a kind."""

    #: By event, the longest time between two messages until all clients went on.
    gaps_s: list[float] = field(default_factory=list)
    #: The longest one until the set was complete again.
    until_complete_s: float = 0
    #: Sends that failed after all retries, by code or name of the error.
    failed: Counter[str] = field(default_factory=Counter)
    #: Messages that the old master acknowledged after the next one had acknowledged some.
    late: int = 0
    acknowledged: int = 0
    #: Acknowledged, and not to be read; of a consumer: acknowledged, and not received.
    lost: int = 0
    #: Stored more than once; of a consumer: received more than once.
    repeated: int = 0


#: By kind of event and title of the client.
Seen = dict[str, dict[str, Figures]]


class Clients:
    """Producers and push consumers of some releases at a site."""

    def __init__(self, site: Site, versions: Iterable[str]) -> None:
        self.producers: list[ProducerView] = []
        self.consumers: list[ConsumerView] = []
        #: Those that events are about.
        self.watched: list[ProducerView | ConsumerView] = []
        for version in versions:
            load = site.client(site.lab.load, "load", version, **AS_IT_COMES | {"interval-ms": INTERVAL_MS})
            self.producers.append(ProducerView(f"producer {version}", load))
        #: When the first producer began to poll; the others do within some seconds.
        self.polls_from_ms = int(self.producers[0].load.process.wait_for(r"^READY (\d+)")[1])
        for version in versions:
            options = {"poll-ms": POLL_MS, "heartbeat-ms": HEARTBEAT_MS, "flags": [BALANCES_AS_IT_COMES]}
            # A group has no dots in its name.
            name = f"push-{version.replace('.', '-')}"
            consumer = site.client(site.lab.consumer, name, version, **options)
            self.consumers.append(ConsumerView(f"push consumer {version}", consumer))

    def watch_all(self) -> None:
        """Let events be about all of them, once all work."""
        self.watched = [*self.producers, *self.consumers]
        self.mark()
        begun_ms = now_ms()
        for producer in self.producers:
            # A consumer may have received the first one before the mark; the next one was sent after that.
            first = producer.resumed(begun_ms)
            following = producer.resumed(first.unix_ms)
            for consumer in self.consumers:
                consumer.resumed(following.key)

    def mark(self) -> None:
        """Let all look from here on."""
        for each in (*self.producers, *self.consumers):
            each.mark()

    def resumed(self, since_ms: int, victim: Broker) -> None:
        """Wait until each producer was acknowledged by the next master, and each watched consumer has received that."""
        keys = [each.resumed(since_ms, victim.address).key for each in self.producers]
        for consumer in self.consumers:
            if consumer in self.watched:
                for key in keys:
                    consumer.resumed(key)

    def stop_sending(self) -> None:
        """End the producers."""
        for each in self.producers:
            each.load.stop()


class Failovers:
    """Kills and freezes at one site."""

    def __init__(self, way: Way, site: Site, clients: Clients, seen: Seen) -> None:
        self._way, self._site, self._clients, self._seen = way, site, clients, seen
        #: When the events of each kind began.
        self._began_ms: dict[str, int] = {}

    def run(self, kind: str, offsets: list[float]) -> None:
        """Kill or freeze the master once for each offset (0 to 1), and take away each offset that was begun.

        It is a part of a heartbeat's interval with a role address, and of the interval between two polls of routes
        without one.
        """
        self._clients.watch_all()
        self._began_ms[kind] = now_ms()
        while offsets:
            wait_s = self._take(offsets)
            self._clients.mark()
            time.sleep(wait_s)
            self._event(kind)

    def _take(self, offsets: list[float]) -> float:
        """Take the next offset away, and return the seconds until then: without a role address the nearest one."""
        if self._way.has_role_address:
            return STEADY_S + offsets.pop(0)
        phase = ((now_ms() + STEADY_S * 1_000 - self._clients.polls_from_ms) / POLL_MS) % 1
        nearest = min(offsets, key=lambda each: (each - phase) % 1)
        offsets.remove(nearest)
        return STEADY_S + (nearest - phase) % 1 * POLL_MS / 1_000

    def _event(self, kind: str) -> None:
        began_s, victim, since_ms = time.monotonic(), self._site.master(), now_ms()
        strike(kind, victim)
        self._clients.resumed(since_ms, victim)
        time.sleep(AFTER_S)
        gaps = self._gaps_s(since_ms)
        restore(kind, self._site, victim)
        for title, gap_s in gaps.items():
            self._seen[kind].setdefault(title, Figures()).gaps_s.append(gap_s)
        for title, gap_s in self._gaps_s(since_ms).items():
            figures = self._seen[kind][title]
            figures.until_complete_s = max(figures.until_complete_s, gap_s)
        for each in self._clients.producers:
            self._seen[kind][each.title].failed += Counter(failure.code for failure in each.failed())
            self._seen[kind][each.title].late += each.late(since_ms, victim)
        self._leave_slow_ones(kind)
        shown = ", ".join(f"{title} {gap_s:.2f} s" for title, gap_s in gaps.items())
        print(f"  {kind}: {shown}; {time.monotonic() - began_s:.0f} s in all", file=sys.stderr, flush=True)

    def _gaps_s(self, since_ms: int) -> dict[str, float]:
        return {each.title: longest_gap_s(each.stamps_ms(), since_ms) for each in self._clients.watched}

    def _leave_slow_ones(self, kind: str) -> None:
        if self._way.has_role_address:
            for consumer in self._clients.consumers:
                slow = [each for each in self._seen[kind][consumer.title].gaps_s if each > SLOW_S]
                if len(slow) >= SLOW_EVENTS and consumer in self._clients.watched:
                    self._clients.watched.remove(consumer)

    def judge(self) -> None:
        """End the producers, and look for all that they have sent: in the topic, and at the consumers."""
        self._clients.stop_sending()
        for each in (*self._clients.producers, *self._clients.consumers):
            each.rewind()
        sent, producers = self._sent(), {each.title: each for each in self._clients.producers}
        acknowledged = {title: {it.key for it in each.stored()} & sent.keys() for title, each in producers.items()}
        everything = set().union(*acknowledged.values())
        stored = self._stored(everything)
        for title, keys in acknowledged.items():
            prefix = f"{producers[title].load.prefix}-"
            self._count(title, sent, keys, (key for key in stored if key.startswith(prefix)))
        for consumer in self._clients.consumers:
            self._wait_for(consumer, everything)
            self._count(consumer.title, sent, everything, (key for _, key in consumer.received()))

    def _sent(self) -> dict[str, str]:
        """Return the kind of event by the key of each message, those before the first event left out."""

        def kinds() -> Iterator[tuple[str, str]]:
            for producer in self._clients.producers:
                sends: list[Stored | Failed] = [*producer.stored(), *producer.failed()]
                for each in sends:
                    begun = [kind for kind, began_ms in self._began_ms.items() if began_ms <= each.unix_ms]
                    if begun:
                        yield each.key, begun[-1]

        return dict(kinds())

    def _stored(self, acknowledged: set[str]) -> list[str]:
        """Return the keys of all messages that can be read, each as often as it is stored.

        Consumers may read up to what both brokers have, which follows after a moment.
        """
        scan = self._site.lab.scan("scan", namesrv=[self._site.namesrv], topic=self._site.brokers.topic)
        stored: list[str] = []
        end = time.monotonic() + SCAN_S
        while not acknowledged <= set(stored) and time.monotonic() < end:
            stored = scan.keys(seconds=SCAN_S) or []
        scan.process.kill()
        return stored

    def _wait_for(self, consumer: ConsumerView, keys: set[str]) -> None:
        end = time.monotonic() + SCAN_S
        while consumer.missing(keys) and time.monotonic() < end:
            time.sleep(1)

    def _count(self, title: str, sent: dict[str, str], wanted: set[str], found: Iterable[str]) -> None:
        times = Counter(found)
        for kind in self._began_ms:
            figures = self._seen[kind].setdefault(title, Figures())
            keys = {key for key in wanted if sent[key] == kind}
            figures.acknowledged += len(keys)
            figures.lost += len(keys - times.keys())
            figures.repeated += sum(count > 1 and sent.get(key) == kind for key, count in times.items())


def strike(kind: str, victim: Broker) -> None:
    """Kill or freeze a broker."""
    if kind == "kill":
        victim.process.kill()
    else:
        victim.process.pause()


def restore(kind: str, site: Site, victim: Broker) -> None:
    """Start a killed broker again, or let a frozen one go on, and wait until the set is complete."""
    if kind == "kill":
        site.brokers.restart(victim)
    else:
        victim.process.resume()
        time.sleep(AFTER_S)
    site.brokers.wait_until_complete()
