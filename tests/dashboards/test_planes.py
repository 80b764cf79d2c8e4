"""Several control planes in one Prometheus: each alert is about one of them, and about no other."""

import re
import subprocess

import pytest
import yaml
from board_expressions import RULES, UNIT_TESTS
from peers.programs import require
from plane_series import CLUSTER, INTERVAL_S, MINUTES, NOT_WATCHED, Plane

LOOKED_AT_EACH_S = 60
#: Characters of promtool's complaint: it repeats itself at each look.
SHOWN = 1200
#: Whoever watches the watchdog wants it to fire all the time; everything else is something to do.
FIRING = 'group by (plane, alertname) (ALERTS{alertstate="firing", severity!="none"})'
WHOLLY_DOWN = {"PlaneDown", "AllNameServersDegraded", "ControllerNoLeader"}
EACH_DOWN = {"NameServerDown", "ControllerDown"}
#: Jobs of other software that are called almost as ours, in every scenario: one is well, one is down.
FOREIGN = [
    {"series": f'{metric}{{job="{job}", instance="10.0.0.1:10257"}}', "values": f"{value}x{MINUTES * 60 // INTERVAL_S}"}
    for job, value in (("kube-controller-manager", 0), ("ingress-nginx-controller-metrics", 1))
    for metric, value in (("up", value), ("process_open_fds", 99), ("process_max_fds", 100))
]


@pytest.fixture(autouse=True)
def promtool_is_installed():
    require("promtool")


def promtool(folder, tests):
    """Have promtool carry out tests with the rules of all files."""
    file = folder / "tests.yaml"
    whole = {"rule_files": list(map(str, RULES)), "evaluation_interval": f"{INTERVAL_S}s", "tests": tests}
    file.write_text(yaml.safe_dump(whole))
    done = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[:SHOWN]


@pytest.fixture
def firing(tmp_path):
    """Have promtool say whether exactly these alerts fire at some minutes: {minute: {(plane, alert)}}."""

    def run(planes, expected, more=()):
        test = {
            "name": "a scenario",
            "interval": f"{INTERVAL_S}s",
            "input_series": [series for plane in planes for series in plane.input_series()] + [*FOREIGN, *more],
            "promql_expr_test": [
                {"expr": FIRING, "eval_time": f"{int(minute * 60)}s", "exp_samples": samples(alerts)}
                for minute, alerts in expected.items()
            ],
        }
        promtool(tmp_path, [test])

    return run


def samples(alerts):
    """Return how promtool writes that these fire."""
    return [
        {"labels": "{" + ", ".join([f'alertname="{name}"', *([f'plane="{plane}"'] if plane else [])]) + "}", "value": 1}
        for plane, name in sorted(alerts, key=str)
    ]


def of(plane, alerts):
    return {(plane, alert) for alert in alerts}


def all_the_time(alerts, since=0, until=MINUTES):
    """Expect these alerts at every look."""
    each = LOOKED_AT_EACH_S / 60
    return {since + number * each: alerts for number in range(int((until - since) / each))}


def test_nothing_fires_while_two_planes_are_well(firing):
    firing([Plane("east"), Plane("west")], all_the_time(set()))


def test_alert_names_the_plane_that_is_down_and_not_the_other(firing):
    west = Plane("west")
    west.die(10, job="rocketmq-namesrv")
    west.die(10, job="rocketmq-controller")
    expected = of("west", WHOLLY_DOWN | EACH_DOWN)
    firing([Plane("east"), west], all_the_time(set(), until=10.5) | all_the_time(expected, since=12))


def test_alert_names_the_plane_that_is_no_longer_scraped_and_not_the_other(firing):
    west = Plane("west")
    west.vanish(10, job="rocketmq-namesrv")
    west.vanish(10, job="rocketmq-controller")
    firing([Plane("east"), west], all_the_time(of("west", WHOLLY_DOWN), since=12))


def test_a_plane_that_has_been_given_a_label_is_not_missed_under_none(firing):
    """Series that had no label end when the configuration of Prometheus gets one."""
    before, after = Plane(None), Plane("west")
    before.vanish(10)
    for values in after.series.values():
        values[: 10 * 60 // INTERVAL_S] = ["_"] * (10 * 60 // INTERVAL_S)
    firing([before, after], all_the_time(set()))


@pytest.mark.parametrize("plane", ["west", None])
@pytest.mark.parametrize(
    ("kind", "alerts"),
    [
        ("controller", {"ControllerNoLeader", "ControllerDown"}),
        ("namesrv", {"AllNameServersDegraded", "NameServerDown"}),
    ],
)
def test_all_servers_of_a_kind_are_not_scraped_any_more_and_the_others_are(firing, plane, kind, alerts):
    """Where no label names the plane the others tell that it is still there."""
    west = Plane(plane)
    west.vanish(10, job=f"rocketmq-{kind}")
    firing([west], all_the_time(set(), until=10) | all_the_time(of(plane, alerts), since=13))


@pytest.mark.parametrize("plane", ["west", None])
def test_servers_that_are_not_scraped_any_more_are_down_though_others_of_their_plane_serve(firing, plane):
    west = Plane(plane)
    for number in (1, 2):
        west.vanish(10, instance=f"namesrv-{number}")
        west.vanish(10, instance=f"controller-{number}")
    expected = of(plane, EACH_DOWN)
    firing([Plane("east"), west], all_the_time(set(), until=11) | all_the_time(expected, since=11.5))


def test_servers_that_were_taken_away_on_purpose_are_forgotten_after_an_hour(firing):
    west = Plane("west", minutes=80)
    west.vanish(10, instance="namesrv-2")
    firing([west], {12: of("west", {"NameServerDown"}), 69: of("west", {"NameServerDown"}), 71: set(), 79: set()})


def test_rolling_restart_of_name_servers_fires_no_alert(firing):
    west = Plane("west")
    west.restart_name_servers(10)
    firing([Plane("east"), west], all_the_time(set()))


def test_rolling_restart_of_three_controllers_fires_no_alert(firing):
    west = Plane("west")
    west.restart_controllers(10)
    firing([Plane("east"), west], all_the_time(set()))


def test_restart_of_a_single_controller_fires_no_alert(firing):
    """It leads as soon as it is back: nobody else could meanwhile, and no page would change that."""
    west = Plane("west", controllers=1)
    west.die(10, 10.75, job="rocketmq-controller")
    firing([Plane("east"), west], all_the_time(set()) | {10.5: set(), 10.75: set(), 11.25: set()})


@pytest.mark.parametrize("listed", [True, False], ids=["listed still", "listed no more"])
def test_leader_that_failed_while_prometheus_was_down_counts_no_longer(firing, listed):
    """Its last samples were marked by nobody, and are good for five minutes: nobody leads by them, none is ready."""
    west = Plane("west")
    west.lead("controller-1", 11)
    west.go_unwatched(10, 11)
    for instance in ("controller-0", *(f"namesrv-{number}" for number in range(3))):
        west.set(NOT_WATCHED, 11, instance=instance)
        if listed:
            west.set(0, 11, metric="up", instance=instance)
    none, each = of("west", {"AllNameServersDegraded"}), of("west", {"AllNameServersDegraded"} | EACH_DOWN)
    later = all_the_time(each if listed else none, since=13, until=15) | all_the_time(each, since=17)
    firing([Plane("east"), west], later)


def test_a_leader_that_two_prometheus_scrape_is_one(firing):
    """As in a federation of a pair: each series twice, with a label that tells whose it is."""
    west = Plane("west")
    pair = [series for replica in "ab" for series in west.input_series(prometheus_replica=replica)]
    firing([Plane("east")], all_the_time(set()), more=pair)


def test_set_without_a_master_at_every_ready_name_server_has_none(firing):
    """The third one is not ready, and has not heard of its end."""
    west = Plane("west", controllers=0)
    west.set(0, 8, metric="rocketmq_namesrv_ready", instance="namesrv-2")
    for instance in ("namesrv-0", "namesrv-1"):
        west.set(1, 10, metric="rocketmq_namesrv_broker_sets", instance=instance, state="no_master")
    firing([Plane("east"), west], all_the_time(of("west", {"BrokerSetWithoutMaster", "NameServerDown"}), since=11))


def test_rolling_restart_of_a_set_of_three_brokers_fires_no_alert(firing):
    """Each is stopped in order, and is back before a minute is over."""
    west = Plane("west")
    for metric in ("replicas", "active_brokers", "sync_state_set_size"):
        west.set(3, 0, metric=f"rocketmq_controller_{metric}", broker="broker-a")
    for number in range(3):
        away, back = 10 + 4 * number, 10.75 + 4 * number
        for metric in ("active_brokers", "sync_state_set_size"):
            west.set(2, away, back, metric=f"rocketmq_controller_{metric}", broker="broker-a")
        west.set(number + 1, away, metric="rocketmq_namesrv_unregistrations_total", reason="request")
        west.set(number + 1, back, metric="rocketmq_namesrv_registrations_total", result="first")
    firing([Plane("east"), west], all_the_time(set()))


def test_six_brokers_that_fail_together_are_lost_and_not_flapping(firing):
    west = Plane("west", controllers=0)
    west.set(6, 10, metric="rocketmq_namesrv_unregistrations_total", reason="channel_closed")
    firing([Plane("east"), west], all_the_time(of("west", {"BrokersLost"}), since=12, until=19) | {25: set()})


@pytest.mark.parametrize("broker_up", [1, 0], ids=["the broker is scraped", "the broker is not"])
def test_group_whose_last_consumer_fails_lags_although_no_consumer_reports(firing, broker_up):
    """The other group of the broker consumes on; it was late for a moment and has caught up."""
    west = Plane("west")
    named = {"job": "rocketmq-broker", "instance": "broker-a", "cluster": CLUSTER, "node_id": "broker-a"}
    west.add("up", [1] * west.samples, **named)
    for group in ("crashed", "busy"):
        labels = named | {"topic": "Orders", "consumer_group": group, "is_retry": "false", "is_system": "false"}
        west.add("rocketmq_consumer_lag_latency_milliseconds", [3_600_000] * west.samples, **labels)
    west.set(200, 3, consumer_group="busy")
    west.set("_", 15, consumer_group="crashed")
    if not broker_up:
        west.die(15, job="rocketmq-broker")
    behind = of("west", {"LagGrowing"})
    firing(
        [Plane("east"), west],
        all_the_time(behind, since=6, until=15)
        | {16: behind if broker_up else set(), 29: behind if broker_up else set()},
    )


def beside_a_healthy_plane(test):
    """Return a unit test in a Prometheus that scrapes another plane too, about which nothing may be said."""
    minutes = max(map(minutes_of, (case["eval_time"] for case in test["alert_rule_test"])))
    east = Plane("east", interval_s=int(minutes_of(test["interval"]) * 60), minutes=int(minutes) + 2)
    silent = [
        {"expr": 'ALERTS{plane="east"}', "eval_time": case["eval_time"], "exp_samples": []}
        for case in test["alert_rule_test"]
    ]
    return test | {"input_series": [*test["input_series"], *east.input_series()], "promql_expr_test": silent}


def minutes_of(duration):
    """Return how long something like `1m45s` is."""
    units = {"h": 60, "m": 1, "s": 1 / 60}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([hms])", duration))


ALONE = {"NothingScraped: no target is found", "PlaneDown: nothing of it is there to be scraped, until it is forgotten"}


@pytest.mark.broad
@pytest.mark.parametrize("path", sorted(UNIT_TESTS), ids=lambda path: path.stem)
def test_alert_of_a_plane_fires_and_none_of_a_healthy_one(tmp_path, path):
    """The first of those left out is about a Prometheus with no plane at all, the other takes a day."""
    tests = [test for test in yaml.safe_load(path.read_text())["tests"] if test["name"] not in ALONE]
    promtool(tmp_path, list(map(beside_a_healthy_plane, tests)))
