"""The recorded exchanges of real peers with the Java NameServer 5.5.0, replayed in order against ours.

Each connection of the recording is a connection here, closed when its peer closed it.
"""

import json
import re
import socket
import struct
import time
from importlib.resources import files

import pytest
from golden_frames import Closing, exchanges, recording
from peers.lab import Lab

from remoting.protocol import fastjson
from remoting.protocol.errors import BodyError
from remoting.protocol.frame_reader import CommandReader

#: So long until the server has surely carried out what it does not answer.
SETTLE_S = 0.05

#: Properties that request 319 may answer otherwise, by the name that namesrv/DIFFERENCES.md gives to the difference.
LISTED_ONLY_HERE = "config-listing"
OTHER_VALUES = {
    "scanNotActiveBrokerInterval": "scan-interval",
    "rocketmqHome": "rocketmq-home-optional",
}
#: Properties of each server's own place.
OWN = {"bindAddress", "configStorePath", "kvConfigPath", "listenPort"}

GET_NAMESRV_CONFIG = 319


@pytest.fixture(scope="module", params=[0, 2], ids=["one process", "two route workers"])
def replayed(request, tmp_path_factory):
    """Replay the whole recording and return what our server answered, by line."""
    lab = Lab(tmp_path_factory.mktemp("replay"))
    connections = {}
    answers = {}
    try:
        port = lab.name_server("namesrv", routeWorkers=request.param).port
        for item in recording():
            key = item.peer, item.connection
            if isinstance(item, Closing):
                if key in connections:
                    connections.pop(key).close()
                time.sleep(SETTLE_S)
                continue
            if key not in connections:
                connections[key] = socket.create_connection(("127.0.0.1", port), timeout=5)
            connections[key].sendall(item.request)
            if item.answer is None:
                time.sleep(SETTLE_S)
            else:
                answers[item.line] = read_frame(connections[key])
    finally:
        for connection in connections.values():
            connection.close()
        lab.close()
    return answers


def read_frame(connection):
    data = b""
    wanted = 4
    while len(data) < wanted:
        chunk = connection.recv(wanted - len(data))
        assert chunk, "the server closed the connection"
        data += chunk
        if len(data) == 4:
            wanted = 4 + struct.unpack(">I", data)[0]
    return data


def decoded(frame):
    (command,) = CommandReader().receive(frame)
    return command


def value_of(body):
    """Return the JSON value of a body; the order of lists is nobody's promise."""
    try:
        return canonical(fastjson.parse(body)) if body else None
    except BodyError:
        return body


def canonical(value):
    if isinstance(value, dict):
        return {key: canonical(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted((canonical(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
    return value


ANSWERED = [item for item in exchanges() if item.answer is not None]


@pytest.mark.parametrize("exchange", ANSWERED, ids=str)
def test_our_answer_is_the_recorded_one(replayed, exchange):
    ours, recorded = decoded(replayed[exchange.line]), decoded(exchange.answer)
    assert (ours.code, ours.remark, ours.ext_fields) == (recorded.code, recorded.remark, recorded.ext_fields)
    assert (ours.opaque, ours.flag, ours.language, ours.version) == (
        recorded.opaque,
        recorded.flag,
        recorded.language,
        recorded.version,
    )
    if exchange.request_header["code"] == GET_NAMESRV_CONFIG:
        assert_only_named_properties_differ(ours.body.decode(), recorded.body.decode())
    else:
        assert value_of(ours.body) == value_of(recorded.body)


def assert_only_named_properties_differ(ours, recorded):
    here, there = properties(ours), properties(recorded)
    compare_topics = {key for key in there if here.get(key) != there[key]} - OWN
    assert compare_topics <= OTHER_VALUES.keys()
    for name in [*(OTHER_VALUES[key] for key in compare_topics), LISTED_ONLY_HERE]:
        assert name in named_differences()


def properties(text):
    return dict(line.split("=", 1) for line in text.splitlines())


def named_differences():
    """Return the names of the differences that the server declares."""
    page = files("namesrv").joinpath("DIFFERENCES.md").read_text()
    return set(re.findall(r"^\| `([a-z0-9-]+)` \|", page, re.MULTILINE))
