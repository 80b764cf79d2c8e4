"""Real brokers, alone or two under a controller, what is done at them, and what a manager shows of them."""

import asyncio
import re

from peers.controllers import OurController
from peers.offset_managers import OffsetManager
from peers.servers import registered
from peers.waiting import wait_until

from remoting.admin import offsets
from remoting.admin.client import AdminClient, AdminLimits
from remoting.admin.groups import configured_groups, create_group
from remoting.admin.log_epochs import log_epochs
from remoting.admin.messages import send_message
from remoting.admin.offset_table import GroupTopicName, offsets_of_groups
from remoting.admin.topics import TopicDefinition, topic_definition, update_topic
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from remoting.protocol.codes import ResponseCode
from remoting.protocol.errors import InvokeError, Refused
from remoting.protocol.shapes.broker_clients import NewSubscriptionGroup

SOON_S = 120
#: Brokers answer late on a machine that others use as well.
TIMEOUT_MS = 60_000
CLOCK = SystemClock()
#: A producer that waits little, and a consumer that asks for routes often.
FAST = {"interval-ms": 4, "poll-ms": 200}


def ask(address, wanted):
    """Request something of a broker, over a connection of its own, until it is not too busy."""
    while True:
        try:
            return _asked(address, wanted)
        except Refused as refused:
            if refused.code != ResponseCode.SYSTEM_BUSY:
                raise


def _asked(address, wanted):

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


def commit(broker, group, topic, offset):
    """Commit as tools do that talk to the broker (15)."""
    assert ask(broker.address, offsets.commit_offset(group, topic, 0, offset)) is offsets.OffsetCommit.STORED


def make_group(broker, *groups):
    """From 5.3.0 on a broker takes offsets of groups alone that it has."""
    for group in groups:
        ask(broker.address, create_group(NewSubscriptionGroup(group_name=group)))


def send(broker, topic, count):
    for number in range(count):
        message = send_message(topic, broker.name, b"%d" % number, producer_group="p", unix_ms=CLOCK.unix_ms())
        ask(broker.address, message)


def make_topic(broker, topic, messages):
    """Create a topic with one queue that has so many messages."""
    ask(broker.address, update_topic(TopicDefinition(topic=topic, read_queue_nums=1, write_queue_nums=1, perm=6)))
    send(broker, topic, messages)


def has_copied(broker, *groups, **topics):
    """Wait until a slave has these groups, and so many messages in these topics."""
    wait_until(lambda: set(groups) <= ask(broker.address, configured_groups()), seconds=SOON_S, what="the groups")
    for topic, count in topics.items():
        wait_until(
            lambda topic=topic, count=count: (
                ask(broker.address, topic_definition(topic)) and end_of(broker, topic) == count
            ),
            seconds=SOON_S,
            what=f"{topic} with its messages",
        )


def online(lab, broker, group, **clients):
    """Start a member that pulls from a topic of its own: in all other topics nobody moves the offsets of its group."""
    make_topic(broker, f"only-{group}", messages=1)
    member = lab.consumer(f"member-{group}", group=group, **clients | {"topic": f"only-{group}", "poll-ms": 200})
    wait_until(lambda: committed(broker, group, f"only-{group}"), seconds=SOON_S, what="the member has read")
    return member.ready()


def received(consumer):
    """Return how many messages a consumer got, each as often as it came."""
    return len(re.findall(r"^GOT ", consumer.process.text(), re.MULTILINE))


def lone_broker(lab, namesrv, version, name="alone", **properties):
    """Start a broker that a NameServer shows."""
    broker = lab.broker(name, namesrv=[namesrv.address], version=version, **properties).start().ready()
    wait_until(lambda: registered(namesrv, broker), seconds=SOON_S, what="the broker is registered")
    return broker


# A manager, and what it shows


def manager_of(lab, **options):
    return lab.kept(OffsetManager(lab.folder, **options)).start()


def read_again(manager, times=2):
    """Wait for so many readings of each set; the first of them may have begun before. Return when the last one was."""
    return [_read_once(manager) for _ in range(times)][-1]


def _read_once(manager):
    before = _read_at(manager)
    wait_until(lambda: (now := _read_at(manager)) and now > before, seconds=SOON_S, what="a reading")
    return max(_read_at(manager))


def _read_at(manager):
    return [row["readUnixMs"] for row in manager.get("/v1/offsets/sets").body["sets"] if row["readUnixMs"]]


def newest_run(manager, count=1):
    """Return the newest repair, once there are so many, and its queues by group and topic but those right already."""

    def found():
        runs = manager.get("/v1/offsets/repairs").body["runs"]
        return runs if len(runs) >= count else None

    run = wait_until(found, seconds=SOON_S, what="a repair")[0]
    queues = manager.get(f"/v1/offsets/repairs/{run['run']}?limit=1000").body["queues"]
    return run, {(queue["group"], queue["topic"]): queue for queue in queues}


def jumps(manager, **wanted):
    """Return causes and offsets of the jumps of a group, the newest first."""
    query = "&".join(f"{name}={value}" for name, value in wanted.items())
    found = manager.get(f"/v1/offsets/jumps?{query}").body["jumps"]
    return [(jump["cause"], *queue[1:]) for jump in found for queue in jump["queues"]]


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

    def manager(self, **options):
        """Start a manager that follows the controller and repairs."""
        address = f"127.0.0.1:{self.controller.http_port}"
        return manager_of(self.lab, controller_http_addr=address, **{"repair": "act"} | options)

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

    def exchange_roles(self):
        """Start the killed one again as slave of the new master, and wait until it is in sync."""
        self.master, self.slave = self.slave, self.master
        self.slave.start().ready()
        self.first = self._wait_for(lambda state: state.master is not None and len(state.in_sync) == 2, "both in sync")

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
