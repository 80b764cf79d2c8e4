"""Two planes of real servers in one Prometheus, and one of them is killed: its alerts fire, and none of the other's."""

import contextlib
import http.server
import json
import os
import re
import socket
import threading
import urllib.request

import pytest
from peers.controllers import OurController
from peers.processes import Process, free_port
from peers.programs import require
from peers.prometheus import Prometheus
from peers.replicas import Replica
from peers.scripted import Line, ScriptedBroker
from peers.servers import OurNameServer
from peers.waiting import wait_until
from peers.wire import SUCCESS
from scraped_site import SOON_S
from test_inhibition import BINARY, EXAMPLE
from test_planes import EACH_DOWN, WHOLLY_DOWN

pytestmark = pytest.mark.broad

EAST, WEST = "east", "west"
SET = "broker-a"
#: A tenth of what the rules say: half a minute becomes three scrapes.
FASTER = 10
#: Rules that look back a minute see only what is well by then, and each that waits for half a minute has waited.
HEALTHY_FOR_S = 8
#: Time to fire for what waits a minute, and so much again in which nothing else may fire.
FIRES_FOR_S = 8
#: What these say of a machine that has other things to do is so.
OF_THE_MACHINE = "FailureDetectionSuspended|EventLoopBlocked|RouteLatencyHigh"
FIRING = f'ALERTS{{alertstate="firing", severity!="none", alertname!~"{OF_THE_MACHINE}"}}'


class LivePlane:
    """Two NameServers, a controller and a set of two brokers of a few lines that beats. `close` ends it."""

    def __init__(self, folder, name):
        self.name = name
        self._over = threading.Event()
        self.name_servers = [OurNameServer(folder / name, f"namesrv-{number}", http=True) for number in range(2)]
        self.controller = OurController(folder / name)
        self._replicas, self._brokers, self._heartbeats = [], [], None

    @property
    def servers(self):
        return [*self.name_servers, self.controller]

    @property
    def jobs(self):
        """What is scraped: job -> ports."""
        return {
            "rocketmq-namesrv": [server.http_port for server in self.name_servers],
            "rocketmq-controller": [self.controller.http_port],
        }

    def launch(self):
        for server in self.servers:
            server.process = server._launch()
        return self

    def ready(self):
        for server in self.servers:
            server.process.wait_for("server_ready", seconds=SOON_S)
        self._replicas = [Replica(self.controller.address, SET) for _ in range(2)]
        master, slave = self._replicas
        assert master.join().elect().code == SUCCESS
        slave.join()
        wait_until(self._both_alive, seconds=SOON_S, what=f"{self.name}: both brokers live")
        assert master.report([1, 2], master_epoch=1, sync_state_set_epoch=1).code == SUCCESS
        for server in self.name_servers:
            for broker_id, replica in enumerate(self._replicas):
                line = Line(socket.create_connection(("127.0.0.1", server.port), timeout=10))
                broker = ScriptedBroker(line, SET, address=replica.address, broker_id=broker_id)
                self._brokers.append(broker)
                broker.register({"Orders": 8, "Payments": 8})
        self._heartbeats = threading.Thread(target=self._heartbeat_on)
        self._heartbeats.start()
        return self

    def kill(self):
        """End all servers at once."""
        for server in self.servers:
            server.process.kill()

    def close(self):
        self._over.set()
        if self._heartbeats:
            self._heartbeats.join()
        for replica in self._replicas:
            replica.die()
        for broker in self._brokers:
            broker.close()
        for server in self.servers:
            if server.process is not None and server.process.running:
                server.process.kill()

    def _both_alive(self):
        state = self.controller.set_state(SET)
        return state is not None and state.alive == {1, 2}

    def _heartbeat_on(self):
        while not self._over.wait(0.5):
            for broker in self._brokers:
                with contextlib.suppress(OSError):
                    broker.heartbeat()


def hurried(text):
    """Return rules with all times but days a tenth as long: they stay what they are to each other."""

    def shorter(found):
        ms = int(found[2]) * {"s": 1000, "m": 60_000, "h": 3_600_000}[found[3]]
        return f"{found[1]}{ms // FASTER}ms"

    return re.sub(r"((?:\bfor: |\boffset |\[))(\d+)([smh])\b", shorter, text)


class Receivers:
    """Where Alertmanager sends what it tells: one path for each receiver. `close` ends it."""

    def __init__(self):
        self._received = {}
        received = self._received

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                alerts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["alerts"]
                labels = [each["labels"] for each in alerts if each["status"] == "firing"]
                received.setdefault(self.path, set()).update((each.get("plane"), each["alertname"]) for each in labels)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                """Say nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def received(self, receiver):
        """Return (plane, alert) of all that a receiver was ever sent as firing."""
        return set(self._received.get(f"/{receiver}", ()))

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Alertmanager:
    """One with the shipped configuration, hurried as the rules are, and with receivers of ours."""

    def __init__(self, folder, receivers):
        folder.mkdir()
        self.port = free_port()
        hurried_up = re.sub(r"group_wait: 30s", "group_wait: 3s", EXAMPLE.read_text())
        file = folder / "alertmanager.yml"
        ours = rf"http://127.0.0.1:{receivers.port}/\1"
        file.write_text(re.sub(r"http://(\w+)\.example\.org/\w+", ours, hurried_up))
        words = [BINARY, f"--config.file={file}", f"--storage.path={folder / 'data'}", "--cluster.listen-address="]
        words += [f"--web.listen-address=127.0.0.1:{self.port}"]
        self.process = Process("alertmanager", words, folder=folder, env=os.environ)

    def notified(self):
        """Return (plane, alert) of what nothing holds back."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v2/alerts", timeout=10) as answer:
            found = [each["labels"] for each in json.loads(answer.read()) if each["status"]["state"] == "active"]
        each = {(labels.get("plane"), labels["alertname"]) for labels in found if labels["severity"] != "none"}
        return {(plane, alert) for plane, alert in each if not re.fullmatch(OF_THE_MACHINE, alert)}


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """East, west, and who looks at them; both planes have been well for a while."""
    require("prometheus", "prometheus-alertmanager")
    folder = tmp_path_factory.mktemp("planes")
    with contextlib.ExitStack() as closing:
        planes = {name: LivePlane(folder, name) for name in (EAST, WEST)}
        for plane in planes.values():
            closing.callback(plane.close)
            plane.launch()
        receivers = Receivers()
        closing.callback(receivers.close)
        alertmanager = Alertmanager(folder / "alertmanager", receivers)
        closing.callback(alertmanager.process.stop)
        alertmanager.process.wait_for("Listening on", seconds=SOON_S)
        for plane in planes.values():
            plane.ready()
        jobs = {name: plane.jobs for name, plane in planes.items()}
        prometheus = Prometheus(folder / "prometheus", jobs, hurry=hurried, alertmanager=alertmanager.port)
        closing.callback(prometheus.process.stop)
        yield planes, prometheus.ready(), alertmanager, receivers


def fired(prometheus, window):
    """Return (plane, alert) of all that has fired, at any look, within a time."""
    found = prometheus.get("query", query=f"group by (plane, alertname) (count_over_time({FIRING}[{window}]))")
    return {(each["metric"].get("plane"), each["metric"]["alertname"]) for each in found["result"]}


def looks(prometheus, count):
    """Wait until the rules have been looked at so many times more: the watchdog fires at each look."""
    seen = "count_over_time(ALERTS{alertname='RocketMQWatchdog'}[1h])"
    wanted = (prometheus.value(seen) or 0) + count
    wait_until(lambda: (prometheus.value(seen) or 0) >= wanted, seconds=SOON_S, what=f"{count} looks at the rules")


def test_one_of_two_planes_is_killed_its_alerts_fire_and_none_of_the_other(scene):
    planes, prometheus, alertmanager, receivers = scene
    wait_until(lambda: prometheus.value("sum(up)") == 6, seconds=SOON_S, what="both planes are scraped")
    looks(prometheus, HEALTHY_FOR_S)
    assert fired(prometheus, "1h") == set(), "both planes are well"
    planes[WEST].kill()
    expected = {(WEST, alert) for alert in WHOLLY_DOWN | EACH_DOWN}
    wait_until(
        lambda: fired(prometheus, "1h") >= expected,
        seconds=SOON_S,
        what=lambda: f"{expected} fire, not only {fired(prometheus, '1h')}",
    )
    looks(prometheus, FIRES_FOR_S)
    assert fired(prometheus, "1h") == expected
    # One fault, one message.
    wait_until(
        lambda: alertmanager.notified() == {(WEST, "PlaneDown")},
        seconds=SOON_S,
        what=lambda: f"one message, not {alertmanager.notified()}",
    )
    page = {(WEST, "PlaneDown")}
    wait_until(lambda: receivers.received("pager") >= page, seconds=SOON_S, what="the pager is told")
    assert receivers.received("pager") == page
