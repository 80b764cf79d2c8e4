"""Ingest by Structured Streaming: killed anywhere and started again, it has each event once."""

import pytest
from landed import DAY, every_file, heartbeats, ingest_all, land, places_at, seen_by_anybody, silent, stored_ids
from test_ingest import DiesAt, ids

from analytics.ingest.manifest import CorruptLine, load_days
from analytics.ingest.streaming import take_what_is_there
from analytics.spark.failures import SomeFailed
from analytics.spark.storage import LocalStorage
from history.schemas import HEARTBEAT, NS_TICK, ROUTE_SNAPSHOT

pytestmark = pytest.mark.broad


def take(spark, root, families=(HEARTBEAT,), stored=None):
    places = places_at(spark, root)
    take_what_is_there(places._replace(stored=stored or places.stored), families, silent)


def test_streams_take_files_once_and_agree_with_the_batch_ingest(spark, tmp_path):
    land(tmp_path, heartbeats(range(5)), name="a.jsonl")
    land(tmp_path, heartbeats(range(3, 7)), name="a-again.jsonl")
    # Landing folders of two hours do not know of each other.
    land(tmp_path, heartbeats([0, 7, 8], at=f"{DAY}T06:00:00Z"), name="b.jsonl", hour="06")
    land(tmp_path, b"torn\n", name="c.jsonl")
    cut = land(tmp_path, heartbeats(range(500), topics=["T"] * 50), family="route_snapshot", name="cut.jsonl.gz")
    cut.write_bytes(cut.read_bytes()[:-100])
    land(tmp_path, heartbeats(range(50, 60)), name="d.jsonl.part")
    land(tmp_path, heartbeats([1]), family="ns_tick")
    take(spark, tmp_path, (HEARTBEAT, NS_TICK, ROUTE_SNAPSHOT))
    land(tmp_path, heartbeats(range(9, 12)), name="late.jsonl")
    take(spark, tmp_path)
    hour = load_days(LocalStorage(tmp_path), "heartbeat")[DAY].hours["05"]
    assert stored_ids(spark, tmp_path) == seen_by_anybody(spark, tmp_path) == ids([0, *range(12)])
    assert stored_ids(spark, tmp_path, "ns_tick") == ids([1])
    assert (hour.corrupt_lines, {line.file for line in hour.corrupt}) == (1, {"c.jsonl"})
    (snapshots,) = load_days(LocalStorage(tmp_path), "route_snapshot")[DAY].hours.values()
    assert 0 < snapshots.rows < 500
    assert snapshots.corrupt == (CorruptLine("cut.jsonl.gz", "cut off"),)
    before = every_file(tmp_path / "curated")
    assert ingest_all(spark, tmp_path, families=("heartbeat", "ns_tick", "route_snapshot")).files == 0
    assert every_file(tmp_path / "curated") == before


def test_a_stream_that_starts_after_batch_ingests_adds_only_what_is_new(spark, tmp_path):
    take(spark, tmp_path)
    land(tmp_path, heartbeats(range(5)), name="a.jsonl")
    ingest_all(spark, tmp_path)
    before = every_file(tmp_path / "curated")
    take(spark, tmp_path)
    assert every_file(tmp_path / "curated") == before
    land(tmp_path, heartbeats(range(5, 8)), name="b.jsonl")
    take(spark, tmp_path)
    assert stored_ids(spark, tmp_path) == ids(range(8))


def test_killed_batch_is_repeated_at_the_next_start_without_loss_or_duplicates(spark, tmp_path):
    for number in range(6):
        root = tmp_path / str(number)
        land(root, heartbeats(range(4)), name="a.jsonl")
        land(root, heartbeats(range(2, 5)), name="a-again.jsonl")
        land(root, heartbeats([5], at=f"{DAY}T06:00:00Z"), name="b.jsonl", hour="06")
        try:
            take(spark, root, stored=DiesAt(root, number))
        except SomeFailed:
            died = True
        else:
            died = False
        take(spark, root)
        assert stored_ids(spark, root) == seen_by_anybody(spark, root) == ids(range(6))
        if not died:
            break
    assert not died, "every step was tried"
    assert number > 0


def test_files_that_are_deleted_before_they_are_read_do_not_end_a_stream_for_ever(spark, tmp_path):
    first = land(tmp_path, heartbeats(range(4)), name="a.jsonl")
    land(tmp_path, heartbeats(range(4, 6)), name="b.jsonl")
    with pytest.raises(SomeFailed):
        take(spark, tmp_path, stored=DiesAt(tmp_path, 0))
    first.unlink()
    take(spark, tmp_path)
    assert stored_ids(spark, tmp_path) == ids([4, 5])


class LosesWhatIsReadNext(LocalStorage):
    """Storage of a server whose disk is full: its oldest file goes when it is listed, and before it is read."""

    def uri(self, path):
        if path.endswith("/a.jsonl.gz"):
            self.delete(path)
        return super().uri(path)


def test_what_is_deleted_between_listing_and_reading_does_not_end_a_stream(spark, tmp_path):
    gone = land(tmp_path, heartbeats(range(4)), family="route_snapshot", name="a.jsonl.gz")
    land(tmp_path, heartbeats(range(4, 6)), family="route_snapshot", name="b.jsonl.gz")
    places = places_at(spark, tmp_path)._replace(landing=LosesWhatIsReadNext(tmp_path))
    take_what_is_there(places, [ROUTE_SNAPSHOT], silent)
    assert not gone.exists()
    assert stored_ids(spark, tmp_path, "route_snapshot") == ids([4, 5])
