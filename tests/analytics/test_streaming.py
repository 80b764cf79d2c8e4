"""Ingest by Structured Streaming: killed anywhere and started again, it has each event once."""

from landed import DAY, beats, every_file, ingest_all, land, places_at, seen_by_anybody, silent, stored_ids
from pyspark.errors import StreamingQueryException
from test_ingest import DiesAt, ids

from analytics.manifest import load_days
from analytics.storage import LocalStorage
from analytics.streaming import take_what_is_there
from history.schemas import HEARTBEAT, NS_TICK


def take(spark, root, families=(HEARTBEAT,), stored=None):
    places = places_at(spark, root)
    take_what_is_there(places._replace(stored=stored or places.stored), families, silent)


def test_streams_take_files_once_and_agree_with_the_batch_ingest(spark, tmp_path):
    land(tmp_path, beats(range(5)), name="a.jsonl")
    land(tmp_path, beats(range(3, 7)), name="a-again.jsonl")
    land(tmp_path, beats(range(7, 9), at=f"{DAY}T06:00:00Z"), name="b.jsonl", hour="06")
    land(tmp_path, b"torn\n", name="c.jsonl")
    land(tmp_path, beats(range(50, 60)), name="d.jsonl.part")
    land(tmp_path, beats([1]), family="ns_tick")
    take(spark, tmp_path, (HEARTBEAT, NS_TICK))
    land(tmp_path, beats(range(9, 12)), name="late.jsonl")
    take(spark, tmp_path)
    hour = load_days(LocalStorage(tmp_path), "heartbeat")[DAY].hours["05"]
    assert stored_ids(spark, tmp_path) == seen_by_anybody(spark, tmp_path) == ids([*range(12)])
    assert stored_ids(spark, tmp_path, "ns_tick") == ids([1])
    assert (hour.corrupt_lines, {line.file for line in hour.corrupt}) == (1, {"c.jsonl"})
    before = every_file(tmp_path / "curated")
    assert ingest_all(spark, tmp_path, families=("heartbeat", "ns_tick")).files == 0
    assert every_file(tmp_path / "curated") == before


def test_a_stream_that_starts_after_batch_ingests_adds_only_what_is_new(spark, tmp_path):
    take(spark, tmp_path)
    land(tmp_path, beats(range(5)), name="a.jsonl")
    ingest_all(spark, tmp_path)
    before = every_file(tmp_path / "curated")
    take(spark, tmp_path)
    assert every_file(tmp_path / "curated") == before
    land(tmp_path, beats(range(5, 8)), name="b.jsonl")
    take(spark, tmp_path)
    assert stored_ids(spark, tmp_path) == ids(range(8))


def test_whenever_a_batch_dies_the_next_start_repeats_it_without_loss_or_duplicates(spark, tmp_path):
    for number in range(6):
        root = tmp_path / str(number)
        land(root, beats(range(4)), name="a.jsonl")
        land(root, beats(range(2, 5)), name="a-again.jsonl")
        land(root, beats([5], at=f"{DAY}T06:00:00Z"), name="b.jsonl", hour="06")
        try:
            take(spark, root, stored=DiesAt(root, number))
        except StreamingQueryException:
            died = True
        else:
            died = False
        take(spark, root)
        assert stored_ids(spark, root) == seen_by_anybody(spark, root) == ids(range(6))
        if not died:
            break
    assert not died, "every step was tried"
    assert number > 0
