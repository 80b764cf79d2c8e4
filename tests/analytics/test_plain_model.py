"""Each analysis tells of random histories what a plain model of its question says, which knows nothing of Spark.

`RMQ_PLAIN_SEEDS=200 pytest -m soak tests/analytics/test_plain_model.py` tries so many histories; CI
compares a long one, in test_incident.py.
"""

import os
from datetime import datetime
from functools import lru_cache

import pytest
from hand_tables import found
from plain import capacity as capacity_model
from plain import proposals, timeout_recommendation
from plain.cases import STORIES, story_of
from plain.comparing import differences
from plain.histories import history_of, long_history_of, weeks_of
from plain.models import LONG, QUESTIONS, is_configured
from plain.offset_histories import offsets_of
from plain.resize_histories import resizes_of
from plain.together import apart, together
from synthetic.frames import frame

from analytics.engine.registry import load_jobs
from analytics.jobs import a02_heartbeat_gaps, a05_timeout_recommendation
from analytics.shared.days import unix_us
from analytics.shared.job import Span

pytestmark = pytest.mark.soak

SOAK_SEEDS = range(int(os.environ.get("RMQ_PLAIN_SEEDS", "10")))

#: These tell nothing of two clusters at once, so that many histories can be one.
TOGETHER = ("A1", "A2", "A3", "A4", "A5", "A7", "A14")
#: So many of them: Spark plans once for all, and takes longer to plan than to work.
HISTORIES_AT_ONCE = 10


@lru_cache(maxsize=1)
def played(seed, how):
    return how(seed)


def play(job_id, seed):
    how = {"A13": weeks_of, "A15": resizes_of, "A16": offsets_of, **dict.fromkeys(LONG, long_history_of)}.get(
        job_id, history_of
    )
    return played(seed, how)


def configured(job_id, plans):
    """An analysis that knows how brokers of plans, by what is before their names, are configured: if it is told."""
    (job,) = load_jobs([job_id])
    if job_id not in ("A2", "A5"):
        return job
    periods = {
        (prefix + broker.key.broker_name, "register"): broker.period_ms
        for prefix, plan in plans.items()
        if is_configured(plan)
        for broker in plan.brokers
    }
    return {"A2": a02_heartbeat_gaps, "A5": a05_timeout_recommendation}[job_id].with_periods(periods)


def answers(spark, job, rows, window):
    """What an analysis publishes, with times as the model has them."""
    inputs = {family: frame(spark, family, rows[family]) for family in job.inputs}
    reported = found(job, inputs, Span(*window))
    return [
        {name: unix_us(value) if isinstance(value, datetime) else value for name, value in row.items()}
        for row in reported
    ]


def compared(spark, job_id, plan, history):
    window = (plan.start_us, plan.end_us)
    return judged(job_id, plan, history, answers(spark, configured(job_id, {"": plan}), history.rows, window))


def judged(job_id, plan, history, reported):
    """How what is told of a history differs from what the model says."""
    window = (plan.start_us, plan.end_us)
    if job_id == "A5":
        return timeout_recommendation.faults(history.rows, window, reported)
    question = QUESTIONS[job_id]
    faults = impossible(job_id, history, window, reported)
    if question.kinds:
        reported = [row for row in reported if row["kind"] in question.kinds]
    if job_id == "A13":
        reported = [row for row in reported if row["metric"].startswith("interval")]
    if job_id == "A6":
        reported = [row | {"sides": row["states"] and sides(row["states"])} for row in reported]
    model = question.model(plan, history.rows, window)
    return faults + differences(reported, model, question.keys, question.tolerances)


def compared_together(spark, job_id, seeds):
    """The same of many histories, which Spark looks at as one."""
    plays = {seed: history_of(seed) for seed in seeds}
    plans = {f"{seed}:": plan for seed, (plan, _) in plays.items()}
    (window,) = {(plan.start_us, plan.end_us) for plan in plans.values()}
    rows = together({seed: history for seed, (_, history) in plays.items()})
    reported = apart(answers(spark, configured(job_id, plans), rows, window))
    return {seed: unlike for seed in seeds if (unlike := judged(job_id, *plays[seed], reported.get(seed, [])))}


def impossible(job_id, history, window, reported):
    """What cannot be, whatever the model leaves open."""
    if job_id in ("A8", "A9"):
        return proposals.faults(history.rows, window, reported)
    return capacity_model.faults(reported) if job_id == "A12" else []


def sides(states):
    """Which NameServers tell the same, of `<NameServer>=<its answer>`."""
    by_answer = {}
    for state in states:
        name, _, answer = state.partition("=")
        by_answer.setdefault(answer, []).append(name)
    return sorted(sorted(names) for names in by_answer.values())


JOBS = [*QUESTIONS, "A5"]


@pytest.mark.parametrize(("name", "job_id"), [(name, job_id) for name, (_, ids) in STORIES.items() for job_id in ids])
def test_analysis_of_a_story_agrees_with_the_plain_model(spark, name, job_id):
    assert compared(spark, job_id, *story_of(name)) == []


@pytest.mark.timeout(0)
@pytest.mark.parametrize("job_id", JOBS)
def test_analysis_of_many_histories_agrees_with_the_plain_model(spark, job_id):
    if job_id in TOGETHER:
        apart = {}
        for first in range(0, len(SOAK_SEEDS), HISTORIES_AT_ONCE):
            apart |= compared_together(spark, job_id, SOAK_SEEDS[first : first + HISTORIES_AT_ONCE])
    else:
        apart = {seed: unlike for seed in SOAK_SEEDS if (unlike := compared(spark, job_id, *play(job_id, seed)))}
    assert apart == {}
