"""A new master on loopback: a log with messages, an offset table, and the requests that the guard sends."""

import json
import struct

from fakes.answering_peer import NOTHING, AnsweringPeer, refusal, success
from guard_logs import BOOT_MS, SIZE

from remoting.protocol.codes import BrokerRequestCode, RequestCode, ResponseCode
from remoting.protocol.command import RemotingCommand

MAGIC = -626843481


def message_bytes(queue_id, offset, physical, stored, content=b"x" * 40):
    """Return a message as a broker stores it, with IPv4 addresses."""
    head = struct.pack(">iIiiqqiq", MAGIC, 0, queue_id, 0, offset, physical, 0, stored)
    rest = struct.pack(">8sq8siqi", b"", stored, b"", 0, 0, len(content)) + content + b"\x01t\x00\x00"
    return struct.pack(">i", 4 + len(head) + len(rest)) + head + rest


class FakeMaster:
    """Answers as a broker of 5.5.0 whose queues are `guard_logs.Queue`s, each alone in its log."""

    def __init__(self, queues, offsets, *, epochs=((1, 0), (2, None))):
        #: (topic, queue id) -> Queue.
        self.queues = queues
        #: "topic@group" -> queue id -> offset.
        self.offsets = offsets
        self.pulled = {}
        #: With None for where the old messages of the queues end; None: not in controller mode.
        self.epochs = epochs
        self.name, self.broker_id = "b", 0
        self.options = "useServerSideResetOffset=true\n"
        self.boot_ms = BOOT_MS
        self.version = "V5_5_0"
        #: None: behind the last message of the longest queue.
        self.log_end = None
        #: How far the broker is off where it searches by time.
        self.search_error = 0
        #: Of the log, whose messages are not in their queues yet.
        self.behind_bytes = 0
        #: Groups and queues with a reset that waits for the next pull.
        self.pending = set()
        #: Group -> what its client says that it does: "pulls" or "pops"; others have none. None: no group has one.
        self.clients = None
        #: Client ids of those that each such group has.
        self.members = ["c1"]
        #: Client ids of members without queues.
        self.idle = set()
        self.consume_type = "CONSUME_PASSIVELY"
        #: Client id -> language; others are in Java.
        self.languages = {}
        #: Client id -> when it has started, and when it has pulled last, Unix ms by its clock; others do not say.
        self.started = {}
        #: What was written, in its order.
        self.written = []
        #: Code -> codes that it is answered with first.
        self.first = {}
        #: The code that is not answered.
        self.silent = None
        #: Queues whose messages are not shown: (topic, queue id).
        self.silent_queues = set()
        #: Called after each request with its code.
        self.then = lambda code: None
        self.peer = AnsweringPeer(self)
        self.peer.pause_s = 0

    def __call__(self, code, fields):
        if self.first.get(code):
            return refusal(self.first[code].pop(0))
        if code == self.silent:
            self.then(code)
            return NOTHING
        answer = _ANSWERS[code](self, fields)
        self.then(code)
        return answer

    def _epochs(self, _):
        if self.epochs is None:
            return refusal(ResponseCode.SYSTEM_ERROR)
        parts_at = max(queue.parts_at for queue in self.queues.values())
        listed = [{"epoch": epoch, "startOffset": parts_at if at is None else at} for epoch, at in self.epochs]
        body = {"brokerName": self.name, "brokerId": self.broker_id, "epochList": listed, "maxOffset": 10**9}
        return success(body)

    def _runtime(self, _):
        end = max(each.end for each in self.queues.values()) * SIZE if self.log_end is None else self.log_end
        table = {"bootTimestamp": str(self.boot_ms), "commitLogMaxOffset": str(end), "commitLogMinOffset": "0"}
        table["brokerVersionDesc"] = self.version
        return success({"table": table | {"dispatchBehindBytes": str(self.behind_bytes)}})

    def _options(self, _):
        return success(self.options.encode())

    def _table(self, _):
        return success({"offsetTable": self.offsets, "pullOffsetTable": self.pulled})

    def _entry(self, fields):
        key = fields["topic"], int(fields["queueId"])
        if key in self.silent_queues:
            return NOTHING
        queue = self.queues.get(key)
        if queue is None:
            return refusal(ResponseCode.SYSTEM_ERROR, "is not exist!")
        found = queue.look(int(fields["index"]))
        if found.message is None:
            return RemotingCommand(0, remark="is not exist!")
        entry = {"physicOffset": found.message.physical_offset}
        return success({"minQueueIndex": found.min_offset, "maxQueueIndex": found.max_offset, "queueData": [entry]})

    def _min(self, fields):
        return self._limit(fields, lambda queue: queue.expired)

    def _max(self, fields):
        return self._limit(fields, lambda queue: queue.end)

    def _limit(self, fields, of):
        queue = self.queues.get((fields["topic"], int(fields["queueId"])))
        return RemotingCommand(0, ext_fields={"offset": str(of(queue) if queue else 0)})

    def _search(self, fields):
        queue = self.queues[fields["topic"], int(fields["queueId"])]
        found = _first_since(queue, int(fields["timestamp"]))
        return RemotingCommand(0, ext_fields={"offset": str(found + self.search_error)})

    def _view(self, fields):
        place = int(fields["offset"])
        found = next(iter(self.queues.values())).look(place // SIZE).message
        if found is None:
            return refusal(ResponseCode.SYSTEM_ERROR, "can not find message by the offset")
        return RemotingCommand(0, body=message_bytes(0, place // SIZE, place, found.store_unix_ms))

    def _members(self, fields):
        if fields["consumerGroup"] not in (self.clients or {}):
            return refusal(ResponseCode.CONSUMER_NOT_ONLINE)
        members = [
            {
                "clientId": each,
                "clientAddr": "10.0.0.9:51234",
                "language": self.languages.get(each, "JAVA"),
                "version": 495,
            }
            for each in self.members
        ]
        body = {"connectionSet": members, "consumeType": self.consume_type, "messageModel": "CLUSTERING"}
        return success(body)

    def _running(self, fields):
        queue = {"topic": "orders", "brokerName": self.name, "queueId": 0}
        started, pulled = self.started.get(fields["clientId"], (None, None))
        held = f"{{{json.dumps(queue)}:{json.dumps({} if pulled is None else {'lastPullTimestamp': pulled})}}}"
        properties = "{}" if started is None else json.dumps({"PROP_CONSUMER_START_TIMESTAMP": str(started)})
        if fields["clientId"] in self.idle:
            held = "{}"
        pulls = self.clients[fields["consumerGroup"]] == "pulls"
        tables = f'"mqTable":{held if pulls else "{}"},"mqPopTable":{"{}" if pulls else held}'
        return success(f'{{{tables},"properties":{properties},"subscriptionSet":[]}}'.encode())

    def _commit(self, fields):
        key, queue_id = f"{fields['topic']}@{fields['consumerGroup']}", int(fields["queueId"])
        if (key, queue_id) in self.pending:
            return RemotingCommand(0, remark="Offset has been previously reset")
        if (fields["topic"], queue_id) not in self.queues:
            return refusal(ResponseCode.TOPIC_NOT_EXIST)
        self._store("commit", key, queue_id, int(fields["commitOffset"]))
        return success(b"")

    def _committed(self, fields):
        offset = self.offsets.get(f"{fields['topic']}@{fields['consumerGroup']}", {}).get(int(fields["queueId"]))
        if offset is None:
            return refusal(ResponseCode.QUERY_NOT_FOUND)
        return RemotingCommand(0, ext_fields={"offset": str(offset)})

    def _reset(self, fields):
        if "queueId" not in fields:
            return self._reset_members(fields)
        key, queue_id = f"{fields['topic']}@{fields['group']}", int(fields["queueId"])
        queue, offset = self.queues[fields["topic"], queue_id], int(fields["offset"])
        if not queue.expired <= offset <= queue.end + 1:
            limits = f"[{queue.expired}-{queue.end}]"
            return refusal(ResponseCode.SYSTEM_ERROR, f"Target offset {offset} not in consume queue range {limits}")
        self._store("reset", key, queue_id, offset)
        self.pending.add((key, queue_id))
        return success(b"")

    def _reset_members(self, fields):
        """Send members to the smaller one of what is committed and the first message of a moment, as Java does."""
        if fields["group"] not in (self.clients or {}):
            return refusal(ResponseCode.CONSUMER_NOT_ONLINE)
        key, sent = f"{fields['topic']}@{fields['group']}", {}
        for (_, queue_id), queue in (
            (each, queue) for each, queue in self.queues.items() if each[0] == fields["topic"]
        ):
            committed = self.offsets.get(key, {}).get(queue_id)
            if committed is None:
                return refusal(ResponseCode.SYSTEM_ERROR, f"THE consumer offset is not exist in queue {queue_id}")
            first = _first_since(queue, int(fields["timestamp"]))
            sent[queue_id] = first if fields["isForce"] == "true" else min(first, committed)
        self.written.append(("members", key, sent))
        table = ",".join(
            f"{json.dumps({'brokerName': self.name, 'queueId': each, 'topic': fields['topic']})}:{offset}"
            for each, offset in sent.items()
        )
        return success(f'{{"offsetTable":{{{table}}}}}'.encode())

    def _store(self, how, key, queue_id, offset):
        self.written.append((how, key, queue_id, offset))
        self.offsets.setdefault(key, {})[queue_id] = offset


def _first_since(queue, unix_ms):
    """Return the first message of a queue that was stored at a moment or later, its end if there is none."""
    stored = (each for each in range(queue.expired, queue.end) if queue.look(each).message.store_unix_ms >= unix_ms)
    return next(stored, queue.end)


_ANSWERS = {
    BrokerRequestCode.GET_CONSUMER_CONNECTION_LIST: FakeMaster._members,
    BrokerRequestCode.GET_CONSUMER_RUNNING_INFO: FakeMaster._running,
    BrokerRequestCode.QUERY_CONSUME_QUEUE: FakeMaster._entry,
    BrokerRequestCode.GET_MIN_OFFSET: FakeMaster._min,
    BrokerRequestCode.GET_MAX_OFFSET: FakeMaster._max,
    BrokerRequestCode.SEARCH_OFFSET_BY_TIMESTAMP: FakeMaster._search,
    BrokerRequestCode.QUERY_CONSUMER_OFFSET: FakeMaster._committed,
    BrokerRequestCode.UPDATE_CONSUMER_OFFSET: FakeMaster._commit,
    RequestCode.GET_BROKER_CONFIG: FakeMaster._options,
    BrokerRequestCode.GET_BROKER_RUNTIME_INFO: FakeMaster._runtime,
    BrokerRequestCode.VIEW_MESSAGE_BY_ID: FakeMaster._view,
    BrokerRequestCode.GET_ALL_CONSUMER_OFFSET: FakeMaster._table,
    BrokerRequestCode.INVOKE_BROKER_TO_RESET_OFFSET: FakeMaster._reset,
    RequestCode.GET_BROKER_EPOCH_CACHE: FakeMaster._epochs,
}
