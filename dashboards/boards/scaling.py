"""For operators: which topics are being resized, what waits for them, and how resizes end."""

from typing import Final

from dashboards.boards.shared import FAILOVERS, LEADER_CHANGES, PLANE
from dashboards.panels import Board, Kind, Panel, Query, Row, TableColumn, bad_above, worse_above
from dashboards.promql import BY_PLANE, increase, quantile

_PREFIX: Final = "rocketmq_controller_"
_STAT_WIDTH: Final = 6
_STAT_HEIGHT: Final = 5
#: As OrderedTopicPaused; a resize gives writes back after 15 minutes by itself.
_PAUSED_S: Final = (300, 600)
_WAITED_S: Final = (1_800, 86_400)

_PHASE_SINCE: Final = "resize_phase_since_timestamp_seconds"
_WAITING: Final = f'{BY_PLANE}, phase=~"BLOCKED|CONFLICT"'
_BY_PHASE: Final = f"sum by (phase) ({_PREFIX}resizes{{{BY_PLANE}}}) > 0 or on () vector(0)"


def _age(metric: str, selector: str = BY_PLANE) -> str:
    """Return how long ago a timestamp is, 0 where there is none."""
    series = f"{_PREFIX}{metric}{{{selector}}}"
    return f"(time() - {series}) * ({series} > bool 0)"


_PHASE_AGES: Final = f"max by (phase) ({_age(_PHASE_SINCE)}) > 0 or on () vector(0)"

_NOW: Final = Row(
    "Who waits for whom",
    (
        Panel(
            kind=Kind.STAT,
            title="Wait for an operator",
            description="Blocked: a group does not consume, or producers still send. Conflict: somebody else changed "
            "queue numbers. Both wait without end, and nothing is lost meanwhile.",
            limits=bad_above(1),
            queries=tuple(
                Query(f'sum({_PREFIX}resizes{{{BY_PLANE}, phase="{phase}"}}) or vector(0)', phase.lower())
                for phase in ("BLOCKED", "CONFLICT")
            ),
            width=_STAT_WIDTH,
            height=_STAT_HEIGHT,
        ),
        Panel(
            kind=Kind.STAT,
            title="Longest wait for an operator",
            description="Of the resize that is longest blocked, or in a conflict. No other resize of its topic can "
            "start.",
            unit="s",
            limits=worse_above(*_WAITED_S),
            queries=(Query(f"max({_age(_PHASE_SINCE, _WAITING)}) or vector(0)"),),
            width=_STAT_WIDTH,
            height=_STAT_HEIGHT,
        ),
        Panel(
            kind=Kind.STAT,
            title="Overdue",
            description="Resizes whose phase lasts 10 minutes longer than its waits, or that lacked answers of "
            "brokers, NameServers or clients for 10 minutes in it.",
            limits=bad_above(1),
            queries=(Query(f"sum({_PREFIX}resizes_overdue{{{BY_PLANE}}}) or vector(0)"),),
            width=_STAT_WIDTH,
            height=_STAT_HEIGHT,
        ),
        Panel(
            kind=Kind.STAT,
            title="An ordered topic without writes",
            description="For how long the longest has been: its producers fail until its resize has changed the "
            "numbers, or is undone after 15 minutes.",
            unit="s",
            limits=worse_above(*_PAUSED_S),
            queries=(Query(f"max({_age('resize_writes_paused_since_timestamp_seconds')}) or vector(0)"),),
            width=_STAT_WIDTH,
            height=_STAT_HEIGHT,
        ),
        Panel(
            kind=Kind.LINES,
            title="Resizes under way",
            description="By phase. QUIESCE waits for producers, LATE for delayed messages, DRAIN and RELEASE for "
            "groups, ASSIGN for consumers; PLANNED for the end of another resize.",
            queries=(Query(_BY_PHASE, "{{phase}}"),),
            stacked=True,
            width=9,
        ),
        Panel(
            kind=Kind.LINES,
            title="Longest in each phase",
            description="How long the resize has been there that is longest in it. LATE and WATCH may last as long as "
            "delayed messages do, 3 days at most; DRAIN is blocked after 4 hours by default.",
            unit="s",
            queries=(Query(_PHASE_AGES, "{{phase}}"),),
            width=9,
        ),
        Panel(
            kind=Kind.TABLE,
            title="Phases now",
            description="Resizes in each phase, and how long the longest has been there. /v1/scaling/operations has "
            "their topics, and what each waits for.",
            queries=(Query(_BY_PHASE), Query(_PHASE_AGES)),
            columns=(
                TableColumn("phase", "Phase"),
                TableColumn("Value #A", "Resizes"),
                TableColumn("Value #B", "Longest", unit="s"),
            ),
            width=6,
        ),
    ),
)

_ENDS: Final = Row(
    "What became of them",
    (
        Panel(
            kind=Kind.LINES,
            title="Ended",
            description="By result. rejected: the check before the start found something in the way. aborted: undone, "
            "by an operator or by itself; resize_aborted in the log says why.",
            queries=(Query(increase(f"{_PREFIX}resizes_ended_total", by="result"), "{{result}}"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Duration p95",
            description="Of the last hour, by kind, from the request to the end. A grow takes some 8 minutes, a shrink "
            "as long as its groups and its delayed messages need.",
            unit="s",
            queries=(
                Query(
                    quantile(0.95, f"{_PREFIX}resize_duration_seconds", by="kind", window="1h") + " or on () vector(0)",
                    "{{kind}}",
                ),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Opened again, and conflicts",
            description="Dropped queues became readable again, since a message came late or a master was replaced; and "
            "resizes that stopped because somebody else changed queue numbers.",
            limits=bad_above(1),
            queries=(
                Query(increase(f"{_PREFIX}resizes_reopened_total"), "opened again"),
                Query(increase(f"{_PREFIX}resize_conflicts_total"), "conflicts"),
            ),
        ),
    ),
)

_WORK: Final = Row(
    "Changes of brokers",
    (
        Panel(
            kind=Kind.LINES,
            title="Changes",
            description="Of queue numbers, offsets and orderTopicConf, by result. failed: resize_actions_failed in the "
            "log names the broker; the next round tries again.",
            queries=(Query(increase(f"{_PREFIX}resize_actions_total", by="result"), "{{result}}"),),
            width=12,
        ),
        Panel(
            kind=Kind.LINES,
            title="Rounds that failed",
            description="They could not be stored, or failed by a fault of the controller; tried again after 5 s.",
            limits=bad_above(1),
            queries=(Query(increase(f"{_PREFIX}resize_rounds_failed_total"), "failed"),),
            width=12,
        ),
    ),
)

_AUTOSCALER: Final = Row(
    "What the autoscaler makes of topics",
    (
        Panel(
            kind=Kind.LINES,
            title="Last verdicts",
            description="Watched topics by what became of their last verdict. proposed: it waits for an operator, or "
            "the policy only shows. refused: a resize could not be started; /v1/scaling/decisions says why.",
            queries=(
                Query(f"sum by (verdict) ({_PREFIX}scaling_verdicts{{{BY_PLANE}}}) or on () vector(0)", "{{verdict}}"),
            ),
            stacked=True,
            width=6,
        ),
        Panel(
            kind=Kind.LINES,
            title="Watched topics",
            description="Topics with a policy. left out: there are too many, and these are never resized by a policy.",
            queries=tuple(
                Query(f"sum({_PREFIX}scaling_topics_{name}{{{BY_PLANE}}})", name.replace("_", " "))
                for name in ("watched", "left_out")
            ),
            width=6,
        ),
        Panel(
            kind=Kind.LINES,
            title="Duration of a round, p95",
            description="Without the waits that spread it. As long as scalingIntervalMs: too many topics, or brokers "
            "that answer late.",
            unit="s",
            limits=worse_above(5, 15),
            queries=(
                Query(quantile(0.95, f"{_PREFIX}scaling_round_seconds", window="1h") + " or on () vector(0)", "p95"),
            ),
            width=6,
        ),
        Panel(
            kind=Kind.LINES,
            title="Rounds of the autoscaler that failed",
            description="By a fault of the controller: scaling_round_failed in the log. Nothing is decided on them.",
            limits=bad_above(1),
            queries=(Query(increase(f"{_PREFIX}scaling_rounds_failed_total"), "failed"),),
            width=6,
        ),
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
