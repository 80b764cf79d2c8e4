"""Restores, undoes, lags and files over real HTTP: a real offset manager, and brokers on loopback."""

import base64
import json
import time
from urllib.parse import urlencode

import pytest
from fakes.offset_broker import OffsetBroker, offset_brokers_in_thread
from peers.offset_managers import OffsetManager, a_queue, an_entry
from peers.waiting import wait_until

from controller.offsets.restore.lag_turns import LAG_EACH_MS, LAGS_MAX
from remoting.clock import SystemClock
from remoting.protocol.codes import BrokerRequestCode, ResponseCode

CLOCK = SystemClock()


@pytest.fixture(scope="module")
def broker():
    found = OffsetBroker()
    with offset_brokers_in_thread(found):
        yield found


@pytest.fixture(scope="module")
def manager(tmp_path_factory, broker):
    """A manager that follows the broker at a NameServer, which the broker is itself."""
    folder = tmp_path_factory.mktemp("restores")
    manager = OffsetManager(folder, namesrv_addr=broker.address, mirror_period_ms=1000).start()
    yield manager
    assert manager.process.stop() == 0


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A manager that follows nobody."""
    manager = OffsetManager(tmp_path_factory.mktemp("alone")).start()
    yield manager
    assert manager.process.stop() == 0


@pytest.fixture
def queues(broker, manager):
    """Three queues of a topic, of which a group has read the messages before 10."""
    broker.topics = {"orders": dict.fromkeys(range(3), (0, 100))}
    broker.offsets = {"orders@billing": {0: 10, 1: 10}}
    broker.online, broker.instead, broker.written, broker.stored = {}, {}, [], {}
    wait_until(lambda: manager.get("/v1/offsets/mirror").body["sets"], seconds=30, what="a master")
    return broker


def file_of(**table):
    return base64.b64encode(json.dumps({"offsetTable": table}).encode()).decode()


def imported(manager, text, *, dry=False, target="broker", **more):
    body = {"writer": "alice", "dialect": "broker", "file": text, "brokerName": "broker-a", "target": target}
    return manager.post("/v1/offsets/import", body | {"dryRun": dry} | more)


def statuses(answer):
    return {each["queueId"]: each["status"] for each in answer.body["queues"]}


def mirrored(manager, since_ms):
    """Return a moment at which the mirror has read all that there was before."""

    def newest():
        sets = manager.get("/v1/offsets/mirror").body["sets"]
        return max((each["reading"]["readUnixMs"] for each in sets if each["reading"]), default=0)

    wait_until(lambda: newest() > since_ms, seconds=30, what="a reading")
    return newest() + 1


def test_offsets_that_were_set_back_are_restored_from_a_moment(manager, queues):
    moment = mirrored(manager, CLOCK.unix_ms())
    queues.offsets = {"orders@billing": {0: 0, 1: 0}}
    restore = {"writer": "alice", "moment": moment, "group": "billing"}

    shown = manager.post("/v1/offsets/restore", restore | {"dryRun": True})
    assert [(each["old"], each["new"], each["messagesSkipped"]) for each in shown.body["queues"]] == [(0, 10, 10)] * 2
    assert queues.written == []

    done = manager.post("/v1/offsets/restore", restore)
    assert done.body["counts"] == {"restored": 2}
    assert queues.offsets == {"orders@billing": {0: 10, 1: 10}}
    (began,) = [each for each in manager.events("restore_began") if each["operation_id"] == done.body["operationId"]]
    assert (began["queues"], began["messages_skipped"]) == (2, 20)


def test_what_there_was_before_a_restart_is_restored_where_its_messages_are_still_there(manager, queues):
    mirrored(manager, CLOCK.unix_ms())
    queues.boot_ms = CLOCK.unix_ms()
    queues.offsets = {"orders@billing": {0: 0, 1: 0}}
    # Of queue 1 new messages have taken the place of lost ones.
    queues.stored["orders", 1] = dict.fromkeys(range(100), queues.boot_ms + 60_000)

    restore = {"writer": "alice", "moment": "former", "group": "billing"}
    done = manager.post("/v1/offsets/restore", restore)

    assert statuses(done) == {0: "restored", 1: "not_proved"}
    assert queues.offsets == {"orders@billing": {0: 10, 1: 0}}
    allowed = manager.post("/v1/offsets/restore", restore | {"allowUnproved": True, "dryRun": True})
    assert statuses(allowed) == {0: "unchanged", 1: "ready"}


def test_moment_that_is_not_kept_is_named(manager, queues):
    mirrored(manager, CLOCK.unix_ms())
    (kept,) = manager.get("/v1/offsets/mirror").body["sets"]
    before = kept["keptSinceUnixMs"] - 60_000
    done = manager.post("/v1/offsets/restore", {"writer": "alice", "moment": before})
    assert done.body["queues"] == []
    assert "are not known" in done.body["problems"][0]["reason"]


def test_mirror_is_exported_as_a_file(manager, queues):
    mirrored(manager, CLOCK.unix_ms())
    body = {"dialect": "broker", "source": "mirror", "brokerName": "broker-a", "group": "billing"}
    text = base64.b64decode(manager.post("/v1/offsets/export", body).body["file"]).decode()
    assert "".join(text.split()) == '{"offsetTable":{"orders@billing":{0:10,1:10}}}'


def test_groups_of_a_topic_are_those_with_offsets_in_it(manager, queues):
    since_ms = CLOCK.unix_ms()
    queues.offsets = {
        "orders@billing": {0: 10},
        "orders@audit": {0: 1},
        "orders@audit@broadcast": {0: 3},
        "orders-2@other": {0: 5},
        "订单@billing": {0: 1},
    }
    mirrored(manager, since_ms)

    def groups(topic, **more):
        query = urlencode({"topic": topic} | more)
        return manager.get(f"/v1/offsets/groups?{query}").body

    found = groups("orders")
    assert [(each["group"], each["kind"], each["brokerSets"]) for each in found["groups"]] == [
        ("audit", "clustering", 1),
        ("audit", "broadcast", 1),
        ("billing", "clustering", 1),
    ]
    assert [each["group"] for each in groups("订单")["groups"]] == ["billing"]
    first = groups("orders", limit=2)
    assert (len(first["groups"]), first["total"]) == (2, 3)
    (last,) = groups("orders", limit=2, cursor=first["nextCursor"])["groups"]
    assert last["group"] == "billing"


def test_topic_must_be_given_for_its_groups(manager, alone):
    answer = manager.get("/v1/offsets/groups")
    assert (answer.status, answer.sentence) == (400, "topic must be given.")
    assert alone.get("/v1/offsets/groups?topic=orders").status == 409


def test_lag_of_each_queue_is_shown_and_unknown_is_no_number(manager, queues):
    body = manager.get("/v1/offsets/lag?group=billing").body

    assert [(each["queueId"], each["committedOffset"], each["lag"]) for each in body["queues"]] == [
        (0, 10, 90),
        (1, 10, 90),
        (2, None, "unknown"),
    ]
    assert [each["committedIn"] for each in body["queues"]] == ["broker", "broker", None]
    assert (body["knownLag"], body["unknown"], body["unavailable"]) == (180, 1, [])


def test_silent_broker_is_named_in_a_lag(manager, queues):
    queues.instead[BrokerRequestCode.GET_ALL_CONSUMER_OFFSET] = ResponseCode.NO_PERMISSION
    body = manager.get("/v1/offsets/lag?group=billing").body
    assert body["queues"] == []
    assert [each["brokerName"] for each in body["unavailable"]] == ["broker-a"]


def test_brokers_are_not_read_for_lags_as_often_as_anybody_likes(manager, queues):
    answers = [manager.get("/v1/offsets/lag?group=billing") for _ in range(LAGS_MAX + 5)]

    refused = next(each for each in answers if each.status != 200)
    assert (refused.status, refused.code, refused.headers["Retry-After"]) == (429, "too_many_requests", "1")
    assert refused.sentence.startswith(f"Brokers are read for {LAGS_MAX} lags at once, and for one each 1000 ms")
    # What operators write has turns of its own.
    restored = manager.post("/v1/offsets/restore", {"writer": "alice", "moment": CLOCK.unix_ms(), "dryRun": True})
    assert restored.status == 200
    time.sleep(LAG_EACH_MS / 1000)
    assert manager.get("/v1/offsets/lag?group=billing").status == 200


def test_lag_needs_a_group(manager):
    assert manager.get("/v1/offsets/lag").sentence == "group must be given."


def test_file_is_shown_then_imported_into_a_broker_and_undone(manager, queues):
    text = file_of(**{"orders@billing": {"0": 50, "1": 5, "9": 5}})
    shown = imported(manager, text, dry=True)
    assert shown.status == 200
    assert statuses(shown) == {0: "ready", 1: "backward", 9: "no_queue"}
    assert queues.written == []

    done = imported(manager, text)
    assert statuses(done) == {0: "restored", 1: "backward", 9: "no_queue"}
    assert done.body["counts"] == {"restored": 1, "backward": 1, "no_queue": 1}
    assert queues.offsets["orders@billing"] == {0: 50, 1: 10}

    undo = {"writer": "alice", "operationId": done.body["operationId"]}
    assert statuses(manager.post("/v1/offsets/undo", undo | {"dryRun": True})) == {0: "ready"}
    assert statuses(manager.post("/v1/offsets/undo", undo)) == {0: "restored"}
    assert queues.offsets["orders@billing"][0] == 10
    listed = manager.get("/v1/offsets/operations").body["operations"]
    assert [each["kind"] for each in listed[:2]] == ["undo", "import"]


def test_operator_says_of_a_named_group_that_it_pulls(manager, queues, monkeypatch):
    monkeypatch.setattr(queues, "version", "V5_1_4")
    text = file_of(**{"orders@billing": {"0": 50}})
    assert statuses(imported(manager, text, group="billing")) == {0: "pops"}
    assert "give the group" in imported(manager, text, pulls=True).sentence
    unnamed = manager.post("/v1/offsets/restore", {"writer": "alice", "moment": "former", "pulls": True})
    assert (unnamed.status, "give the group" in unnamed.sentence) == (422, True)

    done = imported(manager, text, group="billing", pulls=True)
    assert statuses(done) == {0: "restored"}
    (began,) = [each for each in manager.events("restore_began") if each["operation_id"] == done.body["operationId"]]
    assert (began["writer"], began["pulls"]) == ("alice", True)


def test_broken_file_is_refused_with_the_place(manager, queues):
    answer = imported(manager, base64.b64encode(b'{"offsetTable":{').decode())
    assert answer.status == 422
    assert answer.sentence == "The file cannot be used: line 1, column 17: the text ends in the middle."


def test_file_with_more_queues_than_one_import_takes_is_refused_for_both_targets(alone):
    alone.commit(an_entry(10, group="many-0"))
    text = file_of(**{f"orders@many-{group}": dict.fromkeys(map(str, range(1001)), 50) for group in range(10)})
    for target in ("manager", "broker"):
        answer = imported(alone, text, target=target)
        assert answer.status == 422
        assert answer.sentence.startswith("This covers more than 10000 queues of groups: name a group")
    assert alone.offset(0, group="many-0") == 10

    of_one = imported(alone, text, target="manager", group="many-0", dry=True)
    assert of_one.body["counts"] == {"ready": 1001}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"brokerName": ""}, "Of dialect broker give brokerName: the file does not name it."),
        ({"dialect": "client"}, "Of dialect client give the group, and no brokerName: the file names brokers."),
        ({"dialect": "rocksdb"}, "Of dialect rocksdb give records and no file, of the others a file and no records."),
        ({"file": ""}, "Of dialect rocksdb give records and no file, of the others a file and no records."),
    ],
)
def test_import_needs_to_know_whose_file_it_is(manager, change, sentence):
    answer = imported(manager, file_of(), **change)
    assert (answer.status, answer.sentence) == (422, sentence)


def test_file_is_imported_into_the_manager_forward_only(alone):
    alone.commit(an_entry(10), an_entry(90, 1))
    text = file_of(**{"orders@billing": {"0": 50, "1": 50, "2": 50}})
    shown = imported(alone, text, target="manager", dry=True)
    assert statuses(shown) == {0: "ready", 1: "backward", 2: "ready"}

    done = imported(alone, text, target="manager")
    assert statuses(done) == {0: "restored", 1: "backward", 2: "restored"}
    assert [alone.offset(queue) for queue in range(3)] == [50, 90, 50]

    undone = alone.post("/v1/offsets/undo", {"writer": "bob", "operationId": done.body["operationId"]})
    assert statuses(undone) == {0: "restored", 2: "restored"}
    assert alone.offset(0) == 10
    assert alone.read(2).statuses == ["not_found"]


def test_exported_file_is_that_of_a_broker(alone):
    alone.commit(an_entry(7, group="exported", topic="payments"))
    body = {"dialect": "broker", "source": "manager", "brokerName": "broker-a", "group": "exported"}
    answer = alone.post("/v1/offsets/export", body)

    assert answer.body["offsets"] == 1
    assert "".join(base64.b64decode(answer.body["file"]).decode().split()) == (
        '{"offsetTable":{"payments@exported":{0:7}}}'
    )


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"dialect": "client", "source": "manager"}, "A file of dialect client has the offsets of one group: give it."),
        ({"dialect": "broker", "source": "manager"}, "A file of dialect broker is of one broker set: give brokerName."),
        (
            {"dialect": "client", "source": "mirror", "group": "g"},
            "The mirror has the offsets of each broker set: give brokerName.",
        ),
    ],
)
def test_export_needs_to_know_what_belongs_in_the_file(alone, body, sentence):
    answer = alone.post("/v1/offsets/export", body)
    assert (answer.status, answer.sentence) == (422, sentence)


def test_reset_is_undone_by_its_id_also_after_a_restart(alone):
    row = {"group": "restarted"}
    alone.commit(an_entry(5280, **row))
    reset = {"writer": "alice", "entries": [a_queue(**row) | {"offset": 5}]}
    assert "operationId" not in alone.post("/v1/offsets/reset", reset | {"dryRun": True}).body
    done = alone.post("/v1/offsets/reset", reset)
    assert alone.process.stop() == 0

    alone.start()
    undone = alone.post("/v1/offsets/undo", {"writer": "bob", "operationId": done.body["operationId"]})

    assert [(each["status"], each["old"], each["new"]) for each in undone.body["queues"]] == [("restored", 5, 5280)]
    assert alone.offset(**row) == 5280


def test_undo_leaves_what_was_reset_again_unless_it_is_forced(alone):
    row = {"group": "again"}
    alone.commit(an_entry(50, **row))
    entry = a_queue(**row)
    first = alone.post("/v1/offsets/reset", {"writer": "alice", "entries": [entry | {"offset": 5}]})
    alone.post("/v1/offsets/reset", {"writer": "alice", "entries": [entry | {"offset": 7}]})
    undo = {"writer": "bob", "operationId": first.body["operationId"]}

    assert statuses(alone.post("/v1/offsets/undo", undo)) == {0: "moved_on"}
    assert statuses(alone.post("/v1/offsets/undo", undo | {"force": True, "dryRun": True})) == {0: "ready"}
    assert statuses(alone.post("/v1/offsets/undo", undo | {"force": True})) == {0: "restored"}
    assert alone.offset(**row) == 50


def test_unknown_operation_is_not_found(alone):
    answer = alone.post("/v1/offsets/undo", {"writer": "bob", "operationId": "0123"})
    assert (answer.status, answer.code) == (404, "not_found")


def test_id_of_another_managers_operation_says_which_one_has_it(alone):
    answer = alone.post("/v1/offsets/undo", {"writer": "bob", "operationId": "0123@offsets-7:9883"})
    assert (answer.status, answer.code) == (404, "not_found")
    assert "by its id the manager at 'offsets-7:9883' did it, and has what undoes it" in answer.sentence


@pytest.mark.parametrize("path", ["/v1/offsets/lag?group=billing"])
def test_manager_that_follows_nobody_says_so(alone, path):
    answer = alone.get(path)
    assert answer.status == 409
    assert answer.sentence.startswith("This offset manager follows no brokers: set controllerHttpAddr or namesrvAddr")
    restore = alone.post("/v1/offsets/restore", {"writer": "alice", "moment": 1})
    assert restore.status == 409


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"moment": "yesterday"}, "Invalid enum value 'yesterday'"),
        ({"moment": -1}, ">= 0"),
        ({"until": 1}, "unknown field `until`"),
        ({"writer": " "}, "The writer is blank"),
    ],
)
def test_restore_that_does_not_fit_is_refused(manager, change, sentence):
    answer = manager.post("/v1/offsets/restore", {"writer": "alice", "moment": "former"} | change)
    assert answer.status == 422
    assert sentence in answer.sentence
