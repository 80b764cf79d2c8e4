"""Two offset managers on one real etcd: one of them answers, and what it has acknowledged outlives it."""

import pytest
from peers.etcd import running_etcd
from peers.offset_managers import OffsetManager, a_queue, an_entry
from peers.waiting import wait_until

pytestmark = pytest.mark.etcd


@pytest.fixture(scope="module")
def etcd(tmp_path_factory):
    with running_etcd(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture
def managers(etcd, tmp_path, request):
    """The one that leads, and the one that follows."""
    options = {
        "store": "etcd",
        "etcd_endpoints": ";".join(etcd.endpoints),
        "manager_group": request.node.name,
        "write_through_groups": "pay*",
        "flush_interval_ms": 10_000,
    }
    first, second = (OffsetManager(tmp_path, name, **options) for name in ("first", "second"))
    for each in (first, second):
        each.options["advertised_address"] = each.address
    first.start().leading()
    second.start()
    wait_until(lambda: second.get("/v1/manager").body["leaderAddress"], seconds=20, what="the second one follows")
    yield first, second
    for each in (second, first):
        if each.process.running:
            each.process.stop()


def test_only_the_leader_answers_and_the_other_names_it(managers):
    leader, follower = managers
    assert leader.commit(an_entry(1)).statuses == ["ok"]
    for answer in (follower.commit(an_entry(2)), follower.read(0), follower.get("/v1/offsets?group=billing")):
        assert (answer.status, answer.code) == (503, "not_leader")
        assert answer.body["error"]["leaderAddress"] == leader.address
        assert answer.sentence == f"This offset manager does not lead: send requests to the one at {leader.address}."
        assert answer.headers["Retry-After"] == "1"
    assert follower.get("/readyz").status == 200
    assert follower.get("/v1/manager").body["role"] == "following"


def test_what_a_killed_leader_acknowledged_is_there_again(managers):
    leader, follower = managers
    assert leader.commit(an_entry(70, group="payments")).body["durability"] == "remote"
    session = locked(leader, "payments")
    assert leader.commit(an_entry(80, group="billing")).body["durability"] == "local"
    leader.process.kill()

    # What etcd has is there at once, locks too.
    follower.leading()
    assert follower.offset(group="payments") == 70
    renewed = follower.post("/v1/locks/renew", {"sessionId": session["id"]}).body
    assert [each["token"] for each in renewed["queues"]] == [session["token"]]
    assert follower.read(0).statuses == ["not_found"]
    # What only the journal of the killed one has comes as soon as that one is there again, though it does not lead.
    follower.commit(an_entry(5, 1, group="billing"))
    leader.start()
    wait_until(lambda: follower.read(0).statuses == ["ok"], seconds=30, what="the journal is handed over")
    assert follower.offset(group="billing") == 80
    assert follower.get("/v1/manager").body["role"] == "leading"
    wait_until(lambda: leader.events("journal_handed_over"), seconds=40, what="that is logged")
    assert leader.get("/v1/manager").body["dirtyKeys"] == 0


def test_reset_of_a_former_leader_is_undone_there_and_the_others_say_so(managers):
    leader, follower = managers
    leader.commit(an_entry(70, group="payments"))
    entries = [a_queue(group="payments") | {"offset": 5}]
    done = leader.post("/v1/offsets/reset", {"writer": "alice", "entries": entries})
    undo = {"writer": "bob", "operationId": done.body["operationId"]}
    follows = follower.post("/v1/offsets/undo", undo)
    assert (follows.status, follows.code) == (503, "not_leader")
    assert f"the manager at '{leader.address}' did it" in follows.sentence

    assert leader.process.stop() == 0
    follower.leading()
    leader.start()
    wait_until(lambda: leader.get("/v1/manager").body["leaderAddress"], seconds=30, what="the former one follows")
    lacks = follower.post("/v1/offsets/undo", undo)
    has = leader.post("/v1/offsets/undo", undo)

    assert (lacks.status, has.status) == (404, 503)
    assert f"the manager at '{leader.address}' did it" in lacks.sentence
    assert f"Operation '{undo['operationId']}' is kept here, and the leader does not have it" in has.sentence
    assert has.body["error"]["leaderAddress"] == follower.address
    assert follower.process.stop() == 0
    leader.leading()
    assert leader.post("/v1/offsets/undo", undo).body["counts"] == {"restored": 1}
    assert leader.offset(group="payments") == 70


def locked(manager, group):
    manager.post("/v1/locks/declare-orderly", {"writer": "alice", "group": group})
    session = manager.post("/v1/locks/sessions", {"group": group, "clientId": "c1"}).body["sessionId"]
    queues = [{"topic": "orders", "brokerName": "broker-a", "queueId": 0}]
    (result,) = manager.post("/v1/locks/acquire", {"sessionId": session, "queues": queues}).body["results"]
    assert result["status"] == "granted"
    return {"id": session, "token": result["token"]}


def test_a_leader_that_stops_flushes_first_and_hands_over(managers):
    leader, follower = managers
    assert leader.commit(*(an_entry(5, queue) for queue in range(50))).status == 200
    assert leader.process.stop() == 0
    follower.leading()
    assert follower.offset(49) == 5


def test_a_paused_leader_answers_nothing_after_its_lead(managers):
    leader, follower = managers
    leader.commit(an_entry(1, group="payments"))
    leader.process.pause()
    follower.leading()
    assert follower.commit(an_entry(9, group="payments")).statuses == ["ok"]
    leader.process.resume()
    answer = leader.commit(an_entry(5, group="payments"))
    assert answer.status == 503
    assert follower.offset(group="payments") == 9


def test_without_etcd_nobody_answers_and_nothing_acknowledged_is_lost(tmp_path):
    with running_etcd(tmp_path / "etcd") as etcd:
        endpoints = ";".join(etcd.endpoints)
        manager = OffsetManager(tmp_path, store="etcd", etcd_endpoints=endpoints, flush_interval_ms=10_000)
        manager.options["advertised_address"] = manager.address
        manager.start().leading()
        assert manager.commit(an_entry(7)).body["durability"] == "local"
        etcd.kill()

        def is_refused():
            return manager.commit(an_entry(8)).status == 503

        wait_until(is_refused, seconds=30, what="the lead ends without etcd")
        assert manager.read(0).code == "not_leader"
        # It waits for etcd only while it leads, and never for long.
        manager.process.terminate()
        assert manager.process.wait(seconds=40) == 0
        assert manager.events("offsets_left_dirty")[0]["dirty_keys"] == 1

        etcd.restart()
        manager.start().leading()
        assert manager.offset() >= 7
        assert manager.process.stop() == 0
