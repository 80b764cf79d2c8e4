"""A master with groups, for `rmq group`: it stores what is committed, reset, created and deleted."""

import json

from fakes.answering_peer import NOTHING, refusal, success
from fakes.offset_broker import CLUSTER, OffsetBroker

from remoting.protocol.codes import BrokerRequestCode, RequestCode, ResponseCode
from remoting.protocol.command import RemotingCommand

#: When the message before an offset was stored.
STORED_MS = 1_700_000_000_000


def queue_key(broker, topic, queue):
    return f'{{"brokerName":"{broker}","queueId":{queue},"topic":"{topic}"}}'


class GroupBroker(OffsetBroker):
    """It is the NameServer as well."""

    def __init__(self, name="broker-a"):
        super().__init__(name)
        self.topics = {"orders": {0: (0, 100), 1: (10, 100)}}
        #: Group -> settings.
        self.groups = {"billing": {"groupName": "billing", "retryQueueNums": 1, "consumeEnable": True}}
        #: Client id -> queues of (topic, queue id) that it holds; None: it does not answer.
        self.holds = {}
        #: Topics of members that are online.
        self.subscribed = ["orders"]
        #: What a moment is in each queue (29).
        self.at_time = 60
        #: 222 as a broker before 5.1 takes it: (topic, timestamp).
        self.members_sent = []
        #: Topic -> its write queues, where they are not as many as those that are read.
        self.write_queue_nums = {}
        #: Topic -> its attributes.
        self.attributes = {}

    def __call__(self, code, fields):
        if code not in self.instead and code in _MORE:
            return _MORE[code](self, fields)
        return super().__call__(code, fields)

    def _route(self, fields):
        topic = fields["topic"]
        if topic not in self.topics:
            return refusal(ResponseCode.TOPIC_NOT_EXIST)
        queues = len(self.topics[topic])
        data = {
            "brokerName": self.name,
            "readQueueNums": queues,
            "writeQueueNums": self.write_queue_nums.get(topic, queues),
            "perm": 6,
            "topicSysFlag": 0,
        }
        brokers = [{"cluster": CLUSTER, "brokerName": self.name, "brokerAddrs": {"0": self.address}}]
        return success({"queueDatas": [data], "brokerDatas": brokers, "filterServerTable": {}})

    def update_topic(self, fields):
        queues = int(fields["readQueueNums"])
        known = self.topics.get(fields["topic"], {})
        self.topics[fields["topic"]] = {queue: known.get(queue, (0, 0)) for queue in range(queues)}
        self.write_queue_nums[fields["topic"]] = int(fields["writeQueueNums"])
        return success(b"")

    def _configured(self, fields):
        topic = fields["topic"]
        read = len(self.topics[topic])
        numbers = {"readQueueNums": read, "writeQueueNums": self.write_queue_nums.get(topic, read)}
        return success({"topicName": topic, "perm": 6, "attributes": self.attributes.get(topic, {})} | numbers)

    def _names(self, _):
        return success({"topicList": sorted(self.topics)})

    def _groups(self, _):
        return success({"subscriptionGroupTable": self.groups})

    def _progress(self, fields):
        group, only = fields["consumerGroup"], fields.get("topic")
        known = {key.partition("@")[0] for key in self.offsets if key.endswith(f"@{group}")}
        entries = [
            f"{queue_key(self.name, topic, queue)}:"
            + json.dumps(
                {
                    "brokerOffset": end,
                    "consumerOffset": self.offsets.get(f"{topic}@{group}", {}).get(queue, 0),
                    "lastTimestamp": STORED_MS,
                }
            )
            for topic in sorted({only} if only else known)
            for queue, (_, end) in self.topics.get(topic, {}).items()
            if queue < self.read_queue_nums.get(topic, queue + 1) and self._is_shown(group, topic)
        ]
        return success(f'{{"consumeTps":1.5,"offsetTable":{{{",".join(entries)}}}}}'.encode())

    def _is_shown(self, group, topic):
        # As a Java broker: what members that are online do not subscribe to is left out.
        return group not in self.online or topic in self.subscribed

    def _members(self, fields):
        model = self.online.get(fields["consumerGroup"])
        if model is None:
            return refusal(ResponseCode.CONSUMER_NOT_ONLINE)
        members = [
            {"clientId": each, "clientAddr": "10.0.0.9:1", "language": "JAVA", "version": 441} for each in self.holds
        ]
        subscription = {"subString": "paid || sent", "expressionType": "TAG"}
        body = {"connectionSet": members, "consumeType": "CONSUME_PASSIVELY", "messageModel": model}
        table = {topic: subscription | {"topic": topic} for topic in self.subscribed}
        return success(body | {"subscriptionTable": table})

    def _running(self, fields):
        queues = self.holds[fields["clientId"]]
        if queues is None:
            return NOTHING
        table = ",".join(f'{queue_key(self.name, topic, queue)}:{{"droped":false}}' for topic, queue in queues)
        return success(f'{{"mqTable":{{{table}}},"properties":{{}}}}'.encode())

    def _queue(self, fields):
        if int(fields["queueId"]) in self.topics.get(fields["topic"], {}):
            return RemotingCommand(0, remark="is not exist!")
        return refusal(ResponseCode.SYSTEM_ERROR)

    def _at(self, fields):
        return RemotingCommand(0, ext_fields={"offset": str(self.at_time)})

    def _reset_either(self, fields):
        if "queueId" in fields:
            return self._reset(fields)
        if fields["group"] not in self.online:
            return refusal(ResponseCode.CONSUMER_NOT_ONLINE)
        self.members_sent.append((fields["topic"], int(fields["timestamp"])))
        table = ",".join(
            f"{queue_key(self.name, fields['topic'], queue)}:{self.at_time}" for queue in self.topics[fields["topic"]]
        )
        return success(f'{{"offsetTable":{{{table}}}}}'.encode())

    def _delete_group(self, fields):
        self.groups.pop(fields["groupName"], None)
        if fields["cleanOffset"] == "true":
            self.offsets = {
                key: each for key, each in self.offsets.items() if not key.endswith(f"@{fields['groupName']}")
            }
        return success(b"")


_MORE = {
    RequestCode.WATCH_ROUTE_FETCHES: lambda _broker, _fields: refusal(ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
    BrokerRequestCode.GET_TIMER_METRICS: lambda _broker, _fields: success({"timingCount": {}}),
    BrokerRequestCode.GET_BROKER_HA_STATUS: lambda _broker, _fields: success({"master": True}),
    BrokerRequestCode.GET_ALL_DELAY_OFFSET: lambda _broker, _fields: success({"offsetTable": {}}),
    RequestCode.GET_KV_CONFIG: lambda _broker, _fields: refusal(ResponseCode.QUERY_NOT_FOUND),
    BrokerRequestCode.QUERY_TOPIC_CONSUME_BY_WHO: lambda _broker, _fields: success({"groupList": []}),
    BrokerRequestCode.UPDATE_AND_CREATE_TOPIC: lambda broker, fields: broker.update_topic(fields),
    BrokerRequestCode.GET_TOPIC_CONFIG: GroupBroker._configured,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: GroupBroker._route,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: GroupBroker._names,
    BrokerRequestCode.QUERY_CONSUME_QUEUE: GroupBroker._queue,
    BrokerRequestCode.SEARCH_OFFSET_BY_TIMESTAMP: GroupBroker._at,
    BrokerRequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: GroupBroker._groups,
    BrokerRequestCode.GET_CONSUME_STATS: GroupBroker._progress,
    BrokerRequestCode.GET_CONSUMER_CONNECTION_LIST: GroupBroker._members,
    BrokerRequestCode.GET_CONSUMER_RUNNING_INFO: GroupBroker._running,
    BrokerRequestCode.INVOKE_BROKER_TO_RESET_OFFSET: GroupBroker._reset_either,
    BrokerRequestCode.DELETE_SUBSCRIPTIONGROUP: GroupBroker._delete_group,
    BrokerRequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: lambda _broker, _fields: success(b""),
}
