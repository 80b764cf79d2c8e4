"""One real broker with its NameServer and clients of one release, where groups keep their offsets anywhere."""

import json
from collections import Counter

from peers.servers import registered
from peers.waiting import wait_until
from peers.wire import GET_MAX_OFFSET, SUCCESS, Caller

from remoting.clock import SystemClock

UPDATE_CONSUMER_OFFSET = 15
UPDATE_TOPIC = 17
UPDATE_BROKER_CONFIG = 25
GET_MIN_OFFSET = 31
UPDATE_GROUP = 200
SEND_MESSAGE = 310

UNIX = SystemClock()
BROKER = "broker-a"
SOON_S = 120


class OffsetSite:
    """Topics and groups have names of their own in each test; nothing is removed."""

    def __init__(self, lab, *, broker_version, **properties):
        self.lab = lab
        self.namesrv = lab.name_server()
        self.broker = lab.broker(BROKER, version=broker_version, namesrv=[self.namesrv.address], **properties).start()
        self.caller = Caller(self.broker.address)

    def ready(self):
        self.broker.ready()
        wait_until(lambda: registered(self.namesrv, self.broker), seconds=SOON_S, what="the broker is registered")
        return self

    def traffic(self, name, version):
        """Start a process for clients."""
        return self.lab.traffic(name, namesrv=[self.namesrv.address], version=version)

    def asked(self, code, fields=None, body=b""):
        """Send a request that the broker must answer with success, and return its fields."""
        answer = self.caller.request(code, fields, body)
        assert answer.code == SUCCESS, answer
        return answer.fields

    def make_topics(self, *topics, queues=1):
        for topic in topics:
            fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": str(queues), "perm": "6"}
            fields |= {"writeQueueNums": str(queues), "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0"}
            self.asked(UPDATE_TOPIC, fields | {"order": "false"})
        for topic in topics:
            wait_until(lambda: self.namesrv.caller.route(topic), seconds=SOON_S, what=f"{topic} is routed")  # noqa: B023

    def create_group(self, group):
        """From 5.3.0 on a broker takes offsets of groups alone that it has."""
        body = json.dumps({"groupName": group, "consumeBroadcastEnable": True})
        self.asked(UPDATE_GROUP, {}, body.encode())

    def send(self, topic, message, text=""):
        """Send a message to queue 0 as the clients of tests read it."""
        words = [BROKER, topic, "TBW102", "1", "0", "0", str(UNIX.unix_ms()), "0", "WAIT\x01true", "0"]
        self.asked(SEND_MESSAGE, dict(zip("abcdefghij", words, strict=True)), f"{message}\t-\t0{text}".encode())

    def min_offset(self, topic):
        return int(self.asked(GET_MIN_OFFSET, {"topic": topic, "queueId": "0"})["offset"])

    def max_offset(self, topic):
        return int(self.asked(GET_MAX_OFFSET, {"topic": topic, "queueId": "0"})["offset"])


def consumed(group, *traffics):
    """Return what a group has consumed, by any of these processes, in the order of time."""
    found = [each for traffic in traffics for each in traffic.read().consumed if each.group == group]
    return sorted(found, key=lambda each: each.unix_ms)


def offsets_by_queue(records):
    """Return by queue id how often each offset was consumed."""
    by_queue = {}
    for each in records:
        by_queue.setdefault(each.queue, Counter())[each.offset] += 1
    return by_queue
