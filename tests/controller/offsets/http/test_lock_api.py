"""Locks of a real offset manager over real HTTP: one holder per queue, rising tokens, fenced commits."""

import pytest
from peers.offset_managers import OffsetManager, a_queue, an_entry
from peers.waiting import seconds_until, wait_until

from controller.offsets.http.refusing import refusals
from controller.offsets.locks.sessions.refusals import TooManySessions
from serving.http.views import TooManyRequests

#: The shortest lease.
TTL_MS = 10_000


@pytest.fixture(scope="module")
def manager(tmp_path_factory):
    manager = OffsetManager(tmp_path_factory.mktemp("locks")).start()
    yield manager
    assert manager.process.stop() == 0


def declare(manager, group):
    return manager.post("/v1/locks/declare-orderly", {"writer": "alice", "group": group})


def open_session(manager, client, group, ttl_ms=60_000):
    answer = manager.post("/v1/locks/sessions", {"group": group, "clientId": client, "ttlMs": ttl_ms})
    assert answer.status == 201
    return answer.body["sessionId"]


def queue(queue_id=0, **more):
    return {"topic": "orders", "brokerName": "broker-a", "queueId": queue_id} | more


def acquire(manager, session, *queue_ids):
    queues = [queue(each) for each in queue_ids]
    return manager.post("/v1/locks/acquire", {"sessionId": session, "queues": queues})


def held(manager, session):
    return {
        each["queueId"]: each["token"]
        for each in manager.post("/v1/locks/renew", {"sessionId": session}).body["queues"]
    }


def test_a_group_that_is_not_declared_orderly_gets_no_sessions_and_no_locks(manager):
    refused = manager.post("/v1/locks/sessions", {"group": "concurrent", "clientId": "c1"})
    assert refused.status == 409
    assert "is not declared orderly" in refused.sentence
    declare(manager, "concurrent")
    session = open_session(manager, "c1", "concurrent")
    manager.post("/v1/locks/withdraw-orderly", {"writer": "alice", "group": "concurrent"})
    (result,) = acquire(manager, session, 0).body["results"]
    assert result["status"] == "refused"
    assert "is not declared orderly" in result["reason"]


def test_a_session_that_is_one_too_many_is_refused_with_when_to_come_again():
    # Over real HTTP 2,000 of them take eight seconds.
    with pytest.raises(TooManyRequests) as refused, refusals():
        raise TooManySessions("group crowded has 2000 sessions, as many as allowed: close some")
    assert (refused.value.status, refused.value.retry_after_s) == (429, 10)
    assert str(refused.value) == "Group crowded has 2000 sessions, as many as allowed: close some."


def test_a_second_client_gets_the_queues_that_are_free(manager):
    declare(manager, "partial")
    first, second = open_session(manager, "c1", "partial"), open_session(manager, "c2", "partial")
    assert acquire(manager, first, 0, 1, 2, 3).statuses == ["granted"] * 4
    answer = acquire(manager, second, *range(8))
    assert answer.statuses == ["held_by"] * 4 + ["granted"] * 4
    assert answer.body["results"][0]["holder"] == "c1"
    assert 0 < answer.body["results"][0]["remainingMs"] <= 60_001
    assert acquire(manager, first, 0).statuses == ["granted"]
    assert set(held(manager, first)) == {0, 1, 2, 3}


def test_the_holder_alone_commits_and_its_successor_has_a_higher_token(manager):
    declare(manager, "fenced")
    first, second = open_session(manager, "c1", "fenced"), open_session(manager, "c2", "fenced")
    old = acquire(manager, first, 0).body["results"][0]["token"]
    names = {"group": "fenced"}
    assert manager.commit(an_entry(5, token=old, **names)).statuses == ["ok"]
    assert manager.commit(an_entry(6, **names)).statuses == ["fenced"]

    released = manager.post("/v1/locks/release", {"sessionId": first, "queues": [queue(0, offset=9)]})
    assert released.statuses == ["released"]
    assert manager.offset(**names) == 9
    again = manager.post("/v1/locks/release", {"sessionId": first, "queues": [queue(0, offset=9)]})
    assert again.statuses == ["not_held"]

    new = acquire(manager, second, 0).body["results"][0]["token"]
    assert new > old
    assert manager.commit(an_entry(10, token=old, **names)).statuses == ["fenced"]
    assert manager.commit(an_entry(10, token=new, **names)).statuses == ["ok"]


def test_a_queue_is_transferred_in_one_step(manager):
    declare(manager, "transfer")
    first, second = open_session(manager, "c1", "transfer"), open_session(manager, "c2", "transfer")
    acquire(manager, first, 0)
    body = {"sessionId": first, "queue": queue(0, offset=3), "toClient": "c2"}
    token = manager.post("/v1/locks/transfer", body).body["token"]
    assert held(manager, second) == {0: token}
    assert held(manager, first) == {}
    assert manager.offset(group="transfer") == 3
    refused = manager.post("/v1/locks/transfer", body)
    assert refused.status == 409
    assert "does not hold the queue" in refused.sentence


def test_an_operator_takes_a_queue_away(manager):
    declare(manager, "forced")
    session = open_session(manager, "c1", "forced")
    old = acquire(manager, session, 0).body["results"][0]["token"]
    body = {"writer": "alice", **a_queue(group="forced")}
    token = manager.post("/v1/locks/force-release", body).body["token"]
    assert token > old
    assert manager.commit(an_entry(1, group="forced", token=old)).statuses == ["fenced"]
    assert held(manager, session) == {}
    wait_until(lambda: manager.events("lock_forced"), seconds=5, what="it is logged")
    assert manager.events("lock_forced")[-1]["writer"] == "alice"


def test_frozen_queues_are_granted_to_nobody(manager):
    declare(manager, "icy")
    session = open_session(manager, "c1", "icy")
    manager.post("/v1/offsets/freeze", {"operation": "op-2", "reason": "scaling", "scopes": [{"group": "icy"}]})
    assert acquire(manager, session, 0).statuses == ["frozen"]
    manager.post("/v1/offsets/thaw", {"operation": "op-2"})
    assert acquire(manager, session, 0).statuses == ["granted"]


def test_locks_are_listed_page_by_page(manager):
    declare(manager, "listed")
    session = open_session(manager, "c1", "listed")
    acquire(manager, session, *range(5))
    first = manager.get("/v1/locks?group=listed&limit=3").body
    rest = manager.get(f"/v1/locks?group=listed&limit=3&cursor={first['nextCursor']}").body
    assert [each["queueId"] for each in first["locks"] + rest["locks"]] == [0, 1, 2, 3, 4]
    assert first["isOrderly"]
    assert {each["clientId"] for each in first["locks"]} == {"c1"}


def test_a_closed_session_leaves_its_queues_free(manager):
    declare(manager, "closed")
    first, second = open_session(manager, "c1", "closed"), open_session(manager, "c2", "closed")
    acquire(manager, first, 0, 1)
    assert manager.post("/v1/locks/close", {"sessionId": first}).body == {"released": 2}
    assert manager.post("/v1/locks/close", {"sessionId": first}).body == {"released": 0}
    assert acquire(manager, second, 0, 1).statuses == ["granted"] * 2
    ended = manager.post("/v1/locks/renew", {"sessionId": first})
    assert ended.status == 409
    assert "has ended" in ended.sentence


def test_a_lease_that_is_not_renewed_ends_after_its_ttl_and_not_before(manager):
    declare(manager, "expiry")
    first = open_session(manager, "c1", "expiry", TTL_MS)
    second = open_session(manager, "c2", "expiry")
    acquire(manager, first, 0)

    def is_granted():
        return acquire(manager, second, 0).statuses == ["granted"]

    manager.post("/v1/locks/renew", {"sessionId": first})
    assert seconds_until(is_granted, seconds=30, what="the queue is granted") > (TTL_MS - 500) / 1000
    wait_until(lambda: manager.events("lock_sessions_expired"), seconds=5, what="the end of the session is logged")


def test_locks_and_tokens_outlive_a_kill(tmp_path):
    manager = OffsetManager(tmp_path, flush_interval_ms=10_000).start()
    declare(manager, "billing")
    first, second = open_session(manager, "c1", "billing"), open_session(manager, "c2", "billing")
    old = acquire(manager, first, 0).body["results"][0]["token"]
    given_up = acquire(manager, second, 1).body["results"][0]["token"]
    manager.post("/v1/locks/release", {"sessionId": second, "queues": [queue(1)]})
    manager.process.kill()

    manager.start()
    assert held(manager, first) == {0: old}
    answer = acquire(manager, second, 0, 1)
    assert answer.statuses == ["held_by", "granted"]
    assert answer.body["results"][1]["token"] > max(old, given_up)
    assert manager.process.stop() == 0
