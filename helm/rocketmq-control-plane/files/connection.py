"""What `helm test` runs: a broker that is none registers with every NameServer and is found there again.

Nothing but the standard library, so that it proves the protocol and not our own idea of it. What it registers, it takes
away again. Leaves with 0 if every NameServer did right, else with 1 and a sentence.
"""
# ruff: noqa: INP001, T201, S310 -- a script that a pod runs: it prints, and connects to an address from the chart

import json
import os
import socket
import ssl
import struct
import sys
import urllib.request
import zlib
from pathlib import Path
from typing import Any

TIMEOUT_S = 10
CLUSTER = "helm-test"
BROKER_ADDRESS = "192.0.2.1:10911"

REGISTER_BROKER = 103
UNREGISTER_BROKER = 104
GET_ROUTE = 105

#: Of RocketMQ 5; NameServers read the bodies of very old brokers in another way.
VERSION = 413

VERSION_OF_DATA = {"stateVersion": 0, "timestamp": 0, "counter": 1}


class WrongAnswer(Exception):
    """A NameServer answered something else than it should."""


class Connection:
    """One connection to a NameServer."""

    def __init__(self, address: str, tls: ssl.SSLContext | None) -> None:
        host, _, port = address.rpartition(":")
        plain = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self._socket = tls.wrap_socket(plain, server_hostname=host) if tls else plain

    def invoke(self, code: int, fields: dict[str, str], body: bytes = b"") -> bytes:
        """Return the body of the answer; raises WrongAnswer for any code but 0."""
        header_fields = {
            "code": code,
            "language": "PYTHON",
            "version": VERSION,
            "opaque": code,
            "flag": 0,
            "extFields": fields,
        }
        header = json.dumps(header_fields).encode()
        frame = struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body
        self._socket.sendall(frame)
        length, header_length = struct.unpack(">ii", self._read(8))
        # The highest byte is the header's serialization; 0 is JSON.
        header_bytes = self._read(header_length & 0xFFFFFF)
        answer: dict[str, Any] = json.loads(header_bytes)
        content = self._read(length - 4 - len(header_bytes))
        if answer["code"] != 0:
            raise WrongAnswer(f"request {code} is answered {answer['code']}: {answer.get('remark')}")
        return content

    def close(self) -> None:
        """End it."""
        self._socket.close()

    def _read(self, count: int) -> bytes:
        read = b""
        while len(read) < count:
            part = self._socket.recv(count - len(read))
            if not part:
                raise WrongAnswer("the connection was closed instead of an answer")
            read += part
        return read


def main() -> None:
    """Check every NameServer and the address server that the environment names."""
    name = os.environ["BROKER_NAME"]
    addresses = os.environ["NAMESRV_ADDR"].split(";")
    wrong = [problem for address in addresses if (problem := _problem_of(address, name))]
    if url := os.environ.get("ADDRESS_SERVER"):
        wrong += _problems_of_address_server(url)
    for problem in wrong:
        print(problem)
    sys.exit(1 if wrong else 0)


def _problem_of(address: str, name: str) -> str:
    try:
        _check(address, name)
    except (OSError, WrongAnswer, ValueError, KeyError) as error:
        return f"{address}: {error}"
    print(f"{address}: registered, found, unregistered")
    return ""


def _check(address: str, name: str) -> None:
    """Register, look for the route, unregister."""
    broker = {"brokerName": name, "brokerAddr": BROKER_ADDRESS, "clusterName": CLUSTER, "brokerId": "0"}
    connection = Connection(address, _tls())
    try:
        body = _registration(name)
        # Java's checksum has no sign.
        checksum = str(zlib.crc32(body) & 0x7FFFFFFF)
        fields = {**broker, "haServerAddr": "192.0.2.1:10912", "compressed": "false", "bodyCrc32": checksum}
        connection.invoke(REGISTER_BROKER, fields, body)
        try:
            route = connection.invoke(GET_ROUTE, {"topic": name, "acceptStandardJsonOnly": "true"})
        finally:
            connection.invoke(UNREGISTER_BROKER, broker)
    finally:
        connection.close()
    found = [each["brokerAddrs"] for each in json.loads(route)["brokerDatas"] if each["brokerName"] == name]
    if found != [{"0": BROKER_ADDRESS}]:
        raise WrongAnswer(f"the route of {name} leads to {found}")


def _registration(topic: str) -> bytes:
    """Return a body with two topics: a new broker with a single one is turned away, as by the Java NameServer."""
    queues = {"readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "topicSysFlag": 0, "order": False}
    topics = {name: {**queues, "topicName": name, "topicFilterType": "SINGLE_TAG"} for name in (topic, f"{topic}-2")}
    table = {"topicConfigTable": topics, "dataVersion": VERSION_OF_DATA}
    return json.dumps({"topicConfigSerializeWrapper": table, "filterServerList": []}).encode()


def _problems_of_address_server(url: str) -> list[str]:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            addresses = answer.read().decode().strip()
    except OSError as error:
        return [f"{url}: {error}"]
    print(f"{url}: {addresses}")
    return [] if ":" in addresses else [f"{url} names no NameServer: {addresses!r}"]


def _tls() -> ssl.SSLContext | None:
    """Return how to speak TLS, with the servers' own certificate; None where they do not have one."""
    folder = os.environ.get("TLS_FOLDER")
    if not folder:
        return None
    context = ssl.create_default_context()
    # The names in the certificate are the operator's choice; RocketMQ's clients do not look at them either.
    context.check_hostname = False
    authority = Path(folder) / "ca.crt"
    if authority.exists():
        context.load_verify_locations(authority)
    else:
        context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(Path(folder) / "tls.crt", Path(folder) / "tls.key", os.environ.get("TLS_KEY_PASSWORD"))
    return context


if __name__ == "__main__":
    main()
