"""A small history is read into memory and planned simply: what is published of it is the same."""

import msgspec
import pytest
from landed import land, silent
from synthetic.first_hour import first_hour
from synthetic.generator import generate
from synthetic.landing import line, moment

from analytics.engine.registry import load_jobs
from analytics.engine.runner import Run, run_jobs
from analytics.ingest.ingest import Places, ingest
from analytics.shared.days import DAY_US
from analytics.shared.job import Span
from analytics.spark import small
from analytics.spark.schemas import no_rows, struct_of
from analytics.spark.storage import LocalStorage

FAMILIES_RECORDED = 10


@pytest.mark.broad
@pytest.mark.timeout(1200)
def test_small_histories_have_the_results_that_they_have_among_large_ones(spark, tmp_path, monkeypatch):
    plan = first_hour()
    recorded = {family: rows for family, rows in generate(plan).rows.items() if rows}
    assert len(recorded) == FAMILIES_RECORDED
    results = []
    for rows_max in (small.ROWS_MAX, -1):
        monkeypatch.setattr(small, "ROWS_MAX", rows_max)
        root = tmp_path / str(rows_max)
        for family, rows in recorded.items():
            lines = b"".join(line(family, row) for row in rows)
            land(root, lines, family=family, date=moment(plan.start_us)[:10], hour="00")
        storage = LocalStorage(root)
        ingest(Places(spark, storage, storage), silent)
        run = Run("small", Span(plan.start_us - DAY_US, plan.end_us))
        published = run_jobs(spark, storage, load_jobs(), run, silent)
        results.append({each.job: [msgspec.json.decode(row) for row in each.rows] for each in published})
    assert results[0] == results[1]
    assert sum(map(len, results[0].values())) > len(load_jobs())


@pytest.mark.broad
def test_analyses_without_rows_publish_none(spark):
    """The runner does not plan them."""
    for job in load_jobs():
        nothing = no_rows(spark, struct_of(job.part_columns))
        assert job.result(nothing, Span(0, DAY_US)).collect() == [], job.id
