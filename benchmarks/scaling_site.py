"""Broker sets whose topics are resized, with clients as they come: what the parts of `resizes.py` share."""

import contextlib
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from servers import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tests" / "acceptance" / "scaling"))

from peers.controllers import OurController
from peers.jars import V5_5
from peers.lab import Lab
from peers.servers import Broker
from peers.waiting import wait_until
from peers.wire import GET_CLUSTER_INFO, SUCCESS, Caller
from resize_site import TOKEN, ScalingClient

UPDATE_TOPIC = 17
CLIENT_DEFAULTS = {"poll_ms": 30_000, "heartbeat_ms": 30_000, "persist_ms": 5000}
REBALANCE_DEFAULT = "-Drocketmq.client.rebalance.waitInterval=20000"
SEND_MS = 20
STOPPED = ("ABORTED", "REJECTED", "CONFLICT", "BLOCKED")
VERY_LONG_S = 120
#: A grow is watched for five minutes, and a shrink has waits of as much.
RESIZED_S = 1800
LOOK_S = 0.5

Operation = dict[str, Any]


class Site:
    """NameServers, a controller that scales queues, broker sets, and clients as they come."""

    def __init__(self, folder: Path, *, sets: int = 2, slaves: bool = True, managed: bool = False) -> None:
        self.lab = Lab(folder)
        self._namesrvs = [self.lab.name_server(f"namesrv-{number}") for number in range(2)]
        addresses = [each.address for each in self._namesrvs]
        token = folder / "token"
        token.write_text(f"{TOKEN}\n")
        settings = {"namesrvAddr": ";".join(addresses), "httpAdminTokenFile": token}
        self.controller = self.lab.kept(OurController(folder, **settings)).start()
        self.operator = ScalingClient(self.controller).ready()
        brokers = [
            self._broker(number, broker_id, addresses, managed=managed)
            for number in range(sets)
            for broker_id in range(2 if slaves else 1)
        ]
        for broker in brokers:
            broker.ready()
        wait_until(lambda: len(self._masters()) == sets, seconds=VERY_LONG_S, what=f"{sets} masters")
        # The last one of a flag holds.
        self.traffic = self.lab.traffic(namesrv=addresses, version=V5_5, flags=(REBALANCE_DEFAULT,), heap="-Xmx768m")

    def close(self) -> None:
        """End everything."""
        self.lab.close()

    def make_topic(self, topic: str, queues: int) -> None:
        """Make a topic on all masters, and wait until both NameServers show it."""
        fields = {"topic": topic, "defaultTopic": "TBW102", "perm": "6", "topicFilterType": "SINGLE_TAG"}
        fields |= {"readQueueNums": str(queues), "writeQueueNums": str(queues), "topicSysFlag": "0", "order": "false"}
        masters = self._masters()
        for address in masters:
            assert Caller(address).request(UPDATE_TOPIC, fields).code == SUCCESS, address
        for namesrv in self._namesrvs:

            def is_shown(caller: Caller = namesrv.caller) -> bool:
                return len((caller.route(topic) or {"queueDatas": []})["queueDatas"]) == len(masters)

            wait_until(is_shown, seconds=VERY_LONG_S, what=f"the route of {topic}")

    def consume(self, topic: str, *, name: str, **options: Any) -> None:
        """Start a consumer of the group of a topic, which reads everything."""
        named = {"topic": topic, "group": group_of(topic), "kind": "push", "from_": "FIRST_OFFSET"}
        self.traffic.receive(name, **(named | CLIENT_DEFAULTS | options))

    def send(self, topic: str, *, name: str, **options: Any) -> None:
        """Start a producer."""
        self.traffic.send(name, topic=topic, **({"interval_ms": SEND_MS} | CLIENT_DEFAULTS | options))

    def resize(self, topic: str, queues: int) -> str:
        """Start a resize with default waits; return its id."""
        status, body = self.operator.call("POST", "operations", {"topic": topic, "queues": queues})
        assert status == 201, body
        return str(body["id"])

    def done(self, ids: Iterable[str]) -> list[Operation]:
        """Return these resizes once all of them are done."""
        wanted, found = list(ids), dict[str, Operation]()

        def all_done() -> bool:
            time.sleep(LOOK_S)
            for each in set(wanted) - found.keys():
                operation = self.operator.operation(each)
                if operation is not None:
                    assert operation["phase"] not in STOPPED, operation
                    if operation["phase"] == "DONE":
                        found[each] = operation
            return len(found) == len(wanted)

        wait_until(all_done, seconds=RESIZED_S, what=lambda: f"DONE: {set(wanted) - found.keys()}")
        return [found[each] for each in wanted]

    def end_of_traffic(self, groups: list[str]) -> str:
        """End all producers, wait until everything is consumed, and return what was lost."""
        for name in sorted({each.producer for each in self.traffic.read().acknowledged}):
            self.traffic.stop(name)
        with contextlib.suppress(AssertionError):
            # What is missing then is lost.
            self.traffic.wait_until_consumed(groups, seconds=VERY_LONG_S)
        lost = sum(len(each.missing) for each in self.traffic.verdict(groups).values())
        refused = len(self.traffic.unacknowledged)
        return f"{len(self.traffic.acknowledged)} messages acknowledged, {refused} not, **{lost} lost**"

    def _broker(self, number: int, broker_id: int, addresses: list[str], *, managed: bool) -> Broker:
        role = self.controller.broker_settings() if managed else {"broker_id": broker_id}
        name = f"broker-{number}"
        broker = self.lab.broker(name, label=f"{name}-{broker_id}", version=V5_5, namesrv=addresses, **role)
        return broker.start()

    def _masters(self) -> list[str]:
        """Return the addresses of all masters that both NameServers know."""
        found = []
        for namesrv in self._namesrvs:
            sets = namesrv.caller.request(GET_CLUSTER_INFO).json["brokerAddrTable"]
            found.append({each["brokerAddrs"]["0"] for each in sets.values() if "0" in each["brokerAddrs"]})
        return sorted(set.intersection(*found))


def group_of(topic: str) -> str:
    """Return the group that consumes a topic."""
    return f"{topic}-readers"


def ended_after_s(operation: Operation, phase: str | None = None) -> float:
    """Return how long after the start of a resize a phase ended for the last time; without one, its last phase."""
    ended = max(each["endedUnixMs"] for each in operation["steps"] if phase in (None, each["phase"]))
    return float(ended - operation["createdUnixMs"]) / 1000
