"""Routes as clients see them while they change a thousand times a second and processes are killed; and what is wrong.

A registration gives each topic of a broker a greater number of queues than before, so an answer tells which one it
shows. Each topic has one broker, which registers once at a time: a query must show at least what was acknowledged, or
answered to another query, before it began, and at most what was sent before it ended. A NameServer that was killed
knows nothing until a broker has registered again.
"""

import asyncio
import bisect
import contextlib
import json
import os
import random
import re
import signal
import struct
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from peers.wire import GET_ROUTE, REGISTER_BROKER, SUCCESS, TOPIC_NOT_EXIST, VERSION

BROKERS = 4
TOPICS_OF_EACH = 5
ANSWER_S = 10
#: What a client knows that asks for a topic which nobody has.
NOTHING = 0


class Query(NamedTuple):
    topic: str
    began_s: float
    ended_s: float
    #: The queues in the answer; NOTHING if there was no route.
    shown: int


class Write(NamedTuple):
    began_s: float
    #: None without an answer.
    acknowledged_s: float | None
    queues: int


@dataclass
class History:
    writes: dict[str, list[Write]] = field(default_factory=lambda: defaultdict(list))
    queries: list[Query] = field(default_factory=list)
    #: Between which moments the NameServer ended, each time that it was killed.
    kills_s: list[tuple[float, float]] = field(default_factory=list)
    counts: Counter = field(default_factory=Counter)

    def violations(self):
        """Return the queries whose answers no order of events explains, as sentences."""
        found = []
        for topic, writes in self.writes.items():
            queries = sorted((each for each in self.queries if each.topic == topic), key=lambda each: each.began_s)
            found += _violations_of(writes, queries, sorted(self.kills_s))
        return found


def _violations_of(writes, queries, kills_s):
    acknowledged = [each for each in writes if each.acknowledged_s is not None]
    acknowledged_s = [each.acknowledged_s for each in acknowledged]
    sent_s = [each.began_s for each in writes]
    by_end = sorted(queries, key=lambda each: each.ended_s)
    at, seen = 0, NOTHING
    for query in queries:
        while at < len(by_end) and by_end[at].ended_s < query.began_s:
            seen = max(seen, by_end[at].shown)
            at += 1
        last = bisect.bisect_left(acknowledged_s, query.began_s) - 1
        if query.shown == NOTHING:
            # Killed after the last registration that was acknowledged before, and before the answer; a broker may read
            # the acknowledgement only when the NameServer is dead.
            known = acknowledged[last] if last >= 0 else None
            if known is not None and not any(
                known.began_s < dead_s and killed_s < query.ended_s for killed_s, dead_s in kills_s
            ):
                yield f"{query}: registered since {known.acknowledged_s}"
            continue
        least = max(seen, acknowledged[last].queues if last >= 0 else NOTHING)
        sent = bisect.bisect_left(sent_s, query.ended_s)
        most = writes[sent - 1].queues if sent else NOTHING
        if not least <= query.shown <= most:
            yield f"{query}: at least {least} and at most {most}"


# The peers


class Stream:
    """A connection that is made again when it is lost."""

    def __init__(self, port):
        self._port = port
        self._reader = self._writer = None

    async def request(self, code, fields, body=b""):
        """Return the code and the body of the answer; raises OSError where there is none."""
        try:
            async with asyncio.timeout(ANSWER_S):
                if self._writer is None:
                    self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
                header = {"code": code, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": 1}
                text = json.dumps(header | {"serializeTypeCurrentRPC": "JSON", "version": VERSION}).encode()
                self._writer.write(struct.pack(">II", 4 + len(text) + len(body), len(text)) + text + body)
                (length,) = struct.unpack(">I", await self._reader.readexactly(4))
                answer = await self._reader.readexactly(length)
        except (OSError, EOFError, TimeoutError):
            await self.close()
            raise OSError("no answer") from None
        header_bytes = struct.unpack_from(">I", answer)[0] & 0xFFFFFF
        return json.loads(answer[4 : 4 + header_bytes])["code"], answer[4 + header_bytes :]

    async def close(self):
        if self._writer is not None:
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()
        self._reader = self._writer = None


async def change(port, number, history, is_over):
    """Register a broker over and over, each time with more queues in each of its topics."""
    stream, queues = Stream(port), NOTHING
    topics = [f"topic-{number}-{topic}" for topic in range(TOPICS_OF_EACH)]
    fields = {
        "brokerAddr": f"127.0.0.1:{20_000 + number}",
        "brokerId": "0",
        "brokerName": f"broker-{number}",
        "clusterName": "cluster",
        "haServerAddr": f"127.0.0.1:{30_000 + number}",
    }
    while not is_over():
        queues += 1
        configs = {
            topic: {"topicName": topic, "readQueueNums": queues, "writeQueueNums": queues, "perm": 6}
            for topic in topics
        }
        version = {"counter": queues, "timestamp": 1, "stateVersion": 0}
        wrapper = {"dataVersion": version, "topicConfigTable": configs}
        body = json.dumps({"topicConfigSerializeWrapper": wrapper, "filterServerList": []}).encode()
        began_s, ended_s = time.perf_counter(), None
        try:
            code, _ = await stream.request(REGISTER_BROKER, fields, body)
            assert code == SUCCESS
            ended_s = time.perf_counter()
            history.counts["changes"] += 1
        except OSError:
            history.counts["unanswered changes"] += 1
            await asyncio.sleep(0.01)
        for topic in topics:
            history.writes[topic].append(Write(began_s, ended_s, queues))
    await stream.close()


async def ask(port, history, is_over, seed):
    """Ask for random topics over and over."""
    stream, chosen = Stream(port), random.Random(seed)
    while not is_over():
        topic = f"topic-{chosen.randrange(BROKERS)}-{chosen.randrange(TOPICS_OF_EACH)}"
        began_s = time.perf_counter()
        try:
            code, body = await stream.request(GET_ROUTE, {"topic": topic})
        except OSError:
            history.counts["unanswered queries"] += 1
            await asyncio.sleep(0.01)
            continue
        ended_s = time.perf_counter()
        assert code in (SUCCESS, TOPIC_NOT_EXIST), code
        shown = int(re.search(rb'"writeQueueNums":(\d+)', body)[1]) if code == SUCCESS else NOTHING
        history.queries.append(Query(topic, began_s, ended_s, shown))
        # Others of the machine want to run too.
        await asyncio.sleep(0)
    await stream.close()


def workers_of(pid):
    """Return the process ids of the route workers of a NameServer."""
    return [int(each) for file in Path(f"/proc/{pid}/task").glob("*/children") for each in file.read_text().split()]


async def recorded(namesrv, kills, clients=8):
    """Return the history of clients and brokers while processes are killed; `kills` yields "worker" or "server"."""
    history, over, are_answered = History(), asyncio.Event(), asyncio.Event()
    asking = [asyncio.create_task(ask(namesrv.port, history, over.is_set, each)) for each in range(clients)]
    changing = [
        asyncio.create_task(change(namesrv.port, each, history, are_answered.is_set)) for each in range(BROKERS)
    ]
    await asyncio.sleep(1)
    for victim in kills:
        if victim == "server":
            killed_s = time.perf_counter()
            namesrv.process.kill()
            history.kills_s.append((killed_s, time.perf_counter()))
            await asyncio.to_thread(namesrv.start)
        else:
            workers = await until_some(lambda: workers_of(namesrv.process.pid))
            os.kill(random.choice(workers), signal.SIGKILL)
        history.counts[f"kills of a {victim}"] += 1
        await asyncio.sleep(0.4)
    over.set()
    await asyncio.gather(*asking)
    # A broker that ends leaves the routes.
    are_answered.set()
    await asyncio.gather(*changing)
    return history


async def until_some(found):
    async with asyncio.timeout(20):
        while not (some := found()):
            await asyncio.sleep(0.01)
    return some
