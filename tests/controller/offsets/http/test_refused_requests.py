"""Bad requests to a real offset manager: each is answered with its status and a sentence, and nothing is half done."""

import http.client
import json
import threading

import pytest
from peers.offset_managers import OffsetManager, a_queue, an_entry

ADMIN_TOKEN, CLIENT_TOKEN = "the-token-of-operators", "the-token-of-clients"
ADMIN, CLIENT = ({"Authorization": f"Bearer {token}"} for token in (ADMIN_TOKEN, CLIENT_TOKEN))
RESET = {"writer": "alice", "entries": [a_queue() | {"offset": 1}]}
COMMIT = {"writer": "client-1", "entries": [an_entry(1)]}


@pytest.fixture(scope="module")
def manager(tmp_path_factory):
    """A manager on loopback without tokens."""
    manager = OffsetManager(tmp_path_factory.mktemp("open")).start()
    yield manager
    assert manager.process.stop() == 0


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A manager with a token for operators and one for clients."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "admin").write_text(ADMIN_TOKEN)
    (folder / "client").write_text(CLIENT_TOKEN)
    options = {"http_admin_token_file": folder / "admin", "client_token_file": folder / "client"}
    manager = OffsetManager(folder, **options).start()
    yield manager
    assert manager.process.stop() == 0


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        (COMMIT | {"mode": "overwrite"}, 422, "unknown field `mode`"),
        (COMMIT | {"entries": [an_entry(1) | {"epoch": 1}]}, 422, "unknown field `epoch` - at `$.entries[0]`"),
        (COMMIT | {"entries": []}, 422, "length >= 1 - at `$.entries`"),
        (COMMIT | {"entries": [an_entry(1)] * 1001}, 422, "length <= 1000 - at `$.entries`"),
        (COMMIT | {"entries": [an_entry("5")]}, 422, "Expected `int`, got `str` - at `$.entries[0].offset`"),
        (COMMIT | {"entries": [an_entry(1.5)]}, 422, "Expected `int`"),
        ({"entries": [an_entry(1)]}, 422, "missing required field `writer`"),
        (COMMIT | {"writer": ""}, 422, "length >= 1 - at `$.writer`"),
        (COMMIT | {"writer": "  "}, 422, "The writer is blank"),
        (COMMIT | {"writer": "a\nb"}, 422, "The writer contains characters that cannot be shown"),
        (COMMIT | {"writer": "w" * 256}, 422, "length <= 255 - at `$.writer`"),
    ],
)
def test_a_body_that_does_not_fit_is_refused_as_a_whole(manager, body, status, sentence):
    answer = manager.post("/v1/offsets/commit", body)
    assert answer.status == status
    assert sentence in answer.sentence


def test_nothing_of_a_refused_body_is_stored(manager):
    entries = [an_entry(1, group="whole"), an_entry(1, group="whole") | {"more": 1}]
    assert manager.post("/v1/offsets/commit", COMMIT | {"entries": entries}).status == 422
    assert manager.post("/v1/offsets/read", {"keys": [a_queue(group="whole")]}).statuses == ["not_found"]


@pytest.mark.parametrize(
    ("headers", "body", "status", "sentence"),
    [
        ({"Content-Type": "text/plain"}, b"{}", 415, "Content-Type must be application/json"),
        ({"Content-Type": "application/json", "Content-Encoding": "gzip"}, b"{}", 415, "must not be compressed"),
        ({"Content-Type": "application/json"}, b"{", 400, "The body is no JSON"),
        ({"Content-Type": "application/json"}, b'"' + b"x" * (3 << 20) + b'"', 413, "longer than 2097152 bytes"),
    ],
)
def test_a_body_that_is_no_json_or_too_long_is_refused(manager, headers, body, status, sentence):
    answer = manager.request("POST", "/v1/offsets/commit", body, headers)
    assert answer.status == status
    assert sentence in answer.sentence


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("/v1/offsets?gruop=a", 400, "has no parameter gruop; it takes cluster, namespace, group, topic, broker"),
        ("/v1/offsets?limit=1001", 400, "limit must be a whole number from 1 to 1000"),
        ("/v1/offsets?cursor=x", 400, "cursor must be the nextCursor of the page before"),
        ("/v1/locks", 400, "group must be given"),
        ("/v1/locks?group=g&cursor=AAAA", 400, "cursor must be the nextCursor of the page before"),
        ("/v1/nothing", 404, "There is nothing at /v1/nothing"),
        ("/v1/offsets/commit", 405, "/v1/offsets/commit takes POST only"),
    ],
)
def test_a_query_that_is_not_understood_is_refused(manager, path, status, sentence):
    answer = manager.get(path)
    assert answer.status == status
    assert sentence in answer.sentence


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        ("clone", {"writer": "a", "sourceGroup": "g", "toGroup": "g"}, 409, "are both group g"),
        ("freeze", {"operation": "o", "reason": "r"}, 409, "The freeze covers nothing"),
        ("freeze", {"operation": "o", "reason": "r", "leaseMs": 1, "scopes": [{"group": "g"}]}, 409, "A lease of 1 ms"),
        ("delete", {"writer": "a", "brokerName": "b"}, 422, "Name a group, a topic or both"),
        ("reset", {"writer": "a", "entries": [a_queue()]}, 422, "missing required field `offset`"),
    ],
)
def test_an_operation_that_makes_no_sense_is_refused(manager, path, body, status, sentence):
    answer = manager.post(f"/v1/offsets/{path}", body)
    assert answer.status == status
    assert sentence in answer.sentence


def test_a_page_of_a_browser_is_refused_while_there_is_no_token(manager):
    answer = manager.post("/v1/offsets/commit", COMMIT, Origin=f"http://127.0.0.1:{manager.port}")
    assert (answer.status, answer.code) == (403, "forbidden")


def test_clients_commit_and_read_with_their_token(guarded):
    assert guarded.post("/v1/offsets/commit", COMMIT, **CLIENT).statuses == ["ok"]
    assert guarded.post("/v1/offsets/read", {"keys": [a_queue()]}, **CLIENT).statuses == ["ok"]
    assert guarded.post("/v1/offsets/flush", {}, **CLIENT).status == 200
    assert guarded.post("/v1/offsets/commit", COMMIT, **ADMIN).statuses == ["ok"]


@pytest.mark.parametrize("path", ["offsets/commit", "offsets/read", "offsets/reset", "locks/sessions"])
def test_no_token_and_a_wrong_one_are_refused(guarded, path):
    answer = guarded.post(f"/v1/{path}", {})
    assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert answer.sentence.startswith("Send the token of")
    wrong = guarded.post(f"/v1/{path}", {}, Authorization="Bearer another-token-of-16")
    assert wrong.status == 401


@pytest.mark.parametrize(
    "path",
    ["offsets/reset", "offsets/seed", "offsets/clone", "offsets/delete", "offsets/freeze", "offsets/thaw",
     "locks/force-release", "locks/declare-orderly"],
)  # fmt: skip
def test_what_is_an_operators_is_not_done_for_the_token_of_clients(guarded, path):
    answer = guarded.post(f"/v1/{path}", RESET, **CLIENT)
    assert (answer.status, answer.code) == (401, "unauthorized")
    assert "httpAdminTokenFile" in answer.sentence


def test_reading_pages_and_metrics_needs_no_token(guarded):
    assert guarded.get("/v1/offsets?group=billing").status == 200
    assert guarded.get("/metrics").status == 200


def test_a_replaced_token_counts_within_a_second(guarded):
    token_file = guarded.options["client_token_file"]
    token_file.write_text("another-token-of-clients")
    try:
        guarded.process.wait_for(
            r'"event":"http_admin_token_loaded".*client', seconds=10, position=guarded.process.position()
        )
        assert guarded.post("/v1/offsets/commit", COMMIT, **CLIENT).status == 401
        assert guarded.post("/v1/offsets/commit", COMMIT, Authorization="Bearer another-token-of-clients").status == 200
    finally:
        token_file.write_text(CLIENT_TOKEN)


@pytest.mark.parametrize(("path", "limit"), [("/v1/offsets/commit", 64), ("/v1/offsets/flush", 4)])
def test_requests_beyond_the_limit_are_answered_429_before_their_bodies_are_read(manager, path, limit):
    waiting = [_begun_request(manager, path) for _ in range(limit)]
    try:
        answer = manager.post(path, {})
        assert (answer.status, answer.code) == (429, "too_many_requests")
        assert answer.headers["Retry-After"] == "1"
        assert manager.get("/livez").status == 200
    finally:
        for each in waiting:
            each.close()


def _begun_request(manager, path):
    """Return a connection with a request whose body does not come."""
    connection = http.client.HTTPConnection("127.0.0.1", manager.port, timeout=10)
    connection.putrequest("POST", path)
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", "100")
    connection.endheaders()
    return connection


def test_concurrent_commits_of_one_queue_end_at_the_highest(manager):
    def commit(numbers):
        for number in numbers:
            answer = manager.commit(an_entry(number, group="race"))
            assert answer.statuses[0] in ("ok", "stale")

    threads = [threading.Thread(target=commit, args=(range(start, 200, 4),)) for start in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    body = json.dumps({"keys": [a_queue(group="race")]}).encode()
    answer = manager.request("POST", "/v1/offsets/read", body, {"Content-Type": "application/json"})
    assert answer.body["results"][0]["stored"]["offset"] == 199
