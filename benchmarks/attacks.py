"""What the same attacks do to this NameServer and controller and to those of Java, for `benchmarks/ATTACKS.md`.

    make bench-attacks                                        (about 12 minutes)
    python benchmarks/attacks.py --only WORD                  (attacks whose title has the word; the others stay)
    python benchmarks/attacks.py --only WORD --server ours    (prints only)

Each attack meets a server that was just started, over loopback, and is bounded in count and time. Beside it a peer that
behaves asks for its route, or who leads its set, every few milliseconds; both servers have their defaults.
"""

import argparse
import contextlib
import json
import stat
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from attacked import ABUSE, SECRET, Result, Target, Watch, allow_files, attempt, in_words, running
from controller_results import row, table, taken
from peers.disks import own_mounts
from peers.processes import free_port
from peers.replicas import APPLY_ID, HEARTBEAT, ONE_WAY, Replica
from peers.scripted import Line, ScriptedBroker, queues_in, registration_body, route_query
from peers.waiting import wait_until
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
from servers import JAVA_HEAP, REPOSITORY

sys.path.insert(0, str(ABUSE))

from hostile import IDENTITY, filled, inflated, numbered

RESULTS = REPOSITORY / "benchmarks" / "ATTACKS.md"
MIB = 1024 * 1024
SERVERS = ("ours", "java")
REGISTER_TOPIC, QUERY_DATA_VERSION = 217, 322
GET_SYNC_STATE_DATA, UPDATE_CONTROLLER_CONFIG, GET_CONTROLLER_CONFIG = 1006, 1009, 1010
VICTIM = "victim"
#: A first registration with one topic alone is refused.
TOPICS = {VICTIM: 4, "another": 4}
#: A broker that has not left the routes by then stays.
GONE_S = 90
#: After a claim of a higher epoch.
CLAIM_S = 15
NEW_SETS, NEW_SETS_S, AT_A_TIME = 20_000, 60, 100
CONNECTIONS, CONNECTIONS_MAX = 4_000, 2_000
IDLE_S = 4


class Attack(NamedTuple):
    """One attack: its title, what is made before anything is measured, and what is done with it."""

    title: str
    act: Callable[[Target, Any], Result]
    make: Callable[[Target], Any] = lambda _target: None
    kind: str = "namesrv"
    properties: Mapping[str, Any] = MappingProxyType({})
    mounted: bool = False


def nothing(_target: Target, _made: object) -> Result:
    """Leave it alone."""
    time.sleep(3)
    return Result("-")


def frames(code: int, fields: dict[str, str], *bodies: Callable[[], bytes]) -> Callable[[Target], list[bytes]]:
    """Return what makes a request of each of these bodies."""
    return lambda _target: [frame(code, fields, make()) for make in bodies]


def requests(target: Target, made: list[bytes]) -> Result:
    """Send one after the other, each over a connection of its own."""
    return Result(", ".join(target.send(each) for each in made))


# NameServer


def registration(broker_id: str, address: str, **fields: str) -> dict[str, str]:
    """Return the header of a registration of the set that is attacked."""
    own = {"clusterName": "C", "brokerName": VICTIM, "brokerId": broker_id, "brokerAddr": address}
    return own | {"haServerAddr": "", "enableActingMaster": "true"} | fields


def notification(target: Target, unprintable: str) -> Result:
    """Have the server tell itself a text that no header can carry."""
    told = [target.ask(UPDATE_CONFIG, {}, b"notifyMinBrokerIdChanged=true")]
    with contextlib.closing(target.line(binary=True)) as line:
        told.append(in_words(line.ask(REGISTER_BROKER, registration("5", f"127.0.0.1:{target.port}"))))
        liar = registration("3", "127.0.0.1:2", haServerAddr=unprintable)
        told.append(target.ask(REGISTER_BROKER, liar, binary=True))
        time.sleep(1)
    return Result(", ".join(told))


def mappings() -> bytes:
    """Return 1.2 million static topic mappings, compressed."""
    return zlib.compress(zlib.decompress(inflated([], [b'{"topic":"a"}'] * 1_200_000)), 9)


def json_mappings() -> bytes:
    """Return 600,000 static topic mappings as JSON."""
    start = b'{"filterServerList":[],"topicConfigSerializeWrapper":{"topicQueueMappingInfoMap":{'
    return start + b",".join(b'"%d":{}' % number for number in range(600_000)) + b"}}}"


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
        assert queues_in(client.ask(*route_query(VICTIM))), "it is in its route"
        began = time.monotonic()
        broker.close()
        while time.monotonic() < began + GONE_S:
            if not queues_in(client.ask(*route_query(VICTIM))):
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
    answers = ", ".join(target.ask(UPDATE_CONFIG, {}, each.encode()).split()[0] for each in changes)

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


def controller_settings(target: Target, _made: object) -> Result:
    """Change what decides about failover."""
    changes = {
        "scanNotActiveBrokerInterval": "600000",
        "suspectTimeoutMs": "600000",
        "notifyBrokerRoleChanged": "false",
        "controllerDLegerPeers": "n0-10.6.6.6:9878",
    }
    answers = [
        target.ask(UPDATE_CONTROLLER_CONFIG, {}, f"{name}={value}".encode()).split()[0]
        for name, value in changes.items()
    ]
    listed = target.server.caller.ask(GET_CONTROLLER_CONFIG).body.decode().splitlines()
    changed = [name for name, value in changes.items() if f"{name}={value}" in listed]
    return Result(", ".join(answers), f"in force or stored: {', '.join(changed) or 'none'}")


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
    answers = [target.ask(UPDATE_CONFIG, {}, each) for each in (b"enableTopicList=true", b"enableTopicList=false")]
    found = file.read_text()
    mode = stat.S_IMODE(file.stat().st_mode)
    secret = "**holds a secret of the environment**" if SECRET in found else "no secret"
    comment = "kept" if "# of the operator" in found else "lost"
    state = f"mode {mode:04o}, {len(found.splitlines())} lines for {lines}, comment {comment}, {secret}"
    return Result(", ".join(answers), state)


def stored_in_a_mount(target: Target, _made: object) -> Result:
    """Put a KV entry, whose file is a mount of its own."""
    answer = target.ask(PUT_KV_CONFIG, {"namespace": "NS", "key": "k", "value": "of the attack"})
    outside = target.server.folder.parent / "outside.json"
    return Result(answer, "stored" if "of the attack" in outside.read_text() else "**not stored**")


def long_fields(target: Target, made: ScriptedBroker) -> Result:
    """Register strangers as slaves of a set, with 4 MB each, and look at the route that its clients get."""
    text = "x" * (4 * MIB)
    route = made.line

    def size() -> str:
        return f"{len(route.ask(*route_query(VICTIM)).body):,}"

    sizes, answers = [size()], []
    filters = json.dumps({"filterServerList": [text], "topicConfigSerializeWrapper": {}}).encode()
    for number, (fields, body) in enumerate(
        [({"haServerAddr": text}, b""), ({"__ZONE_NAME": text}, b""), ({}, filters)], 1
    ):
        with contextlib.closing(target.line(binary=True)) as stranger:
            identity = registration(str(number), f"10.6.6.{number}:10911", **fields)
            answers.append(attempt(lambda o=stranger, i=identity, b=body: o.ask(REGISTER_BROKER, i, b)))
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
    answer = target.ask(REGISTER_BROKER, registration("0", "10.9.9.8:10911"), registration_body(TOPICS, 1))
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
        assert line.ask(REGISTER_BROKER, identity, body).code == SUCCESS, number
    return line


def unit_lists(target: Target, _registered: Line) -> Result:
    """Ask for the three lists of unit topics."""
    told = []
    for code in (GET_UNIT_TOPICS, GET_UNIT_SUB_TOPICS, GET_UNIT_SUB_ORDINARY_TOPICS):
        began = time.monotonic()
        told.append(f"{target.ask(code, {})} after {1000 * (time.monotonic() - began):.0f} ms")
    return Result(", ".join(told))


# Controller


def healthy_set(target: Target) -> list[Replica]:
    """Return a set of three brokers, the first of which is master, with the second in sync."""
    replicas = [Replica(target.server.address, VICTIM) for _ in range(3)]
    for replica, messages in zip(replicas, (1000, 1000, 5), strict=True):
        replica.max_offset = messages
        replica.join()
    master = replicas[0]
    wait_until(lambda: master.elect().code == SUCCESS, seconds=30, what="the first to be master")
    fields = master.info().fields
    epochs = {"master_epoch": fields["masterEpoch"], "sync_state_set_epoch": 1}
    answer = master.report([replica.broker_id for replica in replicas[:2]], **epochs)
    assert answer.code == SUCCESS, answer
    for replica in replicas:
        replica.epoch = int(fields["masterEpoch"])
    return replicas


def higher_epoch(target: Target, replicas: list[Replica]) -> Result:
    """Let a stranger beat once for the broker out of sync, with a higher epoch."""
    last, before = replicas[2], target.server.set_state(VICTIM)
    claim = {"brokerAddr": last.address, "brokerId": last.broker_id, "heartbeatTimeoutMills": 10_000}
    claim |= {"epoch": before.master_epoch + 1, "maxOffset": 5, "confirmOffset": 5}
    with contextlib.closing(target.line()) as stranger:
        stranger.send(HEARTBEAT, last.fields(**claim), flag=ONE_WAY)
    end = time.monotonic() + CLAIM_S
    while (after := target.server.set_state(VICTIM)).epochs == before.epochs and time.monotonic() < end:
        time.sleep(0.1)
    for replica in replicas:
        replica.die()
    led = f"{after.master} leads at epoch {after.master_epoch}"
    same = after.epochs == before.epochs
    return Result("one-way", f"{CLAIM_S} s later {led}" if same else f"**{led}**, before it {before.master}")


def new_sets(target: Target, _made: object) -> Result:
    """Begin sets under ever new names, and let a broker of another host begin one."""
    codes: Counter[int] = Counter()
    began = time.monotonic()
    with contextlib.closing(target.line()) as line:
        for first in range(0, NEW_SETS, AT_A_TIME):
            for number in range(first, first + AT_A_TIME):
                line.send(APPLY_ID, application(f"made-up-{number}"))
            codes.update(line.receive()[1].code for _ in range(AT_A_TIME))
            if time.monotonic() > began + NEW_SETS_S:
                break
    took_s = time.monotonic() - began
    with contextlib.closing(target.line(host="127.0.0.2")) as other:
        answer = in_words(other.ask(APPLY_ID, application("of-another-host")))
    counts = ", ".join(f"{count:,} x {code}" for code, count in codes.items())
    return Result(f"{counts} in {took_s:.0f} s", f"a new set of another host: {answer}")


def application(name: str) -> dict[str, str]:
    """Return the fields of a request for the first broker id of a set."""
    return {"clusterName": "C", "brokerName": name, "appliedBrokerId": "1", "registerCheckCode": "10.6.6.6:10911;1"}


COMPRESSED = IDENTITY | {"compressed": "true"}
ATTACKS = [
    Attack("nothing, for 3 s: NameServer", nothing),
    Attack("nothing, for 3 s: controller", nothing, kind="controller"),
    Attack(
        "318 `notifyMinBrokerIdChanged=true`; 103 of id 5 at the server's own address; 103 of id 3 with 3 MB "
        "of `\\x01` as haServerAddr",
        notification,
        lambda _: "\x01" * (3 * MIB),
    ),
    Attack(
        "103, 28 KB: zlib of 1.2 million static topic mappings", requests, frames(REGISTER_BROKER, COMPRESSED, mappings)
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
        "103 over 200 connections at once, 16 KB each: zlib of 16 MB of zeros",
        at_once,
        frames(REGISTER_BROKER, COMPRESSED, lambda: zlib.compress(bytes(16 * MIB - 100), 9)),
    ),
    Attack("a broker dies, an older connection of its former process is half open, silent for 46 s", half_open(46)),
    Attack("the same, silent for 10 s, a third of a registration period", half_open(10)),
    Attack("ten connections that send 0.5 MB of compressed registrations again and again; a broker dies", flood),
    Attack(
        "318: namesrvAddrList; connectionsMax=1; serverChannelMaxIdleTimeSeconds=1",
        name_server_settings,
        lambda _: ["namesrvAddrList=10.6.6.6:9876", "connectionsMax=1", "serverChannelMaxIdleTimeSeconds=1"],
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
        "1006: lists of names, 27 MiB; then 15 MiB, which Java's frames may have",
        requests,
        frames(
            GET_SYNC_STATE_DATA,
            {},
            lambda: numbered(b"[", b'"%d"', b"]", 27 * MIB),
            lambda: numbered(b"[", b'"%d"', b"]", 15 * MIB),
        ),
        kind="controller",
    ),
    Attack(
        "1009: scanNotActiveBrokerInterval=600000; suspectTimeoutMs=600000; notifyBrokerRoleChanged=false; "
        "controllerDLegerPeers",
        controller_settings,
        kind="controller",
    ),
    Attack(
        "one 904 of a stranger for broker 3, out of sync with 5 bytes, with the next epoch; 1 leads, 2 is in sync too",
        higher_epoch,
        healthy_set,
        kind="controller",
    ),
    Attack(f"{NEW_SETS:,} x 1013, each with a new name of a set", new_sets, kind="controller"),
]


class Outcome(NamedTuple):
    """What an attack did to one server."""

    wait: str
    memory: str
    story: str


def carried_out(attack: Attack, server: str) -> Outcome:
    """Start a server, attack it, and return what it did."""
    if attack.mounted and own_mounts() is None:
        return Outcome("-", "-", "not tried: this system lets nobody mount a file")
    with (
        tempfile.TemporaryDirectory() as folder,
        running(server, attack.kind, Path(folder), mounted=attack.mounted, properties=attack.properties) as target,
    ):
        made = attack.make(target)
        result, cost = Watch(target, attack.kind).during(lambda: attack.act(target, made))
        serves = target.serves()
        afterwards = result.afterwards() if callable(result.afterwards) else result.afterwards
        faults = "Traceback" in target.server.process.text() and "**a traceback in the log**"
    parts = (f"answered {result.answered}", serves, afterwards, faults)
    return Outcome(cost.wait, cost.memory, "; ".join(part for part in parts if part))


HEAD = """\
# The same attacks on these servers and on Java's 5.5.0

{taken}

Each attack meets a server that was just started, with its defaults, over loopback. "Wait" is the longest time, in ms,
that a peer which behaves waited meanwhile for its route (105), or for who leads its set (1004); "memory" is by how many
MB the process had grown at most, and in brackets a second after the end (Java: `{heap}`, a heap that it keeps).
Answers are response codes with their remarks; "closed" is a connection that the server closed instead of an answer.
Peers and servers share one machine, not pinned: the first two rows tell what it does by itself.

"""


def main() -> None:
    """Carry out the attacks on both servers, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a word of the titles of those that are carried out")
    parser.add_argument("--server", choices=SERVERS, help="the only one that is attacked")
    options = parser.parse_args()
    allow_files()
    servers = (options.server,) if options.server else SERVERS
    rows = former_rows()
    for attack in ATTACKS:
        if options.only in attack.title:
            found = {server: carried_out(attack, server) for server in servers}
            ours, java = (found.get(server, Outcome("-", "-", "-")) for server in SERVERS)
            cells = (ours.wait, java.wait, ours.memory, java.memory, ours.story, java.story)
            rows[attack.title] = row(attack.title, *cells)
            print(rows[attack.title], flush=True)
    if not options.server:
        head = HEAD.format(taken=taken("make bench-attacks"), heap=" ".join(JAVA_HEAP))
        lines = table("what is sent", "wait, ours", "wait, Java", "memory, ours", "memory, Java", "ours", "Java")
        lines += [rows[attack.title] for attack in ATTACKS if attack.title in rows]
        RESULTS.write_text(head + "\n".join(lines) + "\n")


def former_rows() -> dict[str, str]:
    """Return the rows of the document by what is sent."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {line[2:].partition(" | ")[0]: line for line in lines if line.startswith("| ")}


if __name__ == "__main__":
    main()
