"""Producers and groups of consumers around failovers, as clients come, and what their records show.

They poll routes each 30 s, give up a send after 3 s and try twice more, balance queues each 20 s and commit offsets
each 5 s. A client of a group can be killed together with a master, and another one takes its place.
"""

import itertools
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from failover_events import POLL_MS
from failover_ways import BALANCES_AS_IT_COMES
from group_deliveries import Delivered, GroupDeliveries, MessageCounts, Queue, delivered, rates, went_on_ms
from peers.delivery import Acknowledged, records_in
from peers.lab import Lab
from peers.waiting import wait_until
from replicated import VERY_LONG_S

#: Between two looks at what clients have recorded, which takes the processor from the brokers.
LOOK_S = 0.25
#: An acknowledgement of the old master may be recorded so long after it was killed.
ANSWER_MS = 200
#: How long messages are looked for at the end: there may be a million, and some follow late.
SCAN_S = 300
#: A client polls routes each 30 s and balances its queues each 20 s: what it does not get in both is skipped.
SKIPPED_S = 60
#: Messages can be read once both brokers have them, and that is known to both.
LOST_S = 10
#: The rate of a queue is that of so long before an event.
RATE_S = 5
#: Clients of all groups are in one JVM, which holds what thousands of messages a second leave behind.
HEAP = "-Xmx384m"


@dataclass(frozen=True)
class Group:
    """A group of push consumers of one kind."""

    name: str
    #: push or orderly.
    kind: str = "push"
    clients: int = 1


@dataclass(frozen=True)
class Senders:
    """Producers that send to a topic as long as they live."""

    count: int
    interval_ms: int
    #: So many keys each, or none.
    keys: int = 0


#: 1,000 messages a second, if the broker answers within 25 ms.
THOUSAND_A_SECOND = Senders(25, interval_ms=25)
#: Of 1,000 keys.
THOUSAND_KEYS = replace(THOUSAND_A_SECOND, keys=40)


class RecordFile:
    """The records of clients, read on from where the last look ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def read(self) -> tuple[list, list, list]:
        """Return what was acknowledged, what failed, and what was consumed since the last look."""
        with self._path.open("rb") as file:
            file.seek(self._position)
            text, ending, _ = file.read().rpartition(b"\n")
        self._position += len(text) + len(ending)
        return records_in(text.decode().splitlines())


class OffsetClients:
    """Clients of one topic, and what each group got of it."""

    def __init__(self, lab: Lab, namesrv: str, version: str, topic: str, heartbeat_ms: int) -> None:
        self._lab, self._namesrv, self._topic, self._version = lab, namesrv, topic, version
        self._options = {"topic": topic, "poll_ms": POLL_MS, "heartbeat_ms": heartbeat_ms}
        flags = [BALANCES_AS_IT_COMES]
        self._traffic = lab.traffic("groups", namesrv=[namesrv], version=version, flags=flags, heap=HEAP)
        self._records = RecordFile(lab.folder / "groups.records")
        self._serial = itertools.count()
        self._producers: list[str] = []
        self._groups: dict[str, Group] = {}
        #: The clients of each group, the oldest first.
        self._members: dict[str, deque[str]] = {}
        self.groups: dict[str, GroupDeliveries] = {}
        #: Everything that was acknowledged, and that of the window.
        self.acknowledged = MessageCounts()
        self.window: list[Acknowledged] = []
        self.failed = 0

    # Clients

    def begin(self, senders: Senders, groups: Iterable[Group]) -> None:
        """Start all, and wait until every group gets messages."""
        for group in groups:
            self._groups[group.name] = group
            self._members[group.name] = deque()
            self.groups[group.name] = GroupDeliveries()
            for _ in range(group.clients):
                self.join(group.name)
        self.send(senders)
        wait_until(self._all_consume, seconds=VERY_LONG_S, what="every group gets messages")

    def send(self, senders: Senders) -> None:
        """Start producers."""
        for _ in range(senders.count):
            name = f"p{next(self._serial)}"
            self._traffic.send(name, interval_ms=senders.interval_ms, keys=senders.keys, **self._options)
            self._producers.append(name)

    def join(self, group: str) -> None:
        """Add a client to a group. It begins with the first message where the group has no offset."""
        name = f"{group}-{next(self._serial)}"
        kind = self._groups[group].kind
        self._traffic.receive(name, group=group, kind=kind, from_="FIRST_OFFSET", **self._options)
        self._members[group].append(name)

    def kill_oldest(self, group: str) -> None:
        """End a client as the system does with a killed process: it commits nothing more."""
        self._traffic.kill(self._members[group].popleft())

    def leave(self, group: str) -> None:
        """End the client in order that joined last."""
        self._traffic.stop(self._members[group].pop())

    def stop_sending(self) -> None:
        """End the producers."""
        for name in self._producers:
            self._traffic.stop(name)
        self._producers.clear()

    # Records

    def look(self) -> None:
        """Read what was recorded since the last look."""
        acknowledged, failed, consumed = self._records.read()
        self.failed += len(failed)
        self.window += acknowledged
        for each in acknowledged:
            self.acknowledged.add(each.message)
        for name, group in self.groups.items():
            group.add(each for each in consumed if each.group == name)

    def begin_window(self) -> None:
        """Look at the next event from here on; its rates need what was acknowledged in the last seconds."""
        self.look()
        from_ms = time.time() * 1000 - RATE_S * 1000
        self.window = [each for each in self.window if each.unix_ms >= from_ms]
        for group in self.groups.values():
            group.begin_window()

    def rates(self, until_ms: int) -> dict[Queue, float]:
        """Return the messages a second of each queue in the last seconds before a moment."""
        return rates(self.window, until_ms=until_ms, seconds=RATE_S)

    def went_on_s(self, group: str, since_ms: int) -> dict[Queue, float]:
        """Return by queue how long after a moment its first message was consumed that was sent after it."""
        consumed = self.groups[group].window.consumed
        found = went_on_ms(self.window, consumed, after_ms=since_ms + ANSWER_MS)
        return {queue: (unix_ms - since_ms) / 1000 for queue, unix_ms in found.items()}

    def wait_until_all_go_on(self, since_ms: int, queues: int, seconds: float) -> bool:
        """Return whether each group goes on with all queues in time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.look()
            if all(len(self.went_on_s(group, since_ms)) >= queues for group in self.groups):
                return True
            time.sleep(LOOK_S)
        return False

    def judge(self) -> dict[str, Delivered]:
        """End the producers, look for all that they have sent, and return what each group got of what can be read."""
        self.stop_sending()
        scan = self._lab.scan("scan", namesrv=[self._namesrv], topic=self._topic, version=self._version)
        end, found, since = time.monotonic() + SCAN_S, dict[str, Delivered](), time.monotonic()
        while not found or time.monotonic() < min(end, since + _patience_s(found)):
            stored = scan.keys(seconds=SCAN_S)
            self.look()
            now = found if stored is None else self._judged(stored)
            if now != found:
                found, since = now, time.monotonic()
            assert found or time.monotonic() < end, f"the topic cannot be read within {SCAN_S} s"
            time.sleep(1)
        scan.process.kill()
        return found

    def _judged(self, stored: list[str]) -> dict[str, Delivered]:
        return {name: delivered(self.acknowledged, stored, group.received) for name, group in self.groups.items()}

    def _all_consume(self) -> bool:
        self.look()
        return all(group.received.total for group in self.groups.values())


def _patience_s(found: dict[str, Delivered]) -> float:
    """Return how long the same must be found until nothing more is expected."""
    if any(each.skipped for each in found.values()):
        return SKIPPED_S
    return LOST_S if any(each.lost for each in found.values()) else 0
