"""The report shows the result that `rmq scaling dry-run` writes: both know its shape, and nothing of each other."""

from argparse import Namespace

import pytest

from analytics.cli.report import report
from controller.dry_run.published_run import DRY_RUN, TopicRun, document_of
from controller.scaling.autoscaler.dry_run import DryRunStart, RecordedSample, dry_run
from controller.scaling.autoscaler.policies import PolicyMode, ScalingPolicy

MONDAY_MS = 1_772_409_600_000
MINUTE_MS = 60_000
POLICY = ScalingPolicy(topic="orders", mode=PolicyMode.AUTO)
START = DryRunStart(queues_per_set=4)


def samples(consumed, tps=700):
    for minute in range(60):
        at_ms, end = MONDAY_MS + minute * MINUTE_MS, tps * 60 * minute
        yield RecordedSample(at_ms, "orders", max_offset=end, tps=float(tps))
        yield RecordedSample(at_ms, "orders", "billing", end, consumed * 60 * minute, 8, float(tps))


@pytest.fixture
def page(tmp_path):
    """From how many messages a second a group consumes to the page about that hour."""

    def of(consumed):
        rows = list(samples(consumed))
        run = TopicRun(cluster="c", policy=POLICY, start=START, samples=rows, verdicts=dry_run(rows, POLICY, START))
        target = tmp_path / DRY_RUN
        target.parent.mkdir(parents=True)
        window_us = (MONDAY_MS * 1000, (MONDAY_MS + 60 * MINUTE_MS) * 1000)
        target.write_bytes(document_of([run], window_us, window_us))
        report(Namespace(output=str(tmp_path), file=str(tmp_path / "report.html")))
        return (tmp_path / "report.html").read_text()

    return of


def test_report_shows_what_policies_would_have_done(page):
    text = page(consumed=400)
    assert "In 120 samples of 1 topic the policies would have made 1 resize, 1 without an operator." in text
    assert "8 consumers, 4 queues: 4 have none" in text.replace("<wbr>", "")
    assert "16 analyses have not been run yet" in text
    assert text.count("<svg") == 4


def test_report_shows_policies_that_would_have_done_nothing(page):
    assert "In 120 samples of 1 topic the policies would have changed nothing." in page(consumed=700)
