"""The recorder: what it is told lands in files, in order and once, whatever the disk does."""

import errno
import json
import shutil
import threading
from itertools import count

import pytest
from peers.waiting import wait_until

from controller.failover.events import SetRow
from history import event_queue, landing
from history import recorder as module
from history.heartbeats import Heartbeat, SingleHeartbeat
from history.landing import lines_of
from history.recorder import Recorder, RecorderIdentity
from history.retention import DeletedFiles
from history.rows import NO_BROKER, BrokerRef, Moment
from history.schemas import FAMILIES, NS_LIFECYCLE, SCHEMA_VERSION
from history.server_rows import lifecycle, tick
from history.times import time_text
from serving.config.options import LONG_MAX

WAIT_S = 20


class Clock:
    """A clock that stands unless it is moved."""

    def __init__(self):
        self.us = 1_700_000_000_000_000
        #: By how much somebody has set it.
        self.ahead_us = 0

    def unix_us(self):
        return self.us + self.ahead_us

    def mono_us(self):
        return self.us - 1_600_000_000_000_000


class Observer:
    def __init__(self):
        self.all = []

    def recording_stopped(self, error):
        self.all.append(("stopped", error))

    def recording_resumed(self):
        self.all.append(("resumed", None))

    def history_deleted(self, deleted):
        self.all.append(("deleted", deleted))


class Desk:
    """A recorder in a folder, and what it wrote."""

    def __init__(self, folder):
        self.folder = folder
        self.clock, self.observed = Clock(), Observer()
        self.recorder = self.new()

    def new(self, bytes_max=LONG_MAX):
        identity = RecorderIdentity("host:9876", "namesrv", "1.0", "127.0.0.1:9876")
        return Recorder(self.folder, identity, self.clock, self.observed, bytes_max)

    def rows(self, family="ns_lifecycle"):
        place = self.folder / "landing/v1" / f"family={family}"
        files = sorted(place.rglob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns)
        return [json.loads(line) for path in files for line in path.read_text().splitlines()]

    def rows_growing(self):
        """Return what is there by now, sealed or not."""
        place = self.folder / "landing/v1/family=ns_lifecycle"
        return [json.loads(line) for path in place.rglob("*.jsonl*") for line in lines_of(path)]

    def until(self, is_true):
        wait_until(is_true, seconds=WAIT_S, what="the recorder's thread")


def a_heartbeat(clock):
    heartbeat = Heartbeat(
        Moment(clock.unix_us(), clock.mono_us()), BrokerRef("C", "broker-a", 0), "register", None, 120_000
    )
    return SingleHeartbeat(heartbeat, "heartbeat", None)


@pytest.fixture
def desk(tmp_path):
    desk = Desk(tmp_path / "history")
    yield desk
    desk.recorder.close()


@pytest.fixture
def impatient(monkeypatch):
    """A disk that refused is tried again at once."""
    monkeypatch.setattr(module, "_RETRY_S", 0.02)


def test_enqueued_event_is_written_with_its_envelope_and_sealed_at_the_end(desk):
    desk.recorder.start()
    desk.recorder.enqueue(lifecycle("ready", address="127.0.0.1:9876"))
    desk.recorder.close()
    started, ready = desk.rows()
    assert started == {
        "schema_version": SCHEMA_VERSION,
        "event_id": "host_9876-1700000000000-1",
        "event_type": "started",
        "event_time": "2023-11-14T22:13:20.000000Z",
        "mono_us": 100_000_000_000_000,
        "ns_id": "host_9876",
        "boot_id": "host_9876-1700000000000",
        "source": "namesrv",
        "reason": "namesrv",
        "version": "1.0",
        "address": "127.0.0.1:9876",
    }
    assert (ready["event_type"], ready["address"]) == ("ready", "127.0.0.1:9876")
    assert desk.recorder.counts.events == {"ns_lifecycle": 2}


def test_written_columns_belong_to_their_family(desk):
    desk.recorder.start()
    desk.recorder.close()
    known = {column.name for column in NS_LIFECYCLE.all_columns}
    assert all(row.keys() <= known for row in desk.rows())
    assert set(FAMILIES) >= set(desk.recorder.counts.events)


def test_rows_of_one_process_are_numbered_without_a_gap(desk):
    desk.recorder.start()
    for number in range(3_000):
        desk.recorder.enqueue(lifecycle("configured", detail=str(number)))
    desk.recorder.close()
    rows = desk.rows()
    assert [int(row["event_id"].rpartition("-")[2]) for row in rows] == list(range(1, 3_002))
    assert [row["detail"] for row in rows[1:]] == [str(number) for number in range(3_000)]


def refusing(monkeypatch, desk):
    """Let the disk refuse until the returned list is emptied."""
    refusals = [OSError(errno.ENOSPC, "No space left on device")]
    append = desk.recorder._landing.append

    def refuse(*args):
        if refusals:
            raise refusals[0]
        return append(*args)

    monkeypatch.setattr(desk.recorder._landing, "append", refuse)
    return refusals


def test_full_disk_is_reported_once_and_queued_events_are_kept(desk, monkeypatch, impatient):
    refusals = refusing(monkeypatch, desk)
    desk.recorder.start()
    desk.recorder.enqueue(lifecycle("ready"))
    desk.until(lambda: desk.observed.all)
    desk.recorder.enqueue(lifecycle("configured", detail="while it is full"))
    assert not desk.recorder.counts.is_recording
    refusals.clear()
    desk.until(lambda: desk.recorder.counts.is_recording)
    desk.recorder.close()
    assert desk.observed.all == [("stopped", "[Errno 28] No space left on device"), ("resumed", None)]
    assert [row["event_type"] for row in desk.rows()] == ["started", "ready", "configured"]
    assert not desk.recorder.take_snapshot_request()


def test_events_beyond_the_queue_are_recorded_as_unobserved_and_request_a_snapshot(desk, monkeypatch, impatient):
    monkeypatch.setattr(event_queue, "STATES_MAX", 2)
    refusals = refusing(monkeypatch, desk)
    desk.recorder.start()
    desk.until(lambda: desk.observed.all)
    for number in count():
        desk.clock.us += 1_000_000
        desk.recorder.enqueue(lifecycle("configured", detail=str(number)))
        if desk.recorder.counts.dropped["state"] == 3:
            break
    refusals.clear()
    desk.until(lambda: desk.recorder.counts.is_recording)
    desk.recorder.close()
    rows = desk.rows()
    (resumed,) = [row for row in rows if row["event_type"] == "recording_resumed"]
    assert resumed["dropped"] == 3
    lost_since = sum(row["event_type"] == "configured" for row in rows) + 1
    assert resumed["unobserved_from"] == f"2023-11-14T22:13:2{lost_since}.000000Z"
    assert desk.recorder.take_snapshot_request()
    assert not desk.recorder.take_snapshot_request()


def test_dropped_heartbeats_are_recorded_but_request_no_snapshot(desk, monkeypatch):
    monkeypatch.setattr(event_queue, "HEARTBEATS_MAX", 2)
    for _ in range(5):
        desk.clock.us += 1_000_000
        desk.recorder.enqueue_heartbeat(a_heartbeat(desk.clock))
    desk.recorder.start()
    desk.recorder.close()
    (resumed,) = [row for row in desk.rows() if row["event_type"] == "recording_resumed"]
    assert (resumed["dropped"], resumed["reason"]) == (3, "heartbeats are missing")
    assert resumed["unobserved_from"] == "2023-11-14T22:13:23.000000Z"
    assert desk.recorder.counts.dropped == {"heartbeat": 3}
    assert not desk.recorder.take_snapshot_request()


def test_queue_holds_at_most_so_many_topics(desk, monkeypatch):
    monkeypatch.setattr(event_queue, "TOPICS_MAX", 10)
    for topics in (25, 0, 1):
        desk.recorder.enqueue(lifecycle("configured", detail=str(topics)), topics)
    assert desk.recorder.counts.dropped == {"state": 1}
    desk.recorder.start()
    desk.until(lambda: not desk.recorder.queued and len(desk.rows_growing()) >= 4)
    desk.recorder.enqueue(lifecycle("configured", detail="there is room again"), 10)
    desk.recorder.close()
    assert [row["detail"] for row in desk.rows() if row["event_type"] == "configured"] == [
        "25",
        "0",
        "there is room again",
    ]


class Broken:
    """Something that cannot become a row, by a fault of ours."""

    def rows(self, maker, moment):
        raise ValueError("a fault")


def test_event_that_cannot_become_a_row_costs_no_other(desk, impatient):
    desk.recorder.enqueue(lifecycle("ready"))
    desk.clock.us += 1_000_000
    desk.recorder.enqueue(Broken())
    desk.clock.us += 1_000_000
    desk.recorder.enqueue(lifecycle("configured", detail="\ud800"))
    desk.recorder.enqueue(lifecycle("stopping"))
    desk.recorder.start()
    desk.until(lambda: desk.observed.all)
    desk.until(lambda: desk.recorder.counts.is_recording)
    desk.recorder.close()
    rows = [row for row in desk.rows() if row["event_type"] != "started"]
    assert [row["event_type"] for row in rows] == ["ready", "stopping", "recording_resumed"]
    assert (rows[-1]["dropped"], rows[-1]["unobserved_from"]) == (2, "2023-11-14T22:13:21.000000Z")


def test_ticks_are_written_after_all_that_happened_before_them(desk, monkeypatch):
    written = []
    append = desk.recorder._landing.append
    monkeypatch.setattr(
        desk.recorder._landing, "append", lambda family, *args: (written.append(family), append(family, *args))
    )
    desk.recorder.enqueue(tick({"interval_ms": 10_000}))
    desk.recorder.enqueue(SetRow("registered", NO_BROKER, {}))
    for _ in range(1_200):
        desk.recorder.enqueue_heartbeat(a_heartbeat(desk.clock))
    desk.recorder.enqueue(tick({"interval_ms": 10_000}))
    desk.recorder.start()
    desk.recorder.close()
    # The start is older than all of it, and so may come first.
    assert written == ["ns_lifecycle", "heartbeat", "heartbeat", "heartbeat", "controller", "ns_tick"]


def test_rows_queued_for_hours_lie_in_the_hours_in_which_they_happened(desk):
    for _ in range(3):
        desk.recorder.enqueue(lifecycle("configured"))
        desk.clock.us += 3_600_000_000
    desk.recorder.start()
    desk.recorder.close()
    hours = {path.parent.name for path in desk.folder.rglob("*.jsonl")}
    assert hours == {"hour=22", "hour=23", "hour=00"}


def test_deleted_folder_is_recorded_as_missing_rows_and_recording_goes_on(desk, impatient):
    desk.recorder.start()
    desk.recorder.enqueue(lifecycle("ready"))
    desk.until(lambda: len(desk.rows_growing()) == 2)
    shutil.rmtree(desk.folder)
    desk.clock.us += 1_000_000
    desk.recorder.enqueue(lifecycle("configured"))
    desk.until(lambda: any(row["event_type"] == "recording_resumed" for row in desk.rows_growing()))
    desk.recorder.close()
    configured, resumed = desk.rows()
    assert configured["event_type"] == "configured"
    assert (resumed["dropped"], resumed["unobserved_from"]) == (2, "2023-11-14T22:13:20.000000Z")
    assert "was deleted while it was written to" in desk.observed.all[0][1]


def test_files_deleted_for_their_age_are_counted_and_reported(desk):
    place = desk.folder / "landing/v1/family=heartbeat/date=2023-10-01/hour=00"
    place.mkdir(parents=True)
    (place / "another_1-1-1.jsonl").write_text("{}\n")
    desk.recorder.start()
    desk.recorder.close()
    assert desk.observed.all == [("deleted", DeletedFiles("age", files=1, size_bytes=3))]
    assert desk.recorder.counts.deleted_files == {"age": 1}


def test_small_size_limit_holds_within_a_sixteenth_at_any_write_rate(desk, monkeypatch):
    bytes_max, sizes = 48_000, []
    desk.recorder = desk.new(bytes_max)
    append = desk.recorder._landing.append

    def measured(*args):
        sizes.append(sum(path.stat().st_size for path in desk.folder.rglob("*.jsonl*")))
        append(*args)

    monkeypatch.setattr(module, "_AT_ONCE", 4)
    monkeypatch.setattr(desk.recorder._landing, "append", measured)
    for _ in range(1_000):
        desk.clock.us += 1
        desk.recorder.enqueue_heartbeat(a_heartbeat(desk.clock))
    desk.recorder.start()
    desk.recorder.close()
    assert desk.recorder.counts.written_bytes > 5 * bytes_max
    assert bytes_max * 14 // 16 <= max(sizes) <= bytes_max * 17 // 16
    kept = sorted(row["event_time"] for row in desk.rows("heartbeat"))
    assert len(set(kept)) == len(kept) > 50
    assert kept[-1] == time_text(desk.clock.us)
    assert desk.recorder.counts.deleted_files["size"] == sum(each.files for _, each in desk.observed.all) > 50


def test_old_files_are_deleted_on_a_full_disk_that_cannot_seal(desk, monkeypatch, impatient):
    place = desk.folder / "landing/v1/family=heartbeat/date=2023-11-14/hour=20"
    place.mkdir(parents=True)
    (place / "another_1-1-1.jsonl").write_text("{}\n" * 1_000)
    desk.recorder = desk.new(bytes_max=1_000)

    def is_full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(desk.recorder._landing, "append", is_full)
    monkeypatch.setattr(desk.recorder._landing, "seal_all", is_full)
    desk.recorder.start()
    desk.until(lambda: not place.exists())
    desk.recorder.close()
    assert ("deleted", DeletedFiles("size", files=1, size_bytes=3_000)) in desk.observed.all


def test_rows_lost_in_several_families_are_counted_by_kind(desk):
    desk.recorder = desk.new(bytes_max=1_000_000)
    desk.recorder.start()
    desk.recorder.enqueue_heartbeat(a_heartbeat(desk.clock))
    desk.until(lambda: set(desk.recorder.counts.events) == {"ns_lifecycle", "heartbeat"})
    shutil.rmtree(desk.folder)
    desk.recorder.close()
    assert desk.recorder.counts.dropped == {"state": 1, "heartbeat": 1}


def test_files_of_another_host_do_not_keep_an_hour_forever(desk):
    desk.clock.us = 2_000_000_000_000_000
    place = desk.folder / "landing/v1/family=heartbeat/date=2033-05-18/hour=03"
    place.mkdir(parents=True)
    for name in (".another_1-1-2.jsonl.part", "another_1-1-1.jsonl"):
        (place / name).write_text("{}\n")
    desk.recorder = desk.new(bytes_max=0)
    desk.recorder.start()
    desk.until(lambda: desk.observed.all)
    desk.recorder.close()
    assert desk.observed.all[0] == ("deleted", DeletedFiles("size", files=2, size_bytes=6))


def writes_before_and_after_the_clock_is_set_far_ahead(desk, monkeypatch):
    monkeypatch.setattr(module, "_RETENTION_US", 0)
    desk.recorder.start()
    desk.recorder.enqueue(lifecycle("ready"))
    desk.until(lambda: len(desk.rows_growing()) == 2)
    desk.clock.ahead_us = 400 * 24 * 3_600_000_000
    desk.recorder.enqueue(lifecycle("configured"))
    # Two of them tell that it was set.
    desk.until(lambda: len(desk.rows_growing()) == 5)


def test_clock_set_far_ahead_deletes_nothing(desk, monkeypatch):
    writes_before_and_after_the_clock_is_set_far_ahead(desk, monkeypatch)
    desk.recorder.close()
    assert [row["event_type"] for row in desk.rows()] == ["started", "ready", "clock_set", "clock_set", "configured"]
    assert desk.observed.all == []


def test_clock_unchanged_for_a_day_after_it_was_set_decides_which_files_are_old(desk, monkeypatch):
    writes_before_and_after_the_clock_is_set_far_ahead(desk, monkeypatch)
    desk.clock.us += 25 * 3_600_000_000
    desk.recorder.enqueue(lifecycle("configured"))
    desk.until(lambda: desk.observed.all)
    ((what, deleted),) = desk.observed.all
    assert (what, deleted.reason, deleted.files) == ("deleted", "age", 1)


def test_file_that_cannot_be_sealed_gets_no_line_twice(desk, monkeypatch, impatient):
    monkeypatch.setattr(landing, "SEAL_BYTES", 1)
    settle, refusals = landing._rename_finished, [OSError(errno.ENOSPC, "No space left on device")]

    def refuse(*args, **kwargs):
        if refusals:
            raise refusals[0]
        return settle(*args, **kwargs)

    monkeypatch.setattr(landing, "_rename_finished", refuse)
    desk.recorder.start()
    desk.until(desk.rows_growing)
    for number in range(3):
        desk.recorder.enqueue(lifecycle("configured", detail=str(number)))
    desk.until(lambda: desk.observed.all)
    refusals.clear()
    desk.until(lambda: desk.recorder.counts.is_recording)
    desk.recorder.close()
    assert [row.get("detail") for row in desk.rows()] == [None, "0", "1", "2"]


def test_hanging_disk_does_not_delay_close(desk, monkeypatch):
    monkeypatch.setattr(module, "_CLOSE_S", 0.05)
    hangs = threading.Event()
    append = desk.recorder._landing.append
    monkeypatch.setattr(desk.recorder._landing, "append", lambda *args: (hangs.wait(WAIT_S), append(*args)))
    desk.recorder.start()
    desk.recorder.close()
    assert not desk.recorder.counts.events
    hangs.set()
    desk.until(lambda: desk.recorder.counts.events)


def test_folder_that_cannot_be_created_stops_recording_only(tmp_path, impatient):
    blocked = tmp_path / "file"
    blocked.write_text("")
    desk = Desk(blocked / "history")
    desk.recorder.start()
    desk.until(lambda: desk.observed.all)
    desk.recorder.close()
    assert [what for what, _ in desk.observed.all] == ["stopped"]


def test_started_row_shows_until_when_the_previous_process_was_watching(desk):
    desk.recorder.start()
    desk.clock.us += 10_000_000
    desk.recorder.enqueue(tick({"interval_ms": 10_000}))
    desk.recorder.close()
    desk.clock.us += 60_000_000
    desk.recorder = desk.new()
    desk.recorder.start()
    desk.recorder.close()
    started = desk.rows()[-1]
    assert started["event_type"] == "started"
    assert started["former_boot_id"] == "host_9876-1700000000000"
    assert started["unobserved_from"] == "2023-11-14T22:13:30.000000Z"


def test_rows_carry_the_time_of_enqueueing_not_of_writing(desk):
    desk.recorder.enqueue(lifecycle("ready"))
    desk.clock.us += 5_000_000
    desk.recorder.start()
    desk.recorder.close()
    ready = next(row for row in desk.rows() if row["event_type"] == "ready")
    assert ready["event_time"] == "2023-11-14T22:13:20.000000Z"
    assert Moment(1, 2).unix_us == 1


class FailingClock(Clock):
    """Fails the thread of the recorder as it is told to, and nobody else."""

    def __init__(self):
        super().__init__()
        self.failures = []

    def mono_us(self):
        if self.failures and threading.current_thread().name == "history":
            raise self.failures.pop()
        return super().mono_us()


class Deaf:
    """Fails whenever it is told something."""

    def recording_stopped(self, error):
        raise OSError("nobody is told")

    def recording_resumed(self):
        raise OSError("nobody is told")


@pytest.mark.parametrize("is_reported", [True, False])
def test_recording_goes_on_after_any_failure_in_the_thread(tmp_path, impatient, is_reported):
    """Even what no server survives in its main thread, and whoever is to be told of it."""
    desk = Desk(tmp_path / "history")
    desk.clock = FailingClock()
    if not is_reported:
        desk.observed = Deaf()
    desk.recorder = desk.new()
    desk.recorder.start()
    for failure in (RuntimeError("odd"), MemoryError(), RecursionError(), SystemExit(3), KeyboardInterrupt()):
        desk.clock.failures.append(failure)
        desk.until(lambda: not desk.clock.failures or not desk.recorder._thread.is_alive())
    desk.until(lambda: desk.recorder.counts.is_recording or not desk.recorder._thread.is_alive())
    desk.recorder.enqueue(lifecycle("ready", address="127.0.0.1:9876"))
    desk.recorder.close()
    assert [row["event_type"] for row in desk.rows()][-1] == "ready"
    if is_reported:
        assert desk.observed.all[0] == ("stopped", "odd")
        assert desk.observed.all[-1] == ("resumed", None)


def test_recording_begins_when_the_os_has_a_thread_for_it(desk, monkeypatch):
    def no_thread(*_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", no_thread)
        desk.recorder.start()
    assert desk.observed.all == [("stopped", "can't start new thread")]
    desk.recorder.start()
    desk.recorder.start()
    desk.until(lambda: desk.recorder.counts.is_recording)
    assert desk.observed.all[-1] == ("resumed", None)
