"""Brokers and NameServers on loopback that hold a topic which is resized: its queues, offsets and groups."""

import json

from fakes.answering_peer import NOTHING, AnsweringPeer, refusal, success
from remoting.admin.client import AdminClient, AdminLimits
from remoting.client import RemotingClient, send_always
from remoting.clock import SystemClock
from remoting.protocol.codes import BrokerRequestCode, RequestCode, ResponseCode
from remoting.protocol.command import RemotingCommand

TOPIC = "TopicTest"
CLUSTER = "DefaultCluster"
GROUP = "g1"
BOOT_MS = 1_700_000_000_000
TIMEOUT_MS = 2000
#: For a request of which a test says that it is not answered.
SILENT_MS = 400


class ScaledBroker:
    """A broker of release 5.5.0 with one topic; a test changes what it knows, and how it answers a code."""

    def __init__(self, name="broker-a", queues=4, *, is_master=True, version="V5_5_0"):
        self.name = name
        self.is_master = is_master
        self.version = version
        self.boot_ms = BOOT_MS
        self.topic = {
            "topicName": TOPIC,
            "readQueueNums": queues,
            "writeQueueNums": queues,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": False,
            "attributes": {},
        }
        #: Queue -> first and next offset.
        self.ends = {}
        #: Delayed messages of levels that the state does not have, as nothing of them was delivered yet.
        self.undelivered = {}
        #: Group -> queue -> offset.
        self.offsets = {GROUP: {}}
        self.broadcast_offsets = {}
        self.configured = {GROUP, "CID_RMQ_SYS_TRANS", "TOOLS_CONSUMER"}
        #: Group -> type, model, client ids; and client id -> what it runs.
        self.connections = {}
        self.running = {}
        self.producers = {}
        #: Timed messages; None where the timer is off.
        self.timed = 0
        self.half = 0
        #: Half messages in RocksDB: first and next offset.
        self.rocksdb_half = (0, 0)
        self.options = {}
        self.log = (1000, 0)
        self.put_tps = 0.0
        self.levels = {}
        #: Code -> what it is answered with instead: a code, or None for nothing.
        self.instead = {}
        #: Code -> event that its answers wait for.
        self.held = {}
        #: What was written, in its order.
        self.written = []
        self.seen = []
        self.peer = AnsweringPeer(self)

    @property
    def address(self):
        return self.peer.address

    def __call__(self, code, fields):
        self.seen.append(code)
        if code in self.instead:
            instead = self.instead[code]
            return NOTHING if instead is None else refusal(instead)
        if code in self.held:
            return self._held(code, fields)
        return _ANSWERS[code](self, fields)

    async def _held(self, code, fields):
        await self.held[code].wait()
        return _ANSWERS[code](self, fields)

    def join(self, group, *clients, kind="CONSUME_PASSIVELY", model="CLUSTERING", topic=TOPIC):
        """Let members of a group be connected."""
        self.connections[group] = (kind, model, clients, topic)

    def run(self, client, queues, *, is_orderly=False, topic=TOPIC):
        """Let a client consume queues: queue -> offset, cached messages."""
        held = (
            f'{{"brokerName":"{self.name}","queueId":{queue},"topic":"{topic}"}}'
            f':{{"commitOffset":{offset},"cachedMsgCount":{cached},"droped":false}}'
            for queue, (offset, cached) in queues.items()
        )
        properties = json.dumps({"PROP_CONSUMEORDERLY": str(is_orderly).lower()})
        self.running[client] = f'{{"mqTable":{{{",".join(held)}}},"properties":{properties}}}'.encode()

    def _topic_config(self, fields):
        if self.topic is None or fields["topic"] != self.topic["topicName"]:
            return refusal(ResponseCode.TOPIC_NOT_EXIST)
        return success(self.topic)

    def _all_topics(self, _):
        return success({"topicConfigTable": {self.topic["topicName"]: self.topic} if self.topic else {}})

    def _update_topic(self, fields):
        self.written.append(("topic", dict(fields)))
        self.topic |= {
            "readQueueNums": int(fields["readQueueNums"]),
            "writeQueueNums": int(fields["writeQueueNums"]),
            "perm": int(fields["perm"]),
        }
        return success(b"")

    def _runtime(self, _):
        end, behind = self.log
        table = {
            "brokerVersionDesc": self.version,
            "bootTimestamp": str(self.boot_ms),
            "commitLogMaxOffset": str(end),
            "dispatchBehindBytes": str(behind),
            "putTps": f"{self.put_tps} {self.put_tps} {self.put_tps}",
        }
        table |= {f"scheduleMessageOffset_{level}": f"{at},{last}" for level, (at, last) in self.levels.items()}
        return success({"table": table})

    def _ha_status(self, _):
        return success({"master": self.is_master, "haClientRuntimeInfo": {"masterAddr": "127.0.0.1:1"}})

    def _max_offset(self, fields):
        if fields["topic"] == "RMQ_SYS_TRANS_HALF_TOPIC":
            return an_offset(self.half)
        return an_offset(self._ends_of(fields)[1])

    def _all_ends(self, fields):
        topic, ends = fields["topic"], self.ends
        if topic == "SCHEDULE_TOPIC_XXXX":
            written = {level: last for level, (_, last) in self.levels.items()} | self.undelivered
            ends = {level - 1: (0, last) for level, last in written.items()}
        elif self.topic is None or topic != self.topic["topicName"]:
            return refusal(ResponseCode.TOPIC_NOT_EXIST)
        rows = (
            f'{{"brokerName":"{self.name}","queueId":{queue},"topic":"{topic}"}}'
            f':{{"lastUpdateTimestamp":{BOOT_MS},"maxOffset":{last},"minOffset":{first}}}'
            for queue, (first, last) in ends.items()
        )
        return success(f'{{"offsetTable":{{{",".join(rows)}}}}}'.encode())

    def _min_offset(self, fields):
        return an_offset(self._ends_of(fields)[0])

    def _ends_of(self, fields):
        if fields["topic"] == "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC":
            return self.rocksdb_half
        return self.ends.get(int(fields["queueId"]), (0, 0))

    def _config(self, _):
        return success("".join(f"{name}={value}\n" for name, value in self.options.items()).encode())

    def _offset(self, fields):
        stored = self.offsets.get(fields["consumerGroup"], {}).get(int(fields["queueId"]))
        return refusal(ResponseCode.QUERY_NOT_FOUND) if stored is None else an_offset(stored)

    def _commit(self, fields):
        group = fields["consumerGroup"]
        if group not in self.configured and not self.version.startswith(("V4", "V5_1", "V5_2")):
            return refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        self.written.append(("offset", dict(fields)))
        self.offsets.setdefault(group, {})[int(fields["queueId"])] = int(fields["commitOffset"])
        return success(b"")

    def _all_offsets(self, _):
        table = {f"{TOPIC}@{group}": offsets for group, offsets in self.offsets.items() if offsets}
        table |= {f"{TOPIC}@{group}@broadcast": offsets for group, offsets in self.broadcast_offsets.items()}
        return success({"offsetTable": table})

    def _groups_of_topic(self, _):
        subscribed = {name for name, connection in self.connections.items() if connection[3] == TOPIC}
        return success({"groupList": sorted(subscribed | {name for name, each in self.offsets.items() if each})})

    def _connected(self, fields):
        if (found := self.connections.get(fields["consumerGroup"])) is None:
            return refusal(ResponseCode.CONSUMER_NOT_ONLINE)
        kind, model, clients, topic = found
        body = {"connectionSet": [{"clientId": each} for each in clients], "consumeType": kind, "messageModel": model}
        return success(body | {"subscriptionTable": {topic: {"topic": topic, "subString": "*"}}})

    def _runs(self, fields):
        body = self.running.get(fields["clientId"])
        return refusal(ResponseCode.CONSUME_MSG_TIMEOUT) if body is None else success(body)

    def _definitions(self, _):
        return success({"subscriptionGroupTable": {name: {"groupName": name} for name in self.configured}})

    def _producers(self, _):
        data = {
            group: [{"clientId": each, "remoteIP": each} for each in found] for group, found in self.producers.items()
        }
        return success({"data": data})

    def _timer(self, _):
        if self.timed is None:
            return refusal(ResponseCode.SYSTEM_ERROR, "The timer message store is null")
        return success({"timingCount": {TOPIC: {"count": self.timed}} if self.timed else {}})


#: What a broker answers, by request code.
_ANSWERS = {
    BrokerRequestCode.GET_TOPIC_CONFIG: ScaledBroker._topic_config,
    BrokerRequestCode.GET_ALL_TOPIC_CONFIG: ScaledBroker._all_topics,
    BrokerRequestCode.UPDATE_AND_CREATE_TOPIC: ScaledBroker._update_topic,
    BrokerRequestCode.GET_BROKER_RUNTIME_INFO: ScaledBroker._runtime,
    BrokerRequestCode.GET_BROKER_HA_STATUS: ScaledBroker._ha_status,
    BrokerRequestCode.GET_TOPIC_STATS_INFO: ScaledBroker._all_ends,
    BrokerRequestCode.GET_MAX_OFFSET: ScaledBroker._max_offset,
    BrokerRequestCode.GET_MIN_OFFSET: ScaledBroker._min_offset,
    BrokerRequestCode.QUERY_CONSUMER_OFFSET: ScaledBroker._offset,
    BrokerRequestCode.UPDATE_CONSUMER_OFFSET: ScaledBroker._commit,
    BrokerRequestCode.GET_ALL_CONSUMER_OFFSET: ScaledBroker._all_offsets,
    BrokerRequestCode.QUERY_TOPIC_CONSUME_BY_WHO: ScaledBroker._groups_of_topic,
    BrokerRequestCode.GET_CONSUMER_CONNECTION_LIST: ScaledBroker._connected,
    BrokerRequestCode.GET_CONSUMER_RUNNING_INFO: ScaledBroker._runs,
    BrokerRequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: ScaledBroker._definitions,
    BrokerRequestCode.GET_ALL_PRODUCER_INFO: ScaledBroker._producers,
    BrokerRequestCode.GET_TIMER_METRICS: ScaledBroker._timer,
    RequestCode.GET_BROKER_CONFIG: ScaledBroker._config,
}


class ScaledNameServer:
    """A NameServer whose routes are what the brokers have now."""

    def __init__(self, *brokers):
        self.brokers = brokers
        #: Broker name -> master that this NameServer names instead.
        self.masters = {}
        self.order_conf = {}
        self.sends_order_conf = False
        self.instead = {}
        #: Cluster -> sets of which it remembers that they were registered.
        self.away = {}
        #: Topics that it lists instead of those of the brokers.
        self.topics = None
        #: Answer to WATCH_ROUTE_FETCHES, None where it is a Java NameServer.
        self.watched = None
        self.peer = AnsweringPeer(self)

    @property
    def address(self):
        return self.peer.address

    def __call__(self, code, fields):
        if code in self.instead:
            instead = self.instead[code]
            return NOTHING if instead is None else refusal(instead)
        match code:
            case RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS:
                answer = success({"topicList": [CLUSTER, *(each.name for each in self.brokers)]})
            case RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER | RequestCode.GET_BROKER_CLUSTER_INFO:
                known = [each.topic["topicName"] for each in self.brokers if each.topic]
                sets = {each.name: self._member(each.name) for each in self.brokers}
                listed = {"topicList": known if self.topics is None else self.topics}
                gone = {"awaySinceUnixMs": 1, "wasUnregistered": False, "brokerAddrs": {}}
                away = [gone | {"cluster": at, "brokerName": each} for at, names in self.away.items() for each in names]
                listed |= {"awayBrokerSets": away}
                answer = success(listed | {"brokerAddrTable": sets, "clusterAddrTable": {CLUSTER: list(sets)}})
            case RequestCode.GET_ROUTEINFO_BY_TOPIC:
                answer = self._route(fields["topic"])
            case RequestCode.GET_KV_CONFIG | RequestCode.PUT_KV_CONFIG | RequestCode.DELETE_KV_CONFIG:
                answer = self._order_conf(code, fields)
            case RequestCode.WATCH_ROUTE_FETCHES if self.watched is not None:
                answer = success(self.watched)
            case _:
                answer = refusal(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        return answer

    def _order_conf(self, code, fields):
        key = fields["key"]
        if code == RequestCode.PUT_KV_CONFIG:
            self.order_conf[key] = fields["value"]
        elif code == RequestCode.DELETE_KV_CONFIG:
            self.order_conf.pop(key, None)
        elif key in self.order_conf:
            return RemotingCommand(0, ext_fields={"value": self.order_conf[key]})
        else:
            return refusal(ResponseCode.QUERY_NOT_FOUND)
        return success(b"")

    def _route(self, topic):
        having = [each for each in self.brokers if each.topic is not None and each.topic["topicName"] == topic]
        if not having:
            return refusal(ResponseCode.TOPIC_NOT_EXIST)
        names = sorted({each.name for each in having})
        queues = {each.name: each.topic for each in having if each.is_master}
        body = {
            "brokerDatas": [self._member(name) for name in names],
            "queueDatas": [
                {
                    "brokerName": name,
                    "readQueueNums": each["readQueueNums"],
                    "writeQueueNums": each["writeQueueNums"],
                    "perm": each["perm"],
                    "topicSysFlag": 0,
                }
                for name, each in queues.items()
            ],
            "filterServerTable": {},
        }
        if self.sends_order_conf and topic in self.order_conf:
            body["orderTopicConf"] = self.order_conf[topic]
        return success(body)

    def _member(self, name):
        return {"brokerName": name, "cluster": CLUSTER, "brokerAddrs": self._addresses(name)}

    def _addresses(self, name):
        members = [each for each in self.brokers if each.name == name]
        addresses = {}
        for broker_id, each in enumerate(sorted(members, key=lambda each: not each.is_master)):
            addresses[str(broker_id)] = each.address
        if name in self.masters:
            addresses["0"] = self.masters[name]
        return addresses


class SiteClient(RemotingClient):
    """Waits briefly for what a peer is told not to answer; other answers may take as long as a busy machine needs."""

    def __init__(self, *peers):
        super().__init__(SystemClock())
        self._told = peers

    async def invoke(self, address, request, timeout_ms, before_send=send_always):
        is_silent = any(each.address == address and each.instead.get(request.code, 0) is None for each in self._told)
        return await super().invoke(address, request, SILENT_MS if is_silent else timeout_ms, before_send)


class ScalingSite:
    """Peers that listen, and a client for them."""

    def __init__(self, brokers, name_servers):
        self.brokers = brokers
        self.name_servers = name_servers

    @property
    def addresses(self):
        return tuple(each.address for each in self.name_servers)

    async def __aenter__(self):
        for each in (*self.brokers, *self.name_servers):
            await each.peer.open()
        self.client = SiteClient(*self.brokers, *self.name_servers)
        self.admin = AdminClient(self.client, AdminLimits(timeout_ms=TIMEOUT_MS))
        return self

    async def __aexit__(self, *_):
        await self.client.close()
        for each in (*self.brokers, *self.name_servers):
            await each.peer.close()


def scaling_site(*brokers, name_servers=2):
    """Return a site of these brokers with NameServers that know all of them."""
    return ScalingSite(brokers, [ScaledNameServer(*brokers) for _ in range(name_servers)])


def an_offset(offset):
    return RemotingCommand(0, ext_fields={"offset": str(offset)})
