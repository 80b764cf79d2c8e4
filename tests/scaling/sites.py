"""One real broker of one release with its NameServer, and what tests of scaling do there."""

import json
import re

import msgspec
import pytest
from peers.jars import V4_9, V5_1, V5_5
from peers.servers import registered
from peers.waiting import wait_until
from peers.wire import GET_MAX_OFFSET, SUCCESS, SYSTEM_ERROR, Caller

from remoting.clock import SystemClock
from remoting.protocol.object_keys import with_quoted_keys

PULL = 11
QUERY_CONSUMER_OFFSET = 14
UPDATE_CONSUMER_OFFSET = 15
UPDATE_TOPIC = 17
GET_ALL_TOPIC_CONFIG = 21
GET_MIN_OFFSET = 31
GET_ALL_CONSUMER_OFFSET = 43
GET_ALL_GROUPS = 201
GET_TOPIC_STATS = 202
GET_CONSUMERS = 203
GET_RUNNING_INFO = 307
GET_CONSUMING_GROUPS = 300
SEND_MESSAGE = 310
GET_TOPIC_CONFIG = 351
GET_GROUP = 352
GET_ASSIGNMENT = 400
SET_REQUEST_MODE = 401
POP = 200_050
ACK = 200_051

NOT_SUPPORTED = 3
ILLEGAL_MESSAGE = 13
NOT_FOUND = 22
NO_SUCH_GROUP = 26
INVALID_PARAMETER = 29
NOT_ONLINE = 206

UNIX = SystemClock()

#: Tests are made for the newest and the oldest release; the one between is tried by `make soak`.
_BETWEEN = pytest.param(V5_1, marks=pytest.mark.soak)
EVERY_RELEASE = [V5_5, _BETWEEN, V4_9]
#: 4.9 has no pop.
WITH_POP = [V5_5, _BETWEEN]


class ScalingSite:
    """Topics and groups have names of their own in each test; nothing is removed."""

    def __init__(self, lab, version, **properties):
        self.version = version
        self.is_4_9 = version == V4_9
        #: The code for a queue id or a topic name that the broker refuses.
        self.illegal = INVALID_PARAMETER if version == V5_5 else SYSTEM_ERROR
        self.namesrv = lab.name_server(orderMessageEnable=True)
        self.broker = lab.broker("broker-a", version=version, namesrv=[self.namesrv.address], **properties).start()
        self.traffic = lab.traffic(namesrv=[self.namesrv.address], version=version)
        self.broker.ready()
        wait_until(lambda: registered(self.namesrv, self.broker), seconds=30, what="the broker is registered")
        self.close = lab.close
        self._caller = Caller(self.broker.address)

    def request(self, code, fields=None, body=None):
        """Send a request to the broker; numbers and booleans as Java spells them, `body` as JSON."""
        texts = fields and {
            key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in fields.items()
        }
        return self._caller.request(code, texts, b"" if body is None else json.dumps(body).encode())

    def asked(self, code, fields=None, body=None):
        """Send a request that the broker must answer with success, and return what its body holds."""
        answer = self.request(code, fields, body)
        assert answer.code == SUCCESS, answer
        return decoded(answer.body) if answer.body else answer.fields

    def set_queues(self, topic, *, read, write, **changes):
        """Make or replace a topic and wait until the NameServer shows it."""
        fields = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": read,
            "writeQueueNums": write,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": False,
        } | changes
        self.asked(UPDATE_TOPIC, fields)
        wait_until(lambda: self._shown(topic) == (read, write), seconds=15, what=f"{topic} is at the NameServer")

    def topic(self, topic):
        """Return how the broker has a topic stored."""
        return self.asked(GET_ALL_TOPIC_CONFIG)["topicConfigTable"][topic]

    def send(self, topic, queue, *, delay_level=0, text="text"):
        """Send a message to a queue, whether the route shows it or not, and return the broker's code."""
        words = ["direct", topic, "TBW102", 4, queue, 0, UNIX.unix_ms(), 0]
        words += [f"WAIT\x01true\x02DELAY\x01{delay_level}", 0, False]
        fields = dict(zip("abcdefghijk", words, strict=True))
        return self.request(SEND_MESSAGE, fields, text).code

    def pull(self, topic, queue):
        """Pull from the beginning of a queue with a subscription of its own, and return the broker's code."""
        fields = {"consumerGroup": "pulling", "topic": topic, "queueId": queue, "queueOffset": 0, "maxMsgNums": 8}
        fields |= {"sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0}
        return self.request(PULL, fields | {"expressionType": "TAG"}).code

    def pop_one(self, topic, group, queue, *, invisible_ms):
        """Pop one message of a queue and return what the broker wants to have back to acknowledge it."""
        fields = {"consumerGroup": group, "topic": topic, "queueId": queue, "maxMsgNums": 1, "order": False}
        fields |= {"invisibleTime": invisible_ms, "pollTime": 0, "initMode": 0, "expType": "TAG", "exp": "*"}

        def found():
            # A broker may answer a pop before it has unlocked the queue, and the next one gets nothing.
            answer = self.request(POP, fields | {"bornTime": UNIX.unix_ms()})
            return answer if answer.code == SUCCESS else None

        answer = wait_until(found, seconds=10, what=f"a message of queue {queue} is popped")
        got, offset = answer.fields, answer.fields["msgOffsetInfo"].split()[2]
        start = got["startOffsetInfo"].split()[2]
        times = f"{got['popTime']} {got['invisibleTime']} {got['reviveQid']}"
        extra = f"{start} {times} 0 {self.broker.name} {queue} {offset}"
        return {"consumerGroup": group, "topic": topic, "queueId": queue, "extraInfo": extra, "offset": offset}

    def commit(self, group, topic, queue, offset):
        """Store an offset and return the broker's code."""
        fields = {"consumerGroup": group, "topic": topic, "queueId": queue, "commitOffset": offset}
        return self.request(UPDATE_CONSUMER_OFFSET, fields).code

    def committed(self, group, topic, queue):
        """Return the answer to a query for an offset that does not settle for zero."""
        fields = {"consumerGroup": group, "topic": topic, "queueId": queue, "setZeroIfNotFound": False}
        return self.request(QUERY_CONSUMER_OFFSET, fields)

    def max_offset(self, topic, queue):
        return int(self.asked(GET_MAX_OFFSET, {"topic": topic, "queueId": queue})["offset"])

    def min_offset(self, topic, queue):
        return int(self.asked(GET_MIN_OFFSET, {"topic": topic, "queueId": queue})["offset"])

    def offsets(self, key):
        """Return the offsets that are stored under a key, TOPIC@GROUP, by queue id; empty if there are none."""
        return self.asked(GET_ALL_CONSUMER_OFFSET)["offsetTable"].get(key, {})

    def holds(self, group, client_id, topic, queue):
        """Return whether a consumer has this queue now."""
        held = self.running(group, client_id)["mqTable"]
        return any(f'"queueId":{queue},"topic":"{topic}"' in key for key in held)

    def running(self, group, client_id):
        """Return what a consumer reports about itself."""
        fields = {"consumerGroup": group, "clientId": client_id, "jstackEnable": False}
        return self.asked(GET_RUNNING_INFO, fields)

    def let_pop(self, topic, group):
        """Let the group pop this topic instead of pulling it."""
        self.asked(
            SET_REQUEST_MODE, body={"topic": topic, "consumerGroup": group, "mode": "POP", "popShareQueueNum": -1}
        )

    def _shown(self, topic):
        route = self.namesrv.caller.route(topic)
        return route and (route["queueDatas"][0]["readQueueNums"], route["queueDatas"][0]["writeQueueNums"])


def decoded(body):
    """Return what a body in fastjson's dialect holds; keys that are objects or integers become strings."""
    return msgspec.json.decode(_with_quoted_integer_keys(with_quoted_keys(body)))


def _with_quoted_integer_keys(text):
    return re.sub(rb"([{,])(-?\d+):", rb'\1"\2":', text)
