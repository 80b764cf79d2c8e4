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


def brokers(count):
    return [{"broker_name": f"broker-{n:02}", "broker_id": n % 2} for n in range(count)]


def quiet():
    """Results of a history in which there was nothing to see."""
    return [a_result(job_id) for job_id in JOBS]


def eventful():
    """Results with something of everything, and names that somebody chose to do harm."""
    return [
        _availability(),
        _heartbeat_gaps(),
        _flapping(),
        _detection_delays(),
        _timeout_recommendations(),
        _divergence(),
        _route_churn(),
        _queue_balance(),
        _queue_scaling(),
        _failovers(),
        _restart_storms(),
        _anomalies(),
        _correlated_failures(),
        a_result("A12", *_resources()),
        a_result("A15", *_resizes()),
        a_result("A16", *_offsets()),
    ]


def _availability():
    return a_result(
        "A1",
        *(
            a_row(
                "A1",
                **who,
                observed_s=604_800.0,
                up_s=604_800.0 - 900 * n,
                planned_s=300.0 * (n % 3),
                unplanned_s=900.0 * n,
                unplanned_least_s=780.0 * n,
                failures=n,
                mtbf_s=604_800 / n if n else None,
                mttr_s=900.0 if n else None,
                availability=1 - 900 * n / 604_800,
                mtbf_lower_s=200_000.0,
                mtbf_upper_s=900_000.0 if n else None,
            )
            for n, who in enumerate(brokers(16))
        ),
    )


def _heartbeat_gaps():
    return a_result(
        "A2",
        *(
            a_row(
                "A2",
                **who,
                source="namesrv",
                n=60_000,
                period_ms=30_000.0,
                mean_ms=30_010.0,
                p50_ms=30_000,
                p95_ms=30_200,
                p99_ms=31_000 + 400 * n,
                p999_ms=40_000,
                max_ms=45_000 + 9_000 * n,
                mad_ms=40,
                missed=n * n,
                miss_ratio=n * n / 60_000,
                confidence="high",
            )
            for n, who in enumerate(brokers(8))
        ),
        a_row(
            "A2",
            broker_name="broker-00",
            broker_id=0,
            source="controller",
            n=9,
            p50_ms=1,
            p99_ms=2,
            max_ms=3,
            missed=0,
            miss_ratio=0.0,
            confidence="low",
        ),
    )


def _flapping():
    return a_result(
        "A3",
        *(
            a_row(
                "A3",
                **who,
                transitions=4 * n,
                peak=1.1 * n,
                peak_time=at(4),
                time_flagged_s=1_000.0 * max(n - 2, 0),
                flagged_at_end=n == 4,
            )
            for n, who in enumerate(brokers(5))
        ),
    )


def _detection_delays():
    delays = [
        ("namesrv", "expired", 120_000, 122_500.0, 122_400.0),
        ("namesrv", "channel_closed", 120_000, None, 9_000.0),
        ("controller", "timeout", 10_000, 12_500.0, 19_000.0),
    ]
    return a_result(
        "A4",
        *(
            a_row(
                "A4",
                source=s,
                reason=r,
                timeout_ms=t,
                n=12,
                p50_ms=m,
                p95_ms=m * 1.1,
                max_ms=int(m * 1.2),
                mean_ms=m,
                expected_ms=e,
            )
            for s, r, t, e, m in delays
        ),
    )


def _timeout_recommendations():
    # The last one tells no timeout, so that nothing it is told to do changes it.
    best = [
        (10.0, 60.0, "high", 1_000.0),
        (10.0, 45.0, "medium", 1_000.0),
        (10.0, 10.0, "high", 1_000.0),
        (10.0, 30.0, "low", 1_000.0),
        (120.0, 90.0, "high", 30_000.0),
    ]
    return a_result(
        "A5",
        *(
            a_row(
                "A5",
                **who,
                period_ms=period_ms,
                current_timeout_s=now,
                current_fp_day=0.0,
                recommended_timeout_s=then,
                fp_day=0.01,
                fp_day_upper=0.03,
                delay_s=then + 5,
                evidence_days=21.0,
                confidence=sure,
                failures=2,
            )
            for who, (now, then, sure, period_ms) in zip(brokers(5), best, strict=True)
        ),
    )


def _divergence():
    return a_result(
        "A6",
        a_row(
            "A6",
            broker_name="broker-01",
            broker_id=0,
            kind="presence",
            start_time=at(3, "10:00:00"),
            end_time=at(3, "14:30:00"),
            seconds=16_200.0,
            states=["ns-0=up", "ns-1=absent"],
        ),
        a_row(
            "A6",
            broker_name="broker-02",
            broker_id=0,
            kind="version",
            start_time=at(5),
            end_time=at(5, "00:02:00"),
            seconds=120.0,
            states=["ns-0=7", "ns-1=8"],
        ),
    )


def _route_churn():
    return a_result(
        "A7",
        *(
            a_row(
                "A7",
                topic=topic,
                changes=90 - 30 * n,
                flips=40 - 20 * n,
                added=0,
                removed=0,
                queues=90,
                perm=0,
                other=0,
                brokers=2,
                busiest_hour=at(4),
                busiest_hour_changes=12,
                fetches_max=50_000,
            )
            for n, topic in enumerate(
                ("orders", HOSTILE, "a-topic-with-a-name-that-is-longer-than-anybody-would-like-it-to-be-in-a-plot")
            )
        ),
        a_row("A7", changes=3000, flips=0),
    )


def _queue_balance():
    return a_result(
        "A8",
        *(
            a_row(
                "A8",
                kind="broker",
                broker_name=f"broker-{n:02}",
                broker_addr=f"10.0.0.{n}:10911",
                queues=900 - 100 * n,
                share=0.2,
                tps=4_000.0 - 500 * n,
                tps_share=0.25 - 0.01 * n,
                ratio=1.8 - 0.2 * n,
                max_mean=1.8,
                cv=0.3,
                gini=0.21,
            )
            for n in range(6)
        ),
        a_row("A8", kind="topic", topic="orders", queues=48, spread=16),
        *(
            a_row(
                "A8",
                **(_proposal() | {"topic": topic}),
                broker_name="broker-00",
                position=position,
                basis="queues",
                reason="one of the fullest sets of the cluster: 900 queues",
            )
            for position, topic in enumerate(("orders", "payments"), start=1)
        ),
    )


def _proposal():
    steps = {
        "steps": ["expect read=16 write=16", "update read=16 write=8", "drain", "update read=8 write=8"],
        "commands": [
            "mqadmin topicRoute -t 'orders'",
            "mqadmin updateTopic -r 16 -w 8",
            "mqadmin consumerProgress -g 'orders-readers'",
            "mqadmin updateTopic -r 8 -w 8",
        ],
    }
    return {
        "kind": "proposal",
        "topic": "orders",
        "read_now": 16,
        "write_now": 16,
        "read_proposed": 8,
        "write_proposed": 8,
        "confidence": 0.86,
        **steps,
    }


def _queue_scaling():
    return a_result(
        "A9",
        a_row(
            "A9",
            kind="topic",
            topic="orders",
            verdict="shrink",
            sets=2,
            queues_now=32,
            queues_proposed=16,
            days=7,
            days_differing=7,
            p95_tps=900.0,
            consumers=4,
            lag=0,
        ),
        a_row(
            "A9",
            kind="topic",
            topic=HOSTILE,
            verdict="keep",
            sets=2,
            queues_now=16,
            queues_proposed=16,
            days=7,
            days_differing=1,
            p95_tps=5_000.0,
            consumers=4,
            lag=9,
        ),
        *(
            a_row(
                "A9",
                **_proposal(),
                broker_name=f"broker-{n:02}",
                position=n + 1,
                reason="900 messages a second at most on a day",
            )
            for n in range(2)
        ),
    )


def _failovers():
    return a_result(
        "A10",
        *(
            a_row(
                "A10",
                kind="failover",
                broker_name=f"broker-{n:02}",
                failover_id=f"DefaultCluster/broker-{n:02}/{n + 2}",
                old_master=1,
                new_master=2 if n else None,
                cause="timeout",
                attempts=0,
                elected=at(4, f"10:0{n}:00") if n else None,
                detect_s=11.0 + n,
                start_s=0.01,
                elect_s=0.2,
                notify_s=0.03,
                register_s=1.5 if n else None,
                spread_s=4.0 * n if n else None,
                total_s=18.0 + 5 * n if n else None,
                serve_s=0.4 if n else None,
                lead_s=0.3 if n == 1 else None,
                address_total_s=12.9 if n == 1 else None,
                namesrvs=["ns-0", "ns-1"],
                visible_ms=[1500, 5500],
                slowest_namesrv="ns-1" if n else None,
                missing=[] if n else ["elected", "visible"],
            )
            for n in range(4)
        ),
        *(
            a_row("A10", kind="phase", phase=name, n=3, p50_s=s, p95_s=2 * s, max_s=2 * s)
            for name, s in (("detect", 12.0), ("elect", 0.2), ("total", 25.0))
        ),
    )


def _restart_storms():
    return a_result(
        "A11",
        a_row(
            "A11",
            cause="brokers",
            start=at(5, "03:00:00"),
            end=at(5, "03:00:40"),
            seconds=40.0,
            brokers=24,
            registrations=72,
            known=80,
            share=0.3,
            loop_lag_max_ms=180.0,
            rejected=3,
            namesrvs=["ns-0"],
        ),
        a_row(
            "A11",
            cause="namesrv",
            start=at(6),
            end=at(6, "00:00:30"),
            seconds=30.0,
            brokers=80,
            registrations=80,
            known=80,
            share=1.0,
            loop_lag_max_ms=None,
            rejected=None,
            namesrvs=["ns-1"],
        ),
    )


def _anomalies():
    return a_result(
        "A13",
        a_row(
            "A13",
            broker_name="broker-03",
            broker_id=1,
            metric="interval_max_ms",
            start=at(4, "12:00:00"),
            end=at(4, "13:00:00"),
            windows=6,
            value=90_000.0,
            baseline=30_400.0,
            z=40.0,
        ),
        a_row(
            "A13",
            broker_name=HOSTILE,
            broker_id=0,
            metric="missed",
            start=at(7),
            end=at(7, "00:20:00"),
            windows=2,
            value=9.0,
            baseline=0.0,
            z=12.0,
        ),
    )


def _correlated_failures():
    racks = [
        ("broker-00:0", "broker-01:1", 0.9),
        ("broker-01:1", "broker-02:0", 0.8),
        ("broker-05:1", "broker-06:0", 0.2),
    ]
    return a_result(
        "A14",
        *(
            a_row(
                "A14",
                broker_a=a,
                broker_b=b,
                cluster_b="DefaultCluster",
                jaccard=alike,
                joint_minutes=40,
                joint_outages=3,
                minutes_a=44,
                minutes_b=45,
            )
            for a, b, alike in racks
        ),
    )


def _resources():
    days = list(range(20_514, 20_544))
    for source, resource, now, slope, limit in (
        ("namesrv", "connections", 9_000, 120.0, 16_384.0),
        ("namesrv", "resident_memory_bytes", 600_000_000, 1_000_000.0, float(2**30)),
        ("namesrv", "queues", 80_000, 0.0, None),
        ("controller", "etcd_db_bytes", 4_000_000, 1_000.0, float(2**31)),
    ):
        yield a_row(
            "A12",
            source=source,
            resource=resource,
            days=30,
            now=float(now),
            slope_day=slope,
            slope_p10=slope * 0.8,
            slope_p90=slope * 1.2,
            in_30d=now + 30 * slope,
            p10=now + 24 * slope,
            p90=now + 36 * slope,
            limit=limit,
            days_left=(limit - now) / slope if limit and slope else None,
            history_days=days,
            history=[round(now - slope * (29 - n)) for n in range(30)],
        )
    yield a_row("A12", source="namesrv", resource="brokers", days=2, now=80.0, history_days=days[:2], history=[80, 80])


def _resizes():
    for n, (topic, outcome) in enumerate((("orders", "done"), ("payments", "running"), (HOSTILE, "aborted"))):
        who = {"topic": topic, "operation_id": f"{topic}.{n}", "resize": "shrink", "result": outcome}
        yield a_row(
            "A15",
            **who,
            kind="operation",
            phase="DONE" if outcome == "done" else "BLOCKED",
            requested_by="an operator",
            problem=None if outcome == "done" else "readers has 900 messages left",
            sets=2,
            write_from=16,
            write_to=8,
            created=at(4, "10:00:00"),
            ended=None if outcome == "running" else at(4, "11:00:00"),
            seconds=3600.0 * (n + 1),
            reopened=n % 2,
            longest_phase="DRAIN",
            longest_s=1800.0 * (n + 1),
            evidence=["readers has consumed everything"],
            samples_before=30,
            samples_during=60,
            samples_after=30 if outcome == "done" else 0,
            tps_before=900.0,
            tps_during=950.0,
            tps_after=910.0 if outcome == "done" else None,
            queue_tps_before=56.25,
            queue_tps_after=113.75 if outcome == "done" else None,
        )
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
