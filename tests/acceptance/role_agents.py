"""A broker set whose master has a role address on its own host: real brokers, agents, controller and NameServer.

The controller and the NameServer are on one host, each broker with its agent on one of its own, clients on a fourth.
"""

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from peers.controllers import OurController
from peers.networks import Network
from peers.processes import Process
from peers.servers import Broker
from peers.waiting import wait_until
from peers.wire import addresses_in
from replicated import VERY_LONG_S, ReplicatedSet
from role_addressed import AS_IT_COMES, RULES, SET, Versions

REPOSITORY = Path(__file__).parents[2]
ADDRESS = "10.99.0.100"
BROKER_PORT = 10911
AGENT_PORT = 9990
ROLE_CHECK_PORT = 9879
#: Broker hosts by number; the controller gives ids in the order in which brokers join.
HOSTS = (2, 3)
CLIENT_HOST = 4

AGENT = """
set = "{name}"
brokerId = {broker_id}
addresses = ["{address}/24"]
interface = "inner"
controllers = ["{server}:{role_check_port}"]
listen = "{own}:{agent_port}"
peers = ["{other}:{agent_port}"]
haPort = {ha_port}
"""


class Stored(NamedTuple):
    """A message that a broker acknowledged: when, and on which host."""

    unix_ms: int
    host: str


class HostedBroker(Broker):
    """A Java broker on a host of its own; all of them have the same port."""

    def __init__(self, host, *args, **settings):
        own = {"listenPort": BROKER_PORT, "brokerIP1": host.address, "brokerIP2": host.address}
        super().__init__(*args, **own | settings)
        self.port = BROKER_PORT
        self.address = f"{host.address}:{BROKER_PORT}"
        self.host = host

    def start(self):
        with self.host.inside():
            return super().start()


class HostedSet(ReplicatedSet):
    """A set with a broker on each of some hosts."""

    def __init__(self, *args, hosts, client_host, **settings):
        self._free_hosts = list(hosts)
        self._client_host = client_host
        super().__init__(*args, count=len(hosts), **settings)

    def new_broker(self, label, **properties):
        return self._lab.kept(
            HostedBroker(
                self._free_hosts.pop(0),
                self._lab.folder,
                self.name,
                label=f"{self.name}-{label}",
                version=self.run.broker_version,
                namesrv=[f"{Network.server}:{self.namesrv.port}"],
                **self._settings,
                **properties,
            )
        )

    def load(self, name="load", **options):
        """Start a producer as it comes on the host of clients."""
        with self._client_host.inside():
            load = self._lab.load(
                name,
                namesrv=[f"{Network.server}:{self.namesrv.port}"],
                topic=self.topic,
                version=self.run.broker_version,
                **AS_IT_COMES | options,
            )
        return load.ready()


class Agent:
    """The agent of one broker, on its host."""

    def __init__(self, lab, broker, broker_id, other):
        self.broker = broker
        self.process = None
        self._folder = lab.folder / f"agent-{broker_id}"
        self._folder.mkdir()
        self._file = self._folder / "agent.toml"
        text = AGENT.format(
            name=broker.name,
            broker_id=broker_id,
            address=ADDRESS,
            server=Network.server,
            role_check_port=ROLE_CHECK_PORT,
            own=broker.host.address,
            other=other.host.address,
            agent_port=AGENT_PORT,
            ha_port=BROKER_PORT + 1,
        )
        self._file.write_text(text)

    def start(self):
        env = os.environ | {"PYTHONPATH": str(REPOSITORY)}
        with self.broker.host.inside():
            # What ExecStartPre of its unit does.
            refuse_none = f"{sys.executable} -m role_agent nft {self._file} | nft -f -"
            subprocess.run(["sh", "-c", refuse_none], check=True, cwd=REPOSITORY)
            command = [sys.executable, "-m", "role_agent", "run", self._file]
            self.process = Process(self._folder.name, command, folder=self._folder, env=env)
        return self

    def restart(self):
        """Do what its unit does when it hangs or was killed."""
        self.process.kill()
        return self.start()

    @property
    def has_address(self):
        with self.broker.host.inside():
            command = ["ip", "-o", "address", "show", "dev", "inner"]
            return f" {ADDRESS}/" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


class HostAddressedSet:
    """Everything together; to be used inside of the network."""

    def __init__(self, network, lab, version):
        self.lab = lab
        self.client_host = network.host(CLIENT_HOST)
        rules = lab.folder / "role-addresses.toml"
        rules.write_text(RULES.format(name=SET, address=f"{ADDRESS}:{BROKER_PORT}"))
        self.namesrv = lab.name_server("namesrv", bindAddress="0.0.0.0", roleAddressFile=rules)
        self.controller = lab.kept(
            OurController(
                lab.folder,
                bindAddress="0.0.0.0",
                port=9878,
                advertised_address=f"{Network.server}:9878",
                roleCheckPort=ROLE_CHECK_PORT,
            )
        )
        #: What faults of controllers are about.
        self.controllers = [self.controller]
        self.brokers = HostedSet(
            lab,
            Versions(version),
            name=SET,
            namesrv=self.namesrv,
            controllers=[self.controller],
            hosts=[network.host(number) for number in HOSTS],
            client_host=self.client_host,
        )
        self.agents = []

    def start(self):
        """Start everything, and wait until the set is complete and its master has the address."""
        self.controller.start()
        wait_until(self.controller.serves, seconds=VERY_LONG_S, what="a leader")
        self.brokers.start().wait_until_complete()
        first, second = self.brokers.brokers
        for broker, other in ((first, second), (second, first)):
            self.agents.append(self.lab.kept(Agent(self.lab, broker, self.brokers.id_of(broker), other)).start())
        self.wait_for_address()
        wait_until(self.is_in_force, seconds=VERY_LONG_S, what="the role address in routes")
        return self

    def is_in_force(self):
        """Return whether clients get the role address, which the NameServer has to have reached the master at."""
        return addresses_in(self.namesrv.caller.route(SET), SET).get("0") == f"{ADDRESS}:{BROKER_PORT}"

    def wait_for_address(self):
        master = self.brokers.master
        wait_until(lambda: self.holders() == [master], seconds=VERY_LONG_S, what="the address on the master's host")

    def holders(self):
        return [agent.broker for agent in self.agents if agent.has_address]


def stored(load):
    """Return what was acknowledged, in the order of time."""
    found = re.findall(r"^OK (\d+) \S+ \S+ (\S+) \d+$", load.process.text(), re.MULTILINE)
    return [Stored(int(unix_ms), host) for unix_ms, host in found]


def first_stored(load, since_ms, *, not_by, seconds=60):
    """Wait for the first message that another broker acknowledged since."""
    host = not_by.host.address

    def found():
        return next((each for each in stored(load) if each.unix_ms > since_ms and each.host != host), None)

    return wait_until(found, seconds=seconds, what=f"a message acknowledged by another host than {host}")


def longest_gap_s(load, from_ms):
    """Return the longest time between two acknowledged messages from just before a moment on."""
    stamps = [each.unix_ms for each in stored(load) if each.unix_ms >= from_ms - 1_000]
    return max((later - earlier for earlier, later in pairwise(stamps)), default=0) / 1000


def stored_too_late(load, old, since_ms):
    """Return what the old master acknowledged after its successor had acknowledged something since that moment."""
    host = old.host.address
    later = [each for each in stored(load) if each.unix_ms > since_ms]
    first = next((number for number, each in enumerate(later) if each.host != host), len(later))
    return [each for each in later[first:] if each.host == host]
