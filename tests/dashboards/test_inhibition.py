"""One crash makes one page and hides no other: what a real Alertmanager holds back by the shipped configuration."""

import json
import os
import re
import subprocess
import urllib.request
from datetime import datetime, timedelta

import pytest
import yaml
from board_expressions import ROOT, alerts
from peers.processes import Process, free_port
from peers.programs import require
from peers.waiting import wait_until

EXAMPLE = ROOT / "prometheus/alertmanager.example.yml"
CONFIGURATION = yaml.safe_load(EXAMPLE.read_text())
RULES = CONFIGURATION["inhibit_rules"]
SEVERITY = {alert["alert"]: alert["labels"]["severity"] for alert in alerts()}
MATCHER = re.compile(r'(\w+)(=~|=)"([^"]+)"')
BINARY = "prometheus-alertmanager"
SOON_S = 60

SERVERS = [("NameServerDown", {"instance": f"namesrv-{n}"}) for n in range(3)]
SERVERS += [("ControllerDown", {"instance": f"controller-{n}"}) for n in range(3)]
IN_C, SET = {"cluster": "C"}, {"cluster": "C", "broker": "broker-a"}
STALE = ("BrokerHeartbeatStale", SET | {"broker_id": "1"})
HOSTS_SILENT = [("BrokerHostsSilent", {"instance": f"controller-{n}"}) for n in range(3)]

#: Two faults: the one proves nothing of the other.
TWO_PAGES = {"BrokerHostsSilent", "BrokerSetWithoutMaster"}

#: What happened -> what fires, and what of it somebody is told.
STORIES = {
    "a plane is down": (
        [("PlaneDown", {}), ("AllNameServersDegraded", {}), ("ControllerNoLeader", {}), *SERVERS],
        {"PlaneDown"},
    ),
    "one of three NameServers is down": ([SERVERS[0]], {"NameServerDown"}),
    "all NameServers are down": ([("AllNameServersDegraded", {}), *SERVERS[:3]], {"AllNameServersDegraded"}),
    "all controllers are down": ([("ControllerNoLeader", {}), *SERVERS[3:]], {"ControllerNoLeader"}),
    "etcd is down": (
        [("EtcdUnavailable", {"instance": f"controller-{n}"}) for n in range(3)]
        + [("ControllerNoLeader", {}), ("EtcdSlow", {"instance": "controller-0"}), *SERVERS[3:]],
        {"ControllerNoLeader"},
    ),
    "one controller is cut off from etcd": (
        [(name, {"instance": "controller-2"}) for name in ("EtcdUnavailable", "EtcdSlow", "ControllerDown")],
        {"EtcdUnavailable"},
    ),
    "one controller is cut off from etcd, and another dies": (
        [("EtcdUnavailable", {"instance": "controller-2"}), ("ControllerDown", {"instance": "controller-0"})],
        {"EtcdUnavailable", "ControllerDown"},
    ),
    "one controller is cut off from etcd, and the others die": (
        [("EtcdUnavailable", {"instance": "controller-2"}), ("ControllerNoLeader", {}), *SERVERS[3:]],
        {"ControllerNoLeader"},
    ),
    "a slave died": ([("BrokerMissing", SET), ("BrokersLost", IN_C), STALE], {"BrokerMissing", "BrokersLost"}),
    "a slave is away for days, and a broker without a controller dies": (
        [
            ("BrokerMissing", SET),
            ("BrokersLost", IN_C),
            ("BrokerHeartbeatStale", IN_C | {"broker": "broker-x", "broker_id": "0"}),
        ],
        {"BrokerMissing", "BrokersLost", "BrokerHeartbeatStale"},
    ),
    "a set is without its master, and others lose a copy and an election": (
        [
            ("BrokerSetWithoutMaster", IN_C),
            ("BrokerMissing", IN_C | {"broker": "broker-b"}),
            ("ElectionFailed", IN_C | {"broker": "broker-c"}),
        ],
        {"BrokerSetWithoutMaster", "BrokerMissing", "ElectionFailed"},
    ),
    "a broker flaps": ([("BrokerFlapping", SET), ("BrokersLost", IN_C), STALE], {"BrokerFlapping", "BrokersLost"}),
    "brokers flap where no controller is, and one of them is silent": (
        [("BrokerFlapping", IN_C), ("BrokersLost", IN_C), STALE],
        {"BrokerFlapping", "BrokersLost", "BrokerHeartbeatStale"},
    ),
    "the only broker of a set died": (
        [
            ("BrokerSetWithoutMaster", IN_C),
            ("ElectionFailed", SET),
            ("BrokerMissing", SET),
            ("BrokersLost", IN_C),
            STALE,
        ],
        {"BrokerSetWithoutMaster", "ElectionFailed", "BrokerMissing", "BrokersLost"},
    ),
    "most hosts of brokers are silent": (
        [*HOSTS_SILENT, ("BrokerMissing", SET), ("BrokersLost", IN_C), STALE, ("ElectionFailed", SET)],
        {"BrokerHostsSilent"},
    ),
    "most hosts of brokers are silent, and a set of another cluster is without its master": (
        [*HOSTS_SILENT, ("BrokerSetWithoutMaster", {"cluster": "D"})],
        TWO_PAGES,
    ),
    "two controllers lead": ([("SplitLeaders", {}), ("MasterEpochDisputed", {})], {"SplitLeaders"}),
    "brokers of two clusters died": (
        [("BrokerMissing", SET), ("BrokersLost", IN_C), ("BrokersLost", {"cluster": "D"})],
        {"BrokerMissing", "BrokersLost"},
    ),
}


def fired(story, plane=None):
    """Return the labels of the alerts of a story, of a plane that a label names, or of the only one."""
    of_plane = {"plane": plane} if plane else {}
    return [{"alertname": name, "severity": SEVERITY[name]} | of_plane | labels for name, labels in STORIES[story][0]]


@pytest.mark.parametrize("story", STORIES)
def test_one_fault_makes_one_page(story):
    pages = {name for name in STORIES[story][1] if SEVERITY[name] == "critical"}
    assert len(pages) <= 1 or pages == TWO_PAGES


def test_rules_name_alerts_that_there_are_and_worse_ones_hold_back_others():
    for rule in RULES:
        sources, targets = (
            MATCHER.fullmatch(matcher)[3].split("|") for matcher in (*rule["source_matchers"], *rule["target_matchers"])
        )
        assert {*sources, *targets} <= SEVERITY.keys()
        assert not set(sources) & set(targets)
        if "critical" in {SEVERITY[target] for target in targets}:
            assert {SEVERITY[source] for source in sources} == {"critical"}


def test_watchdog_is_sent_repeatedly_to_its_own_receiver():
    (route,) = (each for each in CONFIGURATION["route"]["routes"] if "RocketMQWatchdog" in each["matchers"][0])
    receivers = {each["receiver"] for each in CONFIGURATION["route"]["routes"]} | {CONFIGURATION["route"]["receiver"]}
    assert route["receiver"] == "watchdog"
    assert receivers == {each["name"] for each in CONFIGURATION["receivers"]}


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        (["severity=critical", "alertname=PlaneDown"], "pager"),
        (["severity=warning", "alertname=NameServerDown"], "mail"),
        (["severity=none", "alertname=RocketMQWatchdog"], "watchdog"),
    ],
)
def test_critical_alerts_go_to_the_pager_warnings_do_not_and_the_watchdog_has_its_own(labels, receiver, tmp_path):
    require("amtool")
    words = ["amtool", "config", "routes", "test", f"--config.file={EXAMPLE}", f"--verify.receivers={receiver}"]
    environment = os.environ | {"HOME": str(tmp_path)}
    done = subprocess.run([*words, *labels], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout.split()) == (0, [receiver]), done.stderr


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory):
    """A real one with the shipped configuration, which asks no receiver; its URL."""
    require("prometheus-alertmanager")
    folder, port = tmp_path_factory.mktemp("alertmanager"), free_port()
    file = folder / "alertmanager.yml"
    hurried = re.sub(r"group_wait: \w+", "group_wait: 1s", EXAMPLE.read_text())
    file.write_text(re.sub(r"http://[^']+", f"http://127.0.0.1:{free_port()}/", hurried))
    words = [BINARY, f"--config.file={file}", f"--storage.path={folder / 'data'}", "--cluster.listen-address="]
    process = Process("alertmanager", [*words, f"--web.listen-address=127.0.0.1:{port}"], folder=folder, env=os.environ)
    try:
        process.wait_for("Listening on", seconds=SOON_S)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.stop()


def send(alertmanager, firing):
    body = json.dumps([{"labels": labels} for labels in firing]).encode()
    request = urllib.request.Request(f"{alertmanager}/api/v2/alerts", body, {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=10).close()


def of_planes(found, prefix):
    return {(plane, name) for plane, name in found if plane.startswith(prefix)}


def wait_for(alertmanager, expected, prefix=""):
    wait_until(
        lambda: of_planes(judged(alertmanager), prefix) == expected,
        seconds=SOON_S,
        what=lambda: f"{expected}, not {of_planes(judged(alertmanager), prefix)}",
    )


def test_a_fault_hides_no_other_and_none_of_another_plane_or_other_software(alertmanager):
    """Each story in a plane of its own, all at once, and two where no label tells planes apart."""
    foreign, nothing = ("DiskFull", "critical"), ("NothingScraped", "critical")
    others = [{"alertname": name, "severity": severity} for name, severity in (foreign, nothing)]
    send(alertmanager, others)
    wait_for(alertmanager, {("", "DiskFull"), ("", "NothingScraped")})
    without_label = ("a plane is down", "a slave died")
    labelled = [labels for n, story in enumerate(STORIES) for labels in fired(story, f"plane-{n}")]
    send(alertmanager, [labels for story in without_label for labels in fired(story)] + labelled)
    expected = {(f"plane-{number}", name) for number, story in enumerate(STORIES) for name in STORIES[story][1]}
    expected |= {("", name) for story in without_label for name in STORIES[story][1]}
    # A missing plane explains missing targets.
    wait_for(alertmanager, expected | {("", "DiskFull")})


def test_the_command_of_the_readme_silences_a_plane_and_no_other(alertmanager, tmp_path):
    block = re.search(r"### On purpose.*?```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    command = block.replace("NAME", "old-west")
    send(alertmanager, fired("a plane is down", "old-west") + fired("a plane is down", "old-east"))
    environment = os.environ | {"ALERTMANAGER": alertmanager, "HOME": str(tmp_path)}
    subprocess.run(["bash", "-euc", command], check=True, env=environment, stdout=subprocess.DEVNULL)
    notified_of = {("old-east", "PlaneDown")}
    wait_until(
        lambda: of_planes(judged(alertmanager), "old-") == notified_of, seconds=SOON_S, what="old-west is silenced"
    )
    with urllib.request.urlopen(f"{alertmanager}/api/v2/silences", timeout=10) as answer:
        (silence,) = json.loads(answer.read())
    lasts = datetime.fromisoformat(silence["endsAt"]) - datetime.fromisoformat(silence["startsAt"])
    assert lasts > timedelta(days=1), "PlaneDown goes on for a day"


def judged(alertmanager):
    """Return (plane, alert) of what is not held back."""
    with urllib.request.urlopen(f"{alertmanager}/api/v2/alerts", timeout=10) as answer:
        found = json.loads(answer.read())
    return {
        (each["labels"].get("plane", ""), each["labels"]["alertname"])
        for each in found
        if each["status"]["state"] == "active"
    }
