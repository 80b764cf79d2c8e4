"""NameServers, brokers and proxies that a test starts, stops, pauses and restarts on the same address and files."""

import json
import os
import sys

from peers.jars import REPOSITORY, V5_5
from peers.java import start_java, write_properties
from peers.processes import Process, free_port
from peers.waiting import wait_until
from peers.wire import GET_CLUSTER_INFO, GET_MAX_OFFSET, Caller

CLUSTER = "DefaultCluster"

#: Brokers repeat their registration this often: the shortest period they accept.
REGISTRATION_PERIOD_MS = 10_000


class NameServer:
    """A NameServer, not yet started. `properties` are RocketMQ's own; the file survives a restart.

    Without `tls_mode`, ours also speaks TLS, as by default; Java's does not.
    """

    def __init__(self, folder, name="namesrv", *, port=None, tls_mode="", **properties):
        self.name = name
        self.port = port or free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.caller = Caller(self.address)
        self.process = None
        self.folder = folder / name
        self._tls_mode = tls_mode
        own = {"listenPort": self.port, "bindAddress": "127.0.0.1", "kvConfigPath": self.folder / "kvConfig.json"}
        self._file = write_properties(self.folder / "namesrv.properties", own | properties)

    def start(self):
        self.process = self._launch()
        self.process.wait_for(r"^The Name Server boot success", seconds=30)
        return self

    def _launch(self):
        raise NotImplementedError


class OurNameServer(NameServer):
    """The NameServer of this repository, as its users start it; with `http`, also its HTTP side.

    `wrapper` are the words of a program that is given the server's command and becomes it.
    """

    def __init__(self, *args, http=False, wrapper=(), environment=None, **settings):
        super().__init__(*args, **settings)
        self.http_port = free_port() if http else 0
        self._wrapper = wrapper
        self._environment = environment or {}

    def _launch(self):
        command = [*self._wrapper, sys.executable, "-m", "namesrv", "-c", self._file]
        command += ["--http-port", self.http_port]
        command += ["--tls-server-mode", self._tls_mode] if self._tls_mode else []
        env = os.environ | {"PYTHONPATH": str(REPOSITORY), "HOME": str(self.folder)} | self._environment
        return Process(self.name, command, folder=self.folder, env=env)


class JavaNameServer(NameServer):
    """The original, version 5.5.0."""

    def _launch(self):
        return start_java(
            self.name,
            V5_5,
            "org.apache.rocketmq.namesrv.NamesrvStartup",
            ["-c", self._file],
            folder=self.folder.parent,
            flags=[f"-Dtls.server.mode={self._tls_mode}"] if self._tls_mode else [],
        )


class Broker:
    """A Java broker, not yet started. Started again, it has its old address and store.

    `label` tells it from others of the same name and id, which a controller gives only later.
    """

    def __init__(
        self,
        folder,
        name,
        *,
        namesrv,
        version=V5_5,
        broker_id=0,
        label=None,
        flags=(),
        environment=None,
        **properties,
    ):
        self.name = name
        self.port = free_port() + 2  # it also listens on port - 2 and port + 1
        self.address = f"127.0.0.1:{self.port}"
        self.process = None
        self._folder = folder
        self.label = label or f"{name}-{broker_id}"
        self._version = version
        self._flags = flags
        self._environment = environment
        home = folder / self.label
        self.store = home / "store"
        own = {
            "brokerClusterName": CLUSTER,
            "brokerName": name,
            "brokerId": broker_id,
            "brokerRole": "SLAVE" if broker_id else "ASYNC_MASTER",
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "listenPort": self.port,
            "namesrvAddr": ";".join(namesrv),
            "registerNameServerPeriod": REGISTRATION_PERIOD_MS,
            "storePathRootDir": self.store,
            "storePathCommitLog": self.store / "commitlog",
            "mappedFileSizeCommitLog": 16 * 1024 * 1024,
            "mappedFileSizeConsumeQueue": 300_000,
            "diskMaxUsedSpaceRatio": 99,
            # A broker of 5.5.0 spins for the first ten seconds until it writes its transaction metrics, and writes the
            # whole timer wheel each second: 12 s of a processor for each start, which no test is about.
            "transactionMetricFlushInterval": 300,
            "timerFlushIntervalMs": 60_000,
        }
        self._file = write_properties(home / "broker.conf", own | properties)

    def start(self):
        """Start the process; `ready` waits for it, so that several can start at the same time."""
        self.process = start_java(
            self.label,
            self._version,
            "org.apache.rocketmq.broker.BrokerStartup",
            ["-c", self._file],
            folder=self._folder,
            flags=self._flags,
            heap="-Xmx384m",
            environment=self._environment,
        )
        return self

    def ready(self):
        self.process.wait_for(r"boot success", seconds=180)
        return self

    def has_written_offsets(self):
        """Wait for the first time that it writes consumer offsets: 10 s after its start, whatever the interval is."""
        wait_until((self.store / "config" / "consumerOffset.json").exists, seconds=60, what="offsets are on the disk")
        return self

    def stored_topics(self):
        """Return the topics that the broker has on its disk."""
        file = self.store / "config" / "topics.json"
        if not file.exists():
            return set()
        stored = wait_until(lambda: _json_of(file), seconds=10, what=f"the whole of {file}")
        return set(stored["topicConfigTable"])

    def stored_messages(self, topic, *, queues):
        """Return how many messages of `topic` the broker, master or slave, has in its first `queues` queues."""
        caller = Caller(self.address)
        answers = [caller.request(GET_MAX_OFFSET, {"topic": topic, "queueId": str(queue)}) for queue in range(queues)]
        return sum(int(answer.fields["offset"]) for answer in answers)


class HAProxy:
    """Debian's haproxy in TCP mode in front of one address; `send` is how it tells it the caller, if it does."""

    def __init__(self, folder, name, *, target, send=""):
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.process = None
        self._name = name
        self._send = send
        self._folder = folder / name
        self._folder.mkdir(parents=True)
        self._file = self._folder / "haproxy.cfg"
        self._lead_to(target)

    def _lead_to(self, target):
        self._file.write_text(
            "defaults\n  mode tcp\n  timeout connect 3s\n  timeout client 60s\n  timeout server 60s\n"
            f"listen proxied\n  bind {self.address}\n  server proxied {target} {self._send}\n"
        )

    def start(self):
        self.launch()
        wait_until(Caller(self.address).is_up, seconds=10, what=f"an answer through {self._name}")
        return self

    def move_to(self, target):
        """End all sessions, and lead to another address from now on."""
        self.process.kill()
        self._lead_to(target)
        self.launch()

    def launch(self):
        """Start the process, whoever answers behind it."""
        self.process = Process(self._name, ["haproxy", "-db", "-f", self._file], folder=self._folder, env=os.environ)


def _json_of(file):
    """Return what is in a file of JSON; None while a broker writes it, as it does so in place."""
    try:
        return json.loads(file.read_text())
    except json.JSONDecodeError:
        return None


def registered(name_server, *brokers):
    """Return whether `name_server` lists all of these brokers, each under its own id and address."""
    table = name_server.caller.request(GET_CLUSTER_INFO).json["brokerAddrTable"]
    known = {address for group in table.values() for address in group["brokerAddrs"].values()}
    return known >= {broker.address for broker in brokers}
