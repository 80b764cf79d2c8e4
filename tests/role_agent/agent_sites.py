"""Hosts on one network, each with a broker and an agent; controllers that answer what a test says; a client."""

import contextlib
import itertools
import json
import os
import socket
import socketserver
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

from peers.networks import Network
from peers.processes import Process
from peers.waiting import wait_until

REPOSITORY = Path(__file__).parents[2]
ADDRESS = "10.99.0.100"
ADDRESS_6 = "fd99::100"
BROKER_PORT = 10911
HA_PORT = 10912
AGENT_PORT = 9990
LEASE_S = 3
#: The kernel removes an address at most so long after its lease, and a host may be late.
LATE_S = 1.5

#: A broker, as far as addresses go: it answers each line with its own name, whatever its role is.
_BROKER = """
import socketserver, sys
class Lines(socketserver.StreamRequestHandler):
    def handle(self):
        try:
            for line in self.rfile:
                print("got", line.decode().strip(), flush=True)
                self.wfile.write(sys.argv[1].encode() + b" " + line)
        except OSError as error:
            print("lost", error, flush=True)
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    address_family = socketserver.socket.AF_INET6
Server(("::", int(sys.argv[2])), Lines).serve_forever()
"""


class RoleChecks:
    """The role check port of a controller, stood in for: it answers what `roles` has for a broker id."""

    def __init__(self, network, port=9879):
        self.roles = {}
        self.address = f"{Network.server}:{port}"
        self._network, self._port, self._server = network, port, None
        self.open()

    def open(self):
        checks = self

        class Line(socketserver.StreamRequestHandler):
            def handle(self):
                # An agent that was killed sends nothing, or does not wait.
                with contextlib.suppress(ValueError, OSError):
                    broker_id = int(self.rfile.readline().decode().strip().rpartition("/")[2])
                    answer = checks.roles.get(broker_id, "#unknown no such broker is stored")
                    self.wfile.write(answer.encode() + b"\n")

        socketserver.ThreadingTCPServer.allow_reuse_address = True
        with self._network.inside():
            self._server = socketserver.ThreadingTCPServer((Network.server, self._port), Line)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def elect(self, broker_id, epoch, *others):
        """Answer that it is the master of the epoch, and all others are superseded."""
        superseded = dict.fromkeys(others, f"down #superseded epoch {epoch}")
        self.roles = {**superseded, broker_id: f"up ready #epoch {epoch}"}


class BrokerHost:
    """A host with a stand-in for a broker and an agent, both processes of their own; its number is the broker's id."""

    def __init__(self, network, folder, number, *, peers, controllers, lease_s, broker_id=None):
        self.number, self.folder = number, folder
        self.host = network.host(number)
        self.name = f"broker-{number}"
        self.broker = self.agent = None
        #: Of the broker, as controllers know it.
        self.broker_id = number if broker_id is None else broker_id
        self.file = folder / f"agent-{number}.toml"
        self.file.write_text(
            textwrap.dedent(f"""\
                set = "broker-a"
                brokerId = {self.broker_id}
                addresses = ["{ADDRESS}/24", "{ADDRESS_6}/64"]
                interface = "inner"
                controllers = {controllers}
                listen = "10.99.0.{number}:{AGENT_PORT}"
                peers = {peers}
                haPort = {HA_PORT}
                lease = "{lease_s}s"
                interval = "100ms"
                """)
        )
        self.run("ip", "link", "set", "lo", "up")
        # The interface is up at once, and its own address is needed at once.
        self.run("ip", "address", "add", f"fd99::{number}/64", "dev", "inner", "nodad")

    def run(self, *command):
        """Run a command on this host and return what it prints."""
        with self.host.inside():
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start_broker(self):
        with self.host.inside():
            command = [sys.executable, "-c", _BROKER, self.name, str(BROKER_PORT)]
            self.broker = Process(self.name, command, folder=self.folder, env=os.environ)
        return self

    def broker_ready(self):
        wait_until(lambda: str(BROKER_PORT) in self.run("ss", "-Hltn"), seconds=30, what="a listening broker")
        return self

    def start_agent(self, *wrapper, environment=None):
        """Start the process; `agent_ready` waits for it, so that several can start at the same time."""
        env = os.environ | {"PYTHONPATH": str(REPOSITORY)} | (environment or {})
        self._agent_log = self.agent.position() if self.agent else 0
        # What ExecStartPre of its unit does.
        self.run("sh", "-c", f"{sys.executable} -m role_agent nft {self.file} | nft -f -")
        with self.host.inside():
            command = [*wrapper, sys.executable, "-m", "role_agent", "run", self.file]
            self.agent = Process(f"agent-{self.number}", command, folder=self.folder, env=env)
        return self

    def agent_ready(self):
        self.agent.wait_for(r'"agent_started"', seconds=60, position=self._agent_log)
        return self

    @property
    def has_address(self):
        shown = self.run("ip", "-o", "address", "show", "dev", "inner")
        return any(f" {each}/" in shown for each in (ADDRESS, ADDRESS_6))

    @property
    def mac(self):
        return self.run("ip", "-o", "link", "show", "dev", "inner").partition("link/ether ")[2].split()[0]

    def status(self):
        return json.loads(self.run(sys.executable, "-m", "role_agent", "status", str(self.file)))

    def close(self):
        for process in (self.agent, self.broker):
            if process is not None and process.running:
                process.resume()
                process.kill()


class Client:
    """Sends line after line to the address from a host of its own, and notes which broker answered when.

    As a client of RocketMQ does, it keeps one connection, waits 3 s at most, and connects again at once.
    """

    def __init__(self, network, number, address=ADDRESS):
        self._host = network.host(number)
        self.run("ip", "address", "add", f"fd99::{number}/64", "dev", "inner", "nodad")
        self._address = address
        self._stopped = threading.Event()
        #: When each answer arrived, and from whom.
        self.answers = []
        #: When each connection failed, how, and after how many attempts since the last answer.
        self.failures = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self._thread.start()
        wait_until(lambda: self.answers, seconds=20, what="an answer at the address")
        return self

    def close(self):
        self._stopped.set()
        self._thread.join(10)

    def run(self, *command):
        with self._host.inside():
            return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    @property
    def last(self):
        return self.answers[-1][1]

    def longest_gap_s(self, since):
        """Return the longest time between two answers, of which the later one came after `since`."""
        times = [at for at, _ in self.answers]
        return max(later - former for former, later in itertools.pairwise(times) if later > since)

    def _run(self):
        with self._host.inside():
            while not self._stopped.is_set():
                try:
                    with socket.create_connection((self._address, BROKER_PORT), timeout=3) as connection:
                        self._send_over(connection)
                except OSError as error:
                    self.failures.append((time.perf_counter(), error))

    def _send_over(self, connection):
        with connection.makefile("rb") as lines:
            self._send_lines(connection, lines)

    def _send_lines(self, connection, lines):
        number = 0
        while not self._stopped.is_set():
            number += 1
            connection.sendall(b"%d\n" % number)
            answer = lines.readline()
            if not answer:
                raise ConnectionResetError("closed by the broker")
            self.answers.append((time.perf_counter(), answer.decode().split()[0]))
            time.sleep(0.01)


class Site:
    """Two broker hosts, numbers 2 and 3, with one controller; a client is host 4."""

    def __init__(self, network, folder, lease_s=LEASE_S, controllers=()):
        """With the addresses of real `controllers`; without them one is stood in for."""
        self.network = network
        self.controller = None if controllers else RoleChecks(network)
        agents = {number: f"10.99.0.{number}:{AGENT_PORT}" for number in (2, 3)}
        # Ours gives 1 to the first broker that joins.
        ids = {2: 1, 3: 2} if controllers else {}
        controllers = list(controllers) or [self.controller.address]
        self.hosts = [
            BrokerHost(
                network,
                folder,
                number,
                peers=[agents[other]],
                controllers=controllers,
                lease_s=lease_s,
                broker_id=ids.get(number),
            )
            for number, other in ((2, 3), (3, 2))
        ]
        self._clients = []

    def start(self):
        """Start everything, with the broker of host 2 as master of epoch 1."""
        for host in self.hosts:
            host.start_broker()
        for host in self.hosts:
            host.broker_ready()
        if self.controller is not None:
            self.controller.elect(2, 1, 3)
        for host in self.hosts:
            host.start_agent()
        for host in self.hosts:
            host.agent_ready()
        wait_until(lambda: self.hosts[0].has_address, seconds=20, what="the address on host 2")
        return self

    def client(self, number=4, address=ADDRESS):
        client = Client(self.network, number, address)
        self._clients.append(client)
        return client.start()

    def fail_over(self, epoch, failed_for_s=0.1, elected_for_s=0.15):
        """Answer as a controller does after its master failed: failed, superseded, another one up."""
        self.controller.roles[2] = f"down #failed epoch {epoch - 1}"
        time.sleep(failed_for_s)
        self.controller.roles = {2: f"down #superseded epoch {epoch}", 3: "#unknown the master is not confirmed"}
        time.sleep(elected_for_s)
        self.controller.elect(3, epoch, 2)

    def holders(self):
        return [host.number for host in self.hosts if host.has_address]

    def close(self):
        for client in self._clients:
            client.close()
        for host in self.hosts:
            with contextlib.suppress(ProcessLookupError):
                host.close()
        if self.controller is not None:
            self.controller.close()
