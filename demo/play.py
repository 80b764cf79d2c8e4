"""An hour of incidents in some minutes: real brokers, two NameServers, a controller, and what their history says of it.

    make demo        (JDK 17 and Maven; about twelve minutes; everything into ~/rocketmq-demo)

A topic gets more queues because an operator wants it, another because the autoscaler does. Brokers are killed, frozen,
cut off, flap and restart all at once, and a topic is changed again and again; each time is written down. Then the
history is ingested and analysed, and it is looked whether the analyses have found what was done.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

REPOSITORY = Path(__file__).parents[1]
sys.path[:0] = [str(REPOSITORY), *(str(REPOSITORY / each) for each in ("tests", "tests/acceptance/scaling"))]

from peers.controllers import OurController  # noqa: E402  # the tests' peers, found by the line above
from peers.lab import Lab  # noqa: E402
from peers.servers import Broker, registered  # noqa: E402
from peers.waiting import wait_until  # noqa: E402
from peers.wire import Caller  # noqa: E402
from queues import IN_VAIN, Market, controller_settings  # noqa: E402

UPDATE_TOPIC: Final = 17
CHURNS: Final = 20
FLAPS: Final = 4
FROZEN_S: Final = 20
CUT_S: Final = 25
LIVES_S: Final = 3
READY_S: Final = 180
CHUNK: Final = 65_536
#: Brokers of replicated sets ask the controller for their roles.
REPLICATED: Final = {"allAckInSyncStateSet": True, "haSendHeartbeatInterval": 1000}
#: They send heartbeats each second, and expire after 10 s.
BEATING: Final = {"enableSlaveActingMaster": True}


class Cable:
    """Carries connections to one address until it is pulled; then nothing passes, and neither end is closed."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._connected = threading.Event()
        self._connected.set()
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def pull(self) -> None:
        """Let nothing pass."""
        self._connected.clear()

    def plug_in(self) -> None:
        """Let it pass again; connections of before are gone."""
        ends, self._ends = self._ends, []
        for end in ends:
            end.close()
        self._connected.set()

    def _accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            try:
                far = socket.create_connection(self._target, timeout=5)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            self._ends += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(CHUNK):
                self._connected.wait()
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            end.close()


class Incident(NamedTuple):
    """Something that was done, with the times of the script's own clock."""

    kind: str
    broker: str
    began: datetime
    ended: datetime


class Stage:
    """The cluster, and what was done to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.history = folder / "history"
        self.lab = Lab(folder / "servers")
        self.incidents: list[Incident] = []
        self.namesrvs = [
            self.lab.name_server(
                name, http=True, historyDir=self.history, supportActingMaster=True, scanNotActiveBrokerInterval=1000
            )
            for name in ("namesrv-1", "namesrv-2")
        ]
        addresses = [each.address for each in self.namesrvs]
        #: Who opens the console of the controller sees what happens while it does.
        peers = ";".join(f"namesrv=http://127.0.0.1:{each.http_port}" for each in self.namesrvs)
        settings = controller_settings(folder, addresses) | {"consolePeers": peers}
        self.controller = self.lab.kept(OurController(self.lab.folder, historyDir=self.history, **settings)).start()
        self.market = Market(self.lab, self.controller, addresses, self.history)
        self.cable = Cable(self.namesrvs[1].address)
        self.sets = {
            name: [
                self.lab.broker(
                    name,
                    namesrv=addresses,
                    label=f"{name}-{number}",
                    **(self.controller.broker_settings() | REPLICATED | BEATING),
                )
                for number in range(2)
            ]
            for name in ("orders", "payments")
        }
        self.alone = self.lab.broker("alone", namesrv=[addresses[0], self.cable.address], **BEATING)
        self.flappy = self.lab.broker("flappy", namesrv=addresses, **BEATING)
        self.busy = self.lab.broker("busy", namesrv=addresses, **BEATING)

    @property
    def brokers(self) -> list[Broker]:
        """Every broker that something happens to."""
        return [*self.sets["orders"], *self.sets["payments"], self.alone, self.flappy, self.busy]

    def close(self) -> None:
        """End everything; servers stop in order, and seal what they have recorded."""
        self.market.stop_sampler()
        if self.controller.process is not None and self.controller.process.running:
            self.controller.process.stop()
        self.lab.close()

    @contextmanager
    def incident(self, kind: str, broker: str) -> Iterator[None]:
        """Write down when something was done."""
        say(f"{kind}: {broker}")
        began = now()
        yield
        self.incidents.append(Incident(kind, broker, began, now()))

    def start(self, *brokers: Broker) -> None:
        """Start brokers together, and wait until both NameServers have them."""
        for broker in brokers:
            broker.start()
        for broker in brokers:
            broker.ready()
        self.wait_for_all(*brokers)

    def wait_for_all(self, *brokers: Broker) -> None:
        """Wait until both NameServers have these brokers."""
        for namesrv in self.namesrvs:
            wait_until(lambda its=namesrv: registered(its, *brokers), seconds=READY_S, what="registered brokers")

    def master_of(self, name: str) -> Broker:
        """Return who leads a set, once both of its brokers are in sync."""

        def settled() -> Broker | None:
            state = self.controller.set_state(name)
            if state is None or state.master is None or len(state.in_sync) != len(self.sets[name]):
                return None
            address = state.addresses[state.master]
            return next(each for each in self.sets[name] if each.address == address)

        return wait_until(settled, seconds=READY_S, what=f"a master and a whole SyncStateSet of {name}")

    def wait_for_another_master(self, name: str, than: Broker) -> None:
        """Wait until another broker leads a set."""

        def moved() -> bool:
            state = self.controller.set_state(name)
            return state is not None and state.master is not None and state.addresses[state.master] != than.address

        wait_until(moved, seconds=READY_S, what=f"another master of {name}")


def play(stage: Stage) -> None:
    """Do everything that happens."""
    say(f"to be watched at http://127.0.0.1:{stage.controller.http_port}/ui/")
    say("eight brokers start")
    stage.start(*stage.brokers, stage.market.broker)
    stage.market.begin()
    stage.market.resize(say)
    stage.market.grow_by_itself(say)
    killed = stage.master_of("orders")
    with stage.incident("killed", "orders"):
        killed.process.kill()
        stage.wait_for_another_master("orders", killed)
    stage.start(killed)

    frozen = stage.master_of("payments")
    with stage.incident("frozen", "payments"):
        frozen.process.pause()
        stage.wait_for_another_master("payments", frozen)
        time.sleep(FROZEN_S)
    frozen.process.resume()

    with stage.incident("cut", "alone"):
        stage.cable.pull()
        time.sleep(CUT_S)
    stage.cable.plug_in()
    stage.wait_for_all(stage.alone)

    with stage.incident("churned", "busy"):
        churn(stage.busy)

    for _ in range(FLAPS):
        with stage.incident("flapped", "flappy"):
            stage.flappy.process.kill()
            wait_until(
                lambda: not any(registered(each, stage.flappy) for each in stage.namesrvs),
                seconds=READY_S,
                what="flappy is gone",
            )
        stage.start(stage.flappy)
        # A life without a heartbeat would count for nothing.
        time.sleep(LIVES_S)

    stage.master_of("payments")
    with stage.incident("all restarted", "everybody"):
        for broker in stage.brokers:
            broker.process.kill()
        time.sleep(2)
        stage.start(*stage.brokers)
    stage.market.end(say)
    # The next tick proves that all of it was watched.
    time.sleep(12)


def churn(broker: Broker) -> None:
    """Change the queues of a topic again and again, as an automation gone wild does."""
    caller = Caller(broker.address)
    for number in range(CHURNS):
        queues = str(4 if number % 2 else 8)
        fields = {"topic": "churning", "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues}
        fields |= {"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
        caller.request(UPDATE_TOPIC, fields)
        time.sleep(0.3)


def analyse(stage: Stage) -> dict[str, Any]:
    """Ingest the history, run all analyses, write the report, and return the results by name."""
    say("rmq-analytics update")
    words = ["update", "--raw", "--history", str(stage.history), "--file", str(stage.folder / "report.html")]
    command = [sys.executable, "-m", "analytics", *words]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": str(REPOSITORY)})
    latest = stage.history / "results" / "latest"
    return {path.stem: json.loads(path.read_text()) for path in latest.glob("*.json")}


def main() -> int:
    """Play, analyse and compare; returns 1 if an incident was not found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("~/rocketmq-demo").expanduser())
    folder = parser.parse_args().folder / f"{now():%Y%m%dT%H%M%S}"
    folder.mkdir(parents=True)
    stage = Stage(folder)
    try:
        play(stage)
    finally:
        stage.close()
    from findings import findings  # noqa: PLC0415  # nothing of it is needed to play

    found = list(findings(stage.incidents, stage.market.resized, IN_VAIN, analyse(stage)))
    for each in found:
        say(("found    " if each.is_found else "NOT FOUND ") + each.sentence)
    say(f"the page for people who would rather look: {folder / 'report.html'}")
    return 0 if all(each.is_found for each in found) else 1


def now() -> datetime:
    """Return the time that incidents are stamped with."""
    return datetime.now(UTC)


def say(what: str) -> None:
    """Print how far it is."""
    print(f"{now():%H:%M:%S}  {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
