"""Commits over HTTP from some clients, at a rate or one after the other; a process of its own, to be cheap.

    python benchmarks/commit_load.py PORT [--seconds 10] [--clients 20] [--batch 100] [--keys 10000] [--rate 0]

Each client has a connection and keys of its own, ten queues in each row, and waits for each answer. Bodies are made
beforehand, and get their offset before they are sent. Prints what was seen as JSON.
"""

import argparse
import socket
import threading
import time
from collections.abc import Iterator
from itertools import cycle

import msgspec

QUEUES = 10
#: Every offset has as many digits as this one, so that a body keeps its length.
FIRST_OFFSET = 100_000_000_000
_FIRST = str(FIRST_OFFSET).encode()
_NO_ANSWER_S = 60


class SeenLoad(msgspec.Struct):
    """What the clients have seen."""

    commits: int = 0
    #: Answers other than 200.
    refused: int = 0
    #: Entries of an answer 200 that were not stored.
    not_stored: int = 0
    wall_s: float = 0.0
    #: Of each answer.
    seconds: list[float] = []
    error: str = ""


def bodies(client: int, options: argparse.Namespace) -> Iterator[bytes]:
    """Yield requests that go over all keys of a client, with the first offset each, again and again."""
    rows_of_batch = max(options.batch // QUEUES, 1)
    rows = max(options.keys // options.clients // QUEUES, rows_of_batch)
    made = []
    for start in range(0, rows, rows_of_batch):
        entries = [
            {
                "group": f"group-{client}",
                "topic": f"topic-{row % rows}",
                "brokerName": "broker-a",
                "queueId": queue_id,
                "offset": FIRST_OFFSET,
            }
            for row in range(start, start + rows_of_batch)
            for queue_id in range(QUEUES)
        ]
        body = msgspec.json.encode({"writer": f"10.0.0.{client}@7", "entries": entries})
        head = "POST /v1/offsets/commit HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        made.append(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return cycle(made)


class CommitClient(threading.Thread):
    """One client, which commits until its time is over."""

    def __init__(self, number: int, options: argparse.Namespace) -> None:
        super().__init__()
        self.seen = SeenLoad()
        self._bodies = bodies(number, options)
        self._address = ("127.0.0.1", options.port)
        self._batch = options.batch
        self._seconds = options.seconds
        #: Between two requests; 0: the next one follows the answer.
        self._interval_s = options.batch * options.clients / options.rate if options.rate else 0.0
        self._first_s = self._interval_s * number / options.clients

    def run(self) -> None:
        """Commit at the rate; a client that is late catches up."""
        try:
            with socket.create_connection(self._address, timeout=_NO_ANSWER_S) as connection:
                self._commit(connection)
        except OSError as error:
            self.seen.error = repr(error)

    def _commit(self, connection: socket.socket) -> None:
        due_s = time.perf_counter() + self._first_s
        until_s = due_s + self._seconds
        offset = FIRST_OFFSET
        while (now_s := time.perf_counter()) < until_s:
            if due_s > now_s:
                time.sleep(due_s - now_s)
            due_s += self._interval_s
            offset += 1
            request = next(self._bodies).replace(_FIRST, b"%d" % offset)
            began_s = time.perf_counter()
            connection.sendall(request)
            answer = _answer(connection)
            self.seen.seconds.append(time.perf_counter() - began_s)
            self._count(answer)

    def _count(self, answer: bytes) -> None:
        if not answer.startswith(b"HTTP/1.1 200"):
            self.seen.refused += 1
            return
        stored = answer.count(b'"ok"')
        self.seen.commits += stored
        self.seen.not_stored += self._batch - stored


def _answer(connection: socket.socket) -> bytes:
    answer = connection.recv(65536)
    while (end := answer.find(b"\r\n\r\n")) < 0:
        answer += _more(connection)
    length = int(answer[:end].lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(answer) < end + 4 + length:
        answer += _more(connection)
    return answer


def _more(connection: socket.socket) -> bytes:
    more = connection.recv(65536)
    if not more:
        raise ConnectionResetError("the manager has closed the connection")
    return more


def measured(options: argparse.Namespace) -> SeenLoad:
    """Return what all clients have seen."""
    clients = [CommitClient(each, options) for each in range(options.clients)]
    began_s = time.perf_counter()
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    seen = [each.seen for each in clients]
    return SeenLoad(
        commits=sum(each.commits for each in seen),
        refused=sum(each.refused for each in seen),
        not_stored=sum(each.not_stored for each in seen),
        wall_s=time.perf_counter() - began_s,
        seconds=sorted(took for each in seen for took in each.seconds),
        error="; ".join(each.error for each in seen if each.error),
    )


def add_load_options(parser: argparse.ArgumentParser, *, seconds: int, rate: int) -> None:
    """Add the options of a load."""
    for name, default in (("seconds", seconds), ("clients", 20), ("batch", 100), ("keys", 10_000), ("rate", rate)):
        parser.add_argument(f"--{name}", type=int, default=default)


def main() -> None:
    """Run it once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    add_load_options(parser, seconds=10, rate=0)
    print(msgspec.json.encode(measured(parser.parse_args())).decode())


if __name__ == "__main__":
    main()
