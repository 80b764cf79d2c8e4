"""A broker of 5.5.0 and an offset manager, at which orderly Java consumers lock their queues and keep their offsets."""

import itertools
import json

from peers.delivery import verdict
from peers.jars import V5_5
from peers.offset_managers import OffsetManager
from peers.servers import registered
from peers.waiting import wait_until
from peers.wire import GET_MAX_OFFSET, SUCCESS, Caller

from remoting.clock import SystemClock

UPDATE_TOPIC = 17
LOCK_BATCH_MQ = 41
BROKER = "broker-a"
QUEUES = 2
KEYS = 8
SOON_S = 180
CLOCK = SystemClock()

_serial = itertools.count()


class ApiLockSite:
    """Topics and groups have names of their own in each test; consumers run in processes that may be paused."""

    def __init__(self, lab, **manager_options):
        self._lab = lab
        self.namesrv = lab.name_server()
        self.broker = lab.broker(BROKER, version=V5_5, namesrv=[self.namesrv.address]).start()
        self.manager = lab.kept(OffsetManager(lab.folder, **manager_options)).launch()
        self.caller = Caller(self.broker.address)
        self.producers = self.process("producers")
        self.broker.ready()
        self.manager.ready().leading(seconds=SOON_S)
        wait_until(lambda: registered(self.namesrv, self.broker), seconds=SOON_S, what="the broker is registered")

    def process(self, name):
        """Start a process for clients."""
        return self._lab.traffic(name, namesrv=[self.namesrv.address], version=V5_5)

    def new_group(self):
        """Return the name of a new topic, and of a group that is declared orderly."""
        group = f"Locked{next(_serial)}"
        fields = {"topic": group, "defaultTopic": "TBW102", "readQueueNums": str(QUEUES), "perm": "6", "order": "false"}
        fields |= {"writeQueueNums": str(QUEUES), "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0"}
        assert self.caller.request(UPDATE_TOPIC, fields).code == SUCCESS
        wait_until(lambda: self.namesrv.caller.route(group), seconds=SOON_S, what=f"{group} is routed")
        assert self.manager.post("/v1/locks/declare-orderly", {"writer": "alice", "group": group}).status == 200
        return group

    def send(self, group, **options):
        """Start a producer of keyed messages."""
        self.producers.send(f"to-{group}", topic=group, keys=KEYS, **options)

    def receive(self, process, name, group, *, ttl_ms, **options):
        """Start an orderly consumer with locks of the manager, and return its client id."""
        options = {"from_": "FIRST_OFFSET", "persist_ms": 500} | options
        options |= {"offset_managers": self.manager.address, "lock_ttl_ms": ttl_ms}
        return process.receive(name, topic=group, group=group, kind="orderly", **options)

    def consumed(self, group, *processes):
        """Return what a group has consumed, in the order of time."""
        found = [each for process in processes for each in process.read().consumed if each.group == group]
        return sorted(found, key=lambda each: each.unix_ms)

    def wait_for_consumed(self, group, process, *, after_unix_ms=0, queues=range(QUEUES)):
        """Wait until a process has consumed some messages of each queue after a moment."""

        def are_consumed():
            found = [each.queue for each in self.consumed(group, process) if each.unix_ms > after_unix_ms]
            return all(found.count(queue) >= KEYS for queue in queues)

        wait_until(are_consumed, seconds=SOON_S, what=f"{process.process.name} consumes queues {list(queues)}")

    def finish(self, group, *processes):
        """End the producer, wait until all is consumed and committed, and return the verdict of the group."""
        self.producers.stop(f"to-{group}")

        def judged():
            sent = [each for each in self.producers.read().acknowledged if each.producer == f"to-{group}"]
            return verdict(sent, self.consumed(group, *processes), [group])[group]

        wait_until(lambda: not judged().missing, seconds=SOON_S, what="all is consumed")
        ends = {queue: self.end(group, queue) for queue in range(QUEUES)}
        wait_until(lambda: self.offsets(group) == ends, seconds=SOON_S, what="all is committed")
        return judged()

    def end(self, topic, queue):
        return int(self.caller.request(GET_MAX_OFFSET, {"topic": topic, "queueId": str(queue)}).fields["offset"])

    def rows(self, group):
        """Return by queue id what the manager has stored of the topic."""
        listed = self.manager.get(f"/v1/offsets?group={group}&topic={group}&limit=1000").body["offsets"]
        return {each["queueId"]: each["stored"] for each in listed}

    def offsets(self, group):
        return {queue: row["offset"] for queue, row in self.rows(group).items()}

    def locks(self, group):
        """Return by queue id the locks of the topic."""
        listed = self.manager.get(f"/v1/locks?group={group}&limit=1000").body["locks"]
        return {each["queueId"]: each for each in listed if each["topic"] == group and each["clientId"]}

    def free_at_broker(self, group):
        """Return the queues of the topic that the broker grants to a client that nobody knows."""
        queues = [{"topic": group, "brokerName": BROKER, "queueId": queue} for queue in range(QUEUES)]
        body = json.dumps({"consumerGroup": group, "clientId": "nobody", "mqSet": queues}).encode()
        answer = self.caller.request(LOCK_BATCH_MQ, {}, body)
        assert answer.code == SUCCESS, answer
        return {each["queueId"] for each in json.loads(answer.body)["lockOKMQSet"]}
