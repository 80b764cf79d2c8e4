"""`rmq offsets` and `rmq group restore`: real offset managers, and a broker on loopback that one of them follows."""

import json
import time

import pytest
from fakes.answering_peer import refusal, success
from fakes.offset_broker import OffsetBroker, offset_brokers_in_thread
from peers.offset_managers import OffsetManager, a_queue
from peers.waiting import wait_until
from rmq_runs import Rmq

from remoting.protocol.codes import BrokerRequestCode, RequestCode, ResponseCode
from remoting.protocol.object_keys import with_quoted_keys

TOKEN = "0123456789abcdef-of-the-tests"
WAIT_S = 10


class LoggedBroker(OffsetBroker):
    """A broker whose log ends somewhere: it shows the messages of queue 0 of one topic below the end, and no others."""

    def __init__(self, name="broker-a"):
        super().__init__(name)
        self.log_end = 10_000
        # It is under no controller.
        self.instead = {RequestCode.GET_BROKER_EPOCH_CACHE: ResponseCode.SYSTEM_ERROR}
        self.topics = {"orders": {0: (0, 100), 1: (0, 100)}}

    def __call__(self, code, fields):
        if code == BrokerRequestCode.VIEW_MESSAGE_BY_ID and int(fields["offset"]) >= self.log_end:
            return refusal(ResponseCode.SYSTEM_ERROR, "can not find message by the offset, " + fields["offset"])
        if code == BrokerRequestCode.QUERY_CONSUME_QUEUE and fields["topic"] not in self.topics:
            # The messages of its log are of another topic.
            return refusal(ResponseCode.SYSTEM_ERROR)
        if code == BrokerRequestCode.GET_ALL_CONSUMER_OFFSET:
            rows = (
                f'"{key}":{{{",".join(f"{queue}:{offset}" for queue, offset in queues.items())}}}'
                for key, queues in self.offsets.items()
            )
            return success(f'{{"offsetTable":{{{",".join(rows)}}}}}'.encode())
        return super().__call__(code, fields)


@pytest.fixture(scope="module")
def broker():
    with offset_brokers_in_thread(found := LoggedBroker()):
        yield found


@pytest.fixture(scope="module")
def manager(tmp_path_factory, broker):
    """A manager that follows the broker at a NameServer, which the broker is itself."""
    folder = tmp_path_factory.mktemp("offsets")
    token = folder / "token"
    token.write_text(f"{TOKEN}\n")
    manager = OffsetManager(
        folder, namesrv_addr=broker.address, reading_period_ms=1000, http_admin_token_file=token
    ).start()
    yield manager
    assert manager.process.stop() == 0


@pytest.fixture(scope="module")
def lonely(tmp_path_factory):
    """A manager that follows nobody."""
    manager = OffsetManager(tmp_path_factory.mktemp("lonely"), "lonely").start()
    yield manager
    assert manager.process.stop() == 0


@pytest.fixture
def rmq(tmp_path, broker, manager):
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    token.chmod(0o600)
    wait_until(lambda: manager.get("/v1/offsets/sets").body["sets"], seconds=WAIT_S, what="a master")
    return Rmq(
        tmp_path / "operator",
        NAMESRV_ADDR=broker.address,
        RMQ_OFFSET_MANAGER=f"http://127.0.0.1:1;http://{manager.address}",
        RMQ_ADMIN_TOKEN_FILE=str(token),
    )


def read_since(manager, unix_ms):
    """Return a moment at which the manager has read what there was before."""

    def newest():
        return next((row["readUnixMs"] for row in manager.get("/v1/offsets/sets").body["sets"]), None) or 0

    # The first one after it may have begun before it.
    wait_until(lambda: newest() > unix_ms, seconds=WAIT_S, what="a reading")
    first = newest()
    wait_until(lambda: newest() > first, seconds=WAIT_S, what="another reading")
    return newest() + 1


def iso(unix_ms):
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(unix_ms // 1000))}.{unix_ms % 1000:03}Z"


def now_ms():
    return time.time_ns() // 1_000_000


def test_a_reset_is_listed_restored_and_undone(broker, manager, rmq):
    broker.offsets = {"orders@billing": {0: 50, 1: 60}}
    moment = iso(read_since(manager, now_ms()))
    broker.offsets = {"orders@billing": {0: 20, 1: 60}}
    wait_until(lambda: rmq.items("offsets", "jumps", "--group", "billing"), seconds=WAIT_S, what="the reset")
    (jump,) = rmq.items("offsets", "jumps", "--cause", "reset", "--group", "billing")
    assert (jump["messagesAgain"], jump["queues"], jump["brokerName"]) == (30, [[0, 50, 20]], "broker-a")
    table = rmq.run("offsets", "jumps", "--group", "billing")
    assert "0:50>20" in table.out, table

    restore = ("group", "restore", "billing", "--moment", moment, "--pulls")
    kept = rmq.run(*restore, "--dry-run", "-o", "json")
    assert (kept.code, {row["status"] for row in kept.items}) == (1, {"not proved", "right already"}), kept
    assert "overResets" in kept.items[0]["why"]
    assert "--over-resets would override" in kept.err, kept
    restore += ("--over-resets", "--allow-unproved")
    planned = {row["queueId"]: row for row in rmq.items(*restore, "--dry-run")}
    assert (planned[0]["status"], planned[0]["old"], planned[0]["new"]) == ("would change", 20, 50)
    assert (planned[0]["messagesNever"], planned[1]["status"]) == (30, "right already")
    assert broker.offsets["orders@billing"][0] == 20
    asked = rmq.run(*restore)
    assert (asked.code, "in 1 queues: 0 messages are read again, 30 skipped" in asked.err) == (2, True), asked

    done = rmq.run(*restore, "--yes", "-o", "json")
    (operation, *_) = rmq.items("offsets", "operations")
    assert (done.code, {row["status"] for row in done.items}) == (0, {"done", "right already"}), done
    assert broker.offsets["orders@billing"][0] == 50
    assert f"rmq offsets undo {operation['operationId']}" in done.err

    rmq.items("offsets", "undo", operation["operationId"], "--yes")
    assert broker.offsets["orders@billing"][0] == 20


def test_a_restore_that_would_go_back_is_not_done_unless_it_is_allowed(broker, manager, rmq):
    broker.offsets = {"orders@audit": {0: 30}}
    moment = iso(read_since(manager, now_ms()))
    broker.offsets = {"orders@audit": {0: 70}}
    restore = ("offsets", "restore", "--group", "audit", "--moment", moment, "--yes")

    refused = rmq.run(*restore, "-o", "json")
    assert (refused.code, refused.items[0]["status"]) == (1, "not proved"), refused
    assert "allowBack" in refused.items[0]["why"]
    assert broker.offsets["orders@audit"][0] == 70
    assert rmq.items(*restore, "--allow-back")[0]["messagesAgain"] == 40
    assert broker.offsets["orders@audit"][0] == 30


def test_a_file_is_exported_and_imported(broker, manager, rmq, tmp_path):
    broker.offsets = {"orders@files": {0: 30, 1: 31}}
    read_since(manager, now_ms())
    file = str(tmp_path / "consumerOffset.json")
    exported = rmq.run("offsets", "export", file, "--broker", "broker-a", "--group", "files")
    broker.offsets = {"orders@files": {0: 10}}
    words = ("offsets", "import", file, "--target", "broker", "--broker", "broker-a", "--group", "files")

    assert (exported.code, f"2 offsets in {file}" in exported.err) == (0, True), exported
    # As a broker writes it, with integers as keys.
    written = json.loads(with_quoted_keys((tmp_path / "consumerOffset.json").read_bytes()))
    assert written["offsetTable"] == {"orders@files": {"0": 30, "1": 31}}
    refused = rmq.run(*words, "--dry-run", "-o", "json")
    assert (refused.code, {row["status"] for row in refused.items}) == (1, {"not proved"}), refused
    words += ("--pulls", "--allow-unproved")
    assert {row["status"] for row in rmq.items(*words, "--dry-run")} == {"would change"}
    assert {row["status"] for row in rmq.items(*words, "--yes")} == {"done"}
    assert broker.offsets == {"orders@files": {0: 30, 1: 31}}


def test_a_lag_counts_with_the_offsets_that_are_kept_here(broker, manager, rmq):
    broker.offsets = {"orders@lagging": {0: 40, 1: 100}}
    committed = manager.post(
        "/v1/offsets/commit",
        {"writer": "c1", "entries": [a_queue(0, group="lagging") | {"offset": 70}]},
        Authorization=f"Bearer {TOKEN}",
    )
    assert committed.body["results"] == [{"status": "ok"}]
    rows = {row["queueId"]: row for row in rmq.items("offsets", "lag", "lagging")}
    assert (rows[0]["lag"], rows[0]["committedIn"]) == (30, "manager")
    assert (rows[1]["lag"], rows[1]["committedIn"]) == (0, "broker")
    read_since(manager, now_ms())
    assert {row["group"] for row in rmq.items("offsets", "groups", "orders")} == {"lagging"}


def test_a_lost_log_is_reported_and_repaired_by_the_one_command(broker, manager, rmq):
    """The broker comes back with an empty store: groups that go on where they were would skip what is sent next."""
    broker.offsets = {"orders@ahead": {0: 50}}
    read_since(manager, now_ms())
    assert rmq.run("offsets", "repair", "999", "--yes").code == 4
    assert rmq.items("offsets", "sets")[0]["fingerprints"] > 0
    broker.topics, broker.log_end = {"orders": {0: (0, 0), 1: (0, 0)}}, 0
    broker.restart(now_ms())
    (run, *_) = wait_until(lambda: rmq.items("offsets", "repairs"), seconds=WAIT_S, what="a run")
    number = str(run["run"])
    assert (run["brokerName"], run["counts"]["would change"], run["partedAt"]) == ("broker-a", 1, 0)

    status = rmq.run("offsets", "status")
    assert (status.code, f"rmq offsets repair {number}" in status.out) == (7, True), status
    assert status.err.strip().endswith(f", repair {number}"), status
    preview = rmq.items("offsets", "repair", number, "--dry-run")
    assert [(row["group"], row["shown"], row["offset"], row["messagesSkipped"]) for row in preview] == [
        ("ahead", 50, 0, 50)
    ]
    asked = rmq.run("offsets", "repair", number)
    assert (asked.code, "With it 0 messages are read again; without it 0, and up to 50" in asked.err) == (2, True), (
        asked
    )
    assert broker.offsets["orders@ahead"][0] == 50

    (done,) = rmq.items("offsets", "repair", number, "--yes")
    assert done["counts"] == {"set back": 1}
    assert broker.offsets["orders@ahead"][0] == 0
    assert [row["outcome"] for row in rmq.items("offsets", "repairs", number)] == ["set back"]
    again = rmq.run("offsets", "repair", number, "--yes")
    assert (again.code, "would change nothing" in again.err) == (0, True), again
    rmq.environment["RMQ_OFFSET_MANAGER"] = f"http://{manager.address}"
    assert {row["kind"] for row in rmq.items("offsets", "status")} - {"jumps"} == {"manager", "brokerSet"}


def test_a_run_whose_groups_went_on_by_themselves_waits_for_nobody_once_it_was_applied(broker, manager, rmq):
    broker.topics, broker.log_end, broker.offsets = {"orders": {0: (0, 100)}}, 10_000, {"orders@alone": {0: 70}}
    read_since(manager, now_ms())
    former = rmq.items("offsets", "repairs")[0]["run"]
    broker.topics, broker.log_end = {"orders": {0: (0, 0)}}, 0
    broker.restart(now_ms())
    run = wait_until(
        lambda: (newest := rmq.items("offsets", "repairs")[0])["run"] != former and newest, seconds=WAIT_S, what="a run"
    )
    assert run["counts"]["would change"] == 1
    broker.offsets = {"orders@alone": {0: 0}}
    repair = ("offsets", "repair", str(run["run"]))
    looked = rmq.run(*repair, "--dry-run")
    assert (looked.code, "would change nothing now: 1 right already" in looked.err) == (0, True), looked
    asked = rmq.run(*repair)
    assert (asked.code, "Close run" in asked.err) == (2, True), asked
    assert "would change" in rmq.items("offsets", "repairs")[0]["counts"]

    assert rmq.run(*repair, "--yes").code == 0
    assert rmq.items("offsets", "repairs")[0]["counts"] == {"right already": 1}


def test_a_group_is_declared_orderly_and_taken_back(rmq):
    declared = rmq.run("offsets", "declare-orderly", "ledger", "--yes")
    again = rmq.run("offsets", "declare-orderly", "ledger", "--yes")
    assert (declared.code, "already" in declared.err, "already" in again.err) == (0, False, True), again
    assert rmq.items("offsets", "orderly") == [{"cluster": "DefaultCluster", "group": "ledger"}]
    assert (rmq.items("offsets", "holders", "ledger"), rmq.items("offsets", "overlaps")) == ([], [])
    assert rmq.run("offsets", "undeclare", "ledger", "--yes").code == 0
    assert "not declared" in rmq.run("offsets", "holders", "ledger").err


@pytest.mark.parametrize("words", [("lag", "unheard"), ("groups", "Unheard")])
def test_a_name_of_which_nothing_is_known_is_said(rmq, words):
    ran = rmq.run("offsets", *words)
    assert (ran.code, "nheard" in ran.err) == (0, True), ran


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("offsets", "undo", "absent", "--yes"), 4, "absent"),
        (("offsets", "undo", "../x?y", "--yes"), 4, "../x?y"),
        (("offsets", "repairs", "999"), 4, "no repair run 999"),
        (("group", "restore", "g", "--moment", "yesterday"), 2, "--moment: yesterday is not a time"),
        (("group", "restore", "g", "--moment", "2001-01-01T00:00:00Z", "--yes"), 1, "nothing can be written"),
        (("offsets", "restore", "--cluster", "c9", "--moment", "former", "--yes"), 4, "c9"),
        (("offsets", "import", "absent.json", "--target", "broker"), 2, "absent.json cannot be read"),
        (("offsets", "export", "/nowhere/f", "--broker", "broker-a"), 2, "/nowhere/f cannot be written"),
        (("offsets", "export", "f", "--dialect", "client"), 1, "give group"),
    ],
)
def test_what_cannot_be_is_one_sentence(rmq, words, code, sentence):
    ran = rmq.run(*words)

    assert (ran.code, sentence in ran.err) == (code, True), ran


def test_a_file_that_is_broken_is_refused_with_its_place(rmq, tmp_path):
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
        ("tökén\n", 0o600, 5, "is not a token"),
    ],
)
def test_a_change_without_the_token_is_no_rights(rmq, tmp_path, token, mode, code, sentence):
    if token is None:
        rmq.environment["RMQ_ADMIN_TOKEN_FILE"] = ""
    else:
        (tmp_path / "token").write_text(token)
        (tmp_path / "token").chmod(mode)
    ran = rmq.run("offsets", "restore", "--moment", "former", "--yes")

    assert (ran.code, sentence in ran.err) == (code, True), ran


@pytest.mark.parametrize("words", [("sets",), ("jumps",), ("repairs",), ("groups", "t"), ("lag", "g")])
def test_a_manager_that_follows_nobody_says_so(rmq, lonely, words):
    rmq.environment["RMQ_OFFSET_MANAGER"] = f"http://{lonely.address}"
    ran = rmq.run("offsets", *words)

    assert (ran.code, ran.out, "no source of masters" in ran.err, "--namesrv-addr" in ran.err) == (1, "", True, True), (
        ran
    )


def test_status_shows_managers_sets_and_who_follows_nobody(broker, manager, rmq, lonely):
    broker.offsets = {"orders@a": {0: 1}}
    read_since(manager, now_ms())
    rmq.environment["RMQ_OFFSET_MANAGER"] = f"http://{manager.address};http://{lonely.address};http://127.0.0.1:1"
    ran = rmq.run("offsets", "status", "-o", "json")
    states = {(row["kind"], row["name"]): row["state"] for row in ran.items}

    assert ran.code == 7, ran
    assert states["manager", manager.address] == "leads"
    assert states["manager", lonely.address] == "follows_nobody"
    assert states["manager", "http://127.0.0.1:1"] == "failed"
    assert states["brokerSet", "broker-a"] == "fresh"


def test_without_a_manager_it_is_not_reachable_and_says_how_to_name_one(rmq, servers):
    rmq.environment["RMQ_OFFSET_MANAGER"] = ""
    nobody = rmq.run("offsets", "sets", "--timeout", "1")
    status = rmq.run("offsets", "status", "--timeout", "1")
    other = rmq.run("offsets", "sets", "--offset-manager", f"http://127.0.0.1:{servers.controller.http_port}")

    assert (nobody.code, "give it with --offset-manager" in nobody.err) == (3, True), nobody
    assert (status.code, "give it with --offset-manager" in status.err) == (3, True), status
    assert (other.code, "is it an offset manager of this product?" in other.err) == (6, True), other
