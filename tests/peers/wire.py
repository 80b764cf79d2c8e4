"""A remoting client of a few lines, independent of the one under test, for looking at routes from outside."""

import json
import re
import socket
import struct
from dataclasses import dataclass

GET_MAX_OFFSET = 30
PUT_KV_CONFIG = 100
GET_KV_CONFIG = 101
REGISTER_BROKER = 103
GET_ROUTE = 105
GET_CLUSTER_INFO = 106
WIPE_WRITE_PERM = 205
GET_ALL_TOPICS = 206
DELETE_TOPIC = 216
GET_TOPICS_BY_CLUSTER = 224
GET_SYSTEM_TOPICS = 304
GET_UNIT_TOPICS = 311
GET_UNIT_SUB_TOPICS = 312
GET_UNIT_SUB_ORDINARY_TOPICS = 313
UPDATE_CONFIG = 318
GET_CONFIG = 319
QUERY_DATA_VERSION = 322
GET_MEMBER_GROUP = 901

SUCCESS = 0
SYSTEM_ERROR = 1
TOPIC_NOT_EXIST = 17
QUERY_NOT_FOUND = 22

#: Bits of a topic's permission.
READ = 4
WRITE = 2

#: 5.5.0: from 4.9.4 on a NameServer answers routes in standard JSON.
VERSION = 513
TIMEOUT_S = 3


@dataclass(frozen=True)
class Answer:
    code: int
    remark: str | None
    fields: dict
    body: bytes

    @property
    def json(self):
        """The body, with the bare integer keys of the Java dialect quoted."""
        return json.loads(re.sub(rb"([{,])(-?\d+):", rb'\1"\2":', self.body))


class Caller:
    """Sends requests to one address, one at a time, each over a connection of its own, from any or one address."""

    def __init__(self, address, *, tls=None, source=""):
        self._address = address
        self._tls = tls
        self._source = source

    def request(self, code, fields=None, body=b"", *, version=VERSION):
        header = {"code": code, "language": "JAVA", "version": version, "opaque": 1, "flag": 0}
        if fields is not None:
            header["extFields"] = fields
        host, port = self._address.split(":")
        with socket.create_connection((host, int(port)), TIMEOUT_S, (self._source, 0)) as plain:
            if self._tls is None:
                return _exchange(plain, header, body)
            with self._tls.wrap_socket(plain) as secured:
                return _exchange(secured, header, body)

    def route(self, topic, **fields):
        """Return the route of `topic`, or None if the NameServer knows of none."""
        answer = self.request(GET_ROUTE, {"topic": topic, **fields})
        if answer.code == TOPIC_NOT_EXIST:
            return None
        assert answer.code == SUCCESS, answer
        return answer.json

    def addresses(self, broker_name):
        """Return broker id -> address of one broker name, as registered; empty if it is unknown."""
        table = self.request(GET_CLUSTER_INFO).json["brokerAddrTable"]
        return table.get(broker_name, {}).get("brokerAddrs", {})

    def is_up(self):
        try:
            return self.request(GET_CLUSTER_INFO).code == SUCCESS
        except OSError:
            return False


def brokers_in(route):
    """Return the names of the brokers that hold queues in `route`; none if there is no route."""
    return {queue["brokerName"] for queue in route["queueDatas"]} if route else set()


def perm_in(route, broker_name):
    """Return the permission bits that `route` gives to `broker_name`, None if it is not in the route."""
    perms = [
        queue["perm"] for queue in (route or {"queueDatas": []})["queueDatas"] if queue["brokerName"] == broker_name
    ]
    return perms[0] if perms else None


def addresses_in(route, broker_name):
    """Return broker id -> address that `route` gives for `broker_name`."""
    groups = [
        data["brokerAddrs"]
        for data in (route or {"brokerDatas": []})["brokerDatas"]
        if data["brokerName"] == broker_name
    ]
    return groups[0] if groups else {}


def frame(code, fields=None, body=b"", *, opaque=1, flag=0, version=VERSION):
    """Return a request as a peer sends it."""
    header = {"code": code, "language": "JAVA", "version": version, "opaque": opaque, "flag": flag}
    return _framed(header if fields is None else header | {"extFields": fields}, body)


def _framed(header, body):
    text = json.dumps(header).encode()
    return struct.pack(">II", 4 + len(text) + len(body), len(text)) + text + body


def _exchange(connection, header, body):
    connection.sendall(_framed(header, body))
    return answer_over(connection)


def answer_over(connection):
    """Return the next answer that comes over a connection."""
    (length,) = struct.unpack(">I", _read(connection, 4))
    frame = _read(connection, length)
    (header_word,) = struct.unpack(">I", frame[:4])
    header_end = 4 + (header_word & 0xFFFFFF)
    answered = json.loads(frame[4:header_end])
    return Answer(answered["code"], answered.get("remark"), answered.get("extFields") or {}, frame[header_end:])


def _read(connection, count):
    read = b""
    while len(read) < count:
        chunk = connection.recv(count - len(read))
        if not chunk:
            raise ConnectionResetError("closed before the answer was whole")
        read += chunk
    return read
