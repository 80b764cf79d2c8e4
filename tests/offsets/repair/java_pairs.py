"""Two real brokers under a controller whose master is killed, and what brokers show."""

import asyncio

from peers.controllers import OurController
from peers.waiting import wait_until

from remoting.admin import offsets
from remoting.admin.client import AdminClient, AdminLimits
from remoting.admin.log_epochs import log_epochs
from remoting.admin.offset_table import GroupTopicName, offsets_of_groups
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from remoting.protocol.errors import InvokeError, Refused

SOON_S = 120
#: Brokers answer late on a machine that others use as well.
TIMEOUT_MS = 60_000


def ask(address, wanted):
    """Request something of a broker, over a connection of its own."""

    async def call():
        client = RemotingClient(SystemClock())
        try:
            return await AdminClient(client, AdminLimits(timeout_ms=TIMEOUT_MS)).call(address, wanted)
        finally:
            await client.close()

    return asyncio.run(call())


def committed(broker, group, topic):
    """Return the offset of a group that a broker has; None if it has none."""
    return ask(broker.address, offsets_of_groups([group])).get(GroupTopicName(group, topic), {}).get(0)


def end_of(broker, topic):
    return ask(broker.address, offsets.max_offset(topic, 0))


class Pair:
    """The topic has the name of the set, and one queue."""

    def __init__(self, lab, version, **properties):
        self.lab, self.topic, self.version = lab, "pair", version
        self.controller = lab.kept(OurController(lab.folder, enableElectUncleanMaster=True)).start()
        wait_until(self.controller.serves, seconds=SOON_S, what="the controller serves")
        self.namesrv = lab.name_server()
        settings = self.controller.broker_settings() | {"version": version, "namesrv": [self.namesrv.address]}
        self._brokers = [lab.broker(self.topic, label=f"pair-n{n}", **(settings | properties)) for n in range(2)]
        for broker in self._brokers:
            broker.start()
        for broker in self._brokers:
            broker.ready()
        self.first = self._wait_for(lambda state: state.master is not None and len(state.in_sync) == 2, "both in sync")
        self.master = next(b for b in self._brokers if b.address == self.first.addresses[self.first.master])
        self.slave = next(broker for broker in self._brokers if broker is not self.master)

    def clients(self, **options):
        return {"namesrv": [self.namesrv.address], "topic": self.topic, "version": self.version} | options

    def freeze_slave(self):
        """Pause the slave until the controller has taken it out of the SyncStateSet."""
        self.slave.process.pause()
        self._wait_for(lambda state: len(state.in_sync) == 1, "the slave is out of sync")

    def kill_master(self):
        """Kill the master, and wait until the slave serves in its place."""
        self.master.process.kill()
        self.slave.process.resume()
        self._wait_for(lambda state: state.master not in (None, self.first.master), "a new master")
        wait_until(self._serves, seconds=SOON_S, what="the new master serves")

    def _wait_for(self, condition, what):
        def found():
            state = self.controller.set_state(self.topic)
            return state if state is not None and condition(state) else None

        return wait_until(found, seconds=SOON_S, what=what)

    def _serves(self):
        try:
            return ask(self.slave.address, log_epochs()).broker_id == 0
        except (InvokeError, Refused):
            return False
