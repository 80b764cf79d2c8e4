"""The chart's proxy and a controller as in a cluster, on one network: what Kubernetes is, the test decides.

Brokers are on hosts of their own, as pods are; the API server, DNS, the controller and HAProxy are where the server is.
"""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading

from peers.controllers import OurController
from peers.dns import DnsServer
from peers.jars import REPOSITORY
from peers.kube_api import KubeApi
from peers.networks import Network
from peers.processes import Process, free_port
from peers.replicas import ANSWER_S, EPOCH_CACHE, RemoteReplica
from peers.scripted import Line
from peers.waiting import wait_until
from peers.wire import SUCCESS

SET = "broker-a"
NAMESPACE = "mq"
SERVICE = "rmq-rocketmq-control-plane-set-broker-a"
DOMAIN = f"{SERVICE}.{NAMESPACE}.svc.cluster.local"
SLICE = f"{SERVICE}-ipv4"
BROKER_PORT = 10911
ROLE_PORT = 20911
LONG_S = 60


class LoopThread:
    """An event loop in a thread of its own, whose sockets are where the thread was when it made this."""

    def __init__(self, inside):
        self._loop, self._inside = asyncio.new_event_loop(), inside
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        with self._inside():
            self._loop.run_forever()

    def do(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LONG_S)

    def close(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LONG_S)
        self._loop.close()


class StandInCluster:
    """The API server of `kube_api`, and a DNS that answers what its slices have."""

    def __init__(self, network, folder):
        self._loop = LoopThread(network.inside)
        self.api, self.dns = KubeApi(folder), SliceDns(self.endpoints)
        self._loop.do(self.api.start())
        self._loop.do(self.dns.__aenter__())
        self.api_port, self.credentials, self.nameserver = self.api.port, self.api.credentials, self.dns.address

    def endpoints(self):
        """Return the addresses that are published, by host name."""
        return self.api.endpoints(SLICE, NAMESPACE) or {}

    def go_away(self):
        """Let neither the API server nor DNS answer."""
        self.dns.is_silent = True
        self._loop.do(self.api.stop())

    def come_back(self):
        self.dns.is_silent = False
        self._loop.do(self.api.start())

    def close(self):
        self._loop.do(self.api.stop())
        self._loop.do(self.dns.__aexit__())
        self._loop.close()


class SliceDns(DnsServer):
    """Answers the host names of endpoints, as CoreDNS does for a headless Service."""

    def __init__(self, endpoints):
        self._endpoints = endpoints
        super().__init__({})

    def datagram_received(self, data, peer):
        if not self.is_silent:
            published = {f"{host}.{DOMAIN}": addresses[0] for host, addresses in self._endpoints().items()}
            self.addresses = published | {"controller.test": "127.0.0.1"}
        super().datagram_received(data, peer)


class KubernetesSite:
    """A controller that publishes, HAProxy as the chart runs it, and the brokers of a set."""

    def __init__(self, network, folder, cluster):
        self.network, self.cluster = network, cluster
        self._folder, self._check_port = folder, free_port()
        sets = folder / "sets.json"
        sets.write_text(
            json.dumps(
                [
                    {
                        "name": SET,
                        "port": ROLE_PORT,
                        "service": DOMAIN,
                        "brokerPort": BROKER_PORT,
                        "brokerIds": [1, 2, 3],
                    }
                ]
            )
        )
        self._sets = sets
        self.controller = PublishingController(
            folder,
            cluster,
            bindAddress="0.0.0.0",
            roleCheckPort=self._check_port,
            kubernetesSetsFile=sets,
            kubernetesCredentialsDir=cluster.credentials,
        )
        self.controller.start()
        wait_until(self.controller.serves, seconds=LONG_S, what="the controller serves")
        self.replicas, self.haproxy = [], None

    def broker(self, number):
        """Return a broker on a host of its own, in the set's port."""
        address = f"{Network.server}:{self.controller.port}"
        replica = RemoteReplica(address, SET, self.network.host(number), BROKER_PORT)
        # It changes to master as soon as it is elected.
        replica.is_master = True
        self.replicas.append(replica)
        return replica

    def two_brokers(self):
        first, second = self.broker(2).join(), self.broker(3).join()
        assert first.elect().code == SUCCESS
        assert first.report([1, 2], master_epoch=1, sync_state_set_epoch=1).code == SUCCESS
        wait_until(lambda: self.controller.set_state(SET).alive == {1, 2}, seconds=LONG_S, what="both are alive")
        return first, second

    def start_haproxy(self, controller_name="controller.test"):
        """Run HAProxy with the configuration that the init container of the chart writes."""
        folder = self._folder / "proxy"
        folder.mkdir()
        words = {
            "service-sets": self._sets,
            "role-checks": f"{controller_name}:{self._check_port}",
            "local-port": free_port(),
            "run-folder": folder,
            "nameservers": self.cluster.nameserver,
            "output": folder / "haproxy.cfg",
        }
        command = [sys.executable, "-m", "rmq", "haproxy-config"]
        command += [f"--{name}={value}" for name, value in words.items()]
        written = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=REPOSITORY)
        assert written.returncode == 0, written.stderr
        self.haproxy = Process("haproxy", ["haproxy", "-db", "-f", words["output"]], folder=folder, env=os.environ)

    def connect(self):
        with self.network.inside():
            return Line(socket.create_connection(("127.0.0.1", ROLE_PORT), timeout=ANSWER_S))

    def who(self):
        """Return the id of the broker that answers a new connection; None without an answer."""
        try:
            with contextlib.closing(self.connect()) as line:
                return line.request(EPOCH_CACHE, {}).json["brokerId"]
        except OSError:
            return None

    def served_by(self, broker_id):
        wait_until(lambda: self.who() == broker_id, seconds=LONG_S, what=f"broker {broker_id} answers")

    def published(self, **addresses):
        """Wait until these addresses are published, by `b1=...`."""
        wanted = {host: [address] for host, address in addresses.items()}
        wait_until(
            lambda: self.cluster.endpoints() == wanted,
            seconds=LONG_S,
            what=lambda: f"{wanted}; now {self.cluster.endpoints()}",
        )

    def close(self):
        for each in self.replicas:
            each.die()
        if self.haproxy is not None:
            self.haproxy.kill()
        self.controller.process.stop()


class PublishingController(OurController):
    """A controller in a pod of a cluster."""

    def __init__(self, folder, cluster, **properties):
        self._cluster = cluster
        super().__init__(folder, **properties)

    def _launch(self):
        command = [sys.executable, "-m", "controller", "-c", self._file]
        variables = {
            "PYTHONPATH": str(REPOSITORY),
            "HOME": str(self.folder),
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self._cluster.api_port),
        }
        return Process(self.name, command, folder=self.folder, env=os.environ | variables)


def session_ends(line):
    """Return whether a connection has ended, after a moment."""
    line._connection.settimeout(0.05)
    try:
        return line._connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True
