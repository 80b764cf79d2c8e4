"""Each analysis tells of stories and random histories what a plain model of its question says, which knows no Spark.

`RMQ_PLAIN_SEEDS=200 pytest -m soak tests/analytics/test_plain_model.py` tries so many random histories.
"""

import os
from datetime import datetime
from random import Random

import pytest
from hand_tables import published
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
from analytics.shared.days import DAY_US, HOUR_US, unix_us
from analytics.shared.job import Span

JOBS = [*QUESTIONS, "A5"]
SEEDS = range(4)
SOAK_SEEDS = range(len(SEEDS), int(os.environ.get("RMQ_PLAIN_SEEDS", "14")))
#: So many histories are one to Spark, which takes longer to plan than to work.
HISTORIES_AT_ONCE = 10
#: These have rows of no cluster, by which histories are told apart.
ALONE = ("A12", "A15")


def play(job_id, seed):
    """A random history of what an analysis is about."""
    how = {"A13": weeks_of, "A15": resizes_of, "A16": offsets_of, **dict.fromkeys(LONG, long_history_of)}
    return how.get(job_id, history_of)(seed)


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
    """What an analysis publishes of rows in no order and of parts of both halves of a window; times as in the model."""
    shuffled = {family: Random(family).sample(rows[family], len(rows[family])) for family in job.inputs}
    inputs = {family: frame(spark, family, held) for family, held in shuffled.items()}
    start, end = window
    unit = DAY_US if end - start > DAY_US else HOUR_US
    middle = (start + end) // 2 // unit * unit
    parts = [job.parts(inputs, Span(*half)) for half in ((start, middle), (middle, end))]
    return [
        {name: unix_us(value) if isinstance(value, datetime) else value for name, value in row.items()}
        for row in published(job, parts, Span(start, end))
    ]


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


def unlike(spark, job_id, plays):
    """What is told of histories, which Spark looks at as one where it can, and differs from the model: by history."""
    if job_id in ALONE:
        reported = {
            name: answers(spark, configured(job_id, {"": plan}), history.rows, (plan.start_us, plan.end_us))
            for name, (plan, history) in plays.items()
        }
    else:
        numbers = {name: number for number, name in enumerate(plays)}
        plans = {f"{numbers[name]}:": plan for name, (plan, _) in plays.items()}
        window = min(plan.start_us for plan in plans.values()), max(plan.end_us for plan in plans.values())
        rows = together({numbers[name]: history for name, (_, history) in plays.items()})
        found = apart(answers(spark, configured(job_id, plans), rows, window))
        reported = {name: found.get(number, []) for name, number in numbers.items()}
    faults = {name: judged(job_id, *plays[name], rows) for name, rows in reported.items()}
    return {name: fault for name, fault in faults.items() if fault}


@pytest.mark.parametrize("job_id", sorted({job_id for _, ids in STORIES.values() for job_id in ids}))
def test_analysis_of_the_stories_agrees_with_the_plain_model(spark, job_id):
    names = [name for name, (_, ids) in STORIES.items() if job_id in ids]
    assert unlike(spark, job_id, {name: story_of(name) for name in names}) == {}


@pytest.mark.broad
@pytest.mark.parametrize("job_id", JOBS)
def test_analysis_of_random_histories_agrees_with_the_plain_model(spark, job_id):
    assert unlike(spark, job_id, {seed: play(job_id, seed) for seed in SEEDS}) == {}


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("job_id", JOBS)
def test_analysis_of_many_histories_agrees_with_the_plain_model(spark, job_id):
    for first in range(0, len(SOAK_SEEDS), HISTORIES_AT_ONCE):
        plays = {seed: play(job_id, seed) for seed in SOAK_SEEDS[first : first + HISTORIES_AT_ONCE]}
        assert unlike(spark, job_id, plays) == {}
