"""NameServers, controllers and an offset manager on an etcd, brokers of a few lines, and a Prometheus over all.

Rules are those of the repository with shorter times: an alert that waits for minutes and looks back for an hour would
need an hour to fire and to resolve.
"""

import contextlib
import http.server
import json
import socket
import threading
import time
import urllib.parse
import urllib.request

from board_expressions import PLANE
from exposed_metrics import JAVA_BROKER_SCRAPE
from peers.controllers import OurController, leader_of
from peers.etcd import Etcd, certificate
from peers.offset_managers import OffsetManager, an_entry
from peers.prometheus import Prometheus
from peers.replicas import Replica
from peers.scripted import Line, ScriptedBroker
from peers.servers import OurNameServer
from peers.waiting import wait_until
from peers.wire import PUT_KV_CONFIG, SUCCESS, UPDATE_CONFIG

UPDATE_CONTROLLER_CONFIG = 1009
CLUSTER = "C"
TOPIC = "Orders"
#: A set that nothing happens to; NameServers and controllers know it.
STEADY = "steady"
#: What a slow machine may take for anything that takes seconds.
SOON_S = 90
TRAFFIC_S = 0.4
#: Says that it is longer than any frame may be.
BAD_FRAME = b"\x7f\xff\xff\xff" + bytes(12)


class JavaBrokerStub:
    """Serves what a Java broker once served."""

    def __init__(self):
        text = JAVA_BROKER_SCRAPE.read_bytes()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_arguments):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


def publish_results(folder):
    """Write results of analyses as `rmq-analytics run` publishes them."""
    broker = {"cluster": CLUSTER, "broker_name": STEADY, "broker_id": 0}
    rows = {
        "availability": broker | {"availability": 0.999},
        "flapping": broker | {"peak": 1.5},
        "timeout_recommendation": broker | {"recommended_timeout_s": 12.0},
        "heartbeat_gaps": broker | {"miss_ratio": 0.001},
        "divergence": broker | {"kind": "presence", "seconds": 3.0},
        "failover_timeline": {"cluster": CLUSTER, "kind": "phase", "phase": "address_total", "p95_s": 4.2},
        "capacity": {"cluster": None, "resource": "topics", "days_left": 90.0},
        "queue_balance": {"cluster": CLUSTER, "kind": "proposal"},
        "queue_scaling": {"cluster": CLUSTER, "kind": "topic", "verdict": "grow"},
    }
    place = folder / "results" / "latest"
    place.mkdir(parents=True)
    for name, row in rows.items():
        made = {"finished_at": "2026-11-21T20:00:00.000000Z", "duration_seconds": 2.5, "input_rows": 1000}
        (place / f"{name}.json").write_text(json.dumps({"name": name, "rows": [row]} | made))


class Site:
    """Everything that is scraped. `close` ends it."""

    def __init__(self, folder):
        self.folder = folder
        self._closing = contextlib.ExitStack()
        self._over = threading.Event()
        self._beaten = []
        #: The offset that is committed next.
        self._commits = 0
        self._lock = threading.Lock()
        cert, _, key = certificate(folder, "server")
        tls = {"tls.test.mode.enable": False, "tls.server.certPath": cert, "tls.server.keyPath": key}
        self.etcd = Etcd(folder / "etcd")
        self._closing.callback(self.etcd.stop)
        self.name_servers = [
            OurNameServer(
                folder,
                f"namesrv-{n}",
                http=True,
                scanNotActiveBrokerInterval=500,
                historyDir=folder / f"history-namesrv-{n}",
                **tls,
            )
            for n in range(2)
        ]
        publish_results(folder / "analytics")
        shared = {"analyticsDir": folder / "analytics"}
        shared |= {"controllerStore": "etcd", "etcdEndpoints": self.etcd.members[0].endpoint, "controllerGroup": "g"}
        self.controllers = [
            OurController(
                folder,
                f"controller-{n}",
                controllerId=f"c{n}",
                historyDir=folder / f"history-controller-{n}",
                **shared | tls,
            )
            for n in range(2)
        ]
        self.offset_manager = OffsetManager(
            folder,
            "offsets",
            store="etcd",
            etcd_endpoints=self.etcd.members[0].endpoint,
            controller_http_addr=";".join(f"127.0.0.1:{each.http_port}" for each in self.controllers),
            history_dir=folder / "history-offsets",
        )
        for server in (*self.name_servers, *self.controllers, self.offset_manager):
            self._closing.callback(self._end, server)

    def start(self):
        self.etcd.start()
        for server in (*self.name_servers, *self.controllers):
            self.launch(server)
        for server in (*self.name_servers, *self.controllers):
            server.process.wait_for("server_ready", seconds=SOON_S)
        self.offset_manager.start().leading(seconds=SOON_S)
        stub = self._kept(JavaBrokerStub())
        jobs = {
            "rocketmq-namesrv": [server.http_port for server in self.name_servers],
            "rocketmq-controller": [controller.http_port for controller in self.controllers],
            "rocketmq-offset-manager": [self.offset_manager.port],
            "rocketmq-broker": [stub.port],
        }
        self.prometheus = Prometheus(self.folder / "prometheus", {PLANE: jobs})
        self._closing.callback(self.prometheus.process.stop)
        self.prometheus.ready()
        thread = threading.Thread(target=self._traffic)
        self._closing.callback(thread.join)
        self._closing.callback(self._over.set)
        thread.start()
        return self

    def close(self):
        self._closing.close()

    @staticmethod
    def launch(server):
        """Start a server and do not wait for it: together they are ready sooner."""
        server.process = server._launch()

    def shell_names(self):
        """Return what the names in the commands of runbooks stand for here."""
        return {
            "N": f"127.0.0.1:{self.name_servers[0].http_port}",
            "ALL_N": " ".join(f"127.0.0.1:{each.http_port}" for each in self.name_servers),
            "H": f"127.0.0.1:{self.leader().http_port}",
            "M": self.offset_manager.address,
            "ALL_H": " ".join(f"127.0.0.1:{each.http_port}" for each in self.controllers),
            "PROMETHEUS": f"http://127.0.0.1:{self.prometheus.port}",
            "ETCD": f"http://{self.etcd.members[0].endpoint}",
            "BROKER": STEADY,
            "HISTORY_FOLDER": str(self.folder / "history-namesrv-0"),
        }

    def leader(self):
        return wait_until(lambda: leader_of(self.controllers), seconds=SOON_S, what="a controller leads")

    # Brokers of NameServers

    def broker(self, name, *, server=None, broker_id=0, timeout_ms=10_000):
        """Register a broker with all NameServers, or with one, and let it beat."""
        brokers = []
        for each in [server] if server else self.name_servers:
            line = Line(socket.create_connection(("127.0.0.1", each.port), timeout=10))
            self._closing.callback(line.close)
            address = f"127.0.0.1:{10000 + broker_id}"
            broker = ScriptedBroker(
                line, name, address=address, broker_id=broker_id, cluster=CLUSTER, timeout_ms=timeout_ms
            )
            broker.register({TOPIC: 8, f"%RETRY%{name}": 1})
            brokers.append(broker)
        return brokers

    def keep_beating(self, brokers):
        with self._lock:
            self._beaten += brokers

    def stop_beating(self, brokers):
        with self._lock:
            self._beaten = [each for each in self._beaten if each not in brokers]

    # Brokers of controllers

    def replica(self, name, *, like=None):
        """Return a broker that is connected to the leading controller; `like` one that has died, it comes back."""
        port = int(like.address.rpartition(":")[2]) if like else 0
        replica = self._kept(Replica(self.leader().address, name, cluster=CLUSTER, port=port), "die")
        if like:
            replica.broker_id = like.broker_id
            assert replica.register().code == SUCCESS
            replica.keep_beating()
        return replica

    def pair(self, name):
        """Return two brokers of a set, both in sync, of which the first leads."""
        first, second = self.replica(name), self.replica(name)
        assert first.join().elect().code == SUCCESS
        second.join()
        self.wait_for_set(name, lambda state: state.alive == {1, 2}, what="both live")
        assert first.report([1, 2], master_epoch=1, sync_state_set_epoch=1).code == SUCCESS
        return first, second

    def take_in(self, master, follower):
        """Let a master say that a broker has all that it has, as it does once it has copied the rest."""
        state = self.leader().set_state(master.name)
        epochs = {"master_epoch": state.master_epoch, "sync_state_set_epoch": state.sync_state_set_epoch}
        assert master.report([master.broker_id, follower.broker_id], **epochs).code == SUCCESS

    def wait_for_set(self, name, condition, *, what):
        def found():
            state = self.leader().set_state(name)
            return state is not None and condition(state)

        wait_until(found, seconds=SOON_S, what=f"{name}: {what}")

    # What comes in

    def send_bad_frames(self, count):
        """Send to every server what is no frame, each over a connection of its own."""
        for server in (*self.name_servers, *self.controllers):
            for _ in range(count):
                with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
                    connection.sendall(BAD_FRAME)
                    with contextlib.suppress(ConnectionResetError):
                        connection.recv(1)

    def change_settings(self):
        """Change a property of every server, and a KV entry of every NameServer."""
        for server in self.name_servers:
            put = {"namespace": "n", "key": "k", "value": "v"}
            assert server.caller.request(PUT_KV_CONFIG, put).code == SUCCESS
            assert server.caller.request(UPDATE_CONFIG, {}, b"serverChannelMaxIdleTimeSeconds=121").code == SUCCESS
        for controller in self.controllers:
            changed = controller.caller.request(UPDATE_CONTROLLER_CONFIG, {}, b"serverChannelMaxIdleTimeSeconds=121")
            assert changed.code == SUCCESS

    def _traffic(self):
        """What brokers, clients and probes send all the time."""
        while not self._over.wait(TRAFFIC_S):
            with self._lock:
                beaten = list(self._beaten)
            for broker in beaten:
                with contextlib.suppress(OSError):
                    broker.heartbeat()
            for server in (*self.name_servers, *self.controllers):
                with contextlib.suppress(OSError):
                    self._query(server)
            self._commits += 1
            with contextlib.suppress(OSError):
                self.offset_manager.commit(an_entry(self._commits))

    def _query(self, server):
        if server in self.name_servers:
            server.caller.route(TOPIC)
            server.caller.route("nobody")
        else:
            server.replica_info("nobody")
        urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/healthz", timeout=5).close()

    def _kept(self, peer, end="close"):
        self._closing.callback(getattr(peer, end))
        return peer

    def _end(self, server):
        if server.process is not None and server.process.running:
            server.process.kill()


def wait_scrapes(count=2):
    """Let so many scrapes pass: a rate needs two values."""
    time.sleep(count + 0.5)
