"""A steep ramp under the autoscaler: with consumers that find no queue, and with slow listeners that have one each."""

import bisect
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

from controller_results import row, table
from peers.delivery import Acknowledged, Consumed
from scaling_site import LOOK_S, Site, ended_after_s, group_of

TOPIC = "Ramp"
QUEUES = 2
#: A producer sends a hundred messages a second.
SEND_MS = 10
PRODUCERS = 10
RAMP_S = 300
#: How long the top lasts; the goal holds from two minutes after its begin.
TOP_S = 360
GOAL_FROM_S = 120
GOAL_BEHIND_S = 30
GOAL_RESIZES = 2
#: Each of the 20 threads of a consumer works so long on a message: a consumer manages 200 a second.
WORK_MS = 100
CONSUMERS_FIRST, CONSUMERS = 4, 12
#: Listeners of the other ramp: four of them manage 80 a second, and each has a queue.
SLOW_WORK_MS, SLOW_CONSUMERS, SLOW_QUEUES = 1000, 4, 4
POLICY = {"topic": TOPIC, "min": 2, "max": 64, "mode": "auto"}
SHOWN_EACH_S = 30


class Look(NamedTuple):
    """What the autoscaler had decided at a moment."""

    since_s: float
    decision: dict[str, Any] | None


class Watching:
    """Looks at the autoscaler's decision all the time."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._began = time.monotonic()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)
        self.looks: list[Look] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look_on(self) -> None:
        while not self._is_over.wait(LOOK_S):
            status, body = self._site.operator.call("GET", f"decisions?prefix={TOPIC}")
            decisions = body["decisions"] if status == 200 else []
            self.looks.append(Look(time.monotonic() - self._began, decisions[0] if decisions else None))


def ramp_part(folder: Path) -> Iterator[str]:
    """Yield the lines of the ramp with consumers that find no queue."""
    with contextlib.closing(Site(folder, slaves=False)) as site:
        site.make_topic(TOPIC, QUEUES)
        consume(site, range(CONSUMERS_FIRST), WORK_MS)
        began_ms, _ = climb(site, lambda number: consume(site, joining(number), WORK_MS))
        operations = site.operator.call("GET", "operations")[1]["operations"]
        ends = site.end_of_traffic([group_of(TOPIC)])
        behind = behind_by_second(site.traffic.acknowledged, site.traffic.consumed, began_ms, RAMP_S + TOP_S)
        worst = max(behind[RAMP_S + GOAL_FROM_S :])
        kept = worst <= GOAL_BEHIND_S and len(operations) <= GOAL_RESIZES
        yield (
            f"{2 * QUEUES} queues, {CONSUMERS_FIRST} consumers of {1000 * 20 // WORK_MS} messages a second each and "
            f"{CONSUMERS} at the top: **resizes: {len(operations)}** (goal: at most {GOAL_RESIZES}), at most "
            f"**{worst} s behind** from {GOAL_FROM_S} s after the top on (goal: {GOAL_BEHIND_S} s, reached: "
            f"{'yes' if kept else '**no**'}), {max(behind)} s at the worst moment."
        )
        yield ""
        yield from table("resize", "by", "begun after, s", "done after, s", "reason")
        for each in sorted(operations, key=lambda its: its["createdUnixMs"]):
            last = f"{ended_after_s(each):.0f}" if each["phase"] == "DONE" else each["phase"]
            since_s = (each["createdUnixMs"] - began_ms) / 1000
            yield row(f"to {each['sets'][0]['target']}", each["requestedBy"], f"{since_s:.0f}", last, each["reason"])
        yield ""
        yield from table("after, s", "group is behind, s")
        for second in range(0, len(behind), SHOWN_EACH_S):
            yield row(second, behind[second])
        yield ""
        yield f"{ends}."


def slow_part(folder: Path) -> Iterator[str]:
    """Yield the lines of the ramp with slow listeners."""
    with contextlib.closing(Site(folder, slaves=False)) as site:
        site.make_topic(TOPIC, SLOW_QUEUES)
        consume(site, range(SLOW_CONSUMERS), SLOW_WORK_MS)
        _, looks = climb(site, lambda _: None)
        operations = site.operator.call("GET", "operations")[1]["operations"]
        reached = "yes" if not operations else "**no**"
        yield (
            f"{2 * SLOW_QUEUES} queues, {SLOW_CONSUMERS} consumers of {1000 * 20 // SLOW_WORK_MS} messages a second "
            f"each: **resizes: {len(operations)}** (goal: none, reached: {reached}). The reason that it gave:"
        )
        yield ""
        yield from table("from, s", "outcome", "reason")
        last = None
        for look in looks:
            found = look.decision or {}
            kinds = [each["kind"] for each in found.get("findings", [])]
            if kinds != last:
                yield row(f"{look.since_s:.0f}", found.get("outcome", "-"), found.get("reason", "-"))
                last = kinds


def climb(site: Site, join: Callable[[int], None]) -> tuple[int, list[Look]]:
    """Send more and more, then as much for a while; return when it began, in milliseconds, and all looks."""
    status, body = site.operator.call("PUT", "policies", {"policy": [POLICY]})
    assert status == 200, body
    began_ms = int(time.time() * 1000)
    with Watching(site) as watching:
        for number in range(PRODUCERS):
            site.send(TOPIC, name=f"producer-{number}", interval_ms=SEND_MS)
            join(number)
            time.sleep(RAMP_S / PRODUCERS)
        time.sleep(TOP_S)
    return began_ms, watching.looks


def joining(step: int) -> range:
    """Return the numbers of the consumers that come at a step of the ramp."""
    more = CONSUMERS - CONSUMERS_FIRST
    return range(CONSUMERS_FIRST + more * step // PRODUCERS, CONSUMERS_FIRST + more * (step + 1) // PRODUCERS)


def consume(site: Site, numbers: range, work_ms: int) -> None:
    """Start these consumers."""
    for number in numbers:
        site.consume(TOPIC, name=f"reader-{number}", work_ms=work_ms)


def behind_by_second(
    acknowledged: list[Acknowledged], consumed: list[Consumed], began_ms: int, seconds: int
) -> list[int]:
    """Return for each second how old the oldest message was that was acknowledged and not consumed."""
    got: dict[str, int] = {}
    for each in consumed:
        got.setdefault(each.message, each.unix_ms)
    never = began_ms + (seconds + 1) * 1000
    # Ordered by when they were sent; of those sent before a moment, the first that is consumed after it counts.
    spans = sorted((each.unix_ms, got.get(each.message, never)) for each in acknowledged)
    sent = [begin for begin, _ in spans]
    behind = []
    first = 0
    for second in range(seconds):
        now_ms = began_ms + second * 1000
        while first < len(spans) and spans[first][1] <= now_ms:
            first += 1
        until = bisect.bisect_left(sent, now_ms)
        behind.append((now_ms - sent[first]) // 1000 if first < until else 0)
    return behind
