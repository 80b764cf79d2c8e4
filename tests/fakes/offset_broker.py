"""A master on loopback with queues and offsets, which restores and lags read and write; it is a NameServer as well."""

import asyncio
import json
import struct
import threading
from contextlib import asynccontextmanager, contextmanager

from fakes.answering_peer import NOTHING, AnsweringPeer, refusal, success
from remoting.protocol.codes import BrokerRequestCode, RequestCode, ResponseCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.shapes.broker_admin import RESET_PENDING

CLUSTER = "DefaultCluster"
BOOT_MS = 1_700_000_000_000
_MAGIC = -626843481
#: Bytes of a message, as far as places in the log show it.
SIZE = 100


def _message(topic, queue, offset, place, stored_ms):
    """Return a message as a broker stores it, with IPv4 addresses."""
    head = struct.pack(">iIiiqqiq", _MAGIC, 0, queue, 0, offset, place, 0, stored_ms)
    rest = (
        struct.pack(">8sq8siqi", b"", stored_ms, b"", 0, 0, 4)
        + b"text"
        + bytes([len(topic)])
        + topic.encode()
        + bytes(2)
    )
    return struct.pack(">i", 4 + len(head) + len(rest)) + head + rest


class OffsetBroker:
    """Answers as a broker from which no group can pop, unless its release says so; a test changes it at any time."""

    def __init__(self, name="broker-a", *, boot_ms=BOOT_MS):
        self.log_end = 1_000
        self.name, self.boot_ms, self.version = name, boot_ms, "V4_9_8"
        #: Options beside the reset on the server's side.
        self.options = ""
        #: Online groups whose members pop.
        self.popping = set()
        #: Topic -> queue id -> (min, max).
        self.topics = {}
        #: Topic -> its read queues, where it has more.
        self.read_queue_nums = {}
        #: "topic@group" -> queue id -> offset.
        self.offsets = {}
        #: When the messages of a queue were stored: (topic, queue id) -> offset -> Unix ms; others at `stored_ms`.
        self.stored = {}
        self.stored_ms = 0
        #: Groups with members that are online -> message model.
        self.online = {}
        #: What an online member does with a commit or reset: called with "commit" or "reset", key, queue, offset.
        self.then = lambda *_: None
        self.resets_on_server = True
        #: Resets that wait for the next pull: ("topic@group", queue id) -> offset. Commits are answered and not stored.
        self.pending = {}
        #: Code -> code that it is answered with instead, None for not at all.
        self.instead = {}
        self.written = []
        self.peer = AnsweringPeer(self)

    @property
    def address(self):
        return self.peer.address

    def __call__(self, code, fields):
        if code in self.instead:
            other = self.instead[code]
            return NOTHING if other is None else refusal(other)
        return _ANSWERS[code](self, fields)

    def _cluster(self, _):
        body = {
            "brokerAddrTable": {
                self.name: {"cluster": CLUSTER, "brokerName": self.name, "brokerAddrs": {"0": self.address}}
            },
            "clusterAddrTable": {CLUSTER: [self.name]},
        }
        return success(body)

    def restart(self, boot_ms):
        """Be another process, whose connections are new ones; for a broker in a thread."""
        self.boot_ms = boot_ms
        self.loop.call_soon_threadsafe(self.peer.drop_connections)

    def _runtime(self, _):
        table = {"bootTimestamp": str(self.boot_ms), "commitLogMaxOffset": str(self.log_end), "commitLogMinOffset": "0"}
        return success({"table": table | {"dispatchBehindBytes": "0", "brokerVersionDesc": self.version}})

    def _replication(self, _):
        if self.version.startswith("V4"):
            return refusal(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        return success({"master": True, "masterCommitLogMaxOffset": self.log_end})

    def _options(self, _):
        return success(f"useServerSideResetOffset={str(self.resets_on_server).lower()}\n{self.options}".encode())

    def _table(self, _):
        # As Java writes it: numbers are no strings.
        entries = (
            f"{json.dumps(key)}:{{{','.join(f'{queue}:{offset}' for queue, offset in queues.items())}}}"
            for key, queues in self.offsets.items()
        )
        return success(f'{{"offsetTable":{{{",".join(entries)}}}}}'.encode())

    def _ends(self, fields):
        topic = fields["topic"]
        if topic not in self.topics:
            return refusal(ResponseCode.TOPIC_NOT_EXIST)
        entries = ",".join(
            f'{{"brokerName":"{self.name}","queueId":{queue},"topic":"{topic}"}}:'
            f'{{"lastUpdateTimestamp":1,"maxOffset":{last},"minOffset":{first}}}'
            for queue, (first, last) in self.topics[topic].items()
            if queue < self.read_queue_nums.get(topic, queue + 1)
        )
        return success(f'{{"offsetTable":{{{entries}}}}}'.encode())

    def _definition(self, fields):
        queues = self.read_queue_nums.get(fields["topic"], len(self.topics[fields["topic"]]))
        return success({"topicName": fields["topic"], "readQueueNums": queues, "writeQueueNums": queues, "perm": 6})

    def _members(self, fields):
        model = self.online.get(fields["consumerGroup"])
        if model is None:
            return refusal(ResponseCode.CONSUMER_NOT_ONLINE)
        members = [{"clientId": "c1", "clientAddr": "10.0.0.9:1", "language": "JAVA", "version": 495}]
        return success(
            {
                "connectionSet": members,
                "consumeType": "CONSUME_PASSIVELY",
                "messageModel": model,
                "subscriptionTable": {},
            }
        )

    def _epochs(self, _):
        return refusal(ResponseCode.SYSTEM_ERROR, "the broker is not in controller mode")

    def _running(self, fields):
        held = f'{{{{"topic":"orders","brokerName":"{self.name}","queueId":0}}:{{}}}}'
        pops = fields["consumerGroup"] in self.popping
        tables = f'"mqTable":{"{}" if pops else held},"mqPopTable":{held if pops else "{}"}'
        return success(f'{{{tables},"properties":{{}},"subscriptionSet":[]}}'.encode())

    def _entry(self, fields):
        topic, queue, index = fields["topic"], int(fields["queueId"]), int(fields["index"])
        if queue not in self.topics[topic]:
            return refusal(ResponseCode.SYSTEM_ERROR)
        first, last = self.topics[topic][queue]
        if not first <= index < last:
            return RemotingCommand(0, remark="is not exist!")
        # The place shows the queue, so that a view finds the message.
        place = (sorted(self.topics).index(topic) * 1000 + queue) * 10**9 + index * SIZE
        return success({"minQueueIndex": first, "maxQueueIndex": last, "queueData": [{"physicOffset": place}]})

    def _view(self, fields):
        place = int(fields["offset"])
        number, at = divmod(place, 10**9)
        topic, queue = sorted(self.topics)[number // 1000], number % 1000
        stored = self.stored.get((topic, queue), {}).get(at // SIZE, self.stored_ms)
        return RemotingCommand(0, body=_message(topic, queue, at // SIZE, place, stored))

    def _min(self, fields):
        return self._limit(fields, 0)

    def _max(self, fields):
        return self._limit(fields, 1)

    def _limit(self, fields, which):
        ends = self.topics.get(fields["topic"], {}).get(int(fields["queueId"]), (-1, 0))
        return RemotingCommand(0, ext_fields={"offset": str(ends[which])})

    def _committed(self, fields):
        key, queue = f"{fields['topic']}@{fields['consumerGroup']}", int(fields["queueId"])
        offset = self.pending.get((key, queue), self.offsets.get(key, {}).get(queue))
        if offset is None:
            return refusal(ResponseCode.QUERY_NOT_FOUND)
        return RemotingCommand(0, ext_fields={"offset": str(offset)})

    def _commit(self, fields):
        if (f"{fields['topic']}@{fields['consumerGroup']}", int(fields["queueId"])) in self.pending:
            return RemotingCommand(0, remark=RESET_PENDING)
        self._store("commit", fields["consumerGroup"], fields, int(fields["commitOffset"]))
        return success(b"")

    def _reset(self, fields):
        place = f"{fields['topic']}@{fields['group']}", int(fields["queueId"])
        if place in self.pending:
            self.pending[place] = int(fields["offset"])
        self._store("reset", fields["group"], fields, int(fields["offset"]))
        return success(b"")

    def _store(self, how, group, fields, offset):
        key, queue = f"{fields['topic']}@{group}", int(fields["queueId"])
        self.written.append((how, key, queue, offset))
        self.offsets.setdefault(key, {})[queue] = offset
        self.then(how, key, queue, offset)


_ANSWERS = {
    RequestCode.GET_BROKER_CLUSTER_INFO: OffsetBroker._cluster,
    RequestCode.GET_BROKER_CONFIG: OffsetBroker._options,
    RequestCode.GET_BROKER_EPOCH_CACHE: OffsetBroker._epochs,
    BrokerRequestCode.GET_BROKER_RUNTIME_INFO: OffsetBroker._runtime,
    BrokerRequestCode.GET_BROKER_HA_STATUS: OffsetBroker._replication,
    BrokerRequestCode.GET_ALL_CONSUMER_OFFSET: OffsetBroker._table,
    BrokerRequestCode.GET_TOPIC_STATS_INFO: OffsetBroker._ends,
    BrokerRequestCode.GET_TOPIC_CONFIG: OffsetBroker._definition,
    BrokerRequestCode.GET_CONSUMER_CONNECTION_LIST: OffsetBroker._members,
    BrokerRequestCode.GET_CONSUMER_RUNNING_INFO: OffsetBroker._running,
    BrokerRequestCode.QUERY_CONSUME_QUEUE: OffsetBroker._entry,
    BrokerRequestCode.VIEW_MESSAGE_BY_ID: OffsetBroker._view,
    BrokerRequestCode.GET_MIN_OFFSET: OffsetBroker._min,
    BrokerRequestCode.GET_MAX_OFFSET: OffsetBroker._max,
    BrokerRequestCode.QUERY_CONSUMER_OFFSET: OffsetBroker._committed,
    BrokerRequestCode.UPDATE_CONSUMER_OFFSET: OffsetBroker._commit,
    BrokerRequestCode.INVOKE_BROKER_TO_RESET_OFFSET: OffsetBroker._reset,
}


@asynccontextmanager
async def offset_brokers(*brokers):
    """Let brokers listen in this event loop."""
    try:
        for each in brokers:
            await each.peer.open()
        yield brokers
    finally:
        for each in brokers:
            await each.peer.close()


@contextmanager
def offset_brokers_in_thread(*brokers):
    """Let brokers listen in a thread, for tests that start processes."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(work):
        asyncio.run_coroutine_threadsafe(work, loop).result(20)

    try:
        for each in brokers:
            each.loop = loop
            run(each.peer.open())
        yield brokers
    finally:
        for each in brokers:
            run(each.peer.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()
