"""The paths of committed offsets, over real HTTP to a manager of its own."""

import pytest
from peers.offset_managers import OffsetManager, a_queue
from peers.waiting import wait_until

WITHOUT_TIME = ("unixMs", "resetEpoch")


@pytest.fixture(scope="module")
def manager(tmp_path_factory):
    made = OffsetManager(tmp_path_factory.mktemp("commits")).start().leading()
    yield made
    assert made.process.stop() == 0


def entry(offset, queue=0, *, epoch=0, **names):
    return a_queue(queue, **names) | {"offset": offset, "resetEpoch": epoch}


def stored(value):
    """Return a stored offset without what differs in each run."""
    return None if value is None else {name: each for name, each in value.items() if name not in WITHOUT_TIME}


def test_commit_and_read_answer_each_entry_by_itself(manager):
    group = {"group": "committing"}
    answer = manager.commit(entry(5280, **group), entry(-1, 1, **group))
    assert (answer.status, answer.body["durability"]) == (200, "local")
    assert answer.body["results"] == [
        {"status": "ok"},
        {"status": "refused", "reason": "offset -1 is negative: an offset that is not known is left out, never stored"},
    ]
    (stale,) = manager.commit(entry(5279, **group)).body["results"]
    assert (stale["status"], stored(stale["stored"])) == (
        "stale",
        {"offset": 5280, "source": "client", "writer": "client-1"},
    )
    keys = [a_queue(queue, **group) for queue in (0, 7)]
    first, absent = manager.post("/v1/offsets/read", {"keys": keys}).body["results"]
    assert (first["status"], first["stored"]["offset"]) == ("ok", 5280)
    assert absent == {"status": "not_found"}


def test_reset_and_deletion_are_previewed_and_done(manager):
    group = {"group": "resetting"}
    manager.commit(entry(50, **group), entry(60, 1, **group))
    body = {"writer": "alice", "entries": [a_queue(0, **group) | {"offset": 10}]}
    preview = manager.post("/v1/offsets/reset", body | {"dryRun": True}).body
    assert (preview["dryRun"], preview["counts"]) == (True, {"ok": 1})
    (queue,) = preview["queues"]
    assert (queue["old"]["offset"], queue["new"]["offset"], queue["new"]["writer"]) == (50, 10, "alice")
    assert manager.offset(**group) == 50
    done = manager.post("/v1/offsets/reset", body).body
    assert (done["dryRun"], manager.offset(**group)) == (False, 10)
    epoch = done["queues"][0]["new"]["resetEpoch"]
    assert manager.commit(entry(51, **group)).statuses == ["stale"]
    assert manager.commit(entry(11, epoch=epoch, **group)).statuses == ["ok"]

    scope = {"writer": "alice", **group}
    assert manager.post("/v1/offsets/delete", scope | {"dryRun": True}).body["counts"] == {"ok": 2}
    deleted = manager.post("/v1/offsets/delete", scope).body
    assert [(each["old"]["offset"], each["new"]) for each in deleted["queues"]] == [(11, None), (60, None)]
    (absent,) = manager.post("/v1/offsets/read", {"keys": [a_queue(0, **group)]}).body["results"]
    assert (absent["status"], absent["resetEpoch"] > epoch) == ("not_found", True)


def test_offsets_are_listed_page_by_page(manager):
    manager.commit(*(entry(5, queue, group="listed", topic=f"t{topic}") for topic in range(5) for queue in range(2)))
    found, path = [], "/v1/offsets?group=listed&limit=3"
    cursor = run = ""
    while cursor is not None:
        page = manager.get(path + (f"&cursor={cursor}" if cursor else "")).body
        found += [(each["topic"], each["queueId"]) for each in page["offsets"]]
        cursor = page["nextCursor"]
        run = (cursor or run).partition(".")[0]
    assert found == [(f"t{topic}", queue) for topic in range(5) for queue in range(2)]
    assert [each["topic"] for each in manager.get("/v1/offsets?group=listed&topic=t3").body["offsets"]] == ["t3", "t3"]
    assert manager.get("/v1/offsets?group=listed&brokerName=broker-z").body["offsets"] == []
    for wrong in ("x", "a.b.c", run + ".0.x"):
        assert manager.get(f"/v1/offsets?cursor={wrong}").status == 400


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        ("commit", {"writer": "c", "entries": []}, 422, "entries"),
        ("commit", {"writer": " ", "entries": [entry(1)]}, 422, "The writer is blank"),
        ("commit", {"writer": "c", "entries": [entry(1) | {"token": 4}]}, 422, "token"),
        ("commit", {"writer": "c", "entries": [entry(1)] * 1001}, 422, "entries"),
        ("commit", {"writer": "c", "entries": [entry("1")]}, 422, "offset"),
        ("reset", {"writer": "a\nb", "entries": [a_queue() | {"offset": 1}]}, 422, "cannot be shown"),
        ("delete", {"writer": "alice", "brokerName": "broker-a"}, 422, "Name a group, a topic or both"),
        ("delete", {"group": "billing"}, 422, "writer"),
    ],
)
def test_request_that_cannot_be_followed_is_refused_with_a_sentence(manager, path, body, status, sentence):
    answer = manager.post(f"/v1/offsets/{path}", body)
    assert answer.status == status
    assert sentence in answer.sentence


def test_thousand_entries_with_the_longest_names_fit_into_one_request(manager):
    longest = {"group": "g" * 255, "topic": "t" * 255, "broker": "b" * 255}
    assert manager.commit(*(entry(2**63 - 1, queue, **longest) for queue in range(1000))).statuses == ["ok"] * 1000


def test_answers_are_in_the_metrics_and_in_the_view_of_the_manager(manager):
    stale = lambda: manager.metric('results_total{operation="commit",status="stale"}') or 0  # noqa: E731
    before = stale()
    manager.commit(entry(5, group="counted"))
    manager.commit(entry(4, group="counted"))
    # A page of metrics is kept for a moment.
    wait_until(lambda: stale() == before + 1, seconds=20, what="the result is counted")
    shown = manager.get("/v1/manager").body
    assert (shown["offsets"], shown["dirtyKeys"]) == (manager.metric("offsets"), 0)
