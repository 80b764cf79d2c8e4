"""A real offset manager with the embedded store, over real HTTP: what is acknowledged stays, and nothing goes back."""

import shutil
import signal

import pytest
from fakes.recorded_rows import landed
from peers.offset_managers import OffsetManager, a_queue, an_entry


@pytest.fixture
def manager(tmp_path):
    manager = OffsetManager(tmp_path)
    yield manager
    if manager.process is not None and manager.process.running:
        manager.process.stop()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One for the tests that leave it as it is, each with groups of its own."""
    manager = OffsetManager(tmp_path_factory.mktemp("shared")).start()
    yield manager
    assert manager.process.stop() == 0


def test_acknowledged_commits_survive_a_kill(tmp_path):
    # Nothing is flushed before the kill: the journal alone has them.
    manager = OffsetManager(tmp_path, flush_interval_ms=10_000).start()
    answer = manager.commit(*(an_entry(1000 + queue, queue) for queue in range(100)))
    assert answer.status == 200
    assert answer.statuses == ["ok"] * 100
    assert answer.body["durability"] == "local"
    manager.process.kill()

    manager.start()
    assert [manager.offset(queue) for queue in (0, 50, 99)] == [1000, 1050, 1099]
    assert manager.events("offsets_compensated")[0]["pushed"] == 100
    assert manager.process.stop() == 0


def test_a_stop_flushes_everything(tmp_path):
    manager = OffsetManager(tmp_path, flush_interval_ms=10_000).start()
    manager.commit(an_entry(7), an_entry(8, 1))
    assert manager.get("/v1/manager").body["dirtyKeys"] == 2
    assert manager.process.stop() == 0
    assert manager.events("offsets_left_dirty") == []

    for each in (manager.folder / "store").glob("offset-journal*"):
        each.unlink()
    manager.start()
    assert manager.offset() == 7
    assert manager.process.stop() == 0


def test_reset_epochs_are_not_given_again_after_an_older_copy_of_the_folder_was_put_back(manager, tmp_path):
    store, copy = manager.folder / "store", tmp_path / "copy"

    def epoch_of_reset(offset):
        answer = manager.post("/v1/offsets/reset", {"writer": "alice", "entries": [a_queue() | {"offset": offset}]})
        return answer.body["queues"][0]["new"]["resetEpoch"]

    manager.start().commit(an_entry(50))
    assert manager.process.stop() == 0
    shutil.copytree(store, copy)
    manager.start()
    lost = epoch_of_reset(40)
    assert manager.process.stop() == 0
    shutil.rmtree(store)
    copy.rename(store)
    manager.start()
    assert epoch_of_reset(10) > lost
    # Of a member that began at 40.
    assert manager.commit(an_entry(60, epoch=lost)).statuses == ["stale"]
    assert manager.offset() == 10


def test_a_second_manager_on_the_same_folder_does_not_start(manager, tmp_path):
    manager.start()
    second = OffsetManager(tmp_path, "second", store_path=manager.folder / "store").launch()
    assert second.process.wait(seconds=30) == 255
    assert "another process has it" in second.process.text()


def test_a_port_in_use_ends_the_start_with_a_sentence(manager, tmp_path):
    manager.start()
    second = OffsetManager(tmp_path, "second", http_port=manager.port).launch()
    assert second.process.wait(seconds=30) == 255
    assert f"cannot listen on 127.0.0.1:{manager.port}" in second.process.text()


def test_an_address_that_others_reach_needs_a_token(tmp_path):
    manager = OffsetManager(tmp_path, http_bind_address="0.0.0.0").launch()
    assert manager.process.wait(seconds=30) == 255
    assert "httpAdminTokenFile must be set, because httpBindAddress is no loopback address" in manager.process.text()


def test_a_lower_offset_is_stale_and_the_stored_one_is_shown(shared):
    row = {"group": "stale"}
    shared.commit(an_entry(10, **row))
    answer = shared.commit(an_entry(9, **row), an_entry(10, **row), an_entry(11, 1, **row))
    assert answer.statuses == ["stale", "ok", "ok"]
    assert answer.body["results"][0]["stored"]["offset"] == 10
    assert shared.offset(**row) == 10


def test_absent_is_not_found_and_not_zero(shared):
    shared.commit(an_entry(0, group="zero"))
    answer = shared.post("/v1/offsets/read", {"keys": [a_queue(0, group="zero"), a_queue(1, group="zero")]})
    assert answer.statuses == ["ok", "not_found"]
    assert answer.body["results"][0]["stored"]["offset"] == 0
    assert "stored" not in answer.body["results"][1]


def test_entries_are_refused_one_by_one(shared):
    row = {"group": "refused"}
    answer = shared.commit(
        an_entry(-1, **row),
        an_entry(2**63, **row),
        an_entry(1, -1, **row),
        an_entry(1, topic="", **row),
        an_entry(1, topic="t" * 256, **row),
        an_entry(1, **row),
    )
    assert answer.statuses == ["refused"] * 5 + ["ok"]
    reasons = [each["reason"] for each in answer.body["results"][:5]]
    assert reasons[0].startswith("offset -1 is negative")
    assert "is above" in reasons[1]
    assert reasons[2] == "queue id -1 is not in 0 to 1023"
    assert reasons[3] == "the topic is blank: name it"
    assert "has 256 characters" in reasons[4]


def test_a_reset_goes_back_and_commits_from_before_are_stale(shared):
    row = {"group": "reset"}
    shared.commit(an_entry(500, **row))
    wanted = {"writer": "alice", "entries": [a_queue(**row) | {"offset": 100}]}

    preview = shared.post("/v1/offsets/reset", wanted | {"dryRun": True})
    assert preview.body["queues"][0]["old"]["offset"] == 500
    assert preview.body["queues"][0]["new"]["offset"] == 100
    assert shared.offset(**row) == 500

    done = shared.post("/v1/offsets/reset", wanted)
    assert done.body["counts"] == {"ok": 1}
    assert shared.offset(**row) == 100
    assert shared.commit(an_entry(501, **row)).statuses == ["stale"]
    epoch = done.body["queues"][0]["new"]["resetEpoch"]
    assert shared.commit(an_entry(101, epoch=epoch, **row)).statuses == ["ok"]
    changed = shared.events("offsets_changed")[-1]
    assert (changed["operation"], changed["writer"], changed["queues"]) == ("reset", "alice", 1)


def test_seeds_leave_present_offsets_alone(shared):
    row = {"group": "seed"}
    shared.commit(an_entry(5, **row))
    entries = [a_queue(queue, **row) | {"offset": 1} for queue in (0, 1)]
    answer = shared.post("/v1/offsets/seed", {"writer": "scaling", "entries": entries})
    assert [each["status"] for each in answer.body["queues"]] == ["present", "ok"]
    assert (shared.offset(0, **row), shared.offset(1, **row)) == (5, 1)


def test_a_clone_leaves_absent_queues_absent(shared):
    shared.commit(an_entry(5, 0, group="source"), an_entry(7, 2, group="source"))
    body = {"writer": "alice", "sourceGroup": "source", "toGroup": "copy"}
    assert shared.post("/v1/offsets/clone", body | {"dryRun": True}).body["counts"] == {"ok": 2}
    assert shared.post("/v1/offsets/read", {"keys": [a_queue(group="copy")]}).statuses == ["not_found"]
    assert shared.post("/v1/offsets/clone", body).body["counts"] == {"ok": 2}
    answer = shared.post("/v1/offsets/read", {"keys": [a_queue(queue, group="copy") for queue in range(3)]})
    assert answer.statuses == ["ok", "not_found", "ok"]
    again = shared.post("/v1/offsets/clone", body | {"ifExists": "refuse"})
    assert (again.status, again.code) == (409, "conflict")
    assert "nothing was cloned" in again.sentence.lower()


def test_a_deletion_names_a_group_or_a_topic(shared):
    shared.commit(an_entry(5, group="gone"), an_entry(5, 1, group="gone"))
    refused = shared.post("/v1/offsets/delete", {"writer": "alice"})
    assert refused.status == 422
    assert "Name a group, a topic or both" in refused.sentence
    deleted = shared.post("/v1/offsets/delete", {"writer": "alice", "group": "gone"})
    assert deleted.body["counts"] == {"ok": 2}
    assert [(each["old"]["offset"], each.get("new")) for each in deleted.body["queues"]] == [(5, None), (5, None)]
    read = shared.post("/v1/offsets/read", {"keys": [a_queue(group="gone")]})
    # The next commit is made in the epoch of the deletion: none from before it comes again.
    (found,) = read.body["results"]
    assert found["status"] == "not_found"
    assert shared.commit(an_entry(6, group="gone")).statuses == ["stale"]
    assert shared.commit(an_entry(2, group="gone") | {"resetEpoch": found["resetEpoch"]}).statuses == ["ok"]


def test_frozen_queues_are_fenced_until_they_are_thawed(shared):
    row = {"group": "frozen"}
    freeze = {"operation": "op-1", "reason": "migration", "scopes": [{"group": "frozen"}]}
    assert shared.post("/v1/offsets/freeze", freeze).status == 200
    answer = shared.commit(an_entry(1, **row))
    assert answer.statuses == ["fenced"]
    assert answer.body["results"][0]["reason"].startswith("frozen by operation op-1: migration")
    assert [each["operation"] for each in shared.get("/v1/offsets/freezes").body["freezes"]] == ["op-1"]
    assert shared.post("/v1/offsets/renew-freeze", {"operation": "op-1"}).status == 200
    assert shared.post("/v1/offsets/thaw", {"operation": "op-1"}).body == {"thawed": True}
    assert shared.commit(an_entry(1, **row)).statuses == ["ok"]
    ended = shared.post("/v1/offsets/renew-freeze", {"operation": "op-1"})
    assert ended.status == 409
    assert "has ended" in ended.sentence


def test_offsets_are_listed_page_by_page(shared):
    shared.commit(*(an_entry(1, topic=f"topic-{number}", group="pages") for number in range(25)))
    topics, cursor = [], ""
    while cursor is not None:
        page = shared.get(f"/v1/offsets?group=pages&limit=10{cursor and '&cursor='}{cursor}").body
        topics += [each["topic"] for each in page["offsets"]]
        cursor = page["nextCursor"]
    assert sorted(topics) == sorted(f"topic-{number}" for number in range(25))
    one = shared.get("/v1/offsets?group=pages&topic=topic-3&brokerName=broker-a").body
    assert [each["queueId"] for each in one["offsets"]] == [0]
    foreign = shared.get("/v1/offsets?cursor=00000000.0.5")
    assert (foreign.status, foreign.code) == (400, "bad_request")


def test_a_flush_answers_once_the_store_has_everything(tmp_path):
    manager = OffsetManager(tmp_path, flush_interval_ms=10_000).start()
    manager.commit(an_entry(3))
    assert manager.post("/v1/offsets/flush", {"group": "billing"}).body == {"dirtyKeys": 0}
    assert manager.process.stop() == 0


def test_groups_with_write_through_are_acknowledged_by_the_store(tmp_path):
    manager = OffsetManager(tmp_path, write_through_groups="pay*").start()
    assert manager.commit(an_entry(1, group="payments")).body["durability"] == "remote"
    assert manager.commit(an_entry(1, group="billing")).body["durability"] == "local"
    assert manager.process.stop() == 0


def test_commits_with_write_through_leave_nothing_to_send_on_after_a_kill(tmp_path):
    manager = OffsetManager(tmp_path, write_through_groups="pay*", flush_interval_ms=10_000).start()
    assert manager.commit(an_entry(7, group="payments")).body["durability"] == "remote"
    assert manager.commit(an_entry(8, group="billing")).body["durability"] == "local"
    manager.process.kill()

    manager.start()
    assert manager.events("offsets_compensated")[0]["pushed"] == 1
    assert [manager.offset(group=group) for group in ("payments", "billing")] == [7, 8]
    assert manager.process.stop() == 0


def test_a_store_that_lags_holds_commits_back(tmp_path):
    manager = OffsetManager(tmp_path, dirty_keys_max=1000, flush_interval_ms=10_000).start()
    assert manager.commit(*(an_entry(1, queue) for queue in range(1000))).status == 200
    answer = manager.commit(an_entry(1, 1000))
    assert (answer.status, answer.code) == (429, "too_many_requests")
    assert int(answer.headers["Retry-After"]) >= 1
    assert "wait for the remote store, and the limit is 1000" in answer.sentence
    assert manager.commit(an_entry(2, 0)).status == 200
    assert manager.process.stop() == 0


def test_metrics_and_probes_are_served(shared):
    shared.commit(an_entry(1, group="counted"))
    assert shared.get("/livez").status == 200
    assert shared.get("/readyz").status == 200
    text = shared.get("/metrics").body["text"]
    assert "rocketmq_offset_manager_role 2.0" in text
    assert 'rocketmq_offset_manager_results_total{operation="commit",status="ok"}' in text
    assert shared.get("/v1/config").body["properties"]["httpPort"] == str(shared.port)
    assert "/v1/offsets/commit" in shared.get("/v1/openapi.json").body["paths"]


def test_a_stop_signal_ends_requests_with_503(manager):
    manager.start()
    manager.process.signal(signal.SIGTERM)
    assert manager.process.wait(seconds=20) == 0
    assert [line["event"] for line in manager.events("server_stopped")] == ["server_stopped"]


def test_history_has_what_operators_changed_and_who_led(manager):
    manager.options["history_dir"] = manager.folder / "history"
    manager.start()
    manager.commit(an_entry(900), an_entry(100, 1))
    manager.post("/v1/offsets/reset", {"writer": "alice", "entries": [a_queue() | {"offset": 400}]})
    assert manager.process.stop() == 0

    history = manager.options["history_dir"]
    (row,) = landed(history, "offset_change_by_operator")
    assert (row["source"], row["event_type"], row["writer"]) == ("offset-manager", "reset", "alice")
    assert (row["group"], row["queues"], row["messages_again"]) == (an_entry(0)["group"], 1, 500)
    lives = {row["event_type"] for row in landed(history, "ns_lifecycle")}
    assert lives == {"started", "leader_gained", "ready", "stopping"}
