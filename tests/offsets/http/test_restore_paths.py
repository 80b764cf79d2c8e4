"""What the paths of repairs, restores, lags and files answer where nothing is followed; a process over HTTP."""

import base64

import pytest
from peers.offset_managers import OffsetManager, a_queue

FILE = b'{"offsetTable":{"orders@billing":{0:5,1:7}}}'


@pytest.fixture(scope="module")
def manager(tmp_path_factory):
    manager = OffsetManager(tmp_path_factory.mktemp("restores")).start().leading()
    yield manager
    manager.process.stop()


def imported(manager, **fields):
    body = {"writer": "ann", "dialect": "broker", "file": base64.b64encode(FILE).decode(), "brokerName": "broker-a"}
    return manager.post("/v1/offsets/import", body | {"target": "manager"} | fields)


def test_there_are_no_repairs_and_no_operations(manager):
    assert manager.get("/v1/offsets/repairs").body == {"mode": "report", "running": 0, "runs": []}
    assert manager.get("/v1/offsets/operations").body == {"operations": []}
    assert manager.get("/v1/offsets/repairs/1").status == 404
    assert manager.post("/v1/offsets/repairs/1/apply", {"writer": "ann"}).status == 404


@pytest.mark.parametrize(
    ("path", "body", "status", "part"),
    [
        ("restore", {"writer": "ann", "moment": "former"}, 404, "no broker set of cluster DefaultCluster"),
        ("restore", {"writer": "ann", "moment": "yesterday"}, 422, "moment"),
        ("undo", {"writer": "ann", "operationId": "x@10.0.0.7:1"}, 404, "10.0.0.7:1"),
        ("export", {"dialect": "client", "source": "manager"}, 422, "give group"),
        ("export", {"dialect": "broker", "source": "readings", "brokerName": "b"}, 404, "no reading"),
    ],
)
def test_what_cannot_be_done_says_why(manager, path, body, status, part):
    answer = manager.post(f"/v1/offsets/{path}", body)
    assert answer.status == status
    assert part in answer.sentence


def test_offsets_of_a_file_are_stored_here_and_come_back_as_a_file(manager):
    shown = imported(manager, dryRun=True).body
    assert shown["counts"] == {"would change": 2}
    assert imported(manager).body["counts"] == {"done": 2}
    assert imported(manager).body["counts"] == {"right already": 2}
    exported = manager.post(
        "/v1/offsets/export", {"dialect": "broker", "source": "manager", "brokerName": "broker-a"}
    ).body
    assert exported["offsets"] == 2
    assert b'"orders@billing"' in base64.b64decode(exported["file"])


def test_an_import_says_which_offsets_were_not_stored(manager):
    for dry_run in (True, False):
        body = imported(manager, dryRun=dry_run, brokerName="b" * 256).body
        assert body["counts"] == {"failed": 2}
        assert "has 256 characters" in body["queues"][0]["why"]


def test_an_export_leaves_out_what_a_file_of_a_broker_cannot_name(manager):
    names = [{"topic": "a@b"}, {"group": "g@broadcast"}, {}]
    assert manager.commit(*(a_queue(broker="odd", **name) | {"offset": 5} for name in names)).statuses == ["ok"] * 3
    body = manager.post("/v1/offsets/export", {"dialect": "broker", "source": "manager", "brokerName": "odd"}).body
    assert (body["offsets"], len(body["unavailable"])) == (1, 2)
    assert "a@b" in body["unavailable"][0]


def test_an_unknown_cause_of_jumps_is_refused(manager):
    answer = manager.get("/v1/offsets/jumps?cause=failoverr")
    assert (answer.status, "failover, restart" in answer.sentence) == (400, True)


def test_a_writer_that_cannot_be_shown_changes_no_declared_group(manager):
    assert manager.post("/v1/locks/declare-orderly", {"writer": "a\nb", "group": "billing"}).status == 422


def test_a_damaged_file_says_where(manager):
    answer = imported(manager, file=base64.b64encode(b'{"offsetTable":').decode())
    assert (answer.status, "cannot be used" in answer.sentence) == (422, True)


def test_the_lag_of_a_group_and_the_groups_of_a_topic(manager):
    assert manager.get("/v1/offsets/lag?group=nobody").body["knownLag"] is None
    assert manager.get("/v1/offsets/lag").status == 400
    assert manager.get("/v1/offsets/groups?topic=orders").body["groups"] == []
    assert manager.get("/v1/offsets/groups").status == 400
