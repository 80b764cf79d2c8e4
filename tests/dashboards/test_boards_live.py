"""Real servers, a real Prometheus, and incidents: every expression has numbers, alerts fire and resolve."""

import math
import os
import subprocess
import time

import pytest
from board_expressions import LEGEND_LABEL, alerts, filled, of_annotations, of_panels, variables
from peers.programs import require
from peers.waiting import wait_until
from peers.wire import SUCCESS
from runbook_commands import asking_servers
from scraped_site import SOON_S, STEADY, Site, wait_scrapes

#: How far back expressions of boards look, with a scrape each second; longer than a server needs to start again.
WINDOW_S = 30
FLAPS = 8
BAD_FRAMES = 12

#: Alerts that were made to fire here, and had to resolve.
INCIDENTS = {
    "BrokerMissing": "a master dies",
    "BrokersLost": "brokers lose their connections",
    "BrokerSetOutOfSync": "a broker is back and its master has not taken it in yet",
    "BrokerSetWithoutMaster": "the only broker of a set dies",
    "ElectionFailed": "nobody can be elected for it",
    "NameServerDown": "a NameServer is killed",
    "NameServersDisagree": "it is back and does not know its brokers yet",
    "RequestsRejected": "somebody sends what is no frame",
}


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    """A site in which everything has happened, still running; with the times between which it did, Unix s."""
    require("prometheus", "promtool")
    site = Site(tmp_path_factory.mktemp("site"))
    try:
        site.start()
        yield _lived(site)
    finally:
        site.close()


class Lived:
    def __init__(self, site):
        self.site = site
        self.prometheus = site.prometheus
        self.began_s = time.time()  # noqa: TID251 -- Prometheus takes Unix seconds
        self.notes = {}
        self.resolved = set()

    def fire(self, *names, again=lambda: None):
        """Wait until each of these alerts has fired, and keep what they say; `again` is what makes them, repeated."""
        seen = set()

        def fired():
            again()
            found = self.prometheus.firing()
            self.notes |= found
            seen.update(found)
            return seen >= set(names)

        wait_until(fired, seconds=SOON_S, what=lambda: f"{names} fire, not only {seen}")

    def resolve(self, *names):
        wait_until(
            lambda: not self.prometheus.firing().keys() & set(names),
            seconds=SOON_S,
            what=lambda: f"{names} resolve; still {self.prometheus.firing().keys()}",
        )
        self.resolved |= set(names)

    def end(self):
        self.ended_s = time.time()  # noqa: TID251 -- as above
        return self

    def series(self, expr):
        """Return the series of an expression over all that happened."""
        plain = filled(expr, window_s=WINDOW_S)
        return self.prometheus.get("query_range", query=plain, start=self.began_s, end=self.ended_s, step="1s")[
            "result"
        ]


def _lived(site):
    life = Lived(site)
    wait_until(lambda: site.prometheus.value("sum(up)") == 6, seconds=SOON_S, what="everything is scraped")
    steady = site.broker(STEADY)
    site.keep_beating(steady)
    _another_leader(site)
    pair, only = _sets(site)
    wait_scrapes()
    _wire_incidents(site, life, steady)
    _deaths(site, life, pair, only)
    _name_server_dies(site, life)
    life.resolve(*INCIDENTS)
    return life.end()


def _another_leader(site):
    leader = site.leader()
    wait_scrapes()
    assert leader.process.stop() == 0
    site.leader()
    site.launch(leader)
    leader.process.wait_for("server_ready", seconds=SOON_S)


def _sets(site):
    """A set of two in sync, one with a single broker, and one that is left alone."""
    pair = site.pair("pair")
    only, bystander = site.replica("single"), site.replica(STEADY)
    for each in (only, bystander):
        assert each.join().elect().code == SUCCESS
    return pair, only


def _wire_incidents(site, life, steady):
    """A broker falls silent, one flaps, one is late, and somebody sends what is no frame."""
    site.stop_beating(steady)
    site.broker("quiet", timeout_ms=1500)
    site.change_settings()

    def flap_and_send():
        for _ in range(FLAPS):
            for broker in site.broker("flapping", broker_id=1):
                broker.close()
        site.send_bad_frames(BAD_FRAMES)
        wait_scrapes(1)

    life.fire("BrokersLost", "RequestsRejected", again=flap_and_send)
    site.keep_beating(steady)


def _deaths(site, life, pair, only):
    """Both masters die; one set has another broker that may lead, one has none. Then they are back."""
    first, second = pair
    for master in (first, only):
        master.die()
    life.fire("BrokerMissing", "BrokerSetWithoutMaster", "ElectionFailed")
    site.wait_for_set("pair", lambda state: state.master == second.broker_id, what="the other one leads")
    for master in (first, only):
        site.replica(master.name, like=master)
    site.wait_for_set("single", lambda state: state.master == only.broker_id, what="it leads again")
    life.fire("BrokerSetOutOfSync")
    site.take_in(second, first)


def _name_server_dies(site, life):
    """A NameServer dies. It comes back with no broker, until they register as brokers do all the time."""
    server = site.name_servers[1]
    server.process.kill()
    life.fire("NameServerDown")
    site.launch(server)
    server.process.wait_for("server_ready", seconds=SOON_S)
    life.fire("NameServersDisagree")
    site.keep_beating(site.broker(STEADY, server=server))


EXPRESSIONS = [*of_panels(), *of_annotations()]

pytestmark = [pytest.mark.etcd, pytest.mark.timeout(600)]


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=lambda expression: expression.where)
def test_an_expression_has_numbers(lived, expression):
    assert lived.prometheus.get("query", query=filled(expression.expr, window_s=WINDOW_S))["resultType"] in {
        "vector",
        "scalar",
    }
    series = lived.series(expression.expr)
    values = [float(value) for each in series for _, value in each["values"]]
    assert any(map(math.isfinite, values)), "no series has a number"
    for each in series:
        # What stands for nothing has no labels at all.
        assert not each["metric"] or set(LEGEND_LABEL.findall(expression.legend)) <= each["metric"].keys()


@pytest.mark.parametrize(("where", "series", "label"), variables(), ids=lambda value: value)
def test_a_variable_has_values(lived, where, series, label):
    assert lived.prometheus.get(f"label/{label}/values", **{"match[]": filled(series)}), where


@pytest.mark.parametrize("alert", INCIDENTS)
def test_alert_fires_with_its_cause_and_resolves(lived, alert):
    assert alert in lived.notes
    assert alert in lived.resolved
    notes = lived.notes[alert]
    assert all(text and "error" not in text and "{{" not in text for text in notes.values()), notes


@pytest.mark.parametrize("typed", asking_servers(), ids=str)
def test_server_requests_of_runbook_pages_succeed(lived, typed):
    require("curl")
    life = subprocess.run(
        ["bash", "-o", "pipefail", "-euc", f'curl() {{ command curl -f "$@"; }}; {typed.text}'],
        env=os.environ | lived.site.shell_names(),
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    # By now no set is without a master, so that nothing is found; the question itself is answered.
    found_none = '"no_master"' in typed.text and (life.returncode, life.stdout, life.stderr) == (1, "", "")
    assert found_none or (life.returncode == 0 and life.stdout.strip()), life


def test_no_rule_fails(lived):
    groups = lived.prometheus.get("rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert {rule["name"] for rule in rules} >= {alert["alert"] for alert in alerts()}
    assert [rule["name"] for rule in rules if rule["health"] != "ok"] == []
    recorded = [rule["name"] for rule in rules if rule["type"] == "recording"]
    assert [name for name in recorded if not lived.series(name)] == []
