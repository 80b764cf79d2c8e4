"""Measures a controller whose autoscaler watches topics of peers on loopback: processor time, requests, memory.

    python benchmarks/autoscaler_requests.py [SECONDS]

Goals: less than 3 % of a core with 10,000 topics and no policy, less than 10 % with 1,000 topics that are watched each
15 s. A NameServer and two brokers are a process of this script: they answer as Java does, in its form of JSON. Each
topic has 8 queues on each broker and two groups of four clients; messages come in and are consumed.
"""

import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop
from servers import REPOSITORY, STOP_S, Server, Stolen, free_port

sys.path.insert(0, str(REPOSITORY))

from remoting.protocol.frame import decode, encode

TOKEN = "0123456789abcdef-of-a-benchmark"  # noqa: S105 - of a controller on loopback, for minutes
BROKERS = ("broker-a", "broker-b")
QUEUES = 8
GROUPS = 2
CLIENTS = 4
#: Messages a second that come into each queue.
RATE = 10
SECONDS = 120
#: Facts of all topics are there, and what is held has its size.
SETTLED_S = 70
INTERVAL_MS = 15_000
RUNNING = b'{"mqTable":{},"properties":{"PROP_CONSUMEORDERLY":"false"}}'
BOOT = {"table": {"brokerVersionDesc": "V5_5_0", "bootTimestamp": "1700000000000", "pageCacheLockTimeMills": "0"}}


class Peers:
    """A NameServer and the masters of two broker sets, on a port each."""

    def __init__(self, topics: int, ports: list[int]) -> None:
        self.topics = [f"topic-{number}" for number in range(topics)]
        self.ports = ports
        self.begun = time.monotonic()
        self.requests: Counter[int] = Counter()

    async def serve(self) -> None:
        """Answer until killed; print how many requests came since the last line that was read."""
        handlers = [self._name_server, *(lambda c, f, name=name: self._broker(name, c, f) for name in BROKERS)]
        for port, answer in zip(self.ports, handlers, strict=True):
            await asyncio.start_server(lambda r, w, answer=answer: self._connection(r, w, answer), "127.0.0.1", port)
        print("ready", flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(self.requests), flush=True)
            self.requests.clear()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: object) -> None:
        try:
            while True:
                prefix = await reader.readexactly(4)
                length = int.from_bytes(prefix)
                request = decode(prefix + await reader.readexactly(length), 0, length)
                self.requests[request.code] += 1
                code, body = answer(request.code, request.ext_fields or {})
                data = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
                writer.write(encode(request.reply(code, body=data)))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _name_server(self, code: int, _: dict[str, str]) -> tuple[int, object]:
        if code == 206:
            return 0, {"topicList": self.topics}
        if code != 105:
            return 22, b""
        sets = zip(BROKERS, self.ports[1:], strict=True)
        queues = {"readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6, "topicSysFlag": 0}
        body = {
            "brokerDatas": [
                {"brokerName": name, "cluster": "C", "brokerAddrs": {"0": f"127.0.0.1:{port}"}} for name, port in sets
            ],
            "queueDatas": [{"brokerName": name} | queues for name in BROKERS],
            "filterServerTable": {},
        }
        return 0, body

    @property
    def _end(self) -> int:
        return int((time.monotonic() - self.begun) * RATE)

    def _broker(self, name: str, code: int, fields: dict[str, str]) -> tuple[int, object]:
        answers = {351: self._topic, 202: self._ends, 43: self._offsets, 300: self._groups}
        if code in answers:
            return 0, answers[code](name, fields.get("topic", ""))
        if code == 203:
            return 0, _connections(fields["consumerGroup"])
        return (0, {28: BOOT, 307: RUNNING}[code]) if code in (28, 307) else (3, b"")

    def _topic(self, _: str, topic: str) -> object:
        return {"topicName": topic, "readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6}

    def _ends(self, name: str, topic: str) -> object:
        value = f'{{"lastUpdateTimestamp":1700000000000,"maxOffset":{self._end},"minOffset":0}}'
        keys = (f'{{"brokerName":"{name}","queueId":{queue},"topic":"{topic}"}}' for queue in range(QUEUES))
        return _table(f"{key}:{value}" for key in keys)

    def _offsets(self, *_: str) -> object:
        offsets = ",".join(f"{queue}:{self._end}" for queue in range(QUEUES))
        groups = [f"{topic}@g{number}-{topic}" for topic in self.topics for number in range(GROUPS)]
        return _table(f'"{each}":{{{offsets}}}' for each in groups)

    def _groups(self, _: str, topic: str) -> object:
        return {"groupList": [f"g{number}-{topic}" for number in range(GROUPS)]}


def _table(rows: Iterable[str]) -> bytes:
    return b'{"offsetTable":{%b}}' % ",".join(rows).encode()


def _connections(group: str) -> dict[str, object]:
    topic = group.partition("-")[2]
    clients = [{"clientId": f"10.0.0.{each}@{group}", "clientAddr": f"10.0.0.{each}:1"} for each in range(CLIENTS)]
    kind = {"consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}
    return {"connectionSet": clients, **kind, "subscriptionTable": {topic: {"topic": topic, "subString": "*"}}}


class PeersProcess:
    """These peers in a process of their own."""

    def __init__(self, topics: int) -> None:
        self.ports = [free_port() for _ in range(1 + len(BROKERS))]
        arguments = [sys.executable, __file__, "peers", str(topics), *map(str, self.ports)]
        self._process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout.readline() == "ready\n"

    def requests(self) -> Counter[str]:
        """Return how many requests came since the last call, by code."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Counter(json.loads(self._process.stdout.readline()))

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def measured(topics: int, policies: list[dict[str, str]], seconds: float) -> str:
    """Return a row of the table: a controller with these policies, beside a NameServer with so many topics."""
    peers = PeersProcess(topics)
    with TemporaryDirectory() as folder:
        process, server = started(Path(folder), peers.ports[0])
        try:
            put(server, policies)
            time.sleep(SETTLED_S)
            peers.requests()
            before = server.cpu_seconds()
            with Stolen() as stolen:
                time.sleep(seconds)
            percent = (server.cpu_seconds() - before) / seconds * 100
            sent = peers.requests().total() / seconds
            return f"{percent:.2f} % | {sent:.0f} | {server.memory_mb():.0f} MB | {stolen.percent:.1f} %"
        finally:
            process.terminate()
            process.wait(STOP_S)
            peers.stop()


def started(folder: Path, name_server: int) -> tuple[subprocess.Popen[bytes], Server]:
    """Start a controller of ours."""
    (folder / "token").write_text(f"{TOKEN}\n")
    port, http_port = free_port(), free_port()
    properties = {
        "listenPort": port,
        "httpPort": http_port,
        "bindAddress": "127.0.0.1",
        "advertisedAddress": f"127.0.0.1:{port}",
        "controllerStorePath": folder / "store",
        "httpAdminTokenFile": folder / "token",
        "namesrvAddr": f"127.0.0.1:{name_server}",
        "scalingIntervalMs": INTERVAL_MS,
    }
    file = folder / "controller.conf"
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    command = [sys.executable, "-m", "controller", "-c", str(file)]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.DEVNULL)
    return process, Server("controller", port, process.pid, http_port)


def put(server: Server, policies: list[dict[str, str]]) -> None:
    """Put the policies of the autoscaler in force, once the controller serves."""
    url, data = f"http://127.0.0.1:{server.http_port}/v1/scaling/policies", json.dumps({"policy": policies}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    for _ in range(STOP_S * 10):
        time.sleep(0.1)
        try:
            with urllib.request.urlopen(urllib.request.Request(url, data, headers, method="PUT")):
                return
        except OSError:
            continue
    raise SystemExit("the controller does not serve")


def main(seconds: float) -> None:
    """Print a row for each case."""
    print("| work | of a core | goal | requests/s | memory | taken by the host |")
    print("|---|---|---|---|---|---|")
    for name, topics, policies, goal in (
        ("10,000 topics, no policy", 10_000, [], 3),
        ("10,000 topics, a policy that no topic has", 10_000, [{"topic": "other-*"}], 3),
        ("1,000 topics watched each 15 s", 1_000, [{"topic": "topic-*"}], 10),
    ):
        percent, rest = measured(topics, policies, seconds).split(" | ", 1)
        print(f"| {name} | {percent} | {goal} % | {rest} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["peers"]:
        uvloop.run(Peers(int(sys.argv[2]), [int(each) for each in sys.argv[3:]]).serve())
    else:
        main(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS)
