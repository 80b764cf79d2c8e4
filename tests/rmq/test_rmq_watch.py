"""Lists that are watched, at NameServers of ours: an event for each change, and a picture that is redrawn."""

import contextlib
import csv
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from types import SimpleNamespace

import pytest
from answering_peer import AnsweringPeer, answer
from peers.lab import Lab
from peers.replicas import Replica
from peers.servers import OurNameServer
from peers.waiting import holds_for, seconds_until, wait_until
from rmq_brokers import ODD_NAMES, SITE, SYSTEM_TOPICS, admin_token, broker_answers, forget_away, register
from rmq_runs import Rmq
from rmq_watchers import Terminal, watching

ALL_TOPICS, CLUSTER_INFO = 206, 106


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """A NameServer with its HTTP side, so that it notifies of changes."""
    lab = Lab(tmp_path_factory.mktemp("live"))
    try:
        settings = {"http": True, "httpAdminTokenFile": admin_token(lab.folder)}
        server = lab.kept(OurNameServer(lab.folder, "ns", **settings)).start()
        rmq = Rmq(
            lab.folder / "operator",
            NAMESRV_ADDR=server.address,
            RMQ_NAMESRV_HTTP=f"http://127.0.0.1:{server.http_port}",
            RMQ_TIMEOUT="5",
        )
        yield SimpleNamespace(server=server, rmq=rmq)
    finally:
        lab.close()


@pytest.fixture(autouse=True)
def _nothing_is_away(request):
    if "live" in request.fixturenames:
        forget_away(request.getfixturevalue("live").server)


@pytest.fixture
def polled(live):
    """The same NameServer, seen as one of Java: it has no HTTP side."""
    return Rmq(live.rmq.home, **live.rmq.environment | {"RMQ_NAMESRV_HTTP": "http://127.0.0.1:1"})


def test_brokers_that_come_and_leave_are_events(live):
    with watching(live.rmq, "broker", "list", "--no-runtime", "--watch", "-o", "jsonl") as watcher:
        first = register(live.server, "broker-a", "127.0.0.1:1", [])
        watcher.wait_for(lambda: watcher.types("brokerName") == [("ADDED", "broker-a")], "the broker is added")
        second = register(live.server, "broker-b", "127.0.0.1:2", [])
        watcher.wait_for(lambda: len(watcher.events) == 2, "another one is added")
        first.close()
        watcher.wait_for(lambda: len(watcher.events) == 3, "the first one has left")
        code = watcher.interrupt()
        second.close()

    assert watcher.types("brokerName")[1:] == [("ADDED", "broker-b"), ("DELETED", "broker-a")]
    assert (code, watcher.errors) == (130, ["\n"])
    assert {each["object"]["role"] for each in watcher.events} == {"master"}
    assert all(each["seenUnixMs"] > 1_700_000_000_000 for each in watcher.events)


@pytest.mark.broad
def test_clusters_change_with_their_brokers(live):
    with watching(live.rmq, "cluster", "list", "-w", "-o", "jsonl") as watcher:
        first = register(live.server, "broker-a", "127.0.0.1:1", [])
        watcher.wait_for(lambda: watcher.types("cluster") == [("ADDED", "DefaultCluster")], "the cluster is added")
        second = register(live.server, "broker-b", "127.0.0.1:2", [])
        watcher.wait_for(lambda: len(watcher.events) == 2, "it has another broker")
        first.close()
        second.close()
        watcher.wait_for(lambda: watcher.types("cluster")[-1][0] == "DELETED", "it has none")

    assert (watcher.events[1]["type"], watcher.events[1]["object"]["brokers"]) == ("MODIFIED", 2)


def test_route_is_read_as_our_name_server_notifies_of_its_change(live):
    """Long before 2 s have passed, which is how often other servers are read."""
    broker = register(live.server, "broker-a", "127.0.0.1:1", ["Orders"])
    with watching(live.rmq, "topic", "route", "Orders", "--watch", "-o", "jsonl") as watcher:
        watcher.wait_for(lambda: len(watcher.events) == 1, "the route")
        wait_until(lambda: route_watchers(live.server) == 1, seconds=60, what="a stream")
        delays = []
        for queues in range(3, 9):
            broker.register(dict.fromkeys([*SYSTEM_TOPICS, "Orders"], queues), counter=queues)
            seen = queues - 1
            delays.append(seconds_until(lambda seen=seen: len(watcher.events) == seen, seconds=30, what="a change"))
    broker.close()

    assert [each["object"]["writeQueueNums"] for each in watcher.events] == [2, *range(3, 9)]
    assert min(delays) < 1


def route_watchers(server):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/metrics", timeout=30) as metrics:
        lines = metrics.read().decode().splitlines()
    return next(
        float(line.split()[-1]) for line in lines if line.startswith('rocketmq_namesrv_watchers{watch="routes"}')
    )


def test_several_topics_are_watched_also_before_they_exist(live):
    with watching(live.rmq, "watch", "Orders", "Payments", "-o", "jsonl") as watcher:
        wait_until(lambda: route_watchers(live.server) == 1, seconds=60, what="a stream")
        broker = register(live.server, "broker-a", "127.0.0.1:1", ["Payments"])
        watcher.wait_for(lambda: watcher.types("topic") == [("ADDED", "Payments")], "a topic is created")
        broker.close()
        watcher.wait_for(lambda: len(watcher.events) == 2, "its broker has left")
        watcher.interrupt()

    assert watcher.types("topic")[-1] == ("DELETED", "Payments")


def test_lists_of_a_server_without_notices_are_read_every_two_seconds(live, polled):
    with watching(polled, "topic", "list", "--watch", "-o", "csv") as watcher:
        watcher.wait_for(lambda: watcher.lines, "the header")
        broker = register(live.server, "broker-a", "127.0.0.1:1", ODD_NAMES)
        watcher.wait_for(lambda: len(watcher.lines) == 1 + len(ODD_NAMES), "all topics")
        broker.close()
        watcher.wait_for(lambda: len(watcher.lines) == 1 + 2 * len(ODD_NAMES), "none of them is left")
        watcher.interrupt()

    header, *rows = csv.reader(watcher.lines)
    assert header == ["type", "seen", "topic", "kind"]
    assert [row[0] for row in rows] == ["ADDED"] * len(ODD_NAMES) + ["DELETED"] * len(ODD_NAMES)
    assert r"a\u3164b" in {row[2] for row in rows}


def test_name_server_that_is_restarted_is_reported_and_no_topic_is_deleted_meanwhile(tmp_path):
    lab = Lab(tmp_path)
    try:
        settings = {"http": True, "httpAdminTokenFile": admin_token(lab.folder)}
        server = lab.kept(OurNameServer(lab.folder, "ns", **settings)).start()
        rmq = Rmq(
            lab.folder / "operator",
            NAMESRV_ADDR=server.address,
            RMQ_NAMESRV_HTTP=f"http://127.0.0.1:{server.http_port}",
            RMQ_TIMEOUT="1",
        )
        broker = register(server, "broker-a", "127.0.0.1:1", ["Orders"])
        with watching(rmq, "topic", "route", "Orders", "-w", "-o", "jsonl") as watcher:
            watcher.wait_for(lambda: len(watcher.events) == 1, "the route")
            wait_until(lambda: route_watchers(server) == 1, seconds=60, what="a stream")
            server.process.kill()
            broker.close()
            watcher.wait_for(lambda: watcher.errors, "the failure is shown")
            holds_for(lambda: len(watcher.events) == 1, seconds=5, what="the route is the one that was read last")
            server.start()
            broker = register(server, "broker-a", "127.0.0.1:1", ["Orders", "More"])
            watcher.wait_for(lambda: "rmq: answers again\n" in watcher.errors, "it answers again")
            wait_until(lambda: route_watchers(server) == 1, seconds=60, what="a stream to the new process")
            broker.register(dict.fromkeys([*SYSTEM_TOPICS, "Orders"], 7), counter=2)
            watcher.wait_for(lambda: watcher.events[-1]["object"]["writeQueueNums"] == 7, "a change after the restart")
        broker.close()
    finally:
        lab.close()

    failures = [line for line in watcher.errors if line.endswith("; trying again every 2 s\n")]
    assert failures
    assert len(failures) == len(set(failures))


@pytest.mark.broad
def test_ten_thousand_topics_are_watched(live):
    names = [f"topic-{number:05}" for number in range(10_000)]
    broker = register(live.server, "broker-a", "127.0.0.1:1", names)
    with watching(live.rmq, "topic", "list", "-w", "-o", "jsonl") as watcher:
        watcher.wait_for(lambda: len(watcher.lines) == 10_000, "all topics")
        broker.register(dict.fromkeys([*SYSTEM_TOPICS, *names[1:], "one-more"], 2), counter=2)
        watcher.wait_for(lambda: len(watcher.lines) >= 10_001, "what has changed")
        watcher.interrupt()
    broker.close()

    assert watcher.types("topic")[10_000:] == [("ADDED", "one-more")]


@pytest.mark.broad
def test_masters_that_do_not_answer_delete_none_of_their_topics(live):
    peer = AnsweringPeer(broker_answers())
    broker = register(live.server, "broker-a", peer.address, ["Orders"])
    with watching(live.rmq, "topic", "list", "--long", "-w", "-o", "jsonl", "--timeout", "1") as watcher:
        watcher.wait_for(lambda: watcher.types("topic") == [("ADDED", "Orders")], "the topic")
        before, peer.answers = peer.answers, {}
        watcher.wait_for(lambda: any("does not know this request" in each for each in watcher.errors), "the failure")
        peer.answers = before | {21: answer({"topicConfigTable": {}})}
        watcher.wait_for(lambda: len(watcher.events) == 2, "the topic is deleted")
    broker.close()
    peer.close()

    assert watcher.types("topic")[1] == ("DELETED", "Orders")


@pytest.mark.broad
def test_each_list_can_be_watched(site):
    """Those of the controller, of KV entries and the status, too."""
    replica = Replica(site.controller.address, "broker-w")
    replica.join()
    replica.elect()
    line = register(site.ns1, "broker-w", replica.address, [])
    site.rmq.items("kv", "put", "WATCHED", "key", "1", "--yes")
    wanted = {
        ("controller", "sets", "broker-w"): ("brokerName", "broker-w"),
        ("controller", "status"): ("address", site.controller.address),
        ("kv", "list", "WATCHED"): ("key", "key"),
        ("status",): ("name", site.ns1.address),
    }
    try:
        for words, (field, name) in wanted.items():
            with watching(site.rmq, *words, "--watch", "-o", "jsonl") as watcher:
                watcher.wait_for(lambda w=watcher, f=field, n=name: ("ADDED", n) in w.types(f), " ".join(words))
        with watching(site.rmq, "kv", "list", "WATCHED", "-w", "-o", "jsonl") as watcher:
            watcher.wait_for(lambda: watcher.events, "the entry")
            site.rmq.items("kv", "put", "WATCHED", "key", "2", "--yes")
            watcher.wait_for(lambda: watcher.events[-1]["object"]["value"] == "2", "its new value")
    finally:
        line.close()
        replica.die()
        site.rmq.items("controller", "clean", "broker-w", "--clean-living", "--yes")

    assert watcher.events[-1]["type"] == "MODIFIED"


def test_table_in_a_terminal_is_redrawn_and_the_terminal_is_left_as_it_was(live):
    names = [f"topic-{number:02}" for number in range(30)]
    broker = register(live.server, "broker-a", "127.0.0.1:1", names)
    terminal = Terminal(live.rmq, "topic", "list", "--watch", lines=12)
    try:
        terminal.wait_for(lambda: "topic-00" in terminal.text, "a picture")
        assert terminal.text.startswith("\x1b[?1049h")
        assert len(terminal.screen) == 12
        assert "30 rows" in terminal.screen[0]
        assert terminal.screen[-1].startswith("… 30 rows in all")
        broker.register(dict.fromkeys([*SYSTEM_TOPICS, *ODD_NAMES], 2), counter=2)
        terminal.wait_for(lambda: "37 rows" in terminal.screen[0], "all topics")
        terminal.resize(60, 50)
        terminal.wait_for(lambda: len(terminal.screen) > 30, "a larger picture")
        assert "\x1b[2J" not in terminal.text
        code = terminal.interrupt(signal.SIGTERM)
    finally:
        terminal.close()
        broker.close()

    left = terminal.text.partition("\x1b[?7h\x1b[?25h\x1b[?1049l")[2]
    assert code == 130
    assert "topic-00" in left
    assert "\x1b" not in left.removesuffix("\n")


def test_picture_in_a_terminal_says_that_it_is_old(tmp_path):
    peer = AnsweringPeer({ALL_TOPICS: answer({"topicList": ["Orders"]}), CLUSTER_INFO: SITE})
    rmq = Rmq(tmp_path / "operator", NAMESRV_ADDR=peer.address, RMQ_NAMESRV_HTTP="http://127.0.0.1:1")
    terminal = Terminal(rmq, "topic", "list", "--watch")
    try:
        terminal.wait_for(lambda: "Orders" in terminal.text, "a picture")
        peer.answers = {ALL_TOPICS: answer(code=1, remark="\x1b]0;title\x07 down"), CLUSTER_INFO: SITE}
        terminal.wait_for(lambda: terminal.screen[0].startswith("OLD, as of "), "the state of the picture")
        old = terminal.screen
        peer.answers = {ALL_TOPICS: answer({"topicList": ["Payments"]}), CLUSTER_INFO: SITE}
        terminal.wait_for(lambda: terminal.screen[-1].startswith("Payments"), "a new picture")
        code = terminal.interrupt()
    finally:
        terminal.close()
        peer.close()

    assert r"refused with code 1: \x1b]0;title\x07 down" in old[1]
    assert old[-1].startswith("Orders")
    assert code == 130


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("topic", "list", "-w", "-n", "127.0.0.1:1"), 3, "cannot connect"),
        (("topic", "list", "-w", "-o", "json"), 2, "-o json is one document, which --watch cannot write"),
        (("topic", "route", "Absent", "-w"), 7, "others may have it: no broker is registered"),
        (("watch", *map(str, range(101))), 2, "101 topics are more than 100"),
        (("watch",), 2, "Missing argument"),
        (("topic", "list", "-w", "--namesrv-http", "nowhere"), 2, "nowhere is not a URL"),
        (("topic", "show", "Orders", "--watch"), 2, "No such option"),
    ],
)
def test_what_cannot_be_watched_ends_at_once(live, run_here, monkeypatch, words, code, sentence):
    monkeypatch.setenv("NAMESRV_ADDR", live.server.address)
    ran = run_here(*words)

    assert (ran.code, sentence in ran.err) == (code, True), ran


def test_who_reads_a_watched_list_may_stop(tmp_path):
    peer = AnsweringPeer({ALL_TOPICS: answer({"topicList": ["Orders"]}), CLUSTER_INFO: SITE})
    rmq = Rmq(tmp_path / "operator", NAMESRV_ADDR=peer.address)
    command = [sys.executable, "-m", "rmq", "topic", "list", "-w", "-o", "jsonl"]
    process = subprocess.Popen(command, env=rmq.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        process.stdout.readline()
        process.stdout.close()
        peer.answers = {ALL_TOPICS: answer({"topicList": ["Payments"]}), CLUSTER_INFO: SITE}
        assert (process.wait(timeout=60), process.stderr.read()) == (0, b"")
    finally:
        process.kill()
        process.stderr.close()
        peer.close()


@pytest.mark.broad
@pytest.mark.parametrize("status", ["200 OK", "404 Not Found", "503 Service Unavailable"])
def test_http_side_of_something_else_leaves_the_list_to_be_read(tmp_path, status):
    """What answers at the port of the HTTP side may be any program."""
    web = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_serve, args=(web, status), daemon=True).start()
    peer = AnsweringPeer({ALL_TOPICS: answer({"topicList": ["Orders"]}), CLUSTER_INFO: SITE})
    http = f"http://127.0.0.1:{web.getsockname()[1]}"
    rmq = Rmq(tmp_path / "operator", NAMESRV_ADDR=peer.address, RMQ_NAMESRV_HTTP=http)
    with watching(rmq, "topic", "list", "-w", "-o", "jsonl") as watcher:
        watcher.wait_for(lambda: watcher.lines, "a line")
        peer.answers = {ALL_TOPICS: answer({"topicList": ["Payments"]}), CLUSTER_INFO: SITE}
        watcher.wait_for(lambda: len(watcher.lines) == 3, "the change")
    web.close()
    peer.close()

    assert watcher.errors == []


def _serve(listener, status):
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 5\r\n\r\nhello".encode())
