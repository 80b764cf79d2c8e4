"""A broker set of two with a controller of either kind, and its producers: what failovers happen to."""

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from servers import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tests" / "acceptance"))

from peers.clients import Load
from peers.controllers import Controller, JavaController, OurController
from peers.jars import V5_5
from peers.lab import Lab
from peers.servers import Broker
from peers.waiting import wait_until
from replicated import VERY_LONG_S, ReplicatedSet

#: How long what was acknowledged is looked for.
SCAN_S = 120
#: A send to a broker that stands still ends by its timeout, and gaps come in multiples of it.
SHORT_TIMEOUT_MS, DEFAULT_TIMEOUT_MS = 500, 3_000


class Versions(NamedTuple):
    """What a broker set wants to know of a run."""

    broker_version: str = V5_5


@dataclass
class Subject:
    """A broker set with its controller."""

    name: str
    folder: Path
    lab: Lab = field(init=False)
    controller: Controller = field(init=False)
    brokers: ReplicatedSet = field(init=False)
    loads: list[Load] = field(default_factory=list)
    #: In how many runs the set did not come back within its time; each began anew with empty disks.
    failed: list[str] = field(default_factory=list)

    def begin_anew(self, why: str) -> None:
        """Leave a set that does not come back, with its messages, and start another one."""
        print(f"  {self.name} does not come back: {why}", file=sys.stderr, flush=True)
        self.failed.append(why)
        self.lab.close()
        self.loads.clear()
        self.folder = self.folder.with_name(f"{self.name}-{len(self.failed)}")
        self.start()

    def start(self) -> "Subject":
        """Start everything, and wait until the set is complete."""
        self.lab = Lab(self.folder)
        make = OurController if self.name == "ours" else JavaController
        self.controller = self.lab.kept(make(self.folder, f"{self.name}-controller")).start()
        wait_until(self.controller.serves, seconds=VERY_LONG_S, what=f"{self.name} serves")
        namesrv = self.lab.name_server(f"{self.name}-namesrv")
        self.brokers = ReplicatedSet(
            self.lab,
            Versions(),
            name=f"set-{self.name}",
            namesrv=namesrv,
            controllers=[self.controller],
            count=2,
        )
        self.brokers.start().wait_until_complete()
        return self

    def load(self, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> Load:
        """Start a producer that is looked after until the end."""
        load = self.brokers.load(**{"timeout-ms": timeout_ms})
        self.loads.append(load)
        return load

    def lost(self) -> tuple[int, int]:
        """Return how many messages of all producers cannot be read, and how many were acknowledged.

        Consumers may read up to what both brokers have, which follows after a moment.
        """
        acknowledged = {each.key for load in self.loads for each in load.acknowledged()}
        topic = {"namesrv": [self.brokers.namesrv.address], "topic": self.brokers.topic}
        scan = self.lab.scan("scan", **topic)
        missing, end = acknowledged, time.monotonic() + SCAN_S
        while missing and time.monotonic() < end:
            missing = acknowledged - set(scan.keys(seconds=SCAN_S) or ())
        scan.process.kill()
        for key in sorted(missing)[:10]:
            print(f"  {self.name} lost {key}", file=sys.stderr, flush=True)
        return len(missing), len(acknowledged)


class Moment(NamedTuple):
    """When it happened, and to whom."""

    unix_ms: int
    victim: Broker
    namesrv_log: int
