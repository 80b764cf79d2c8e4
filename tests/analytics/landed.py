"""Landing folders for tests: a few events with their JSON lines, and what has become of them when it is read back."""

import gzip
import json

from analytics.ingest.curated import rows_of
from analytics.ingest.ingest import Places, ingest
from analytics.ingest.manifest import load_days
from analytics.spark.storage import LocalStorage
from history.schemas import FAMILIES

DAY = "2026-03-02"


def a_heartbeat(number, *, at=f"{DAY}T05:00:00.000001Z", server="ns-1", **changes):
    """One heartbeat, as the server writes it; its id is made of the number."""
    return {
        "schema_version": 1,
        "event_id": f"{server}-1-{number}",
        "event_type": "heartbeat",
        "event_time": at,
        "mono_us": 1_000_000 * number,
        "ns_id": server,
        "boot_id": f"{server}-1",
        "cluster": "c",
        "broker_name": f"broker-{number % 3}",
        "broker_id": 0,
        "broker_addr": "10.0.0.1:10911",
        "source": "namesrv",
        "kind": "register",
        "interval_ms": 30_000,
        "period_ms": 30_000,
        "timeout_ms": 120_000,
    } | changes


def heartbeats(numbers, **changes):
    return [a_heartbeat(number, **changes) for number in numbers]


def as_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def land(root, content, *, name="ns-1-1-1.jsonl", family="heartbeat", date=DAY, hour="05"):
    """Put a sealed file into the landing folder; `content` is rows, or bytes as they are."""
    folder = root / "landing" / "v1" / f"family={family}" / f"date={date}" / f"hour={hour}"
    folder.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, bytes) else as_lines(content)
    path = folder / name
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


def silent(line):
    """Progress that nobody looks at."""


def places_at(spark, root, stored=None):
    return Places(spark, LocalStorage(root), LocalStorage(stored or root))


def ingest_all(spark, root, families=("heartbeat",), stored=None):
    return ingest(places_at(spark, root, stored), silent, [FAMILIES[name] for name in families])


def stored_rows(spark, root, family="heartbeat"):
    """All rows that count, by event id."""
    rows = _rows_that_count(spark, root, family).collect()
    return sorted((row.asDict() for row in rows), key=lambda row: row["event_id"])


def stored_ids(spark, root, family="heartbeat"):
    return _ids(_rows_that_count(spark, root, family))


def seen_by_anybody(spark, root, family="heartbeat"):
    """What a reader sees who knows nothing of manifests and reads the folder."""
    return _ids(spark.read.parquet(f"{root}/curated/v1/family={family}"))


def _rows_that_count(spark, root, family):
    storage = LocalStorage(root)
    paths = [path for day in load_days(storage, family).values() for path in day.parquet_files]
    return rows_of(spark, storage, FAMILIES[family], paths)


def _ids(rows):
    return sorted(row.event_id for row in rows.select("event_id").collect())


def every_file(root):
    """Each file below a folder with its content: what a run left there."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
