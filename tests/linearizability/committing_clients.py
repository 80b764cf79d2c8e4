"""Clients that commit, read, reset, seed and delete offsets all the time, and the history of each queue."""

import asyncio
import itertools
import json
import time
from collections import Counter

from linearizability.lines import NotSent, closed
from linearizability.offset_model import (
    ABSENT,
    COMMIT,
    DELETE,
    NONE,
    OK,
    PRESENT,
    READ,
    RESET,
    SEED,
    STALE,
    OffsetOperation,
    Position,
)

TOPIC, BROKER = "orders", "broker-a"
ANSWER_S, CONNECT_S = 8.0, 1.0
#: Between two requests of one client.
PAUSE_S = (0.005, 0.05)
LEADER_AGAIN_S = (0.05, 0.15)
#: How often each kind is requested.
ALL_KINDS = {COMMIT: 60, READ: 30, RESET: 4, SEED: 4, DELETE: 2}
FORWARD = (-2, 0, 1, 1, 2, 3, 7)
FORMER_EPOCH = 0.03
#: Of all answers, what says that nothing was done: another manager leads, or this one has not loaded yet.
NOTHING_DONE = ("not_leader", "are being loaded", "are not loaded")
#: An answer that begins so may name the same reasons: the journal has the commit, and the store may get it.
UNKNOWN = "It is not known"


class NothingDone(Exception):
    """The request was refused as a whole."""


class OutcomeUnseen(Exception):
    """Nobody knows what came of the request."""


class ManagerLine:
    """A connection to one offset manager; made when it is needed, and again after an error."""

    def __init__(self, port):
        self._port = port
        self._stream = None

    async def post(self, path, body):
        """Return status and body of the answer; raises NotSent, or OutcomeUnseen."""
        if self._stream is None:
            try:
                async with asyncio.timeout(CONNECT_S):
                    self._stream = await asyncio.open_connection("127.0.0.1", self._port)
            except (OSError, TimeoutError) as error:
                raise NotSent(self._port) from error
        reader, writer = self._stream
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        try:
            async with asyncio.timeout(ANSWER_S):
                writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
                return await _answer(reader)
        except (OSError, TimeoutError, EOFError) as error:
            await self.close()
            raise OutcomeUnseen(path) from error

    async def close(self):
        stream, self._stream = self._stream, None
        if stream is not None:
            await closed(stream[1])


async def _answer(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
    return int(head.split(b" ")[1]), json.loads(await reader.readexactly(length))


class GroupHistory:
    """What was requested for the queues of one group; `kinds` says how often what is."""

    def __init__(self, group, *, queues=3, kinds=None):
        self.group = group
        self.kinds = kinds or ALL_KINDS
        self.operations = {queue: [] for queue in range(queues)}
        self.results = Counter()
        self._numbers = itertools.count()

    def add(self, client, kind, wanted, times_s, answer=None):
        """Add the same request of some queues, by queue what is wanted and, unless it is unseen, what was answered."""
        invoked_s, answered_s = times_s
        for queue, position in wanted.items():
            one = None if answer is None else answer.get(queue)
            if one is None and (answer is not None or kind == READ):
                continue  # nothing came of it that anybody could see
            ended_s = None if one is None else answered_s
            operation = OffsetOperation(next(self._numbers), client, kind, position, invoked_s, ended_s, one)
            self.operations[queue].append(operation)
            self.results[kind, "unseen" if one is None else OK if kind == READ else one[0]] += 1

    def lost(self):
        """Return the acknowledged commits above what was read last, where nobody resets offsets."""
        found = []
        for operations in self.operations.values():
            *before, last = operations
            assert last.kind == READ, last
            found += [
                each
                for each in before
                if each.kind == COMMIT and each.answer == (OK, None) and each.wanted > last.answer
            ]
        return found


class RestlessCommitter:
    """One client of a group, with its own view of where the queues are."""

    def __init__(self, name, history, ports, chance):
        self.name = name
        self._history = history
        self._chance = chance
        self._lines = [ManagerLine(port) for port in ports]
        self._line = chance.randrange(len(ports))
        self._views = {queue: Position() for queue in history.operations}
        self._former = dict(self._views)

    async def live(self, stopping):
        """Request something over and over until then."""
        kinds, weights = list(self._history.kinds), list(self._history.kinds.values())
        while not stopping.is_set():
            (kind,) = self._chance.choices(kinds, weights)
            await self.perform(kind)
            await asyncio.sleep(self._chance.uniform(*PAUSE_S))
        await self.end()

    async def end(self):
        for each in self._lines:
            await each.close()

    async def perform(self, kind):
        """Request this of some queues, or of all if they are read or deleted; return whether it was answered."""
        queues = sorted(self._views)
        if kind not in (READ, DELETE):
            queues = self._chance.sample(queues, self._chance.randint(1, len(queues)))
        wanted = {queue: self._wanted(kind, queue) for queue in queues}
        path, body = self._request(kind, wanted)
        began_s = time.perf_counter()
        try:
            answer = await self._sent(path, body)
        except NothingDone:
            await asyncio.sleep(self._chance.uniform(*LEADER_AGAIN_S))
            return False
        except OutcomeUnseen:
            self._history.add(self.name, kind, wanted, (began_s, None))
            return False
        ended_s = time.perf_counter()
        answers = _MEANINGS[kind](answer, queues)
        self._history.add(self.name, kind, wanted, (began_s, ended_s), answers)
        for queue, each in answers.items():
            self._learn(queue, wanted[queue], each)
        return True

    def _wanted(self, kind, queue):
        view, chance = self._views[queue], self._chance
        if kind == COMMIT:
            of_epoch = self._former[queue] if chance.random() < FORMER_EPOCH else view
            return Position(of_epoch.epoch, max(0, view.offset + chance.choice(FORWARD)))
        return Position(0, chance.randrange(100)) if kind in (RESET, SEED) else Position()

    def _request(self, kind, wanted):
        group = self._history.group
        names = {"group": group, "topic": TOPIC, "brokerName": BROKER}
        if kind == DELETE:
            return "/v1/offsets/delete", {"writer": self.name, "group": group, "topic": TOPIC}
        keys = [names | {"queueId": queue} for queue in wanted]
        if kind == READ:
            return "/v1/offsets/read", {"keys": keys}
        entries = [key | {"offset": each.offset} for key, each in zip(keys, wanted.values(), strict=True)]
        if kind == COMMIT:
            entries = [entry | {"resetEpoch": each.epoch} for entry, each in zip(entries, wanted.values(), strict=True)]
        return f"/v1/offsets/{kind}", {"writer": self.name, "entries": entries}

    async def _sent(self, path, body):
        """Return what the leader answers; raises NothingDone or OutcomeUnseen."""
        try:
            status, answer = await self._lines[self._line].post(path, body)
        except (NotSent, OutcomeUnseen) as error:
            self._line = (self._line + 1) % len(self._lines)
            raise (NothingDone if isinstance(error, NotSent) else OutcomeUnseen) from error
        if status == 200:
            return answer
        error = answer["error"]
        assert status in (429, 503), (path, body, status, error)
        if error["code"] == "not_leader":
            self._line = (self._line + 1) % len(self._lines)
        is_refused = status == 429 or any(each in f"{error['code']} {error['message']}" for each in NOTHING_DONE)
        if is_refused and not error["message"].startswith(UNKNOWN):
            raise NothingDone
        raise OutcomeUnseen(error["message"])

    def _learn(self, queue, wanted, answer):
        shown = answer if isinstance(answer, Position) else answer[-1]
        if shown is None and answer[0] == OK:
            shown = wanted
        if shown is not None and shown.epoch != self._views[queue].epoch:
            self._former[queue] = self._views[queue]
        # Where there is nothing any more, the next read says in which epoch.
        self._views[queue] = self._views[queue] if shown is None else shown


def _position(view):
    return None if view is None else Position(view["resetEpoch"], view["offset"])


def _committed(answer, queues):
    results = zip(queues, answer["results"], strict=True)
    return {
        queue: (OK, None) if each["status"] == OK else (STALE, _position(each.get("stored")))
        for queue, each in results
        if _is_decided(each, OK, STALE)
    }


def _read(answer, queues):
    return {
        queue: _position(each["stored"]) if each["status"] == OK else Position(each.get("resetEpoch", 0), NONE)
        for queue, each in zip(queues, answer["results"], strict=True)
        if each["status"] != "unavailable"
    }


def _changed(answer, queues):
    return {
        queue: (each["status"], _position(each["old"]), _position(each["new"]))
        for queue, each in zip(queues, answer["queues"], strict=True)
        if _is_decided(each, OK, PRESENT)
    }


def _deleted(answer, queues):
    deleted = {each["queueId"]: (OK, _position(each["old"])) for each in answer["queues"]}
    # A queue that is being reset is not deleted, and not named: nobody knows which one it is.
    return deleted if answer["counts"].get("fenced") else dict.fromkeys(queues, (ABSENT, None)) | deleted


def _is_decided(result, *statuses):
    assert result["status"] in (*statuses, "unknown"), result
    return result["status"] != "unknown"


_MEANINGS = {COMMIT: _committed, READ: _read, RESET: _changed, SEED: _changed, DELETE: _deleted}


async def read_until_answered(committer, *, seconds):
    """Read all queues of a client's group once more."""
    async with asyncio.timeout(seconds):
        while not await committer.perform(READ):
            await asyncio.sleep(0.1)
    await committer.end()
