"""Controllers as processes, ours and the Java one; only this file treats them differently."""

import json
import os
import sys
from dataclasses import dataclass

from peers.jars import REPOSITORY, V5_5
from peers.java import start_java, write_properties
from peers.processes import Process, free_port
from peers.servers import CLUSTER
from peers.wire import SUCCESS, Caller

ELECT_MASTER = 1002
GET_REPLICA_INFO = 1004
GET_METADATA = 1005
GET_SYNC_STATE_DATA = 1006

NOT_LEADER = 2007

#: The consensus library of the Java controller looks into classes that Java 17 keeps shut.
REFLECTING = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.lang", "java.util")]


@dataclass(frozen=True)
class SetState:
    """A broker set as a controller tells it to mqadmin; everything by broker id."""

    master: int | None
    master_epoch: int
    sync_state_set_epoch: int
    in_sync: frozenset[int]
    alive: frozenset[int]
    addresses: dict[int, str]

    @property
    def members(self):
        return frozenset(self.addresses)

    @property
    def epochs(self):
        """Who leads since when: the same as long as nobody was elected."""
        return self.master, self.master_epoch

    def id_of(self, address):
        """Return the broker id of who has this address."""
        return next(broker_id for broker_id, its_address in self.addresses.items() if its_address == address)


class Controller:
    """A controller, not yet started. Started again, it has its old address and store."""

    def __init__(self, folder, name="controller", *, port=None):
        self.name = name
        self.port = port or free_port()
        self.address = f"127.0.0.1:{self.port}"
        #: The address that brokers get; a proxy may listen there.
        self.advertised_address = self.address
        self.caller = Caller(self.address)
        self.process = None
        self.folder = folder / name
        self.config_store = self.folder / "kept.properties"

    def start(self):
        """Start the process and wait until it serves."""
        return self.launch().ready()

    def launch(self):
        """Start the process; `ready` waits for it, so that several can start at the same time."""
        self.process = self._launch()
        return self

    def _configure(self, properties):
        self._properties = properties
        self._file = write_properties(self.folder / "controller.conf", properties)

    def restart_with(self, **properties):
        """Stop it, put these into its file, and start it, as an operator does."""
        assert self.process.stop() == 0
        self._configure(self._properties | properties)
        return self.start()

    def ready(self):
        self.process.wait_for(r"^The Controller Server boot success", seconds=60)
        return self

    def _launch(self):
        raise NotImplementedError

    def broker_settings(self):
        """Return the settings with which a broker gets its id and role from this controller."""
        return {
            "broker_id": -1,
            "enableControllerMode": True,
            "controllerAddr": self.advertised_address,
            "allAckInSyncStateSet": True,
        }

    def metadata(self):
        """Return the fields of its answer to 1005."""
        answer = self.caller.request(GET_METADATA)
        assert answer.code == SUCCESS, answer
        return answer.fields

    def serves(self):
        """Return whether it leads and has finished its start, so that it answers what only a leader answers."""
        try:
            return self.replica_info("nobody").code != NOT_LEADER
        except OSError:
            return False

    def set_state(self, broker_name):
        """Return the state of a set; None if it is unknown, or this controller does not lead or answer."""
        try:
            answer = self.caller.request(GET_SYNC_STATE_DATA, body=json.dumps([broker_name]).encode())
        except OSError:
            return None
        table = answer.json["replicasInfoTable"] if answer.code == SUCCESS else {}
        return _set_state(table[broker_name]) if broker_name in table else None

    def replica_info(self, broker_name):
        """Return the answer to the request that a running broker sends every 5 s."""
        return self.caller.request(GET_REPLICA_INFO, {"brokerName": broker_name})

    def designate(self, broker_name, broker_id, *, cluster=CLUSTER):
        """Elect this broker as `mqadmin electMaster` does, and return the answer."""
        fields = {"clusterName": cluster, "brokerName": broker_name, "brokerId": str(broker_id)}
        return self.caller.request(ELECT_MASTER, fields | {"designateElect": "true"})


class OurController(Controller):
    """The controller of this repository, as its users start it; alone it keeps its sets in its own folder.

    `advertised_address` is what brokers get instead of its own address.
    """

    def __init__(self, folder, name="controller", *, advertised_address=None, port=None, **properties):
        super().__init__(folder, name, port=port)
        self.advertised_address = advertised_address or self.address
        self.http_port = free_port()
        own = {
            "listenPort": self.port,
            "bindAddress": "127.0.0.1",
            "advertisedAddress": self.advertised_address,
            "controllerStorePath": self.folder / "store",
            "configStorePath": self.config_store,
            "httpPort": self.http_port,
        }
        self._configure(own | properties)

    def _launch(self):
        command = [sys.executable, "-m", "controller", "-c", self._file]
        env = os.environ | {"PYTHONPATH": str(REPOSITORY), "HOME": str(self.folder)}
        return Process(self.name, command, folder=self.folder, env=env)


class JavaController(Controller):
    """The original of 5.5.0; alone it is its own majority. `peers` are those of a group, by their id."""

    def __init__(self, folder, name="controller", *, peers=None, port=None, **properties):
        super().__init__(folder, name, port=port)
        self._folder = folder
        own = {
            "controllerDLegerGroup": "group",
            "controllerDLegerPeers": ";".join(
                f"{peer}-{address}" for peer, address in (peers or {"n0": self.address}).items()
            ),
            "controllerDLegerSelfId": name if peers else "n0",
            "controllerStorePath": self.folder / "store",
            "configStorePath": self.config_store,
            "mappedFileSize": 16 * 1024 * 1024,
        }
        self._configure(own | properties)

    def _launch(self):
        main = "org.apache.rocketmq.controller.ControllerStartup"
        arguments = ["-c", self._file]
        return start_java(self.name, V5_5, main, arguments, folder=self._folder, flags=REFLECTING, heap="-Xmx256m")


def leader_of(controllers):
    """Return the one of these that answers as the leader, None if none does; one that is paused is not waited for."""
    return next((each for each in controllers if each.process.active and each.serves()), None)


def _set_state(sets):
    replicas = sets["inSyncReplicas"] + sets["notInSyncReplicas"]
    return SetState(
        master=sets.get("masterBrokerId"),
        master_epoch=sets["masterEpoch"],
        sync_state_set_epoch=sets["syncStateSetEpoch"],
        in_sync=frozenset(each["brokerId"] for each in sets["inSyncReplicas"]),
        alive=frozenset(each["brokerId"] for each in replicas if each["alive"]),
        addresses={each["brokerId"]: each["brokerAddress"] for each in replicas},
    )
