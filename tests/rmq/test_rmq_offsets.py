"""`rmq offsets` and `rmq group restore`: a real offset manager, and a broker on loopback that it follows."""

import json
import time

import pytest
from fakes.offset_broker import OffsetBroker, offset_brokers_in_thread
from peers.offset_managers import OffsetManager
from peers.waiting import wait_until
from rmq_runs import Rmq

from remoting.protocol.codes import RequestCode, ResponseCode
from remoting.protocol.object_keys import with_quoted_keys

TOKEN = "0123456789abcdef-of-the-tests"
WAIT_S = 60


@pytest.fixture(scope="module")
def broker():
    found = OffsetBroker()
    found.topics = {"orders": dict.fromkeys(range(2), (0, 100))}
    # It is under no controller.
    found.instead = {RequestCode.GET_BROKER_EPOCH_CACHE: ResponseCode.SYSTEM_ERROR}
    with offset_brokers_in_thread(found):
        yield found


@pytest.fixture(scope="module")
def manager(tmp_path_factory, broker):
    """A manager that follows the broker at a NameServer, which the broker is itself."""
    folder = tmp_path_factory.mktemp("offsets")
    token = folder / "token"
    token.write_text(f"{TOKEN}\n")
    manager = OffsetManager(
        folder, namesrv_addr=broker.address, mirror_period_ms=1000, http_admin_token_file=token
    ).start()
    yield manager
    assert manager.process.stop() == 0


@pytest.fixture
def rmq(tmp_path, broker, manager):
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    token.chmod(0o600)
    wait_until(lambda: manager.get("/v1/offsets/mirror").body["sets"], seconds=WAIT_S, what="a master")
    return Rmq(
        tmp_path / "operator",
        NAMESRV_ADDR=broker.address,
        RMQ_OFFSET_MANAGER=f"http://127.0.0.1:1;http://{manager.address}",
        RMQ_ADMIN_TOKEN_FILE=str(token),
    )


def read_since(rmq, unix_ms):
    """Return a moment at which the mirror has read what there was before."""

    def newest():
        return next((row["readUnixMs"] for row in rmq.items("offsets", "mirror") if row["readUnixMs"]), 0)

    wait_until(lambda: newest() > unix_ms, seconds=WAIT_S, what="a reading")
    return newest() + 1


def iso(unix_ms):
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(unix_ms // 1000))}.{unix_ms % 1000:03}Z"


def now_ms():
    return time.time_ns() // 1_000_000


def test_rewind_is_listed_restored_and_undone(broker, rmq):
    broker.offsets = {"orders@billing": {0: 50, 1: 60}}
    moment = iso(read_since(rmq, now_ms()))
    broker.offsets = {"orders@billing": {0: 20, 1: 60}}
    wait_until(lambda: rmq.items("offsets", "regressions", "--group", "billing"), seconds=WAIT_S, what="the rewind")
    (rewind,) = rmq.items("offsets", "regressions", "--cause", "rewind")
    restore = ("group", "restore", "billing", "--moment", moment)
    planned = {row["queueId"]: row for row in rmq.items(*restore, "--dry-run")}
    asked = rmq.run(*restore)

    assert (rewind["fromOffset"], rewind["toOffset"], rewind["messagesAgain"]) == (50, 20, 30)
    assert (planned[0]["status"], planned[0]["old"], planned[0]["new"]) == ("ready", 20, 50)
    assert (planned[0]["messagesSkipped"], planned[1]["status"]) == (30, "unchanged")
    assert broker.offsets["orders@billing"][0] == 20
    assert (asked.code, "in 1 queues: 0 messages are read again, 30 are skipped" in asked.err) == (2, True), asked

    done = rmq.run(*restore, "--yes", "-o", "json")
    (operation, *_) = rmq.items("offsets", "operations")
    assert (done.code, {row["status"] for row in done.items}) == (0, {"restored", "unchanged"})
    assert broker.offsets["orders@billing"][0] == 50
    assert f"rmq offsets undo {operation['operationId']}" in done.err

    rmq.items("offsets", "undo", operation["operationId"], "--yes")
    assert broker.offsets["orders@billing"][0] == 20


def test_restore_that_would_go_back_is_not_done_unless_it_is_allowed(broker, rmq):
    broker.offsets = {"orders@audit": {0: 30}}
    moment = iso(read_since(rmq, now_ms()))
    broker.offsets = {"orders@audit": {0: 70}}
    restore = ("offsets", "restore", "--group", "audit", "--moment", moment, "--yes")

    refused = rmq.run(*restore, "-o", "json")
    assert (refused.code, refused.items[0]["status"]) == (1, "backward")
    assert broker.offsets["orders@audit"][0] == 70
    assert rmq.items(*restore, "--allow-back")[0]["messagesAgain"] == 40
    assert broker.offsets["orders@audit"][0] == 30


def test_file_is_exported_and_imported(broker, rmq, tmp_path, monkeypatch):
    broker.offsets = {"orders@files": {0: 30, 1: 31}}
    read_since(rmq, now_ms())
    file = str(tmp_path / "consumerOffset.json")
    exported = rmq.run("offsets", "export", file, "--broker", "broker-a", "--group", "files")
    broker.offsets = {"orders@files": {0: 10}}
    words = ("offsets", "import", file, "--target", "broker", "--broker", "broker-a")

    assert (exported.code, f"2 offsets in {file}" in exported.err) == (0, True)
    # As a broker writes it, with integers as keys.
    written = json.loads(with_quoted_keys((tmp_path / "consumerOffset.json").read_bytes()))
    assert written["offsetTable"] == {"orders@files": {"0": 30, "1": 31}}
    assert {row["status"] for row in rmq.items(*words, "--dry-run")} == {"ready"}
    monkeypatch.setattr(broker, "version", "V5_1_4")
    named = (*words, "--group", "files", "--dry-run")
    refused = rmq.run(*named, "-o", "json")
    assert (refused.code, {row["status"] for row in refused.items}) == (1, {"pops"})
    assert {row["status"] for row in rmq.items(*named, "--pulls")} == {"ready"}
    monkeypatch.undo()
    assert {row["status"] for row in rmq.items(*words, "--yes")} == {"restored"}
    assert broker.offsets == {"orders@files": {0: 30, 1: 31}}


def test_guard_shows_what_it_would_write_after_a_restart(broker, rmq, monkeypatch):
    """Nobody knows whether the group has read the message before its offset: it is as young as that."""
    broker.offsets = {"orders@guarded": {0: 50}}
    monkeypatch.setitem(broker.stored, ("orders", 0), {49: now_ms()})
    read_since(rmq, now_ms())
    broker.offsets, broker.boot_ms = {"orders@guarded": {0: 20}}, now_ms()
    runs = lambda: [each for each in rmq.items("offsets", "guard") if each["result"] != "ended"]  # noqa: E731
    (run, *_) = wait_until(runs, seconds=WAIT_S, what="a run of the guard")

    assert (run["brokerName"], run["writes"]) == ("broker-a", False)
    assert sum(run["offsets"].values()) > 0
    (offset,) = [row for row in rmq.items("offsets", "guard", str(run["run"])) if row["group"] == "guarded"]
    assert (offset["saved"], offset["oldOffset"]) == (50, 20)
    assert rmq.run("offsets", "guard", "999").code == 4


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("offsets", "undo", "absent", "--yes"), 4, "absent"),
        (("offsets", "undo", "../x?y", "--yes"), 4, "../x?y"),
        (("group", "restore", "g", "--moment", "yesterday"), 2, "--moment: yesterday is no time"),
        (("group", "restore", "g", "--moment", "2001-01-01T00:00:00Z", "--yes"), 1, "nothing can be written"),
        (("group", "restore", "absent", "--moment", "former", "--yes"), 4, "no offsets of these names"),
        (("offsets", "restore", "--cluster", "c9", "--moment", "former", "--yes"), 4, "broker set of cluster 'c9'"),
        (("offsets", "restore", "--moment", "former", "--pulls"), 1, "With pulls give the group"),
        (("offsets", "import", "absent.json", "--target", "broker"), 2, "absent.json cannot be read"),
        (("offsets", "export", "/nowhere/f", "--broker", "broker-a"), 2, "/nowhere/f cannot be written"),
        (("offsets", "export", "f", "--dialect", "client"), 1, "give it"),
    ],
)
def test_what_cannot_be_is_one_sentence(rmq, words, code, sentence):
    ran = rmq.run(*words)

    assert (ran.code, sentence in ran.err) == (code, True), ran


def test_file_that_is_broken_is_refused_with_its_place(rmq, tmp_path):
    file = tmp_path / "offsets.json"
    file.write_text('{"offsetTable":{"orders@g":{0:')
    ran = rmq.run("offsets", "import", str(file), "--target", "broker", "--broker", "broker-a", "--yes")

    assert (ran.code, "HTTP status 422" in ran.err) == (1, True), ran


@pytest.mark.parametrize(
    ("token", "mode", "code", "sentence"),
    [
        (None, 0o600, 5, "--admin-token-file"),
        ("wrong\n", 0o600, 5, "HTTP status 401"),
        (f"{TOKEN}\n", 0o644, 2, "chmod 600"),
        ("tökén\n", 0o600, 5, "is no token"),
    ],
)
def test_change_without_the_token_is_no_rights(rmq, tmp_path, token, mode, code, sentence):
    if token is None:
        rmq.environment["RMQ_ADMIN_TOKEN_FILE"] = ""
    else:
        (tmp_path / "token").write_text(token)
        (tmp_path / "token").chmod(mode)
    ran = rmq.run("offsets", "restore", "--moment", "former", "--yes")

    assert (ran.code, sentence in ran.err) == (code, True), ran


def test_without_a_manager_it_is_not_reachable_and_says_how_to_name_one(rmq, servers):
    rmq.environment["RMQ_OFFSET_MANAGER"] = ""
    nobody = rmq.run("offsets", "mirror", "--timeout", "1")
    other = rmq.run("offsets", "mirror", "--offset-manager", f"http://127.0.0.1:{servers.controller.http_port}")

    assert (nobody.code, "name it with --offset-manager" in nobody.err) == (3, True), nobody
    assert (other.code, "is it an offset manager's, of this product?" in other.err) == (6, True), other
