"""The rule files: promtool's opinion of them, its unit tests, and the page of each alert."""

import functools
import re
import shutil
import subprocess

import pytest
import yaml
from board_expressions import (
    ROOT,
    RULES,
    RUNBOOKS,
    UNIT_TESTS,
    aggregates,
    alerts,
    boards,
    everything,
    joins,
    rules,
    variables,
)
from exposed_metrics import exposed
from peers.programs import require

from controller.observability.log_events import EVENTS as CONTROLLER_EVENTS
from dashboards.promql import CONTROLLER_JOBS, NAMESRV_JOBS, OFFSET_MANAGER_JOBS, SERVER_JOBS
from namesrv.observability.log_events import EVENTS as NAMESRV_EVENTS
from offsets.catalogues import EVENTS as OFFSET_MANAGER_EVENTS

EXAMPLE = ROOT / "prometheus/prometheus.example.yml"
ALERTS = {rule["alert"]: rule for rule in alerts()}
SECTIONS = ["Meaning", "Impact", "Check", "Fix", "Escalate"]
#: The board of an alert about servers of several kinds -> how its page names that; unit tests show what comes of it.
BOARD_OF_JOB = {
    'rmq-{{ if match "controller" $labels.job }}controller{{ else }}namesrv{{ end }}': (
        "`rmq-namesrv` or `rmq-controller`"
    ),
    'rmq-{{ if match "controller" $labels.job }}controller'
    '{{ else if match "offset" $labels.job }}offset-manager{{ else }}namesrv{{ end }}': (
        "`rmq-namesrv`, `rmq-controller` or `rmq-offset-manager`"
    ),
}
#: Fires all the time, and so never is silent.
WATCHDOG = "RocketMQWatchdog"
#: What is not about one plane.
ABOUT_PROMETHEUS = {WATCHDOG, "NothingScraped"}
#: The plane, where a label tells it.
WHOSE = "{{ with $labels.plane }}{{ . }}: {{ end }}"
EACH_RULE = pytest.mark.parametrize(
    "rule",
    [rule for _, rule in rules() if rule.get("alert") not in ABOUT_PROMETHEUS],
    ids=lambda rule: rule.get("alert") or rule["record"],
)
EACH_ALERT = pytest.mark.parametrize("alert", ALERTS.values(), ids=ALERTS)


@pytest.fixture
def promtool():
    """Run promtool and return its exit code with all that it printed."""
    require("promtool")

    def run(*words):
        done = subprocess.run(["promtool", *map(str, words)], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    return run


@functools.cache
def unit_tests():
    return [test for path in UNIT_TESTS for test in yaml.safe_load(path.read_text())["tests"]]


def test_promtool_finds_nothing_in_the_rules(promtool):
    code, printed = promtool("check", "rules", "--lint=all", *RULES)
    assert code == 0, printed
    assert "FAILED" not in printed


def test_example_configuration_names_an_alertmanager():
    assert yaml.safe_load(EXAMPLE.read_text())["alerting"]["alertmanagers"]


def test_promtool_takes_the_example_of_a_configuration(promtool):
    code, printed = promtool("check", "config", "--lint=all", EXAMPLE)
    assert code == 0, printed


@pytest.mark.parametrize("path", UNIT_TESTS, ids=lambda path: path.name)
def test_alerts_pass_their_promtool_unit_tests(promtool, path):
    code, printed = promtool("test", "rules", path)
    assert code == 0, printed


def test_every_rule_file_with_alerts_is_in_the_example():
    listed = set(yaml.safe_load(EXAMPLE.read_text())["rule_files"])
    assert listed == {file for file, rule in rules() if "alert" in rule}


def test_rules_and_boards_query_only_jobs_of_the_example_configuration():
    expressions = [*(each.expr for each in everything()), *(series for _, series, _ in variables())]
    matchers = set(re.findall(r'\bjob!?=~?"[^"]*"', " ".join(expressions)))
    assert matchers == {NAMESRV_JOBS, CONTROLLER_JOBS, OFFSET_MANAGER_JOBS, SERVER_JOBS}
    jobs = {scrape["job_name"] for scrape in yaml.safe_load(EXAMPLE.read_text())["scrape_configs"]}
    found = {matcher: set(filter(re.compile(matcher.split('"')[1]).fullmatch, jobs)) for matcher in matchers}
    namesrv, controller = {"rocketmq-namesrv"}, {"rocketmq-controller"}
    assert found == {
        NAMESRV_JOBS: namesrv,
        CONTROLLER_JOBS: controller,
        OFFSET_MANAGER_JOBS: {"rocketmq-offset-manager"},
        SERVER_JOBS: namesrv | controller,
    }


def test_alert_names_are_unique():
    assert len(alerts()) == len(ALERTS)


@EACH_ALERT
def test_an_alert_has_a_unit_test_in_which_it_fires_and_one_in_which_it_does_not(alert):
    expected = [
        case["exp_alerts"]
        for test in unit_tests()
        for case in test["alert_rule_test"]
        if case["alertname"] == alert["alert"]
    ]
    assert any(expected)
    assert [] in expected or alert["alert"] == WATCHDOG


@EACH_ALERT
def test_alert_has_severity_meaning_and_runbook(alert):
    assert alert["labels"].keys() == {"severity"}
    assert alert["labels"]["severity"] in ({"none"} if alert["alert"] == WATCHDOG else {"critical", "warning"})
    notes = alert["annotations"]
    assert notes.keys() == {"summary", "description", "runbook_url", "dashboard_uid"}
    assert notes["description"].endswith(".")
    assert notes["runbook_url"] == f"dashboards/runbooks/{alert['alert']}.md"
    uids = {board["uid"] for board in boards()}
    assert notes["dashboard_uid"] in uids or notes["dashboard_uid"] in BOARD_OF_JOB
    assert notes["dashboard_uid"] in uids or "$labels.instance" in notes["summary"]


@EACH_RULE
def test_a_rule_counts_and_compares_within_one_plane(rule):
    assert all("plane" in labels for labels in aggregates(rule["expr"])), "an aggregation is over several planes"
    assert all("plane" in labels for labels in joins(rule["expr"])), "planes are compared with each other"
    if "alert" in rule:
        assert rule["annotations"]["summary"].startswith(WHOSE)


def test_the_command_of_the_readme_makes_links_of_the_pages(promtool, tmp_path):
    for path in RULES:
        shutil.copy(path, tmp_path)
    block = re.search(r"### Links to the pages.*?```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    command = block.replace("/etc/prometheus", str(tmp_path))
    subprocess.run(["bash", "-euc", command], check=True)
    link = re.search(r"RUNBOOKS=(https://\S+)", block)[1]
    linked = [
        rule
        for path in tmp_path.glob("*.yaml")
        for group in yaml.safe_load(path.read_text())["groups"]
        for rule in group["rules"]
        if "alert" in rule
    ]
    assert {rule["annotations"]["runbook_url"] for rule in linked} == {f"{link}/{name}.md" for name in ALERTS}
    code, printed = promtool("check", "rules", *tmp_path.glob("*.yaml"))
    assert code == 0, printed


@EACH_ALERT
def test_an_alert_has_a_page_with_commands(alert):
    page = (RUNBOOKS / f"{alert['alert']}.md").read_text()
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == SECTIONS
    sections = re.split(r"^## .*$", page, flags=re.MULTILINE)[1:]
    assert all(section.strip() for section in sections)
    assert "```sh" in sections[SECTIONS.index("Check")]
    assert f"`{alert['labels']['severity']}`" in page


def test_every_runbook_page_has_an_alert():
    assert {path.stem for path in RUNBOOKS.glob("*.md")} - {"README"} == ALERTS.keys()


def test_pages_name_alerts_events_and_metrics_that_there_are():
    events = {event.name for event in (*NAMESRV_EVENTS, *CONTROLLER_EVENTS, *OFFSET_MANAGER_EVENTS)}
    for path in RUNBOOKS.glob("*.md"):
        page = path.read_text()
        assert set(re.findall(r"\bsee ([A-Z]\w+[a-z]\w+)", page)) <= ALERTS.keys(), path.name
        searched = re.findall(r"journalctl[^|\n]*\| grep (?:-E )?'?([a-z_|]+_[a-z_|]+)'?", page)
        assert {word for found in searched for word in found.split("|")} <= events | {"lines_dropped"}, path.name
        assert set(re.findall(r"\brocketmq_[a-z_]*[a-z]\b", page)) <= exposed().keys(), path.name


@EACH_ALERT
def test_a_page_names_the_boards_that_its_alert_leads_to(alert):
    uid = alert["annotations"]["dashboard_uid"]
    wanted = BOARD_OF_JOB.get(uid, f"`{uid}`")
    assert f", board {wanted}, rule in [" in (RUNBOOKS / f"{alert['alert']}.md").read_text()
