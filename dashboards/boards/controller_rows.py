"""Rows of the controllers' board: planned changes of masters, and what Kubernetes knows of brokers."""

from typing import Final

from dashboards.boards.shared import grown_of_each, now_of_each
from dashboards.panels import Kind, Panel, Row, bad_above, worse_above

_PREFIX: Final = "rocketmq_controller_"

PLANNED: Final = Row(
    "Planned changes of the master",
    (
        Panel(
            kind=Kind.LINES,
            title="Switchovers",
            description="That have ended, by outcome. refused: not begun. rolled_back: the new master did not serve. "
            "The reason is in the log, and at /v1/switchovers.",
            queries=(grown_of_each(f"{_PREFIX}switchovers_total", "outcome"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Longest hold of clients",
            description="The longest time for which a switchover held the clients of a set, since the start. Sends "
            "time out after 3 s by default.",
            unit="s",
            limits=worse_above(1, 2.5),
            queries=(now_of_each(f"{_PREFIX}switchover_longest_hold_seconds"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Rolling restarts under way",
            description="Each waits for an operator, or for brokers that are to be in sync: "
            "/v1/broker-sets/NAME/rolling-restart.",
            queries=(now_of_each(f"{_PREFIX}rolling_restarts"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Rolling restarts ended",
            description="By outcome. failed: the switchover to another master did not succeed.",
            queries=(grown_of_each(f"{_PREFIX}rolling_restarts_ended_total", "outcome"),),
        ),
    ),
)

ENDPOINT_SLICES: Final = Row(
    "EndpointSlices",
    (
        Panel(
            kind=Kind.LINES,
            title="Sets with stale EndpointSlices",
            description="The addresses of their brokers are not published: HAProxy finds none that moved. 0 without "
            "kubernetesSetsFile. Failovers go on.",
            limits=bad_above(1),
            queries=(now_of_each(f"{_PREFIX}endpoint_slices_stale"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Brokers that are not published",
            description="They are in no EndpointSlice: a set whose master is one of them is out of reach. The log of "
            "the leading controller has the reasons (brokers_not_published).",
            limits=bad_above(1),
            queries=(now_of_each(f"{_PREFIX}brokers_not_published"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Comparisons of EndpointSlices",
            description="Of each set once a minute, and at each change of its brokers, by result.",
            queries=(grown_of_each(f"{_PREFIX}endpoint_slice_syncs_total", "result"),),
        ),
    ),
)
