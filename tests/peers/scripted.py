"""Brokers and clients of a few lines, over connections that stay open: what they send and when, the test decides."""

import itertools
import json
import struct

from peers.wire import GET_ROUTE, REGISTER_BROKER, SUCCESS, TOPIC_NOT_EXIST, VERSION, Answer

HEARTBEAT = 904
ONE_WAY = 2
#: Lies between the releases whose routes have bare integer keys and 4.9.4.
VERSION_4_9_3 = 399


class Line:
    """A connection that stays open; its headers are JSON or, if `binary`, in RocketMQ's own form."""

    def __init__(self, connection, *, binary=False, version=VERSION):
        self._connection = connection
        self._binary = binary
        self._version = version
        self._numbers = itertools.count(1)
        self._rest = b""

    def send(self, code, fields, body=b"", *, flag=0):
        """Send a request and return its number."""
        number = next(self._numbers)
        encode = _binary_header if self._binary else _json_header
        header = encode(code, self._version, number, flag, fields)
        word = len(header) | (1 << 24 if self._binary else 0)
        self._connection.sendall(struct.pack(">II", 4 + len(header) + len(body), word) + header + body)
        return number

    def receive(self):
        """Return the number of the next answer and the answer."""
        (length,) = struct.unpack(">I", self._read(4))
        frame = self._read(length)
        (word,) = struct.unpack(">I", frame[:4])
        end = 4 + (word & 0xFFFFFF)
        # Which form an answer has is the server's setting, whatever the form of the request.
        code, number, remark, fields = (_read_binary if word >> 24 else _read_json)(frame[4:end])
        return number, Answer(code, remark, fields, frame[end:])

    def request(self, code, fields, body=b""):
        sent = self.send(code, fields, body)
        number, answer = self.receive()
        assert number == sent
        return answer

    def close(self):
        self._connection.close()

    def _read(self, count):
        while len(self._rest) < count:
            chunk = self._connection.recv(65536)
            if not chunk:
                raise ConnectionResetError("closed before the answer was whole")
            self._rest += chunk
        read, self._rest = self._rest[:count], self._rest[count:]
        return read


class ScriptedBroker:
    """Says over one line what a broker says; `timeout_ms` None leaves the server's default."""

    def __init__(self, line, name, *, address, broker_id=0, cluster="C", timeout_ms=None):
        self.name = name
        self.address = address
        self.line = line
        self._identity = {"clusterName": cluster, "brokerName": name, "brokerAddr": address}
        self._fields = self._identity | {"brokerId": str(broker_id)}
        if timeout_ms is not None:
            self._fields["heartbeatTimeoutMillis"] = str(timeout_ms)

    def send_registration(self, queues=None, *, counter=1):
        """Register and leave the answer where it is; `queues` is topic -> number of queues, None for no body."""
        body = b"" if queues is None else registration_body(queues, counter)
        return self.line.send(REGISTER_BROKER, self._fields, body)

    def register(self, queues=None, *, counter=1):
        sent = self.send_registration(queues, counter=counter)
        number, answer = self.line.receive()
        assert (number, answer.code) == (sent, SUCCESS), answer

    def heartbeat(self):
        self.line.send(HEARTBEAT, self._identity, flag=ONE_WAY)

    def close(self):
        self.line.close()


def registration_body(queues, counter, *, static=None):
    """Return the text that a broker of version 5 has for these topics, each readable and writable.

    `static` is broker name -> topics of which it has logical queues.
    """
    topics = {
        topic: {"perm": 6, "readQueueNums": number, "topicName": topic, "topicSysFlag": 0, "writeQueueNums": number}
        for topic, number in queues.items()
    }
    wrapper = {
        "dataVersion": {"counter": counter, "stateVersion": 0, "timestamp": 1_700_000_000_000},
        "topicConfigTable": topics,
        "topicQueueMappingInfoMap": {
            topic: {"bname": name, "currIdMap": {"0": 0}, "epoch": counter, "topic": topic, "totalQueues": 1}
            for name, its_topics in (static or {}).items()
            for topic in its_topics
        },
    }
    body = {"filterServerList": [], "topicConfigSerializeWrapper": wrapper}
    return json.dumps(body, separators=(",", ":")).encode()


def queues_in(answer):
    """Return broker name -> number of readable queues in the answer to a route query; nothing if there is no route."""
    if answer.code == TOPIC_NOT_EXIST:
        return {}
    assert answer.code == SUCCESS, answer
    return {each["brokerName"]: each["readQueueNums"] for each in answer.json["queueDatas"]}


def route_query(topic, *, standard=False):
    """Return code and fields of a route query; `standard` as clients send it that read standard JSON only."""
    return GET_ROUTE, {"topic": topic} | ({"acceptStandardJsonOnly": "true"} if standard else {})


def _json_header(code, version, number, flag, fields):
    header = {"code": code, "language": "JAVA", "version": version, "opaque": number, "flag": flag}
    return json.dumps(header | {"extFields": fields}).encode()


def _read_json(text):
    header = json.loads(text)
    return header["code"], header["opaque"], header.get("remark"), header.get("extFields") or {}


def _binary_header(code, version, number, flag, fields):
    entries = b"".join(
        struct.pack(">h", len(key.encode())) + key.encode() + struct.pack(">i", len(value.encode())) + value.encode()
        for key, value in fields.items()
    )
    return struct.pack(">hBhiiii", code, 0, version, number, flag, 0, len(entries)) + entries


def _read_binary(header):
    code, _, _, number, _, remark_bytes = struct.unpack(">hBhiii", header[:17])
    remark, rest = header[17 : 17 + remark_bytes].decode(), header[17 + remark_bytes + 4 :]
    fields = {}
    while rest:
        key, rest = _cut(rest, ">h")
        value, rest = _cut(rest, ">i")
        fields[key] = value
    return code, number, remark, fields


def _cut(text, size):
    start = struct.calcsize(size)
    end = start + struct.unpack(size, text[:start])[0]
    return text[start:end].decode(), text[end:]
