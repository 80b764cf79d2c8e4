"""The recordings of tests/golden, line by line: what real peers asked, and what the Java servers 5.5.0 answered."""

import base64
import gzip
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from remoting.protocol.codes import SerializeType

FOLDER = Path(__file__).parent / "golden"


@dataclass(frozen=True)
class Exchange:
    """One request as a whole frame, and the frame that answered it, if any did; headers as the recorder read them."""

    line: int
    seconds: float
    peer: str
    connection: int
    serialize_type: SerializeType
    oneway: bool
    request: bytes
    request_header: dict
    answer: bytes | None
    answer_header: dict | None

    def __str__(self):
        return f"line {self.line}: {self.request_header['code']} of {self.peer}"


@dataclass(frozen=True)
class Closing:
    """A peer closed one of its connections."""

    line: int
    seconds: float
    peer: str
    connection: int


@cache
def recording(server="namesrv"):
    """Return every line of what peers and this server said, in the order of time, as an Exchange or a Closing."""
    with gzip.open(FOLDER / f"{server}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return tuple(_read(line, number) for number, line in enumerate(lines, start=1))


@cache
def exchanges(server="namesrv"):
    """Return the requests with their answers, in the order of time."""
    return tuple(item for item in recording(server) if isinstance(item, Exchange))


def _read(line, number):
    item = json.loads(line)
    when_and_who = {"line": number, "seconds": item["seconds"], "peer": item["peer"], "connection": item["connection"]}
    if "event" in item:
        return Closing(**when_and_who)
    answer = item["answer"]
    return Exchange(
        **when_and_who,
        serialize_type=SerializeType[item["serialize"]],
        oneway=item["oneway"],
        request=base64.b64decode(item["request"]),
        request_header=item["request_header"],
        answer=None if answer is None else base64.b64decode(answer),
        answer_header=item["answer_header"],
    )
