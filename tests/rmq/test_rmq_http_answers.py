"""Which of several servers a command goes to by HTTP, and what it makes of their answers."""

import base64
import contextlib
import json
import math
import os
import shlex
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from rmq_runs import Rmq
from rmq_watchers import Terminal

FOLLOWS = {"error": {"code": "not_leader", "message": "The manager that leads is o2:9883.", "leaderAddress": "o2:9883"}}
OPERATIONS = {"operations": []}
#: A resize that has just begun.
RESIZE = {
    "id": "op-7",
    "topic": "T",
    "kind": "grow",
    "phase": "READ_UP",
    "resumePhase": None,
    "phaseSinceUnixMs": 1,
    "createdUnixMs": 1,
    "requestedBy": "",
    "reason": "",
    "isUndone": False,
    "problem": "",
    "waitsFor": [],
    "observedUnixMs": None,
    "waitedMs": 0,
    "reopened": 0,
    "sets": [],
    "waits": {},
    "options": {},
    "steps": [],
}
#: Longer than any test takes.
NEVER_S = "600"
NOTHING_WRITTEN = {"dryRun": True, "operationId": "", "counts": {"would change": 1}, "problems": [], "queues": []}


class HttpPeer:
    """Answers each request with a status and what becomes JSON; None: it ends the connection."""

    def __init__(self, status, answer, *, after=(), change_s=0, silent_after=math.inf):
        """After `silent_after` answers it only takes requests; before each answer to a change it waits."""
        answers = [(status, answer), *after]
        self.received = received = []
        self._ended = ended = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                received.append((self.command, self.path, self.headers.get("Authorization"), body))
                if len(received) > silent_after:
                    ended.wait()
                status, answer = answers.pop(0) if len(answers) > 1 else answers[0]
                if self.command != "GET":
                    time.sleep(change_s)
                if answer is None:
                    self.close_connection = True
                    return
                text = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = answer  # noqa: N815  # the names are http.server's

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def peer():
    started = []

    def start(*answer, **more):
        started.append(HttpPeer(*answer, **more))
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.fixture
def rmq(tmp_path):
    token = tmp_path / "token"
    token.write_text("a-token\nmore\n")
    token.chmod(0o600)
    return Rmq(tmp_path / "operator", RMQ_ADMIN_TOKEN_FILE=str(token))


@pytest.fixture
def unread():
    """A pipe whose reader has gone."""
    ours, its = os.pipe()
    os.close(ours)
    yield its
    os.close(its)


def test_manager_that_leads_is_found_and_alone_it_is_named(rmq, peer):
    follows, leads = peer(503, FOLLOWS), peer(200, OPERATIONS)
    both = rmq.run("offsets", "operations", "--offset-manager", f"{follows.url};{leads.url}")
    one = rmq.run("offsets", "operations", "--offset-manager", follows.url)

    assert (both.code, len(leads.received)) == (0, 1)
    assert (one.code, "leads is o2:9883" in one.err, "--offset-manager" in one.err) == (1, True, True)


def test_status_of_a_manager_that_does_not_lead_names_the_one_that_does(rmq, peer):
    follows = {
        "id": "o1",
        "address": "o1:9883",
        "group": "default",
        "role": "following",
        "leaderAddress": "o2:9883",
        "follows": "controllers",
        "mastersKnown": True,
        "brokerSets": 2,
        "brokerSetsWithMaster": 2,
        "store": "etcd",
        "offsets": 0,
        "dirtyKeys": 0,
        "oldestDirtyMs": 0,
        "lastFlushError": "",
    }
    ran = rmq.run("offsets", "status", "--offset-manager", peer(200, follows).url)

    assert (ran.code, "o2:9883 leads: give its address with --offset-manager" in ran.err) == (7, True), ran
    assert "the leader is o2:9883" in ran.out


def test_token_is_shown_where_something_changes_and_not_where_it_is_read(rmq, peer):
    manager = peer(200, OPERATIONS)
    rmq.run("offsets", "operations", "--offset-manager", manager.url)
    rmq.run("offsets", "undo", "x", "--yes", "--offset-manager", manager.url)

    assert [(method, token) for method, _, token, _ in manager.received] == [("GET", None), ("POST", "Bearer a-token")]


@pytest.mark.parametrize("words", [("--yes",), ("--dry-run",)])
def test_token_is_sent_to_no_address_that_nobody_named(rmq, words):
    ran = rmq.run("offsets", "undo", "x", *words)

    assert (ran.code, "give the server with --offset-manager: the admin token" in ran.err) == (2, True), ran


def test_change_without_an_answer_may_be_done_and_is_not_sent_to_another_server(rmq, peer):
    manager, other = peer(200, NOTHING_WRITTEN, after=[(200, None)]), peer(200, NOTHING_WRITTEN)
    ran = rmq.run("offsets", "undo", "x", "--yes", "--offset-manager", f"{manager.url};{other.url}")

    assert (ran.code, "it may have been done" in ran.err) == (3, True), ran
    assert [json.loads(body).get("dryRun") for *_, body in manager.received] == [True, None]
    assert other.received == []


def test_change_that_is_interrupted_may_be_done_and_nobody_waits_for_the_server(rmq, peer):
    manager = peer(200, NOTHING_WRITTEN, silent_after=1)
    words = ("offsets", "undo", "x", "--yes", "--offset-manager", manager.url, "--timeout", NEVER_S)
    ran = rmq.interrupt(*words, when=lambda: len(manager.received) == 2)

    assert (ran.code, "interrupted; it may have been done" in ran.err) == (130, True), ran


def test_change_that_is_interrupted_in_a_terminal_may_be_done(rmq, peer):
    manager = peer(200, NOTHING_WRITTEN, silent_after=1)
    words = ("offsets", "undo", "x", "--yes", "--offset-manager", manager.url, "--timeout", NEVER_S)
    with contextlib.closing(Terminal(rmq, *words)) as run:
        run.wait_for(lambda: len(manager.received) == 2, "the change")
        code = run.interrupt()

    assert (code, "interrupted; it may have been done" in run.text) == (130, True), run.text
    assert "Traceback" not in run.text


def test_reading_that_is_interrupted_ends_without_the_server(rmq, peer):
    manager = peer(200, OPERATIONS, silent_after=0)
    words = ("offsets", "operations", "--offset-manager", manager.url, "--timeout", NEVER_S)
    ran = rmq.interrupt(*words, when=lambda: manager.received)

    assert ran.code == 130, ran


def test_question_that_is_interrupted_changes_nothing(rmq, peer):
    manager = peer(200, NOTHING_WRITTEN)
    with contextlib.closing(Terminal(rmq, "offsets", "undo", "x", "--offset-manager", manager.url)) as run:
        run.wait_for(lambda: "[y/N]" in run.text, "the question")
        code = run.interrupt()

    assert (code, len(manager.received), "Traceback" in run.text) == (130, 1, False), run.text


def test_change_that_fails_fails_also_if_nobody_reads_its_rows(rmq, peer, unread):
    failed = {"dryRun": False, "operationId": "o1", "counts": {"failed": 1}, "problems": [], "queues": []}
    manager = peer(200, NOTHING_WRITTEN, after=[(200, failed)])
    ran = rmq.run("offsets", "undo", "x", "--yes", "--offset-manager", manager.url, stdout=unread)

    assert (ran.code, "0 of 1 queues are as wanted" in ran.err) == (1, True), ran
    assert "to undo it: rmq offsets undo o1" in ran.err


def test_change_is_sent_without_standard_error(rmq, peer):
    manager = peer(200, NOTHING_WRITTEN)
    command = shlex.join(
        [sys.executable, "-m", "rmq", "offsets", "undo", "x", "--yes", "--offset-manager", manager.url]
    )
    subprocess.run(["bash", "-c", f"{command} 2>&-"], env=rmq.environment, timeout=60, check=False)

    assert [json.loads(body).get("dryRun") for *_, body in manager.received] == [True, None]


def test_export_whose_reader_has_gone_is_not_done(rmq, peer, unread):
    file = base64.b64encode(b"x" * 1_000_000).decode()
    manager = peer(200, {"file": file, "records": [], "offsets": 1, "unavailable": []})
    words = ("offsets", "export", "-", "--broker", "b", "--offset-manager", manager.url)
    ran = rmq.run(*words, stdout=unread)

    assert (ran.code, "- cannot be written" in ran.err) == (2, True), ran


def test_name_of_a_host_that_is_none_is_not_reachable(rmq):
    ran = rmq.run("scaling", "list", "--controller-http", "http://c1..example:9881")

    assert (ran.code, ran.err.startswith("rmq: http://c1..example:9881: no HTTP answer")) == (3, True), ran


@pytest.mark.parametrize(
    ("status", "answer", "sentence"),
    [
        (200, b"<html>", "it was done, but the answer cannot be read: check before you repeat it"),
        (500, b"", "without a readable reason; it may have been done: check before you repeat it"),
    ],
)
def test_change_with_an_answer_that_leaves_it_open_says_so(rmq, peer, status, answer, sentence):
    manager = peer(200, NOTHING_WRITTEN, after=[(status, answer)])
    ran = rmq.run("offsets", "undo", "x", "--yes", "--offset-manager", manager.url)

    assert (ran.code, sentence in ran.err) == (1, True), ran


@pytest.mark.parametrize("words", [("waive", "1", "billing"), ("approve", "p1")])
def test_change_before_which_a_controller_looks_at_brokers_has_more_time(rmq, peer, words):
    proposal = {
        "id": "p1",
        "topic": "T",
        "before": 1,
        "target": 2,
        "reason": "",
        "createdUnixMs": 1,
        "expiresUnixMs": 2,
    }
    controller = peer(200, RESIZE | {"proposals": [proposal]}, change_s=1)
    ran = rmq.run("scaling", *words, "--yes", "--timeout", "0.5", "--controller-http", controller.url)

    assert (ran.code, [method for method, *_ in controller.received]) == (0, ["GET", "POST"]), ran


def test_wait_for_a_resize_outlasts_a_controller_that_does_not_lead(rmq, peer):
    answers = [(201, RESIZE), (503, FOLLOWS), (200, RESIZE | {"phase": "DONE"})]
    controller = peer(200, {"topic": "T", "kind": "grow"}, after=answers)
    ran = rmq.run("topic", "scale", "T", "--queues", "4", "--wait", "--yes", "--controller-http", controller.url)

    assert (ran.code, "T: resize op-7 has started" in ran.err) == (0, True), ran


def test_wait_for_a_resize_ends_with_its_id_where_nobody_leads(run_here, peer, monkeypatch):
    monkeypatch.setattr("rmq.commands.scaling._AWAY_S", 0.0)
    controller = peer(200, {"topic": "T", "kind": "grow"}, after=[(201, RESIZE), (503, FOLLOWS)])
    ran = run_here("topic", "scale", "T", "--queues", "4", "--wait", "--yes", "--controller-http", controller.url)

    assert (ran.code, "without this command: rmq scaling show op-7" in ran.err) == (1, True), ran


def test_wait_for_a_resize_says_why_it_goes_back(rmq, peer):
    verifies = RESIZE | {"phase": "VERIFY", "phaseSinceUnixMs": 5}
    steps = [
        {"phase": phase, "beganUnixMs": began, "endedUnixMs": began + 1, "evidence": evidence}
        for phase, began, evidence in [
            ("SEED", 3, ["seeded"]),
            ("READ_UP", 4, ["new read queues"]),
            ("VERIFY", 5, ["c leads broker-a instead of a"]),
            ("SEED", 6, ["queue broker-a/4 begins at 0"]),
            ("READ_UP", 7, ["new read queues"]),
            ("VERIFY", 8, ["aborted by the operator"]),
            ("WRITE_DOWN", 9, ["fewer write queues"]),
        ]
    ]
    ended = RESIZE | {"phase": "ABORTED", "phaseSinceUnixMs": 10, "isUndone": True, "steps": steps}
    controller = peer(200, {"topic": "T", "kind": "grow"}, after=[(201, verifies | {"steps": steps[:2]}), (200, ended)])
    ran = rmq.run("topic", "scale", "T", "--queues", "4", "--wait", "--yes", "--controller-http", controller.url)

    assert [line for line in ran.err.splitlines() if line.startswith("rmq: T: ")] == [
        "rmq: T: resize op-7 has started",
        "rmq: T: VERIFY",
        "rmq: T: SEED: c leads broker-a instead of a",
        "rmq: T: READ_UP",
        "rmq: T: VERIFY",
        "rmq: T: WRITE_DOWN: aborted by the operator",
        "rmq: T: ABORTED",
        "rmq: T: the resize is ABORTED",
    ], ran


def test_what_a_conflict_is_about_is_shown_once(rmq, peer):
    step = {"phase": "WATCH", "beganUnixMs": 1, "endedUnixMs": 2, "evidence": ["broker-a shows others"]}
    values = {"phase": "CONFLICT", "problem": "broker-a shows others", "waitsFor": ["give it others"], "steps": [step]}
    rmq.environment["RMQ_CONTROLLER_HTTP"] = peer(200, RESIZE | values).url
    shown = rmq.run("scaling", "show", "orders.1", "-o", "json")

    assert ([row["text"] for row in shown.items], shown.err) == (["broker-a shows others", "give it others"], "")


def test_wait_for_a_resize_that_is_interrupted_says_that_it_goes_on(rmq, peer):
    controller = peer(200, {"topic": "T", "kind": "grow"}, after=[(201, RESIZE), (200, RESIZE)])
    words = ("topic", "scale", "T", "--queues", "4", "--wait", "--yes", "--controller-http", controller.url)
    ran = rmq.interrupt(*words, when=lambda: len(controller.received) > 2)

    assert (ran.code, "continues without this command: rmq scaling show op-7" in ran.err) == (130, True), ran


def test_operations_show_when_they_were_done(rmq, peer):
    done = {
        "operationId": "a",
        "kind": "restore",
        "writer": "w",
        "unixMs": 1_800_000_000_000,
        "undoes": "",
        "queues": 1,
        "finished": True,
    }
    manager = peer(200, {"operations": [done]})
    ran = rmq.run("offsets", "operations", "--offset-manager", manager.url)

    assert "2027-01-15T08:00:00.000Z" in ran.out, ran


def test_export_replaces_a_file_only_where_that_is_wanted(rmq, peer):
    manager = peer(200, {"file": base64.b64encode(b"new").decode(), "offsets": 1, "unavailable": []})
    words = ("offsets", "export", "offsets.json", "--offset-manager", manager.url)
    file = rmq.home / "offsets.json"
    file.write_text("old")
    file.chmod(0o640)
    refused = rmq.run(*words)

    assert (refused.code, "offsets.json exists" in refused.err, file.read_text()) == (2, True, "old"), refused
    assert rmq.run(*words, "--overwrite").code == 0
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("new", 0o640)
    assert [each.name for each in rmq.home.iterdir() if each.name.startswith("offsets")] == ["offsets.json"]
    assert rmq.run("offsets", "export", "other.json", "--offset-manager", manager.url).code == 0
    assert (rmq.home / "other.json").read_text() == "new"
    assert rmq.run("offsets", "export", "/dev/stdout", "--offset-manager", manager.url).out == "new"


@pytest.mark.parametrize(
    ("status", "answer", "code", "sentence"),
    [
        (200, b"<html>", 6, "is it an offset manager of this product?"),
        (429, {"error": {"code": "too_many_requests", "message": "later\x1b[2J"}}, 1, r"later\x1b[2J"),
    ],
)
def test_answers_have_their_code_and_sentence(rmq, peer, status, answer, code, sentence):
    ran = rmq.run("offsets", "operations", "--offset-manager", peer(status, answer).url)

    assert (ran.code, sentence in ran.err) == (code, True), ran
