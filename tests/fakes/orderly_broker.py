"""A broker with locks in its memory, to which orderly clients are connected."""

import asyncio
import json

from fakes.answering_peer import NOTHING, AnsweringPeer, refusal, success
from remoting.protocol.codes import ResponseCode
from remoting.protocol.frame import encode

LOCK, UNLOCK, MEMBERS, RUNNING = 41, 42, 203, 307
GROUP = "g1"
BROKER = "broker-a"


class OrderlyClient:
    """A client of an orderly group: what it answers, and whether it does."""

    def __init__(self, *queue_ids, group=GROUP, is_orderly=True):
        self.group = group
        self.is_orderly = is_orderly
        #: By queue id, when it locked it, Unix ms; a test may change it at any time.
        self.locked = dict.fromkeys(queue_ids, 1_700_000_000_000)
        self.hangs = False
        #: Called before each answer.
        self.before_answer = lambda: None

    def running(self):
        self.before_answer()
        held = ",".join(
            f'{{"brokerName":"{BROKER}","queueId":{queue_id},"topic":"TopicTest"}}'
            f':{{"locked":true,"droped":false,"lastLockTimestamp":{unix_ms}}}'
            for queue_id, unix_ms in self.locked.items()
        )
        properties = json.dumps({"PROP_CONSUMEORDERLY": str(self.is_orderly).lower(), "PROP_CLIENT_VERSION": "V5_5_0"})
        return f'{{"mqTable":{{{held}}},"properties":{properties}}}'.encode()


class LockingBroker(AnsweringPeer):
    """Passes 307 on to its clients, lists them (203), and locks queues (41, 42) for whoever asks."""

    pause_s = 0.001

    def __init__(self):
        super().__init__(None)
        #: By client id.
        self.clients = {}
        #: By group, queue id, the client id.
        self.locks = {}
        self.boot_unix_ms = 1_700_000_000_000
        #: Codes that are not answered, and those answered with an error.
        self.hangs_at, self.refuses = set(), set()
        #: Called with the code of each request before it is answered.
        self.before_answer = lambda code: None

    async def _answer(self, request, writer):
        self.received.append((request.code, dict(request.ext_fields or {})))
        await asyncio.sleep(self.pause_s)
        answer = self._answer_to(request)
        if answer is not NOTHING:
            writer.write(encode(request.reply(answer.code, remark=answer.remark, body=answer.body)))

    def _answer_to(self, request):
        self.before_answer(request.code)
        if request.code in self.hangs_at:
            return NOTHING
        if request.code in self.refuses:
            return refusal(ResponseCode.SYSTEM_ERROR)
        return self._handled(request)

    def _handled(self, request):
        fields = request.ext_fields or {}
        match request.code:
            case 28:
                return success({"table": {"bootTimestamp": str(self.boot_unix_ms)}})
            case 203:
                return self._members(fields["consumerGroup"])
            case 307:
                client = self.clients.get(fields["clientId"])
                if client is None or client.group != fields["consumerGroup"]:
                    return refusal(ResponseCode.SYSTEM_ERROR)
                return NOTHING if client.hangs else success(client.running())
            case _:
                return self._locked(request.code, json.loads(request.body))

    def restart(self):
        """Forget all locks, as a broker does that starts again."""
        self.locks.clear()
        self.boot_unix_ms += 1

    def _members(self, group):
        listed = [{"clientId": name} for name, each in self.clients.items() if each.group == group]
        if not listed:
            return refusal(ResponseCode.CONSUMER_NOT_ONLINE)
        return success({"connectionSet": listed, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"})

    def _locked(self, code, body):
        client_id, granted = body["clientId"], []
        for queue in body["mqSet"]:
            key = body["consumerGroup"], queue["queueId"]
            if code == LOCK and self.locks.setdefault(key, client_id) == client_id:
                granted.append(queue)
            elif code == UNLOCK and self.locks.get(key) == client_id:
                del self.locks[key]
        return success({"lockOKMQSet": granted}) if code == LOCK else success(b"")
