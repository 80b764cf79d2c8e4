"""Brokers in memory that answer what a reading asks, over the product's own client of administrative requests."""

import asyncio
import json
import struct
import zlib

from offsets.readings.reader import fingerprint_of
from remoting.admin.stored_messages import read_message
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import ConnectionRefused

BOOT_MS = 1_700_000_000_000
NONE_THERE = "can not find message by the offset, "


def stored(place, queue_id, queue_offset, *, topic="orders", body=b"body", unix_ms=BOOT_MS):
    """Return a message as a broker stores it, with IPv4 addresses."""
    head = struct.pack(">iIiiqqiq", -626843481, zlib.crc32(body), queue_id, 0, queue_offset, place, 0, unix_ms)
    rest = struct.pack(">8sq8siqi", b"", unix_ms, b"", 0, 0, len(body)) + body
    rest += bytes([len(topic)]) + topic.encode() + bytes(2)
    return struct.pack(">i", 4 + len(head) + len(rest)) + head + rest


class ReadBroker:
    """One broker: its log, its offsets, and how it fails. A test changes all of it at any time."""

    def __init__(self, name="broker-a", *, file_bytes=1000):
        self.name, self.broker_id, self.boot_ms = name, 0, BOOT_MS
        self.options = {"brokerName": name, "brokerRole": "ASYNC_MASTER", "mappedFileSizeCommitLog": str(file_bytes)}
        self.file_bytes = file_bytes
        #: Place -> bytes; a blank at the end of a file too.
        self.log, self.begin, self.end = {}, 0, 0
        #: Queue -> places.
        self.queues = {}
        #: `topic@group` -> queue id -> offset, or text.
        self.offsets = {}
        #: `[(epoch, start)]`; None: no controller mode.
        self.epochs = None
        self.is_down = False
        #: Codes that are refused -> (code, remark).
        self.refused = {}
        #: Group -> client ids: those that begin with `pop` pop, those with `idle` hold no queue.
        self.groups = {}
        self.group_fields = {"messageModel": "CLUSTERING", "consumeType": "CONSUME_PASSIVELY"}
        #: Codes in the order in which they came.
        self.asked = []
        #: Called before each answer.
        self.before = lambda code: None
        #: Set while the broker hangs.
        self.hangs = None

    def write(self, count=1, *, queue_ids=(0, 1), body=b"body"):
        """Append messages to the queues in turn."""
        for number in range(count):
            queue_id = queue_ids[number % len(queue_ids)]
            places = self.queues.setdefault(queue_id, [])
            message = stored(self.end, queue_id, len(places), body=body)
            left = self.file_bytes - self.end % self.file_bytes
            if len(message) + 8 > left:
                self.log[self.end] = struct.pack(">ii", left, -875286124) + bytes(left - 8)
                self.end += left
                message = stored(self.end, queue_id, len(places), body=body)
            self.log[self.end] = message
            places.append(self.end)
            self.end += len(message)

    def lose(self, place):
        """Lose the end of the log, from a message on."""
        self.log = {at: message for at, message in self.log.items() if at < place}
        self.queues = {queue: [at for at in places if at < place] for queue, places in self.queues.items()}
        self.end = place

    def message(self, place):
        """Return the fingerprint of the message at a place."""
        return fingerprint_of(read_message(self.log[place]))

    def answer(self, request):
        self.asked.append(request.code)
        self.before(request.code)
        if request.code in self.refused:
            code, remark = self.refused[request.code]
            return RemotingCommand(code, remark=remark)
        return getattr(self, f"_answer_{request.code}")(request.ext_fields or {})

    def _answer_28(self, _):
        table = {"bootTimestamp": self.boot_ms, "commitLogMinOffset": self.begin, "commitLogMaxOffset": self.end}
        return _body({"table": {name: str(value) for name, value in table.items()}})

    def _answer_907(self, _):
        return _body({"master": self.broker_id == 0, "masterCommitLogMaxOffset": self.end})

    def _answer_43(self, _):
        return RemotingCommand(0, body=offsets_body(self.offsets))

    def _answer_26(self, _):
        return RemotingCommand(0, body="".join(f"{key}={value}\n" for key, value in self.options.items()).encode())

    def _answer_1007(self, _):
        if self.epochs is None:
            return RemotingCommand(1, remark="the broker is not in controller mode")
        rows = [{"epoch": epoch, "startOffset": start} for epoch, start in self.epochs]
        fields = {"brokerName": self.name, "brokerId": self.broker_id, "maxOffset": self.end}
        return _body(fields | {"epochList": rows})

    def _answer_33(self, fields):
        place = int(fields["offset"])
        if place not in self.log or place < self.begin:
            return RemotingCommand(1, remark=NONE_THERE + str(place))
        return RemotingCommand(0, body=self.log[place])

    def _answer_321(self, fields):
        places, index = self.queues.get(int(fields["queueId"]), []), int(fields["index"])
        limits = {"minQueueIndex": 0, "maxQueueIndex": len(places)}
        return _body(limits | {"queueData": [{"physicOffset": places[index]}] if index < len(places) else []})

    def _answer_203(self, fields):
        if (members := self.groups.get(fields["consumerGroup"])) is None:
            return RemotingCommand(206, remark="not online")
        rows = [
            {"clientId": member, "clientAddr": "10.0.0.9:1", "language": "JAVA", "version": 1} for member in members
        ]
        return _body({"connectionSet": rows, "subscriptionTable": {}} | self.group_fields)

    def _answer_307(self, fields):
        queue = '{"brokerName":"broker-a","queueId":0,"topic":"orders"}'
        table = "mqPopTable" if fields["clientId"].startswith("pop") else "mqTable"
        other = "mqTable" if table == "mqPopTable" else "mqPopTable"
        held = "{}" if fields["clientId"].startswith("idle") else f"{{{queue}:{{}}}}"
        properties = '{"PROP_CONSUMER_START_TIMESTAMP":"1"}'
        text = f'{{"{table}":{held},"{other}":{{}},"properties":{properties},"subscriptionSet":[]}}'
        return RemotingCommand(0, body=text.encode())


class Brokers:
    """Requests go to the broker at an address; nobody listens at others."""

    def __init__(self, **brokers):
        self.by_address = brokers

    async def invoke(self, address, request, timeout_ms, before_send=lambda: None):
        before_send()
        broker = self.by_address.get(address)
        if broker is None or broker.is_down:
            raise ConnectionRefused(address, "nobody listens")
        await asyncio.sleep(0)
        if broker.hangs is not None:
            await broker.hangs.wait()
        return broker.answer(request)

    def connection_number(self, address):
        """Return another number for each process."""
        broker = self.by_address.get(address)
        return None if broker is None or broker.is_down else broker.boot_ms


def offsets_body(table, *, pulled=None):
    """Return an answer to 43 as a broker of 5.5.0 writes it."""
    entries = ",".join(f'"{key}":{_queues(queues)}' for key, queues in table.items())
    others = ",".join(f'"{key}":{_queues(queues)}' for key, queues in (pulled or {}).items())
    head = '"dataVersion":{"counter":7},"groupTopicMap":{"g":["t"]}'
    return f'{{{head},"offsetTable":{{{entries}}},"pullOffsetTable":{{{others}}}}}'.encode()


def _queues(queues):
    if isinstance(queues, str):
        return queues
    return f"{{{','.join(f'{queue}:{offset}' for queue, offset in queues.items())}}}"


def _body(value):
    return RemotingCommand(0, body=json.dumps(value).encode())
