"""Results of all analyses for the report, by hand: each row has all columns of its analysis, null unless it is told."""

import msgspec

from analytics.engine.publication import LatestColumn, LatestRun
from analytics.engine.registry import load_jobs
from analytics.shared.job import RESULT_COLUMNS

WINDOW = ("2026-03-02T00:00:00.000000Z", "2026-03-09T00:00:00.000000Z")
JOBS = {job.id: job for job in load_jobs()}
HOSTILE = "<script>alert('x')</script>"


def at(day, clock="00:00:00"):
    return f"2026-03-{day:02}T{clock}.000000Z"


def a_row(job_id, **values):
    columns = [column.name for column in (*RESULT_COLUMNS, *JOBS[job_id].columns)]
    strange = set(values) - set(columns)
    assert not strange, f"{job_id} has no columns {strange}"
    return dict.fromkeys(columns) | {"run_id": "r", "cluster": "DefaultCluster"} | values


def a_result(job_id, *rows):
    """A published result, as latest.json holds it."""
    job = JOBS[job_id]
    return LatestRun(
        job=job_id,
        name=job.name,
        question=job.question,
        run_id="r",
        window_start=WINDOW[0],
        window_end=WINDOW[1],
        started_at=at(9, "00:10:00"),
        finished_at=at(9, "00:10:07"),
        duration_seconds=7.0,
        input_rows=18_144_000,
        days=7,
        columns=tuple(LatestColumn(name=c.name, type=c.type.value, doc=c.doc) for c in (*RESULT_COLUMNS, *job.columns)),
        row_count=len(rows),
        rows=tuple(msgspec.Raw(msgspec.json.encode(row)) for row in rows),
        files=(),
    )


def write(folder, results):
    """The results as files below an output folder."""
    latest = folder / "results" / "latest"
    latest.mkdir(parents=True, exist_ok=True)
    for result in results:
        (latest / f"{result.name}.json").write_bytes(msgspec.json.encode(result))


def table(job_id, columns, *rows, **alike):
    """Rows whose values stand below the names of their columns; `alike` is what they have in common."""
    return [a_row(job_id, **dict(zip(columns.split(), row, strict=True)), **alike) for row in rows]


def brokers(count):
    return [(f"broker-{n:02}", n % 2) for n in range(count)]


def quiet():
    """Results of a history in which there was nothing to see."""
    return [a_result(job_id) for job_id in JOBS]


def eventful():
    """Results with something of everything, and names that somebody chose to do harm."""
    told = {
        "A1": _availability(),
        "A2": _heartbeat_gaps(),
        "A3": _flapping(),
        "A4": _detection_delays(),
        "A5": _timeout_recommendations(),
        "A6": _divergence(),
        "A7": _route_churn(),
        "A8": _queue_balance(),
        "A9": _queue_scaling(),
        "A10": _failovers(),
        "A11": _restart_storms(),
        "A13": _anomalies(),
        "A14": _correlated_failures(),
        "A12": _resources(),
        "A15": _resizes(),
        "A16": _offsets(),
    }
    return [a_result(job_id, *rows) for job_id, rows in told.items()]


def _availability():
    columns = "broker_name broker_id up_s planned_s unplanned_s unplanned_least_s failures mtbf_s mttr_s availability"
    week = 604_800.0
    rows = [
        (*who, week - 900 * n, 300.0 * (n % 3), 900.0 * n, 780.0 * n, n, week / n, 900.0, 1 - 900 * n / week)
        for n, who in enumerate(brokers(16))
        if n
    ]
    alike = {"observed_s": week, "mtbf_lower_s": 200_000.0}
    well = (*brokers(1)[0], week, 0.0, 0.0, 0.0, 0, None, None, 1.0)
    return [*table("A1", columns, well, **alike), *table("A1", columns, *rows, mtbf_upper_s=900_000.0, **alike)]


def _heartbeat_gaps():
    columns = "broker_name broker_id p99_ms max_ms missed miss_ratio"
    rows = [(*who, 31_000 + 400 * n, 45_000 + 9_000 * n, n * n, n * n / 60_000) for n, who in enumerate(brokers(8))]
    usual = {"n": 60_000, "period_ms": 30_000.0, "mean_ms": 30_010.0, "p50_ms": 30_000, "p95_ms": 30_200}
    usual |= {"p999_ms": 40_000, "mad_ms": 40, "source": "namesrv", "confidence": "high"}
    few = {"n": 9, "p50_ms": 1, "source": "controller", "confidence": "low"}
    return [*table("A2", columns, *rows, **usual), *table("A2", columns, ("broker-00", 0, 2, 3, 0, 0.0), **few)]


def _flapping():
    columns = "broker_name broker_id transitions peak time_flagged_s flagged_at_end"
    rows = [(*who, 4 * n, 1.1 * n, 1_000.0 * max(n - 2, 0), n == 4) for n, who in enumerate(brokers(5))]
    return table("A3", columns, *rows, peak_time=at(4))


def _detection_delays():
    delays = [
        ("namesrv", "expired", 120_000, 122_500.0, 122_400.0),
        ("namesrv", "channel_closed", 120_000, None, 9_000.0),
        ("controller", "timeout", 10_000, 12_500.0, 19_000.0),
    ]
    columns = "source reason timeout_ms expected_ms p50_ms mean_ms p95_ms max_ms"
    return table("A4", columns, *((*row, row[-1], row[-1] * 1.1, int(row[-1] * 1.2)) for row in delays), n=12)


def _timeout_recommendations():
    # The last one tells no timeout, so that nothing it is told to do changes it.
    best = [
        (10.0, 60.0, 65.0, "high", 1_000.0),
        (10.0, 45.0, 50.0, "medium", 1_000.0),
        (10.0, 10.0, 15.0, "high", 1_000.0),
        (10.0, 30.0, 35.0, "low", 1_000.0),
        (120.0, 90.0, 95.0, "high", 30_000.0),
    ]
    columns = "broker_name broker_id current_timeout_s recommended_timeout_s delay_s confidence period_ms"
    rows = [(*who, *row) for who, row in zip(brokers(5), best, strict=True)]
    evidence = {"evidence_days": 21.0, "failures": 2}
    return table("A5", columns, *rows, current_fp_day=0.0, fp_day=0.01, fp_day_upper=0.03, **evidence)


def _divergence():
    columns = "broker_name kind start_time end_time seconds states"
    presence = ("broker-01", "presence", at(3, "10:00:00"), at(3, "14:30:00"), 16_200.0, ["ns-0=up", "ns-1=absent"])
    version = ("broker-02", "version", at(5), at(5, "00:02:00"), 120.0, ["ns-0=7", "ns-1=8"])
    return table("A6", columns, presence, version, broker_id=0)


def _route_churn():
    names = ("orders", HOSTILE, "a-topic-with-a-name-that-is-longer-than-anybody-would-like-it-to-be-in-a-plot")
    rows = [(topic, 90 - 30 * n, 40 - 20 * n) for n, topic in enumerate(names)]
    alike = {"added": 0, "removed": 0, "queues": 90, "perm": 0, "other": 0, "brokers": 2}
    alike |= {"busiest_hour": at(4), "busiest_hour_changes": 12, "fetches_max": 50_000}
    return [*table("A7", "topic changes flips", *rows, **alike), a_row("A7", changes=3000, flips=0)]


def _queue_balance():
    columns = "broker_name broker_addr queues tps tps_share ratio"
    rows = [
        (f"broker-{n:02}", f"10.0.0.{n}:10911", 900 - 100 * n, 4_000.0 - 500 * n, 0.25 - 0.01 * n, 1.8 - 0.2 * n)
        for n in range(6)
    ]
    of_set = {"broker_name": "broker-00", "basis": "queues"}
    of_set["reason"] = "one of the fullest sets of the cluster: 900 queues"
    return [
        *table("A8", columns, *rows, kind="broker", share=0.2, max_mean=1.8, cv=0.3, gini=0.21),
        a_row("A8", kind="topic", topic="orders", queues=48, spread=16),
        a_row("A8", **_proposal("orders"), **of_set, position=1),
        a_row("A8", **_proposal("payments"), **of_set, position=2),
    ]


def _proposal(topic):
    counts = {"read_now": 16, "write_now": 16, "read_proposed": 8, "write_proposed": 8, "confidence": 0.86}
    steps = ["expect read=16 write=16", "update read=16 write=8", "drain", "update read=8 write=8"]
    commands = [
        "mqadmin topicRoute -t 'orders'",
        "mqadmin updateTopic -r 16 -w 8",
        "mqadmin consumerProgress -g 'orders-readers'",
        "mqadmin updateTopic -r 8 -w 8",
    ]
    return counts | {"kind": "proposal", "topic": topic, "steps": steps, "commands": commands}


def _queue_scaling():
    columns = "topic verdict queues_now queues_proposed days_differing p95_tps lag"
    topics = [("orders", "shrink", 32, 16, 7, 900.0, 0), (HOSTILE, "keep", 16, 16, 1, 5_000.0, 9)]
    why = {"reason": "900 messages a second at most on a day"}
    return [
        *table("A9", columns, *topics, kind="topic", sets=2, days=7, consumers=4),
        *table("A9", "broker_name position", ("broker-00", 1), ("broker-01", 2), **_proposal("orders"), **why),
    ]


def _failovers():
    columns = "broker_name failover_id new_master elected register_s spread_s total_s serve_s lead_s address_total_s"
    columns += " detect_s slowest_namesrv missing"
    names = [f"broker-{n:02}" for n in range(4)]
    ids = [f"DefaultCluster/{name}/{n + 2}" for n, name in enumerate(names)]
    rows = [
        (names[0], ids[0], *[None] * 8, 11.0, None, ["elected", "visible"]),
        *(
            (
                names[n],
                ids[n],
                2,
                at(4, f"10:0{n}:00"),
                1.5,
                4.0 * n,
                18.0 + 5 * n,
                0.4,
                lead_s,
                s,
                11.0 + n,
                "ns-1",
                [],
            )
            for n, lead_s, s in ((1, 0.3, 12.9), (2, None, None), (3, None, None))
        ),
    ]
    alike = {"old_master": 1, "cause": "timeout", "attempts": 0, "start_s": 0.01, "elect_s": 0.2, "notify_s": 0.03}
    alike |= {"namesrvs": ["ns-0", "ns-1"], "visible_ms": [1500, 5500]}
    phases = [(name, s, 2 * s, 2 * s) for name, s in (("detect", 12.0), ("elect", 0.2), ("total", 25.0))]
    return [
        *table("A10", columns, *rows, kind="failover", **alike),
        *table("A10", "phase p50_s p95_s max_s", *phases, kind="phase", n=3),
    ]


def _restart_storms():
    columns = "cause start end seconds brokers registrations share loop_lag_max_ms rejected namesrvs"
    return table(
        "A11",
        columns,
        ("brokers", at(5, "03:00:00"), at(5, "03:00:40"), 40.0, 24, 72, 0.3, 180.0, 3, ["ns-0"]),
        ("namesrv", at(6), at(6, "00:00:30"), 30.0, 80, 80, 1.0, None, None, ["ns-1"]),
        known=80,
    )


def _anomalies():
    columns = "broker_name broker_id metric start end windows value baseline z"
    return table(
        "A13",
        columns,
        ("broker-03", 1, "interval_max_ms", at(4, "12:00:00"), at(4, "13:00:00"), 6, 90_000.0, 30_400.0, 40.0),
        (HOSTILE, 0, "missed", at(7), at(7, "00:20:00"), 2, 9.0, 0.0, 12.0),
    )


def _correlated_failures():
    racks = [
        ("broker-00:0", "broker-01:1", 0.9),
        ("broker-01:1", "broker-02:0", 0.8),
        ("broker-05:1", "broker-06:0", 0.2),
    ]
    minutes = {"joint_minutes": 40, "joint_outages": 3, "minutes_a": 44, "minutes_b": 45}
    return table("A14", "broker_a broker_b jaccard", *racks, cluster_b="DefaultCluster", **minutes)


def _resources():
    days = list(range(20_514, 20_544))
    columns = "source resource now slope_day limit in_30d p10 p90 slope_p10 slope_p90 days_left history"
    rows = [
        (
            *(source, resource, float(now), slope, limit, now + 30 * slope, now + 24 * slope, now + 36 * slope),
            *(slope * 0.8, slope * 1.2, (limit - now) / slope if limit and slope else None),
            [round(now - slope * (29 - n)) for n in range(30)],
        )
        for source, resource, now, slope, limit in (
            ("namesrv", "connections", 9_000, 120.0, 16_384.0),
            ("namesrv", "resident_memory_bytes", 600_000_000, 1_000_000.0, float(2**30)),
            ("namesrv", "queues", 80_000, 0.0, None),
            ("controller", "etcd_db_bytes", 4_000_000, 1_000.0, float(2**31)),
        )
    ]
    few = {"days": 2, "now": 80.0, "history_days": days[:2], "history": [80, 80]}
    return [
        *table("A12", columns, *rows, days=30, history_days=days),
        a_row("A12", source="namesrv", resource="brokers", **few),
    ]


def _resizes():
    for n, (topic, outcome) in enumerate((("orders", "done"), ("payments", "running"), (HOSTILE, "aborted"))):
        who = {"topic": topic, "operation_id": f"{topic}.{n}", "resize": "shrink", "result": outcome}
        usual = {"kind": "operation", "requested_by": "an operator", "sets": 2, "write_from": 16, "write_to": 8}
        usual |= {"created": at(4, "10:00:00"), "seconds": 3600.0 * (n + 1), "reopened": n % 2}
        usual |= {"longest_phase": "DRAIN", "longest_s": 1800.0 * (n + 1)}
        usual |= {"evidence": ["readers has consumed everything"], "samples_before": 30, "samples_during": 60}
        usual |= {"tps_before": 900.0, "tps_during": 950.0, "queue_tps_before": 56.25}
        usual["ended"] = None if outcome == "running" else at(4, "11:00:00")
        end = {"phase": "BLOCKED", "problem": "readers has 900 messages left", "samples_after": 0}
        if outcome == "done":
            end = {"phase": "DONE", "samples_after": 30, "tps_after": 910.0, "queue_tps_after": 113.75}
        yield a_row("A15", **who, **usual, **end)
        for phase, seconds in (("PLANNED", 2.0), ("QUIESCE", 95.0), ("DRAIN", 1800.0 * (n + 1)), ("BLOCKED", 40.0)):
            yield a_row("A15", **who, kind="phase", phase=phase, seconds=seconds, entries=1)
        lags = {"lag_max_before": 500, "lag_max_during": 70_000, "lag_max_after": 0 if outcome == "done" else None}
        members = {"consumers_before": 4, "consumers_after": 4}
        yield a_row("A15", **who, kind="group", group="readers", **lags, **members)
    for verdict, finding in (("proposed", "clients_without_queue"), ("refused", None)):
        counts = {"decisions": 3, "first": at(4), "last": at(5)}
        yield a_row("A15", cluster=None, kind="decision", topic="orders", verdict=verdict, finding=finding, **counts)


def _offsets():
    times = {"first": at(4, "10:00:00"), "last": at(4, "10:00:05")}
    groups = (("billing", "orders"), ("audit", "payments"), (HOSTILE, "orders"))
    repair = {"queues": 8, "pushed": 6, "set_back": 1, "would_change": 1, "not_proved": 0, "failed": 0}
    repair |= {"messages_spared": 50_000, "messages_again": 40, "messages_skipped": 3, "events": 1}
    for n, (group, topic) in enumerate(groups):
        who = {"group": group, "topic": topic, "sets": ["broker-00"], "events": n + 1, **times}
        for cause, is_wanted in (("failover", False), ("reset", True)):
            lost = {"queues": 8, "removed": 0, "messages_again": 50_000 * (n + 1), "messages_skipped": 0}
            yield a_row("A16", **who, kind="group", cause=cause, is_wanted=is_wanted, **lost)
        yield a_row("A16", kind="repaired", **(who | repair))
        changed = {"queues": 4, "created": 0, "removed": 0, "failed": n, "messages_again": 9, "messages_skipped": 0}
        yield a_row("A16", **who, kind="change", operation="reset", target="broker", writer=HOSTILE, **changed)
        replay = {"replays": 1, "queues": 4, "granted": 4, "held_by_another": 0, "unanswered": 0, "unconfirmed": 0}
        rest = {"overlaps": n, "overlap_longest_ms": 9_000}
        yield a_row("A16", **who, kind="locks", longest_ms=120, **replay, **rest)
    for n in range(2):
        yield a_row("A16", kind="run", broker_name=f"broker-{n:02}", problems=n, longest_ms=900, **(times | repair))
