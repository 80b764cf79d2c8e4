"""Brokers of one set as a repair sees them: a log that slaves copy, queues in it, offsets, resets that wait.

A broker answers the requests of the product in the bytes of the protocol. Its log is a list of messages with places;
copying a log copies messages, so a message knows itself again anywhere by its number.

Kinder than Java's: messages are in their queues at once, files of the log do not end, no two brokers differ in release.
"""

import json
import struct
import zlib
from bisect import bisect_left
from typing import NamedTuple

from remoting.protocol.codes import BrokerRequestCode, RequestCode, ResponseCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.shapes.broker_admin import RESET_PENDING

SET, CLUSTER = "broker-a", "c"


class Message(NamedTuple):
    uid: int
    topic: str
    queue_id: int
    queue_offset: int
    length: int
    store_ms: int


class Entry(NamedTuple):
    """An offset, and after how many rewinds that somebody wanted it was committed."""

    offset: int
    moves: int


class Log:
    """Messages with their places."""

    def __init__(self, messages=(), places=()):
        self.messages, self.places = list(messages), list(places)
        self.begin = 0

    @property
    def end(self):
        return self.places[-1] + self.messages[-1].length if self.places else 0

    def append(self, message, place):
        self.messages.append(message)
        self.places.append(place)

    def copy(self):
        copied = Log(self.messages, self.places)
        copied.begin = self.begin
        return copied

    def cut(self, end):
        count = bisect_left(self.places, end)
        while count and self.places[count - 1] + self.messages[count - 1].length > end:
            count -= 1
        del self.messages[count:], self.places[count:]

    def at(self, place):
        number = bisect_left(self.places, place)
        if number < len(self.places) and self.places[number] == place and place >= self.begin:
            return self.messages[number]
        return None


class Broker:
    """One broker; the world decides what happens to it."""

    def __init__(self, world, number):
        self.world, self.number = world, number
        self.address = f"10.0.0.{number}:10911"
        self.log = Log()
        self.epochs = []
        #: (group, topic) -> queue id -> Entry.
        self.offsets = {}
        #: (group, topic, queue id) -> rewinds that somebody wanted, those too that left no offset.
        self.moves = {}
        self.pending = {}
        self.is_alive = True
        self.boot_ms = 0
        #: It copies neither log nor offsets.
        self.is_frozen = False
        #: (topic, queue id) -> places by offset.
        self.queues = {}
        self.name = SET

    def boot(self):
        self.boot_ms = self.world.clock.unix_ms()
        self.is_alive = True
        self.pending = {}

    # Its log

    def store(self, topic, queue_id, uid):
        """Take a message as master."""
        queue = self.queues.setdefault((topic, queue_id), [])
        length = 128 if self.world.has_equal_lengths else 110 + uid % 40
        message = Message(uid, topic, queue_id, len(queue), length, self.world.clock.unix_ms())
        self._put(message, self.log.end)
        return message

    def _put(self, message, place):
        self.log.append(message, place)
        queue = self.queues.setdefault((message.topic, message.queue_id), [])
        if message.queue_offset == 0 and queue and self.world.slaves_clear_queues:
            # The topic was made anew.
            queue.clear()
        if message.queue_offset == len(queue):
            queue.append((place, message.uid))

    def replicate(self, master, count):
        """Copy messages of the master, as a slave whose log is a part of that one's."""
        start = self.log.end
        number = bisect_left(master.log.places, start)
        if not master.log.places or number >= len(master.log.places) or master.log.places[number] != start:
            return
        copied = slice(number, number + count)
        for place, message in zip(master.log.places[copied], master.log.messages[copied], strict=True):
            self._put(message, place)
        self.epochs = [epoch for epoch in master.epochs if epoch[1] <= self.log.end]

    def cut_log(self, end):
        self.log.cut(end)
        self.rebuild()
        self.epochs = [epoch for epoch in self.epochs if epoch[1] <= self.log.end]

    def rebuild(self):
        """Make the queues of the log, as after a start."""
        log, self.queues = self.log, {}
        self.log = Log()
        self.log.begin = log.begin
        for place, message in zip(log.places, log.messages, strict=True):
            self._put(message, place)

    def ends(self, topic, queue_id):
        queue = self.queues.get((topic, queue_id), [])
        return bisect_left(queue, (self.log.begin, 0)), len(queue)

    def remake(self, topic):
        """Delete a topic and make it again."""
        self.world.deleted |= {message.uid for message in self.log.messages if message.topic == topic}
        for key in [key for key in self.queues if key[0] == topic]:
            del self.queues[key]
        if self.world.remaking_deletes_offsets:
            for group, name in [key for key in self.offsets if key[1] == topic]:
                self.drop_offsets(group, name)

    # Its offsets

    def offset(self, group, topic, queue_id):
        entry = self.offsets.get((group, topic), {}).get(queue_id)
        return None if entry is None else entry.offset

    def put_offset(self, group, topic, queue_id, offset, moves):
        self.offsets.setdefault((group, topic), {})[queue_id] = Entry(offset, moves)
        self.moves[group, topic, queue_id] = moves

    def drop_offsets(self, group, topic):
        for queue_id in self.offsets.pop((group, topic), {}):
            self.moves[group, topic, queue_id] = self.world.moved(group, topic, queue_id, set())

    def copy_offsets(self, master):
        for (group, topic), queues in master.offsets.items():
            for queue_id, entry in queues.items():
                self.put_offset(group, topic, queue_id, *entry)

    # What it answers

    def answer(self, request, writer):
        """Return the answer to a request; `writer` is told of each write before it happens."""
        found = _ANSWERS[request.code](self, request.ext_fields or {}, writer)
        return (
            found
            if isinstance(found, RemotingCommand)
            else RemotingCommand(0, body=json.dumps(found, separators=(",", ":")).encode())
        )

    def _options(self, *_):
        world = self.world
        lines = {
            "brokerName": self.name,
            "useServerSideResetOffset": str(world.resets_on_server).lower(),
            "popConsumerKVServiceEnable": str(world.pops_in_kv).lower(),
        }
        return RemotingCommand(0, body="\n".join(f"{name}={value}" for name, value in lines.items()).encode())

    def _runtime(self, *_):
        table = {
            "bootTimestamp": self.boot_ms,
            "commitLogMinOffset": self.log.begin,
            "commitLogMaxOffset": self.log.end,
            "dispatchBehindBytes": 0,
            "brokerVersionDesc": "V5_5_0" if self.world.can_pop else "V4_9_7",
        }
        return {"table": {name: str(value) for name, value in table.items()}}

    def _replication(self, *_):
        if not self.world.can_pop:
            return RemotingCommand(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark="4.9")
        return {"master": self.world.master is self, "masterCommitLogMaxOffset": self.log.end}

    def _epochs(self, *_):
        if not self.world.has_epochs:
            return RemotingCommand(ResponseCode.SYSTEM_ERROR, remark="no controller mode")
        epochs = []
        for epoch, start in self.epochs:
            # One that began where the one before it did takes its place.
            if epochs and epochs[-1][1] == start:
                epochs.pop()
            epochs.append((epoch, start))
        ends = [start for _, start in epochs[1:]] + [self.log.end]
        return {
            "brokerName": self.name,
            "brokerId": 0 if self.world.master is self else self.number,
            "clusterName": CLUSTER,
            "epochList": [
                {"epoch": epoch, "startOffset": start, "endOffset": end}
                for (epoch, start), end in zip(epochs, ends, strict=True)
            ],
            "maxOffset": self.log.end,
        }

    def _table(self, *_):
        return {
            "offsetTable": {
                f"{topic}@{group}": {str(queue_id): entry.offset for queue_id, entry in queues.items()}
                for (group, topic), queues in self.offsets.items()
            }
        }

    def _message(self, fields, _):
        place = int(fields["offset"])
        if (message := self.log.at(place)) is None:
            is_inside = self.log.begin <= place < self.log.end
            return _IN_MESSAGE[place % 3 if is_inside else 0]
        return RemotingCommand(0, body=message_bytes(message, place))

    def _entry(self, fields, _):
        topic, queue_id, index = fields["topic"], int(fields["queueId"]), int(fields["index"])
        if (topic, queue_id) not in self.queues:
            return RemotingCommand(ResponseCode.SYSTEM_ERROR, remark="no such queue")
        first, end = self.ends(topic, queue_id)
        if not first <= index < end:
            return RemotingCommand(0, remark="is not exist!")
        place, _ = self.queues[topic, queue_id][index]
        return {"minQueueIndex": first, "maxQueueIndex": end, "queueData": [{"physicOffset": place}]}

    def _topic_ends(self, fields, _):
        topic = fields["topic"]
        entries = []
        for name, queue_id in sorted(self.queues):
            if name == topic:
                first, end = self.ends(topic, queue_id)
                queue = f'{{"brokerName":"{SET}","queueId":{queue_id},"topic":"{topic}"}}'
                entries.append(f'{queue}:{{"lastUpdateTimestamp":1,"maxOffset":{end},"minOffset":{first}}}')
        return RemotingCommand(0, body=f'{{"offsetTable":{{{",".join(entries)}}}}}'.encode())

    def _topic_config(self, fields, _):
        count = max((queue_id + 1 for name, queue_id in self.queues if name == fields["topic"]), default=0)
        return {"topicName": fields["topic"], "readQueueNums": count, "writeQueueNums": count, "perm": 6}

    def _min(self, fields, _):
        first, _ = self.ends(fields["topic"], int(fields["queueId"]))
        return RemotingCommand(0, ext_fields={"offset": str(first)})

    def _max(self, fields, _):
        _, end = self.ends(fields["topic"], int(fields["queueId"]))
        return RemotingCommand(0, ext_fields={"offset": str(end)})

    def _members(self, fields, _):
        group = self.world.groups.get(fields["consumerGroup"])
        if group is None or not group.is_connected(self):
            return RemotingCommand(ResponseCode.CONSUMER_NOT_ONLINE, remark="no")
        return {
            "connectionSet": [{"clientId": "m", "clientAddr": "10.1.1.1:1", "language": "JAVA", "version": 495}],
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "subscriptionTable": {},
        }

    def _running(self, fields, _):
        group = self.world.groups[fields["consumerGroup"]]
        if not group.is_connected(self):
            return RemotingCommand(ResponseCode.SYSTEM_ERROR, remark="not connected")
        positions = {queue: position if group.tells else -1 for queue, position in group.positions.items()}
        held = ",".join(
            f'{{"brokerName":"{SET}","queueId":{queue_id},"topic":"{topic}"}}:{{"commitOffset":{position}}}'
            for (topic, queue_id), position in positions.items()
        )
        pops = ""
        if group.pops:
            held, pops = "", f'{{"brokerName":"{SET}","queueId":-1,"topic":"{group.topics[0]}"}}:{{}}'
        text = f'{{"mqTable":{{{held}}},"mqPopTable":{{{pops}}},"properties":{{"PROP_CONSUMER_START_TIMESTAMP":"1"}}}}'
        return RemotingCommand(0, body=text.encode())

    def _commit(self, fields, writer):
        group, topic, queue_id = fields["consumerGroup"], fields["topic"], int(fields["queueId"])
        offset = int(fields["commitOffset"])
        if (group, topic, queue_id) in self.pending:
            return RemotingCommand(0, remark=RESET_PENDING)
        writer(self, group, topic, queue_id, offset, is_reset=False)
        moves = self.moves.get((group, topic, queue_id), 0)
        self.put_offset(group, topic, queue_id, offset, moves)
        return RemotingCommand(0)

    def _reset(self, fields, writer):
        group, topic, queue_id = fields["group"], fields["topic"], int(fields["queueId"])
        offset = int(fields["offset"])
        first, end = self.ends(topic, queue_id)
        if self.world.master is not self or not first <= offset <= end + 1:
            return RemotingCommand(ResponseCode.SYSTEM_ERROR, remark="outside")
        writer(self, group, topic, queue_id, offset, is_reset=True)
        self.pending[group, topic, queue_id] = offset
        self.put_offset(group, topic, queue_id, offset, self.moves.get((group, topic, queue_id), 0))
        return {}


def message_bytes(message, place):
    """Return a message as a broker stores it."""
    topic = message.topic.encode()
    crc = zlib.crc32(str(message.uid).encode())
    head = struct.pack(
        ">iIiiqqiq", -626843481, crc, message.queue_id, 0, message.queue_offset, place, 0, message.store_ms
    )
    rest = struct.pack(">8sq8siqi", b"", message.store_ms, b"", 0, 0, 0) + bytes([len(topic)]) + topic + b"\0\0"
    text = head + rest
    return struct.pack(">i", message.length) + text + bytes(max(message.length - 4 - len(text), 0))


#: What 33 is answered in the middle of a message, whose bytes are taken for a length; the first one elsewhere too.
_IN_MESSAGE = [
    RemotingCommand(ResponseCode.SYSTEM_ERROR, remark="can not find message by the offset, 1"),
    RemotingCommand(
        ResponseCode.SYSTEM_ERROR,
        remark="java.lang.IllegalArgumentException: newLimit < 0: (-457334555 < 0), java.base/java.nio.Buffer"
        ".createLimitException(Buffer.java:395)",
    ),
    RemotingCommand(0, body=struct.pack(">i", 64) * 16),
]

_ANSWERS = {
    RequestCode.GET_BROKER_CONFIG: Broker._options,
    BrokerRequestCode.GET_BROKER_RUNTIME_INFO: Broker._runtime,
    BrokerRequestCode.GET_BROKER_HA_STATUS: Broker._replication,
    RequestCode.GET_BROKER_EPOCH_CACHE: Broker._epochs,
    BrokerRequestCode.GET_ALL_CONSUMER_OFFSET: Broker._table,
    BrokerRequestCode.VIEW_MESSAGE_BY_ID: Broker._message,
    BrokerRequestCode.QUERY_CONSUME_QUEUE: Broker._entry,
    BrokerRequestCode.GET_TOPIC_STATS_INFO: Broker._topic_ends,
    BrokerRequestCode.GET_TOPIC_CONFIG: Broker._topic_config,
    BrokerRequestCode.GET_MIN_OFFSET: Broker._min,
    BrokerRequestCode.GET_MAX_OFFSET: Broker._max,
    BrokerRequestCode.GET_CONSUMER_CONNECTION_LIST: Broker._members,
    BrokerRequestCode.GET_CONSUMER_RUNNING_INFO: Broker._running,
    BrokerRequestCode.UPDATE_CONSUMER_OFFSET: Broker._commit,
    BrokerRequestCode.INVOKE_BROKER_TO_RESET_OFFSET: Broker._reset,
}
