"""One real broker of one release with its NameServer, and what tests of scaling do there."""

import json
import re

import msgspec
from peers.jars import V4_9
from peers.servers import registered
from peers.waiting import wait_until
from peers.wire import SUCCESS, Caller

from sampling.object_keys import with_quoted_object_keys

UPDATE_TOPIC = 17
GET_ALL_TOPIC_CONFIG = 21
SET_REQUEST_MODE = 401


class ScalingSite:
    """Topics and groups have names of their own in each test; nothing is removed."""

    def __init__(self, lab, version):
        self.version = version
        self.is_4_9 = version == V4_9
        self.namesrv = lab.name_server()
        self.broker = lab.broker("broker-a", version=version, namesrv=[self.namesrv.address]).start()
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

    def pop(self, topic, group):
        """Let the group pop this topic instead of pulling it."""
        self.asked(
            SET_REQUEST_MODE, body={"topic": topic, "consumerGroup": group, "mode": "POP", "popShareQueueNum": -1}
        )

    def _shown(self, topic):
        route = self.namesrv.caller.route(topic)
        return route and (route["queueDatas"][0]["readQueueNums"], route["queueDatas"][0]["writeQueueNums"])


def decoded(body):
    """Return what a body in fastjson's dialect holds; keys that are objects or integers become strings."""
    return msgspec.json.decode(_with_quoted_integer_keys(with_quoted_object_keys(body)))


def _with_quoted_integer_keys(text):
    return re.sub(rb"([{,])(-?\d+):", rb'\1"\2":', text)
