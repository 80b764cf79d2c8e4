"""For operators: which topics are being resized, what waits for them, and how resizes end."""

from functools import partial
from typing import Final

from dashboards.boards.shared import FAILOVERS, LEADER_CHANGES, PLANE
from dashboards.grafana import Board, TableColumn, bad_above, lines, row, stat, table, worse_above
from dashboards.promql import BY_PLANE, Query, increase, over, quantile, total

_PREFIX: Final = "rocketmq_controller_"
_stat = partial(stat, width=6, height=5)
#: As OrderedTopicPaused; a resize gives writes back after 15 minutes by itself.
_PAUSED_S: Final = (300, 600)
_WAITED_S: Final = (1_800, 86_400)

_PHASE_SINCE: Final = "resize_phase_since_timestamp_seconds"
_WAITING: Final = f'{BY_PLANE}, phase=~"BLOCKED|CONFLICT"'
_BY_PHASE: Final = total(f"{_PREFIX}resizes", by="phase").then("> 0").or_zero()


def _age(metric: str, selector: str = BY_PLANE) -> str:
    """Return how long ago a timestamp is, 0 where there is none."""
    series = f"{_PREFIX}{metric}{{{selector}}}"
    return f"(time() - {series}) * ({series} > bool 0)"


_PHASE_AGES: Final = over("max", _age(_PHASE_SINCE), "phase").then("> 0").or_zero()

_NOW: Final = row(
    "Who waits for whom",
    _stat(
        "Wait for an operator",
        "Blocked: a group does not consume, or producers still send. Conflict: somebody else changed queue numbers. "
        "Both wait without end, and nothing is lost meanwhile.",
        *(
            Query(f'sum({_PREFIX}resizes{{{BY_PLANE}, phase="{phase}"}}) or vector(0)', phase.lower())
            for phase in ("BLOCKED", "CONFLICT")
        ),
        limits=bad_above(1),
    ),
    _stat(
        "Longest wait for an operator",
        "Of the resize that is longest blocked, or in a conflict. No other resize of its topic can start.",
        Query(f"max({_age(_PHASE_SINCE, _WAITING)}) or vector(0)"),
        unit="s",
        limits=worse_above(*_WAITED_S),
    ),
    _stat(
        "Overdue",
        "Resizes whose phase lasts 10 minutes longer than its waits, or that lacked answers of brokers, NameServers "
        "or clients for 10 minutes in it.",
        total(f"{_PREFIX}resizes_overdue").then("or vector(0)"),
        limits=bad_above(1),
    ),
    _stat(
        "An ordered topic without writes",
        "For how long the longest has been: its producers fail until its resize has changed the numbers, or is undone "
        "after 15 minutes.",
        Query(f"max({_age('resize_writes_paused_since_timestamp_seconds')}) or vector(0)"),
        unit="s",
        limits=worse_above(*_PAUSED_S),
    ),
    lines(
        "Resizes under way",
        "By phase. QUIESCE waits for producers, LATE for delayed messages, DRAIN and RELEASE for groups, ASSIGN for "
        "consumers; PLANNED for the end of another resize.",
        _BY_PHASE,
        stacked=True,
        width=9,
    ),
    lines(
        "Longest in each phase",
        "How long the resize has been there that is longest in it. LATE and WATCH may last as long as delayed "
        "messages do, 3 days at most; DRAIN is blocked after 4 hours by default.",
        _PHASE_AGES,
        width=9,
    ),
    table(
        "Phases now",
        "Resizes in each phase, and how long the longest has been there. /v1/scaling/operations has their topics, and "
        "what each waits for.",
        _BY_PHASE,
        _PHASE_AGES,
        columns=(
            TableColumn("phase", "Phase"),
            TableColumn("Value #A", "Resizes"),
            TableColumn("Value #B", "Longest", unit="s"),
        ),
        width=6,
    ),
)

_ENDS: Final = row(
    "What became of them",
    lines(
        "Ended",
        "By result. rejected: the check before the start found something in the way. aborted: undone, by an operator "
        "or by itself; resize_aborted in the log says why.",
        increase(f"{_PREFIX}resizes_ended_total", by="result"),
    ),
    lines(
        "Duration p95",
        "Of the last hour, by kind, from the request to the end. A grow takes some 8 minutes, a shrink as long as its "
        "groups and its delayed messages need.",
        quantile(0.95, f"{_PREFIX}resize_duration_seconds", by="kind", window="1h").or_zero(),
    ),
    lines(
        "Opened again, and conflicts",
        "Dropped queues became readable again, since a message came late or a master was replaced; and resizes that "
        "stopped because somebody else changed queue numbers.",
        increase(f"{_PREFIX}resizes_reopened_total").named("opened again"),
        increase(f"{_PREFIX}resize_conflicts_total").named("conflicts"),
        limits=bad_above(1),
    ),
)

_WORK: Final = row(
    "Changes of brokers",
    lines(
        "Changes",
        "Of queue numbers, offsets and orderTopicConf, by result. failed: resize_actions_failed in the log names the "
        "broker; the next round tries again.",
        increase(f"{_PREFIX}resize_actions_total", by="result"),
        width=12,
    ),
    lines(
        "Rounds that failed",
        "They could not be stored, or failed by a fault of the controller; tried again after 5 s.",
        increase(f"{_PREFIX}resize_rounds_failed_total").named("failed"),
        limits=bad_above(1),
        width=12,
    ),
)

_AUTOSCALER: Final = row(
    "What the autoscaler makes of topics",
    lines(
        "Last verdicts",
        "Watched topics by what became of their last verdict. proposed: it waits for an operator, or the policy only "
        "shows. refused: a resize could not be started; /v1/scaling/decisions says why.",
        total(f"{_PREFIX}scaling_verdicts", by="verdict").or_zero(),
        stacked=True,
        width=6,
    ),
    lines(
        "Watched topics",
        "Topics with a policy. left out: there are too many, and these are never resized by a policy.",
        total(f"{_PREFIX}scaling_topics_watched").named("watched"),
        total(f"{_PREFIX}scaling_topics_left_out").named("left out"),
        width=6,
    ),
    lines(
        "Duration of a round, p95",
        "Without the waits that spread it. As long as scalingIntervalMs: too many topics, or brokers that answer late.",
        quantile(0.95, f"{_PREFIX}scaling_round_seconds", window="1h").or_zero().named("p95"),
        limits=worse_above(5, 15),
        width=6,
    ),
    lines(
        "Rounds of the autoscaler that failed",
        "By a fault of the controller: scaling_round_failed in the log. Nothing is decided on them.",
        increase(f"{_PREFIX}scaling_rounds_failed_total").named("failed"),
        limits=bad_above(1),
        width=6,
    ),
)

BOARD: Final = Board(
    uid="rmq-scaling",
    title="RocketMQ / Queue scaling",
    question="Which resize waits for whom, and since when?",
    when_red="Counts here hold no topic names, since there are too many. `curl LEADER:9881/v1/scaling/operations` has "
    "each resize with its topic, its phase, and what it waits for. Pages: `ResizeBlocked`, `ResizeConflict`, "
    "`ResizeStuck`, `OrderedTopicPaused`, `ResizeReopened`.",
    variables=(PLANE,),
    annotations=(FAILOVERS, LEADER_CHANGES),
    rows=(_NOW, _ENDS, _WORK, _AUTOSCALER),
)
