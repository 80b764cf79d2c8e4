"""Brokers that want something of the controllers all the time, and the history of what they asked and were told."""

import asyncio
import contextlib
import itertools
import json
import time
from collections import Counter

from linearizability.answers import NOT_LEADER, UNCERTAIN, meaning
from linearizability.lines import Line, NotSent, closed, read_frame
from linearizability.lives import Lives
from linearizability.set_model import (
    ALTER,
    APPLY_ID,
    CLEAN,
    ELECT,
    NEXT_ID,
    NOT_REGISTERED,
    OK,
    QUESTIONS,
    REGISTER,
    REPLICA_INFO,
    SYNC_STATE_DATA,
    Operation,
)
from peers.scripted import HEARTBEAT
from peers.wire import SUCCESS, frame

METADATA = 1005
CLUSTER = "C"
HEARTBEAT_S = 1.0
RESPONSE = 1
#: Between two requests of one broker.
PAUSE_S = (0.01, 0.12)
LEADER_AGAIN_S = (0.05, 0.15)
ASKS_ANYBODY = 0.05


class History:
    """What was asked for one set, and when its brokers were there."""

    def __init__(self, broker_name, numbers):
        self.broker_name = broker_name
        self.operations = []
        self.lives = Lives()
        self.refused_by_followers = 0
        self._numbers = numbers

    def add(self, client, code, arguments, invoked_s, answered_s=None, answer=None):
        if answer is None and code in QUESTIONS:
            return  # nothing came of it that anybody could see
        operation = Operation(next(self._numbers), client, code, arguments, invoked_s, answered_s, answer)
        self.operations.append(operation)

    @property
    def unknown(self):
        return sum(each.answer is None for each in self.operations)

    @property
    def codes(self):
        return Counter((each.code, each.answer[0]) for each in self.operations if each.answer is not None)


class RestlessBroker:
    """One broker with an address of its own; a client of the history under its own name."""

    def __init__(self, name, history, controllers, chance):
        self.name = name
        self._history = history
        self._chance = chance
        self._lines = {address: Line(address) for address in controllers}
        self._leader = None
        self._check_codes = itertools.count(1)
        self._check_code = ""
        self._broker_id = None
        self._view = None
        #: All of the set when last seen, and who of them lived.
        self._members = []
        self._alive = frozenset()
        self._listener = None
        self._accepted = set()
        self._address = None
        self._beating = None

    async def live(self, stopping):
        """Do one thing after the other until told to stop."""
        try:
            await self._open()
            while not stopping.is_set():
                await self._once()
                await asyncio.sleep(self._chance.uniform(*PAUSE_S))
        finally:
            await self._shut()

    async def look(self, *, at=None):
        """Ask for all of the set, the leader or whoever is at this address; None if nobody answered."""
        self._leader = at
        return await self._sync_state_data()

    async def connect(self):
        """Be connected to all controllers that live."""
        for line in self._lines.values():
            with contextlib.suppress(NotSent):
                await line.connect()

    async def end(self):
        """Close all connections."""
        await self._shut()

    # What it does

    async def _once(self):
        if self._broker_id is None:
            await self._join()
            return
        if self._view is None:
            await self._replica_info()
            return
        if self._view.master is None and self._chance.random() < 0.5:
            await self._elect(self._broker_id, is_designated=False)
            return
        deeds, weights = zip(*self._deeds().items(), strict=True)
        (deed,) = self._chance.choices(deeds, weights)
        await deed()

    def _deeds(self):
        leads = self._view.master == self._broker_id
        return {
            self._replica_info: 30,
            self._sync_state_data: 12,
            self._next_id: 4,
            self._report: 100 if leads else 3,
            self._stand: 4,
            self._designate: 3,
            self._apply_taken: 3,
            self._start_again: 2,
            self._die_and_return: 1,
            self._clean_one: 2,
            self._clean_dead: 2,
            self._clean_all: 0.15,
        }

    async def _join(self):
        found = await self._next_id()
        if found is None:
            return
        broker_id = found[1]
        self._check_code = f"{self._address};{self.name}-{next(self._check_codes)}"
        applied = await self._apply_id(broker_id, self._check_code)
        if applied is None and self._chance.random() < 0.5:
            applied = await self._apply_id(broker_id, self._check_code)
        if applied == (OK,):
            self._broker_id = broker_id
            await self._start()

    async def _start(self):
        """Register, beat, and stand for election if nobody leads."""
        await self._heartbeat()
        found = await self._register()
        if found is None or self._broker_id is None:
            return
        if self._beating is None:
            self._beating = asyncio.create_task(self._heartbeat_on())
        if found[1].master is None:
            await self._elect(self._broker_id, is_designated=False)

    async def _register(self):
        fields = self._identity | {"brokerId": str(self._broker_id), "brokerAddress": self._address}
        found = await self._request(REGISTER, fields, arguments=(self._broker_id, self._address))
        if found == (NOT_REGISTERED,):
            self._leave()
            return None
        return found

    async def _stand(self):
        await self._elect(self._broker_id, is_designated=False)

    async def _designate(self):
        wanted = sorted(self._view.in_sync) or [self._broker_id]
        await self._elect(self._chance.choice(wanted), is_designated=True)

    async def _report(self):
        view = self._view
        # Mostly one more, or one less.
        others = sorted({*self._members, *view.in_sync} - {self._broker_id}) or [self._broker_id]
        in_sync = view.in_sync ^ {self._chance.choice(others)} | {self._broker_id}
        fields = {"brokerName": self._history.broker_name, "masterBrokerId": str(self._broker_id)}
        fields |= {"masterEpoch": str(view.master_epoch)}
        body = {"syncStateSet": sorted(in_sync), "syncStateSetEpoch": view.set_epoch}
        arguments = (self._broker_id, view.master_epoch, in_sync, view.set_epoch)
        found = await self._request(ALTER, fields, json.dumps(body).encode(), arguments=arguments)
        if found is not None and found[0] == OK:
            self._view = view._replace(in_sync=in_sync, set_epoch=found[1])
        else:
            self._view = None

    async def _apply_taken(self):
        """Apply for an id that this broker has, or another one."""
        await self._apply_id(self._chance.choice([self._broker_id, *self._members]), self._check_code)

    async def _start_again(self):
        """Register as a new process would; at times elsewhere."""
        if self._chance.random() < 0.5:
            await self._close_listener()
            await self._open()
        await self._start()

    async def _die_and_return(self):
        await self._shut()
        await asyncio.sleep(self._chance.uniform(0.2, 3.0))
        await self._open()
        await self._start()

    async def _clean_one(self):
        others = [i for i in self._members if i != self._broker_id]
        if others:
            await self._clean(frozenset({self._chance.choice(others)}), even_living=self._chance.random() < 0.5)

    async def _clean_dead(self):
        dead = frozenset(self._members) - self._alive
        if dead:
            await self._clean(dead, even_living=False)

    async def _clean_all(self):
        await self._clean(None, even_living=True)

    # Requests

    @property
    def _identity(self):
        return {"clusterName": CLUSTER, "brokerName": self._history.broker_name}

    async def _next_id(self):
        return await self._request(NEXT_ID, self._identity)

    async def _apply_id(self, broker_id, check_code):
        fields = self._identity | {"appliedBrokerId": str(broker_id), "registerCheckCode": check_code}
        address = check_code.partition(";")[0]
        return await self._request(APPLY_ID, fields, arguments=(broker_id, address, check_code))

    async def _elect(self, broker_id, *, is_designated):
        fields = self._identity | {"brokerId": str(broker_id), "designateElect": str(is_designated).lower()}
        found = await self._request(ELECT, fields, arguments=(broker_id, is_designated))
        self._learn(found)

    async def _replica_info(self):
        found = await self._request(REPLICA_INFO, {"brokerName": self._history.broker_name})
        self._learn(found)
        if found is not None and found[0] != OK:
            self._leave()

    async def _sync_state_data(self):
        body = json.dumps([self._history.broker_name]).encode()
        found = await self._request(SYNC_STATE_DATA, None, body)
        self._learn(found)
        if found is not None and (found[1] is None or self._broker_id not in dict(found[1].addresses)):
            self._leave()
        return found

    async def _clean(self, broker_ids, *, even_living):
        fields = self._identity | {"isCleanLivingBroker": str(even_living).lower()}
        if broker_ids is not None:
            fields["brokerControllerIdsToClean"] = ";".join(map(str, sorted(broker_ids)))
        await self._request(CLEAN, fields, arguments=(broker_ids, even_living))
        self._view = None

    async def _request(self, code, fields, body=b"", *, arguments=()):
        """Ask the leader, and return what the model knows the answer by; None: nobody led, or nobody knows."""
        line = await self._line_to(code)
        if line is None:
            await asyncio.sleep(self._chance.uniform(*LEADER_AGAIN_S))
            return None
        invoked = []
        try:
            answer = await line.request(code, fields, body, on_send=lambda: invoked.append(time.perf_counter()))
        except NotSent:
            self._doubt(line)
            return None
        except (OSError, TimeoutError):
            self._doubt(line)
            self._history.add(self.name, code, arguments, invoked[0])
            return None
        answered_s = time.perf_counter()
        if answer.code == NOT_LEADER:
            # It has refused, so nothing may come of it: the history does not know of it.
            self._history.refused_by_followers += 1
            self._doubt(line)
            return None
        if answer.code in UNCERTAIN:
            self._history.add(self.name, code, arguments, invoked[0])
            return None
        if code == SYNC_STATE_DATA:
            self._hear_of_the_living(answer)
        found = meaning(code, answer, self._history.broker_name)
        self._history.add(self.name, code, arguments, invoked[0], answered_s, found)
        return found

    async def _line_to(self, code):
        """Return the line to the leader; brokers that only ask also ask others, which are to refuse."""
        if code in QUESTIONS and self._broker_id is not None and self._chance.random() < ASKS_ANYBODY:
            return self._chance.choice(list(self._lines.values()))
        if self._leader is None:
            self._leader = await self._find_leader()
        return self._lines.get(self._leader)

    def _doubt(self, line):
        if line.address == self._leader:
            self._leader = None

    async def _find_leader(self):
        for line in self._chance.sample(list(self._lines.values()), len(self._lines)):
            with contextlib.suppress(NotSent, OSError, TimeoutError):
                found = (await line.request(METADATA)).fields.get("controllerLeaderAddress")
                if found:
                    return found
        return None

    def _learn(self, found):
        if found is None or len(found) == 1 or found[1] is None:
            self._view = None
            return
        self._view = found[1]
        if self._view.addresses is not None:
            self._members = [i for i, _ in self._view.addresses]

    def _hear_of_the_living(self, answer):
        table = json.loads(answer.body)["replicasInfoTable"].get(self._history.broker_name, {})
        everybody = table.get("inSyncReplicas", []) + table.get("notInSyncReplicas", [])
        self._alive = frozenset(each["brokerId"] for each in everybody if each["alive"])

    # Its life

    def _leave(self):
        """Have no id any more."""
        if self._broker_id is not None:
            self._history.lives.ends(self._broker_id)
        if self._beating is not None:
            self._beating.cancel()
        self._beating = self._broker_id = self._view = None

    async def _heartbeat_on(self):
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            await self._heartbeat()

    async def _heartbeat(self):
        self._history.lives.heartbeat(self._broker_id, time.perf_counter())
        fields = self._identity | {"brokerAddr": self._address, "brokerId": str(self._broker_id)}
        fields |= {"epoch": "-1", "maxOffset": "0", "confirmOffset": "0", "heartbeatTimeoutMills": "10000"}
        await asyncio.gather(*(self._heartbeat_to(line, fields) for line in self._lines.values()))

    async def _heartbeat_to(self, line, fields):
        with contextlib.suppress(NotSent, OSError):
            await line.send_oneway(HEARTBEAT, fields)

    async def _open(self):
        self._listener = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        host, port = self._listener.sockets[0].getsockname()
        self._address = f"{host}:{port}"

    async def _close_listener(self):
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def _shut(self):
        """End as a killed process does."""
        if self._broker_id is not None:
            self._history.lives.ends(self._broker_id)
        if self._beating is not None:
            self._beating.cancel()
            self._beating = None
        await self._close_listener()
        for line in self._lines.values():
            await line.close()
        for writer in list(self._accepted):
            await closed(writer)

    async def _answer(self, reader, writer):
        """Answer whatever a controller wants of it."""
        self._accepted.add(writer)
        try:
            while True:
                number, wants_answer, _ = await read_frame(reader)
                if wants_answer:
                    writer.write(frame(SUCCESS, opaque=number, flag=RESPONSE))
        except (OSError, asyncio.IncompleteReadError):
            await closed(writer)
        finally:
            self._accepted.discard(writer)
